//! Every invariant against histories written by hand.

use sim::Millis;
use sim::history::Release;
use sim::store::Guard;

use super::*;
use crate::told::{A, B, C, PLAIN, TTL, Told, fence};

/// When the breaches were that an invariant finds in a story.
fn breaches(invariant: &dyn Invariant, told: Told, ended: Millis) -> Vec<Millis> {
    told.ended(ended, |facts| {
        let found = invariant.check(facts);
        for violation in &found {
            assert_eq!(violation.invariant, invariant.name());
            assert!(
                violation.event < facts.history.events.len(),
                "{violation:?}"
            );
            assert!(!violation.why.is_empty());
        }
        found.iter().map(|violation| violation.at).collect()
    })
}

#[track_caller]
fn accepts(invariant: &dyn Invariant, case: &str, told: Told) {
    let found = breaches(invariant, told, 300_000);
    assert!(found.is_empty(), "{}: {case}: {found:?}", invariant.name());
}

#[track_caller]
fn rejects(invariant: &dyn Invariant, case: &str, told: Told, at: &[Millis]) {
    let found = breaches(invariant, told, 300_000);
    assert_eq!(found, at, "{}: {case}", invariant.name());
}

/// A holds from 0 ms and its lease runs out at 10 s; B is granted at 20 s, while A believes on.
fn succeeded() -> Told {
    Told::of_one().takes(A, "a").at(20_000).takes(B, "b")
}

#[test]
fn every_invariant_accepts_two_clients_that_take_turns() {
    for invariant in ALL {
        let told = Told::of_one()
            .takes_fenced(A, "a", 1)
            .at(10)
            .asks(B)
            .denied(B, true)
            .at(20)
            .reads(A, "a", 1)
            .at(30)
            .writes(A, "a", 1, fence(1))
            .at(40)
            .gives_back(A)
            .at(50)
            .takes_fenced(B, "b", 2)
            .at(60)
            .reads(B, "b", 1)
            .at(70)
            .gives_back(B);
        accepts(*invariant, "taking turns", told);
    }
}

#[test]
fn invariants_have_their_own_names_and_are_ranked_worst_first() {
    for (place, invariant) in ALL.iter().enumerate() {
        assert_eq!(rank(invariant.name()), place);
    }
    assert!(rank("double-write") < rank("stale-write"));
}

mod overlap {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &Overlap,
            "a belief ends when release is called, not when it is answered",
            Told::of_one()
                .takes(A, "a")
                .at(100)
                .releasing(A, 1)
                .deletes(A)
                .at(101)
                .takes(B, "b")
                .at(200)
                .release_ended(A, Release::Done)
                .released(A)
                .gives_back(B),
        );
        accepts(
            &Overlap,
            "one ends in the millisecond in which the other begins",
            succeeded().releasing(A, 1).at(20_100).gives_back(B),
        );
        accepts(
            &Overlap,
            "two who only read hold it together",
            Told::of_one()
                .sets(A, "a")
                .asks(A)
                .shares(A, "a")
                .at(100)
                .asks(B)
                .shares(B, "b")
                .at(200)
                .gives_back(A),
        );
        accepts(
            &Overlap,
            "a loss that was noticed ends a belief",
            Told::of_one()
                .takes(A, "a")
                .at(10_000)
                .notices_loss(A)
                .at(20_000)
                .takes(B, "b"),
        );
        accepts(
            &Overlap,
            "a crash ends a belief",
            Told::of_one()
                .takes(A, "a")
                .at(5_000)
                .crashes(A)
                .at(20_000)
                .takes(B, "b"),
        );
        accepts(
            &Overlap,
            "other keys",
            Told::of_one().takes(A, "a").about("lock:2").takes(B, "b"),
        );
        accepts(
            &Overlap,
            "two processes of one client",
            Told::of_one().takes(A, "a").at(20_000).takes(A, "b"),
        );
        accepts(
            &Overlap,
            "a grant that nobody heard of is no belief",
            Told::of_one().asks(A).sets(A, "a").at(20_000).takes(B, "b"),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &Overlap,
            "one whole millisecond",
            succeeded().at(20_001).releasing(A, 1),
            &[20_000],
        );
        rejects(&Overlap, "to the end of the run", succeeded(), &[20_000]);
        rejects(
            &Overlap,
            "one who only reads, and one who writes",
            Told::of_one()
                .sets(A, "a")
                .asks(A)
                .shares(A, "a")
                .at(20_000)
                .takes(B, "b"),
            &[20_000],
        );
        rejects(
            &Overlap,
            "a pause does not end a belief",
            Told::of_one()
                .takes(A, "a")
                .at(1_000)
                .pauses(A, 30_000)
                .at(20_000)
                .takes(B, "b")
                .at(25_000)
                .gives_back(B)
                .at(31_000)
                .resumes(A)
                .releasing(A, 1),
            &[20_000],
        );
        rejects(
            &Overlap,
            "every pair",
            succeeded().at(40_000).takes(C, "c"),
            &[20_000, 40_000, 40_000],
        );
    }
}

mod double_write {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &DoubleWrite,
            "the same holder's repeated write",
            Told::of_one()
                .takes(A, "a")
                .writes(A, "a", 1, PLAIN)
                .at(1)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &DoubleWrite,
            "a late write before the newer holder's first write",
            succeeded()
                .reads(B, "b", 1)
                .at(20_010)
                .writes(A, "a", 1, PLAIN)
                .at(20_020)
                .writes(B, "b", 1, PLAIN),
        );
        accepts(
            &DoubleWrite,
            "another row",
            succeeded()
                .writes(B, "b", 1, PLAIN)
                .at(20_010)
                .writes(A, "a", 2, PLAIN),
        );
        accepts(
            &DoubleWrite,
            "a refused write",
            succeeded()
                .writes(B, "b", 1, fence(2))
                .at(20_010)
                .writes(A, "a", 1, fence(1)),
        );
        accepts(
            &DoubleWrite,
            "grants of different keys have no order",
            Told::of_one()
                .takes(A, "a")
                .about("lock:2")
                .takes(C, "c")
                .about("lock:1")
                .at(20_000)
                .takes(B, "b")
                .writes(B, "b", 1, PLAIN)
                .at(20_001)
                .writes(C, "c", 1, PLAIN),
        );
        accepts(
            &DoubleWrite,
            "a write without a grant",
            succeeded()
                .writes(B, "b", 1, PLAIN)
                .writes(C, "nobody's", 1, PLAIN),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &DoubleWrite,
            "an older holder after a newer one",
            succeeded()
                .writes(B, "b", 1, PLAIN)
                .at(20_010)
                .writes(A, "a", 1, PLAIN),
            &[20_010],
        );
        rejects(
            &DoubleWrite,
            "however often, and though the newer one writes again",
            succeeded()
                .writes(B, "b", 1, PLAIN)
                .at(20_010)
                .writes(A, "a", 1, PLAIN)
                .at(20_020)
                .writes(B, "b", 1, PLAIN)
                .at(20_030)
                .writes(A, "a", 1, PLAIN),
            &[20_010, 20_030],
        );
        rejects(
            &DoubleWrite,
            "the newer holder's belief is long over",
            succeeded()
                .writes(B, "b", 1, PLAIN)
                .gives_back(B)
                .at(90_000)
                .writes(A, "a", 1, PLAIN),
            &[90_000],
        );
        rejects(
            &DoubleWrite,
            "a grant that nobody heard of is older too",
            Told::of_one()
                .asks(A)
                .sets(A, "a")
                .at(20_000)
                .takes(B, "b")
                .writes(B, "b", 1, PLAIN)
                .at(20_010)
                .writes(A, "a", 1, PLAIN),
            &[20_010],
        );
    }
}

mod stale_write {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &StaleWrite,
            "after the lease, before anybody else was granted",
            Told::of_one()
                .takes(A, "a")
                .asks(B)
                .at(20_000)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &StaleWrite,
            "the same holder's repeated write",
            Told::of_one()
                .takes(A, "a")
                .writes(A, "a", 1, PLAIN)
                .at(1)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &StaleWrite,
            "refused",
            succeeded()
                .writes(B, "b", 1, fence(2))
                .at(20_010)
                .writes(A, "a", 1, fence(1)),
        );
        accepts(
            &StaleWrite,
            "somebody was granted another key",
            Told::of_one()
                .takes(A, "a")
                .at(1)
                .about("lock:2")
                .takes(B, "b")
                .at(2)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &StaleWrite,
            "the write came first in the same millisecond",
            Told::of_one()
                .takes(A, "a")
                .at(20_000)
                .writes(A, "a", 1, PLAIN)
                .takes(B, "b"),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &StaleWrite,
            "before the newer holder's first access",
            succeeded().at(20_001).writes(A, "a", 1, PLAIN),
            &[20_001],
        );
        rejects(
            &StaleWrite,
            "the grant came first in the same millisecond",
            succeeded().writes(A, "a", 1, PLAIN),
            &[20_000],
        );
        rejects(
            &StaleWrite,
            "the newer grant was not heard of",
            Told::of_one()
                .takes(A, "a")
                .at(20_000)
                .asks(B)
                .sets(B, "b")
                .at(20_001)
                .writes(A, "a", 1, PLAIN),
            &[20_001],
        );
        rejects(
            &StaleWrite,
            "the newer grant is over already",
            succeeded()
                .gives_back(B)
                .at(30_000)
                .writes(A, "a", 2, PLAIN),
            &[30_000],
        );
        rejects(
            &StaleWrite,
            "a fence orders only what the store has seen",
            Told::of_one()
                .takes_fenced(A, "a", 1)
                .at(20_000)
                .takes_fenced(B, "b", 2)
                .at(20_001)
                .writes(A, "a", 1, fence(1)),
            &[20_001],
        );
    }
}

mod lost_update {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &LostUpdate,
            "both read what the other wrote",
            succeeded()
                .reads(A, "a", 1)
                .writes(A, "a", 1, PLAIN)
                .reads(B, "b", 1)
                .writes(B, "b", 1, PLAIN),
        );
        accepts(
            &LostUpdate,
            "the same holder's repeated write",
            Told::of_one()
                .takes(A, "a")
                .reads(A, "a", 1)
                .writes(A, "a", 1, PLAIN)
                .at(1)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &LostUpdate,
            "a late write before the newer holder's first access",
            succeeded()
                .reads(A, "a", 1)
                .at(20_001)
                .writes(A, "a", 1, PLAIN)
                .reads(B, "b", 1)
                .writes(B, "b", 1, PLAIN),
        );
        accepts(
            &LostUpdate,
            "another row was written",
            succeeded()
                .reads(A, "a", 1)
                .writes(B, "b", 2, PLAIN)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &LostUpdate,
            "the late write is refused",
            succeeded()
                .reads(A, "a", 1)
                .writes(B, "b", 1, fence(2))
                .writes(A, "a", 1, fence(1)),
        );
        accepts(
            &LostUpdate,
            "a write that modifies nothing it has read",
            succeeded()
                .writes(B, "b", 1, PLAIN)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &LostUpdate,
            "somebody else claimed and did not write",
            succeeded()
                .claims(A, "a", 1, 1)
                .claims(B, "b", 1, 2)
                .writes(A, "a", 1, PLAIN),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &LostUpdate,
            "a write came in between",
            succeeded()
                .reads(A, "a", 1)
                .at(20_001)
                .writes(B, "b", 1, PLAIN)
                .at(20_002)
                .writes(A, "a", 1, PLAIN),
            &[20_002],
        );
        rejects(
            &LostUpdate,
            "a late write after the newer holder has read",
            succeeded()
                .reads(A, "a", 1)
                .reads(B, "b", 1)
                .at(20_001)
                .writes(A, "a", 1, PLAIN)
                .at(20_002)
                .writes(B, "b", 1, PLAIN),
            &[20_002],
        );
        rejects(
            &LostUpdate,
            "the own repeated write came after somebody else's",
            succeeded()
                .reads(A, "a", 1)
                .writes(A, "a", 1, PLAIN)
                .reads(B, "b", 1)
                .writes(B, "b", 1, PLAIN)
                .at(20_005)
                .writes(A, "a", 1, PLAIN),
            &[20_005],
        );
    }
}

mod works {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        let two_bottles = Told::of_one()
            .takes(A, "a")
            .adds(A, "a", 1, 2)
            .at(10)
            .adds(A, "a", 1, -1)
            .adds(A, "a", 1, -1);
        accepts(&Oversold, "the last bottle", two_bottles);
        let within = Told::of_one()
            .takes(A, "a")
            .acts(A, "a", 1)
            .at(10)
            .acts(A, "a", 1);
        accepts(&OverLimit, "as many as two", within);
        let others = Told::of_one()
            .takes(A, "a")
            .acts(A, "a", 1)
            .at(10)
            .acts(A, "a", 2);
        accepts(&RanTwice, "two jobs", others);
        let undone = Told::of_one().takes(A, "a").writes(A, "a", 1, PLAIN).at(10);
        accepts(
            &RanTwice,
            "a write is no effect",
            undone.writes(A, "a", 1, PLAIN),
        );
        let own = Told::of_one().takes(A, "a").reads(A, "a", 1).at(10);
        let own = own.writes(A, "a", 1, PLAIN).reads(A, "a", 1);
        accepts(&TornRead, "its own write", own);
        let between = succeeded().reads(B, "b", 1).at(20_010);
        let between = between.writes(B, "b", 2, PLAIN).reads(A, "a", 1);
        accepts(&TornRead, "another row, and one read of each", between);
    }

    #[test]
    fn rejects_invalid_histories() {
        let sold_out = Told::of_one()
            .takes(A, "a")
            .adds(A, "a", 1, 1)
            .at(10)
            .adds(A, "a", 1, -1)
            .at(20)
            .adds(A, "a", 1, -1);
        rejects(&Oversold, "one bottle for two", sold_out, &[20]);
        // The limit of these stories is two.
        let three = Told::of_one()
            .takes(A, "a")
            .acts(A, "a", 1)
            .acts(A, "a", 1)
            .at(10);
        rejects(&OverLimit, "a third one", three.acts(A, "a", 1), &[10]);
        let twice = succeeded()
            .at(20_010)
            .acts(A, "a", 1)
            .at(20_020)
            .acts(B, "b", 1);
        rejects(&RanTwice, "by two workers", twice, &[20_020]);
        let changed = succeeded()
            .reads(A, "a", 1)
            .at(20_010)
            .writes(B, "b", 1, PLAIN)
            .at(20_020)
            .reads(A, "a", 1);
        rejects(&TornRead, "changed in between", changed, &[20_020]);
    }

    #[test]
    fn what_the_store_adds_up_overwrites_nothing() {
        let story = succeeded()
            .reads(A, "a", 1)
            .reads(B, "b", 1)
            .at(20_010)
            .adds(B, "b", 1, -1)
            .at(20_020)
            .adds(A, "a", 1, -1);
        accepts(&LostUpdate, "both are subtracted", story);
    }
}

mod paid_twice {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &PaidTwice,
            "the same holder's repeated write",
            Told::of_one()
                .takes(A, "a")
                .writes(A, "a", 1, PLAIN)
                .at(1)
                .writes(A, "a", 1, PLAIN),
        );
        accepts(
            &PaidTwice,
            "two payouts",
            Told::of_one()
                .takes(A, "a")
                .writes(A, "a", 1, PLAIN)
                .writes(A, "a", 2, PLAIN),
        );
        accepts(
            &PaidTwice,
            "the second was refused",
            succeeded()
                .writes(B, "b", 1, fence(2))
                .writes(A, "a", 1, fence(1)),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &PaidTwice,
            "two sections, in the order of their grants",
            succeeded()
                .writes(A, "a", 1, PLAIN)
                .at(20_001)
                .writes(B, "b", 1, PLAIN),
            &[20_001],
        );
        rejects(
            &PaidTwice,
            "two sections of one client",
            Told::of_one()
                .takes(A, "a")
                .writes(A, "a", 1, PLAIN)
                .gives_back(A)
                .at(1)
                .takes(A, "again")
                .writes(A, "again", 1, PLAIN),
            &[1],
        );
    }
}

mod token_order {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &TokenOrder,
            "growing, with gaps",
            Told::of_one()
                .takes_fenced(A, "a", 1)
                .at(20_000)
                .takes_fenced(B, "b", 7)
                .at(40_000)
                .takes_fenced(A, "c", 8),
        );
        accepts(
            &TokenOrder,
            "heard of in another order than granted",
            Told::of_one()
                .asks(A)
                .sets(A, "a")
                .at(20_000)
                .takes_fenced(B, "b", 2)
                .at(20_001)
                .leased(A, "a", Some(1)),
        );
        accepts(
            &TokenOrder,
            "each key has its own numbers",
            Told::of_one()
                .takes_fenced(A, "a", 5)
                .about("lock:2")
                .takes_fenced(B, "b", 5),
        );
        accepts(
            &TokenOrder,
            "the same grant, taken up again by its holder",
            Told::of_one()
                .takes_fenced(A, "a", 3)
                .at(1_000)
                .releasing(A, 1)
                .release_ended(A, Release::Unknown)
                .released(A)
                .at(2_000)
                .asks(A)
                .leased(A, "a", Some(3)),
        );
        accepts(&TokenOrder, "no fences", succeeded());
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &TokenOrder,
            "equal",
            Told::of_one()
                .takes_fenced(A, "a", 3)
                .at(20_000)
                .takes_fenced(B, "b", 3),
            &[20_000],
        );
        rejects(
            &TokenOrder,
            "the count began again, and has not caught up yet",
            Told::of_one()
                .takes_fenced(A, "a", 3)
                .loses_data(1)
                .at(20_000)
                .takes_fenced(B, "b", 1)
                .at(40_000)
                .takes_fenced(C, "c", 2)
                .at(60_000)
                .takes_fenced(A, "d", 3)
                .at(80_000)
                .takes_fenced(B, "e", 4),
            &[20_000, 40_000, 60_000],
        );
    }
}

mod refused_holder {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &RefusedHolder,
            "an older holder is refused",
            succeeded()
                .writes(B, "b", 1, fence(2))
                .at(20_001)
                .writes(A, "a", 1, fence(1)),
        );
        accepts(
            &RefusedHolder,
            "an older holder is refused by a successor who does not know it yet",
            Told::of_one()
                .takes(A, "a")
                .at(20_000)
                .asks(B)
                .sets(B, "b")
                .writes(C, "c", 1, fence(9))
                .at(20_001)
                .writes(A, "a", 1, fence(1)),
        );
        accepts(
            &RefusedHolder,
            "the newest holder had released already",
            Told::of_one()
                .writes(C, "c", 1, fence(9))
                .takes(A, "a")
                .gives_back(A)
                .at(1)
                .writes(A, "a", 1, fence(1)),
        );
        accepts(
            &RefusedHolder,
            "the newest holder had noticed its loss",
            Told::of_one()
                .writes(C, "c", 1, fence(9))
                .takes(A, "a")
                .notices_loss(A)
                .writes(A, "a", 1, fence(1)),
        );
        accepts(
            &RefusedHolder,
            "accepted",
            Told::of_one().takes(A, "a").writes(A, "a", 1, fence(1)),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &RefusedHolder,
            "its fence is older than one that the store has seen",
            Told::of_one()
                .writes(C, "c", 1, fence(9))
                .takes(A, "a")
                .at(5)
                .writes(A, "a", 1, fence(1)),
            &[5],
        );
        rejects(
            &RefusedHolder,
            "a claim is an access too",
            Told::of_one()
                .writes(C, "c", 1, fence(9))
                .takes(A, "a")
                .at(5)
                .claims(A, "a", 1, 3),
            &[5],
        );
        rejects(
            &RefusedHolder,
            "a claim was taken over by an older holder with a higher fence",
            Told::of_one()
                .takes(A, "a")
                .at(20_000)
                .takes(B, "b")
                .claims(B, "b", 1, 1)
                .claims(A, "a", 1, 2)
                .at(20_001)
                .writes(B, "b", 1, Guard::Claimed { fence: 1 }),
            &[20_001],
        );
    }
}

mod wrong_release {
    use super::*;

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &WrongRelease,
            "one's own",
            Told::of_one().takes(A, "a").at(1).gives_back(A),
        );
        accepts(
            &WrongRelease,
            "compare and delete finds another token and changes nothing",
            succeeded()
                .releasing(A, 1)
                .release_ended(A, Release::NotOwner),
        );
        accepts(
            &WrongRelease,
            "what expires is removed by nobody, whoever's command looked",
            Told::of_one()
                .takes(A, "a")
                .at(10_001)
                .asks(B)
                .sweeps()
                .sets(B, "b"),
        );
        accepts(
            &WrongRelease,
            "what has expired and was not deleted yet is nobody's",
            Told::of_one().takes(A, "a").asks(B).at(10_001).deletes(B),
        );
        accepts(
            &WrongRelease,
            "data that is lost is removed by nobody",
            Told::of_one().takes(A, "a").at(1).loses_data(1),
        );
        accepts(
            &WrongRelease,
            "a counter beside the lock is not the lock",
            Told::of_one()
                .takes(A, "a")
                .about("lock:1:fence")
                .sets_for_ever(A, "1")
                .about("lock:1")
                .at(20_000)
                .takes(B, "b")
                .about("lock:1:fence")
                .sets_for_ever(B, "2"),
        );
        accepts(
            &WrongRelease,
            "a GETSET takes a lock over",
            Told::of_one()
                .takes(A, "a")
                .at(5)
                .asks(B)
                .takes_over(B, "b"),
        );
        accepts(
            &WrongRelease,
            "one server of five is not the lock",
            held_by_five().at(100).deletes_on(1, B).deletes_on(2, B),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &WrongRelease,
            "a plain DEL after the own lease is over",
            succeeded().at(20_001).releasing(A, 1).deletes(A),
            &[20_001],
        );
        rejects(
            &WrongRelease,
            "at the very deadline the lock is still held",
            Told::of_one().takes(A, "a").asks(B).at(TTL).deletes(B),
            &[TTL],
        );
        rejects(
            &WrongRelease,
            "the holder has not heard of its grant",
            Told::of_one()
                .takes(A, "a")
                .at(20_000)
                .asks(B)
                .sets(B, "b")
                .deletes(A),
            &[20_000],
        );
        rejects(
            &WrongRelease,
            "overwritten",
            Told::of_one().takes(A, "a").at(5).asks(B).sets(B, "b"),
            &[5],
        );
        rejects(
            &WrongRelease,
            "overwritten after another command than the GETSET before",
            Told::of_one()
                .takes(A, "a")
                .asks(B)
                .takes_over(B, "b")
                .at(5)
                .comes(A)
                .sets(A, "c"),
            &[5],
        );
        rejects(
            &WrongRelease,
            "the third of five servers, and once",
            held_by_five()
                .at(100)
                .deletes_on(1, B)
                .deletes_on(2, B)
                .at(101)
                .deletes_on(3, B)
                .at(102)
                .deletes_on(4, B)
                .deletes_on(5, B),
            &[101],
        );
    }

    fn held_by_five() -> Told {
        let asked = Told::of_five().asks(A).asks(B);
        (1..=5).fold(asked, |told, server| told.sets_on(server, A, "a"))
    }
}

mod stuck {
    use super::*;

    const LIMIT: Millis = TTL + PATIENCE;

    /// A takes a lock without a TTL and dies. B asks from 1 s on.
    fn abandoned() -> Told {
        Told::of_one()
            .asks(A)
            .sets_for_ever(A, "a")
            .leased(A, "a", None)
            .at(500)
            .strikes(0)
            .crashes(A)
            .over(0)
            .at(1_000)
            .asks(B)
            .denied(B, true)
    }

    fn whys(told: Told, ended: Millis) -> Vec<String> {
        told.ended(ended, |facts| {
            let found = Stuck.check(facts);
            found.into_iter().map(|violation| violation.why).collect()
        })
    }

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &Stuck,
            "exactly a TTL and five seconds",
            abandoned()
                .at(1_000 + LIMIT)
                .sets(B, "b")
                .leased(B, "b", None),
        );
        accepts(
            &Stuck,
            "the key came free in time, though the answer was late",
            abandoned()
                .at(1_000 + LIMIT)
                .sets(B, "b")
                .at(1_000 + 2 * LIMIT)
                .leased(B, "b", None),
        );
        accepts(
            &Stuck,
            "somebody believes, though it is paused",
            Told::of_one()
                .takes(A, "a")
                .pauses(A, 200_000)
                .asks(B)
                .at(200_000)
                .resumes(A)
                .gives_back(A)
                .takes(B, "b")
                .gives_back(B),
        );
        accepts(&Stuck, "nobody asks", abandoned_without_heirs());
        accepts(
            &Stuck,
            "who asks is dead",
            abandoned_without_heirs()
                .at(2_000)
                .asks(B)
                .at(2_000 + LIMIT)
                .crashes(B),
        );
        accepts(
            &Stuck,
            "the thread that asks is dead",
            abandoned_without_heirs()
                .at(2_000)
                .asks(B)
                .at(2_000 + LIMIT)
                .loses_its_thread(B),
        );
        accepts(
            &Stuck,
            "a fault is not over",
            abandoned().at(2_000).strikes(1),
        );
        accepts(
            &Stuck,
            "it ended as long after the faults as one may wait",
            abandoned()
                .strikes(1)
                .at(100_000)
                .over(1)
                .at(100_000 + LIMIT)
                .sets(B, "b")
                .leased(B, "b", None),
        );
        accepts(
            &Stuck,
            "one grant after the other, all unheard",
            abandoned()
                .at(1_000 + LIMIT)
                .sets(B, "b1")
                .at(1_000 + 2 * LIMIT)
                .sets(B, "b2")
                .leased(B, "b2", None),
        );
    }

    fn abandoned_without_heirs() -> Told {
        Told::of_one()
            .asks(A)
            .sets_for_ever(A, "a")
            .leased(A, "a", None)
            .at(500)
            .crashes(A)
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &Stuck,
            "the holder's thread is dead and its process renews",
            Told::of_one()
                .asks(A)
                .sets_for_ever(A, "a")
                .leased(A, "a", None)
                .at(500)
                .loses_its_thread(A)
                .at(1_000)
                .asks(B)
                .denied(B, true),
            &[1_000 + LIMIT],
        );
        rejects(
            &Stuck,
            "one millisecond more",
            abandoned()
                .at(1_001 + LIMIT)
                .sets(B, "b")
                .leased(B, "b", None),
            &[1_000 + LIMIT],
        );
        rejects(&Stuck, "for ever", abandoned(), &[1_000 + LIMIT]);
        rejects(
            &Stuck,
            "counted from the end of the last fault",
            abandoned().strikes(1).at(100_000).over(1),
            &[100_000 + LIMIT],
        );
        rejects(
            &Stuck,
            "counted from the last grant, heard or not",
            abandoned()
                .at(5_000)
                .sets(B, "b")
                .at(5_001 + LIMIT)
                .sets(B, "c")
                .leased(B, "c", None),
            &[5_000 + LIMIT],
        );
        rejects(
            &Stuck,
            "counted from the call of the release that left the lock behind",
            Told::of_one()
                .asks(A)
                .sets_for_ever(A, "a")
                .leased(A, "a", None)
                .asks(B)
                .at(50_000)
                .releasing(A, 1)
                .release_ended(A, Release::Unknown)
                .released(A),
            &[50_000 + LIMIT],
        );
        rejects(
            &Stuck,
            "a paused client is a live one",
            abandoned().at(2_000).pauses(B, 200_000),
            &[1_000 + LIMIT],
        );
        rejects(
            &Stuck,
            "each key by itself",
            abandoned()
                .about("lock:2")
                .at(10_000)
                .takes(C, "c")
                .at(12_000)
                .gives_back(C),
            &[1_000 + LIMIT],
        );
        rejects(
            &Stuck,
            "twice",
            abandoned()
                .at(100_000)
                .sets(B, "b")
                .leased(B, "b", None)
                .asks(C)
                .at(101_000)
                .crashes(B),
            &[1_000 + LIMIT, 101_000 + LIMIT],
        );
    }

    #[test]
    fn says_for_how_long_or_that_only_the_end_of_the_run_ended_it() {
        let ended = abandoned().at(41_500).sets(B, "b").leased(B, "b", None);
        let why = whys(ended, 300_000);
        assert_eq!(why.len(), 1);
        assert!(why[0].ends_with("for 40.5 s"), "{why:?}");
        let why = whys(abandoned(), 400_000);
        assert_eq!(why.len(), 1);
        assert!(
            why[0].ends_with("for 399 s, until the run ended"),
            "{why:?}"
        );
    }

    #[test]
    fn a_wait_to_the_end_of_the_run_is_longer_than_any_other() {
        let for_a_while = |lasted| StuckFor {
            to_the_end: false,
            lasted,
        };
        let longest = |told: Told, ended| told.ended(ended, Stuck::longest);
        assert_eq!(longest(abandoned(), 1_000 + LIMIT), None);
        let twice = abandoned()
            .at(41_500)
            .sets(B, "b")
            .at(101_500)
            .sets(B, "c")
            .leased(B, "c", None);
        assert_eq!(longest(twice, 300_000), Some(for_a_while(60_000)));
        let to_the_end = StuckFor {
            to_the_end: true,
            lasted: 39_000,
        };
        assert_eq!(longest(abandoned(), 40_000), Some(to_the_end));
        assert!(to_the_end > for_a_while(60_000));
    }

    #[test]
    fn for_ever_is_also_longer_than_a_ttl_and_five_seconds() {
        assert!(breaches(&Stuck, abandoned(), 1_000 + LIMIT).is_empty());
        let late = breaches(&Stuck, abandoned(), 1_001 + LIMIT);
        assert_eq!(late, [1_000 + LIMIT]);
    }

    #[test]
    fn a_run_with_less_time_left_than_one_may_wait_is_not_judged() {
        for (ends, judged) in [(500 + LIMIT, false), (501 + LIMIT, true)] {
            let told = abandoned().ending_by(ends);
            assert_eq!(told.ended(ends, Stuck::can_judge), judged, "ends at {ends}");
        }
        let told = abandoned().strikes(1).ending_by(90_000);
        assert!(!told.ended(90_000, Stuck::can_judge));
        // Everybody was done: that was not stuck, however little time was left.
        let told = Told::of_one().takes(A, "a").gives_back(A).ending_by(5_000);
        assert!(told.ended(100, Stuck::can_judge));
    }
}

mod unfair {
    use super::*;

    /// A holds; B comes before C, and both wait.
    fn queue() -> Told {
        Told::of_one()
            .in_order()
            .takes(A, "a")
            .at(10)
            .asks(B)
            .asks(C)
            .at(15)
            .comes(B)
            .at(16)
            .comes(C)
            .at(100)
            .gives_back(A)
            .at(110)
    }

    #[test]
    fn accepts_valid_histories() {
        accepts(
            &Unfair,
            "who came first is served first",
            queue()
                .sets(B, "b")
                .leased(B, "b", None)
                .at(200)
                .gives_back(B)
                .at(210)
                .sets(C, "c"),
        );
        accepts(
            &Unfair,
            "who asked first and came second",
            Told::of_one()
                .in_order()
                .asks(B)
                .asks(C)
                .at(15)
                .comes(C)
                .at(16)
                .comes(B)
                .sets(C, "c"),
        );
        accepts(
            &Unfair,
            "who asked and has not come yet",
            Told::of_one()
                .in_order()
                .asks(B)
                .asks(C)
                .comes(C)
                .sets(C, "c"),
        );
        accepts(
            &Unfair,
            "who has left comes anew",
            queue().denied(B, false).asks(B).comes(B).sets(C, "c"),
        );
        accepts(&Unfair, "who is dead", queue().crashes(B).sets(C, "c"));
        accepts(
            &Unfair,
            "another lock",
            queue().about("lock:2").sets(C, "c"),
        );
        accepts(
            &Unfair,
            "who was granted, and has not heard of it, waits no more",
            queue().sets(B, "b").at(20_000).sets(C, "c"),
        );
        accepts(
            &Unfair,
            "nobody has promised it",
            Told::of_one()
                .asks(B)
                .comes(B)
                .asks(C)
                .comes(C)
                .sets(C, "c"),
        );
    }

    #[test]
    fn rejects_invalid_histories() {
        rejects(
            &Unfair,
            "who came second is served first",
            queue().sets(C, "c").at(200).sets(B, "b"),
            &[110],
        );
        rejects(
            &Unfair,
            "who came third overtakes two",
            queue().asks(A).comes(A).sets(A, "again"),
            &[110],
        );
        rejects(
            &Unfair,
            "who has given up, and whose request arrives all the same",
            queue().denied(C, false).at(300).sets(C, "c"),
            &[300],
        );
        rejects(
            &Unfair,
            "in a process, who asked first",
            Told::of_none()
                .in_order()
                .asks(B)
                .asks(C)
                .grants_itself(C, "c"),
            &[0],
        );
    }
}
