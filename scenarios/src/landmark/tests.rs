//! Every landmark against histories that reach it and histories that just miss it.

use sim::fault::Point;
use sim::history::{Release, What};
use sim::{Millis, NodeId};

use super::Landmark;
use crate::told::{A, B, C, PLAIN, TTL, Told};

const LONG: Millis = TTL + 1;

#[track_caller]
fn reached(landmark: Landmark, case: &str, told: Told) {
    let reached = told.ended(300_000, |facts| landmark.reached(facts, &[0]));
    assert!(reached, "{}: {case}", landmark.name());
}

#[track_caller]
fn missed(landmark: Landmark, case: &str, told: Told) {
    let reached = told.ended(300_000, |facts| landmark.reached(facts, &[0]));
    assert!(!reached, "{}: {case}", landmark.name());
}

/// A holds, B asks.
fn contended() -> Told {
    Told::of_one().takes(A, "a").at(20).asks(B).denied(B, true)
}

#[test]
fn a_calm_run_reaches_none() {
    for &landmark in Landmark::ALL {
        missed(landmark, "calm", contended().at(100).gives_back(A));
    }
}

#[test]
fn woke_after_lease() {
    let it = Landmark::WokeAfterLease;
    let paused = |told: Told, node: NodeId, lasts: Millis| {
        told.at(100)
            .pauses(node, lasts)
            .at(100 + lasts)
            .resumes(node)
    };
    reached(it, "longer than the ttl", paused(contended(), A, LONG));
    missed(it, "exactly the ttl", paused(contended(), A, TTL));
    missed(it, "another client", paused(contended(), B, LONG));
    let alone = Told::of_one().takes(A, "a");
    missed(it, "nobody else wants it", paused(alone, A, LONG));
    missed(
        it,
        "who wanted it is dead",
        paused(contended().at(50).crashes(B), A, LONG),
    );
    missed(
        it,
        "after the section, in the same millisecond",
        paused(contended().at(100).gives_back(A), A, LONG),
    );
    reached(
        it,
        "while it asks",
        paused(Told::of_one().asks(A).asks(B), A, LONG),
    );
    reached(
        it,
        "by two pauses that overlap",
        contended()
            .at(100)
            .pauses(A, 6_000)
            .at(6_000)
            .pauses(A, 6_000)
            .at(12_000)
            .resumes(A),
    );
    reached(
        it,
        "a suspended machine",
        contended()
            .at(100)
            .suspends(A, LONG)
            .at(100 + LONG)
            .resumes(A),
    );
    missed(
        it,
        "a crash cut the pause short",
        contended().at(100).pauses(A, LONG).at(200).crashes(A),
    );
    missed(
        it,
        "the other one wants another key",
        paused(
            Told::of_one().takes(A, "a").about("lock:2").asks(B),
            A,
            LONG,
        ),
    );
}

#[test]
fn work_outlived_lease() {
    let it = Landmark::WorkOutlivedLease;
    reached(it, "longer than the ttl", contended().works(A, LONG));
    missed(it, "exactly the ttl", contended().works(A, TTL));
    missed(
        it,
        "nobody else wants it",
        Told::of_one().takes(A, "a").works(A, LONG),
    );
    reached(
        it,
        "somebody wants it before the work is done",
        Told::of_one().takes(A, "a").works(A, LONG).at(LONG).asks(B),
    );
    missed(
        it,
        "somebody wants it afterwards",
        Told::of_one()
            .takes(A, "a")
            .works(A, LONG)
            .at(LONG + 1)
            .asks(B),
    );
}

#[test]
fn work_outlived_session() {
    let it = Landmark::WorkOutlivedSession;
    let idle = |told: Told| told.dropping_sessions_after(1_000);
    reached(
        it,
        "longer than a session may be idle",
        idle(contended().works(A, 1_001)),
    );
    missed(it, "exactly as long", idle(contended().works(A, 1_000)));
    missed(it, "sessions are not dropped", contended().works(A, LONG));
}

#[test]
fn holder_died() {
    let it = Landmark::HolderDied;
    reached(it, "while it holds", contended().crashes(A));
    reached(it, "while it asks", Told::of_one().asks(A).crashes(A));
    reached(it, "its thread alone", contended().loses_its_thread(A));
    missed(it, "another client", contended().crashes(B));
    missed(it, "another's thread", contended().loses_its_thread(B));
    missed(it, "before its section", Told::of_one().crashes(A));
    missed(
        it,
        "after its section, in the same millisecond",
        contended().gives_back(A).crashes(A),
    );
}

#[test]
fn acquire_answered_late() {
    let it = Landmark::AcquireAnsweredLate;
    let applied = || Told::of_one().asks(A).sets(A, "a");
    reached(it, "the answer", applied().at(500).leased(A, "a", None));
    reached(it, "no answer", applied().at(1_000).denied(A, false));
    reached(it, "nothing at all", applied());
    missed(it, "in time", applied().at(499).leased(A, "a", None));
    missed(
        it,
        "nothing granted",
        Told::of_one().asks(A).at(1_000).denied(A, false),
    );
    missed(it, "another client", Told::of_one().asks(B).sets(B, "b"));
}

#[test]
fn acquire_unanswered() {
    let it = Landmark::AcquireUnanswered;
    let applied = || Told::of_one().asks(A).sets(A, "a").at(1_000);
    reached(it, "applied", applied().denied(A, false));
    reached(
        it,
        "sent again until it was answered, after 1 s and more",
        applied().at(1_001).leased(A, "a", None),
    );
    missed(it, "answered in time", applied().leased(A, "a", None));
    missed(it, "a definite answer", applied().denied(A, true));
    missed(
        it,
        "not applied",
        Told::of_one().asks(A).at(1_000).denied(A, false),
    );
    missed(
        it,
        "a counter beside the lock was",
        Told::of_one()
            .asks(A)
            .about("lock:1:fence")
            .sets_for_ever(A, "1")
            .about("lock:1")
            .denied(A, false),
    );
    reached(
        it,
        "applied later, when a hold ended",
        Told::of_one()
            .asks(A)
            .at(1_000)
            .denied(A, false)
            .at(5_000)
            .sets(A, "a"),
    );
    reached(
        it,
        "another try of the same attempt was answered",
        applied().deletes(A).sets(A, "b").leased(A, "b", None),
    );
    missed(it, "its own lease", applied().leased(A, "a", None));
    missed(
        it,
        "another client",
        Told::of_one().asks(B).sets(B, "b").denied(B, false),
    );
}

#[test]
fn answers_after_lease() {
    let it = Landmark::AnswersAfterLease;
    let sent = || {
        Told::of_one()
            .asks(B)
            .asks(A)
            .at(100)
            .reaches(A, Point::AcquireSent)
    };
    let paused = |told: Told| told.pauses(A, LONG).at(50_000).resumes(A);
    reached(it, "at the point", paused(sent()));
    reached(it, "while the answer is on its way", paused(sent().at(103)));
    missed(
        it,
        "the answer was there, in the same millisecond",
        paused(sent().sets(A, "a").leased(A, "a", None)),
    );
    missed(it, "denied already", paused(sent().denied(A, true)));
    missed(
        it,
        "the next attempt has not been sent yet",
        paused(sent().denied(A, true).at(200).asks(A)),
    );
    missed(
        it,
        "between two commands",
        paused(sent().reaches(A, Point::MidAcquire)),
    );
    missed(
        it,
        "exactly the ttl",
        sent().pauses(A, TTL).at(100 + TTL).resumes(A),
    );
    missed(
        it,
        "nobody else wants it",
        paused(Told::of_one().asks(A).reaches(A, Point::AcquireSent)),
    );
}

#[test]
fn release_unanswered() {
    let it = Landmark::ReleaseUnanswered;
    let unanswered = || contended().at(1_000).releasing(A, 1).at(1_500);
    reached(
        it,
        "another asks before the retry",
        unanswered()
            .asks(B)
            .at(2_000)
            .release_ended(A, Release::Unknown)
            .releasing(A, 2),
    );
    reached(
        it,
        "another waits and does not ask again",
        unanswered()
            .at(2_000)
            .release_ended(A, Release::Unknown)
            .releasing(A, 2),
    );
    reached(
        it,
        "the first try lasts for longer than an answer is waited for",
        unanswered()
            .asks(B)
            .at(2_001)
            .release_ended(A, Release::Done),
    );
    missed(
        it,
        "nobody wants it before the retry",
        Told::of_one()
            .takes(A, "a")
            .at(1_000)
            .releasing(A, 1)
            .at(2_000)
            .release_ended(A, Release::Unknown)
            .releasing(A, 2)
            .release_ended(A, Release::Done)
            .released(A)
            .at(3_000)
            .asks(B),
    );
    missed(
        it,
        "the first try was answered",
        unanswered()
            .asks(B)
            .at(2_000)
            .release_ended(A, Release::Done)
            .released(A)
            .at(4_000)
            .takes(A, "again")
            .releasing(A, 1),
    );
    missed(
        it,
        "the next section's release is no retry",
        contended()
            .at(1_000)
            .releasing(A, 1)
            .release_ended(A, Release::Unknown)
            .released(A)
            .at(2_000)
            .asks(B)
            .at(20_000)
            .takes(A, "again")
            .releasing(A, 1)
            .release_ended(A, Release::Done),
    );
}

#[test]
fn write_after_lease() {
    let it = Landmark::WriteAfterLease;
    let sent = || contended().at(100).reaches(A, Point::WriteChecked);
    reached(
        it,
        "longer than the ttl on its way",
        sent().at(100 + LONG).writes(A, "a", 1, PLAIN),
    );
    missed(
        it,
        "exactly the ttl on its way",
        sent().at(100 + TTL).writes(A, "a", 1, PLAIN),
    );
    missed(
        it,
        "sent late",
        contended()
            .at(50_000)
            .reaches(A, Point::WriteChecked)
            .at(50_005)
            .writes(A, "a", 1, PLAIN),
    );
    missed(
        it,
        "nobody else wants it",
        Told::of_one()
            .takes(A, "a")
            .reaches(A, Point::WriteChecked)
            .at(LONG)
            .writes(A, "a", 1, PLAIN),
    );
}

#[test]
fn cut_outlived_lease() {
    let it = Landmark::CutOutlivedLease;
    let cut = |told: Told, fault: usize, lasts: Millis| {
        told.at(100).strikes(fault).at(100 + lasts).over(fault)
    };
    reached(it, "longer than the ttl", cut(contended(), 0, LONG));
    missed(it, "exactly the ttl", cut(contended(), 0, TTL));
    missed(it, "another fault", cut(contended(), 1, LONG));
    missed(
        it,
        "after the section, in the same millisecond",
        cut(contended().at(100).gives_back(A), 0, LONG),
    );
    missed(
        it,
        "nobody else wants it",
        cut(Told::of_one().takes(A, "a"), 0, LONG),
    );
}

#[test]
fn what_happens_to_a_server_counts_while_somebody_holds() {
    let lost = Landmark::DataLostWhileHeld;
    let stepped = Landmark::ClockSteppedWhileHeld;
    reached(lost, "held", contended().loses_data(1));
    reached(lost, "flushed", contended().emptied(1, What::Flushed));
    reached(lost, "evicted", contended().emptied(1, What::Evicted));
    reached(stepped, "held", contended().clock_steps(1, -1));
    let down = Landmark::ServerDownWhileHeld;
    reached(down, "held", contended().crashes(NodeId::Lock(1)));
    missed(down, "its holder died", contended().crashes(A));
    missed(lost, "the clock", contended().clock_steps(1, -1));
    missed(stepped, "the data", contended().loses_data(1));
    for (landmark, told) in [
        (lost, contended().releasing(A, 1).loses_data(1)),
        (stepped, contended().releasing(A, 1).clock_steps(1, 5)),
        (down, contended().releasing(A, 1).crashes(NodeId::Lock(1))),
        (lost, Told::of_one().asks(A).loses_data(1)),
        (stepped, Told::of_one().asks(A).clock_steps(1, 5)),
    ] {
        missed(landmark, "nobody holds", told);
    }
}

#[test]
fn waiters_that_are_struck_or_have_a_wrong_clock() {
    let struck = Landmark::WaiterStruck;
    reached(struck, "it waits", contended().at(100).strikes_on(B, 0));
    missed(struck, "the holder", contended().at(100).strikes_on(A, 0));
    missed(
        struck,
        "it has got the lock",
        contended()
            .at(100)
            .gives_back(A)
            .takes(B, "b")
            .at(200)
            .strikes_on(B, 0),
    );
    missed(
        struck,
        "nobody holds",
        contended().at(100).gives_back(A).at(200).strikes_on(B, 0),
    );
    missed(
        struck,
        "another lock",
        Told::of_one()
            .takes(A, "a")
            .about("lock:2")
            .asks(B)
            .at(100)
            .strikes_on(B, 0),
    );
    let wrong = Landmark::WaitedByWrongClock;
    let told = |whose| {
        Told::of_one()
            .wrong_clock(whose)
            .takes(A, "a")
            .at(20)
            .asks(B)
    };
    reached(wrong, "it waits", told(B));
    missed(wrong, "it holds", told(A));
    missed(wrong, "it is not there", told(C));
}

#[test]
fn landmarks_have_names_of_their_own() {
    let mut names: Vec<_> = Landmark::ALL.iter().map(|mark| mark.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Landmark::ALL.len());
}

#[test]
fn a_replica_leads() {
    let held = Landmark::MasterReplacedWhileHeld;
    let (lost, two) = (Landmark::FailoverLostWrites, Landmark::TwoMasters);
    let taken = || Told::of_replicated().takes(A, "a").at(5);
    reached(held, "held", taken().promotes(2));
    missed(held, "released", taken().gives_back(A).promotes(2));
    missed(held, "only dead", taken().server_dies(1));
    reached(lost, "no copy", taken().promotes(2));
    missed(
        lost,
        "copied",
        Told::of_replicated()
            .takes(A, "a")
            .copies(2, "a")
            .promotes(2),
    );
    reached(
        lost,
        "an old copy",
        taken().copies(2, "a").gives_back(A).promotes(2),
    );
    let died = Landmark::ServerDownWhileHeld;
    reached(died, "held", taken().server_dies(1));
    missed(died, "released", taken().gives_back(A).server_dies(1));
    reached(two, "both up", taken().promotes(2));
    missed(
        two,
        "the old one is dead",
        taken().server_dies(1).promotes(2),
    );
    missed(
        two,
        "the old one follows",
        taken().follows(1, 2).promotes(2),
    );
}
