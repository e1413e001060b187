//! What is computed from histories written by hand.

use sim::history::What;
use sim::{Millis, NodeId};

use super::Grant;
use crate::told::{A, B, C, PLAIN, TTL, Told};

/// A grant in short: number, token, whose, from, until.
type Short = (u32, String, NodeId, Millis, Option<Millis>);

fn grants(told: Told) -> Vec<Short> {
    let short = |grant: &Grant| {
        let token = grant.token.clone();
        (grant.number, token, grant.client, grant.from, grant.until)
    };
    told.ended(300_000, |facts| facts.grants.iter().map(short).collect())
}

fn short(
    number: u32,
    token: &str,
    client: NodeId,
    from: Millis,
    until: impl Into<Option<Millis>>,
) -> Short {
    (number, token.into(), client, from, until.into())
}

#[test]
fn a_grant_lasts_until_the_millisecond_after_its_deadline() {
    let told = Told::of_one().asks(A).at(7).sets(A, "a");
    assert_eq!(grants(told), [short(1, "a", A, 7, 7 + TTL + 1)]);
}

#[test]
fn a_grant_ends_at_its_very_deadline_if_the_server_deletes_it_then() {
    let told = Told::of_one().asks(A).sets(A, "a").at(TTL).sweeps();
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL)]);
}

#[test]
fn a_deletion_after_the_deadline_does_not_prolong_a_grant() {
    let told = Told::of_one().asks(A).sets(A, "a").at(TTL + 100).sweeps();
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
}

#[test]
fn a_grant_ends_with_its_release() {
    let told = Told::of_one().takes(A, "a").at(50).gives_back(A);
    assert_eq!(grants(told), [short(1, "a", A, 0, 50)]);
}

#[test]
fn a_refreshed_grant_is_the_same_grant() {
    let told = Told::of_one().takes(A, "a").at(6_000).sets(A, "a");
    assert_eq!(grants(told), [short(1, "a", A, 0, 6_000 + TTL + 1)]);
}

#[test]
fn a_grant_without_a_deadline_lasts_to_the_end() {
    let told = Told::of_one().asks(A).sets_for_ever(A, "a");
    assert_eq!(grants(told), [short(1, "a", A, 0, None)]);
}

#[test]
fn grants_are_numbered_by_key_in_the_order_of_commits() {
    let told = Told::of_one()
        .takes(A, "a")
        .about("lock:2")
        .takes(B, "b")
        .about("lock:1")
        .at(20_000)
        .takes(C, "c");
    let numbers: Vec<_> = grants(told).into_iter().map(|g| (g.1, g.0)).collect();
    let expected = [("a", 1), ("b", 1), ("c", 2)].map(|(t, n)| (t.to_owned(), n));
    assert_eq!(numbers, expected);
}

#[test]
fn a_grant_that_nobody_heard_of_is_a_grant() {
    let told = Told::of_one().asks(A).denied(A, false).at(9).sets(A, "a");
    assert_eq!(grants(told)[0], short(1, "a", A, 9, 9 + TTL + 1));
}

#[test]
fn a_clock_set_forward_ends_a_grant_at_once() {
    let told = Told::of_one()
        .takes(A, "a")
        .at(100)
        .clock_steps(1, TTL as i64);
    assert_eq!(grants(told), [short(1, "a", A, 0, 100)]);
}

#[test]
fn a_clock_set_forward_a_little_brings_the_end_closer_to_the_millisecond() {
    let told = Told::of_one().takes(A, "a").at(100).clock_steps(1, 4_000);
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1 - 4_000)]);
}

#[test]
fn a_clock_set_back_puts_the_end_off_to_the_millisecond() {
    let told = Told::of_one().takes(A, "a").at(100).clock_steps(1, -4_000);
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1 + 4_000)]);
}

#[test]
fn a_grant_that_a_clock_set_back_revives_is_the_same_grant() {
    let told = Told::of_one()
        .takes(A, "a")
        .at(TTL + 500)
        .clock_steps(1, -2_000);
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1 + 2_000)]);
}

#[test]
fn a_clock_set_back_revives_nothing_that_was_deleted() {
    let told = Told::of_one()
        .takes(A, "a")
        .at(TTL + 100)
        .sweeps()
        .at(TTL + 500)
        .clock_steps(1, -2_000);
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
}

#[test]
fn a_fast_clock_brings_the_end_closer_and_a_slow_one_puts_it_off_to_the_millisecond() {
    // At 100 ms, 9 900 of the 10 000 ms are left, and a key is hidden one after its deadline.
    for (ppm, until) in [
        (1_000_000, 5_051), // 9 901 / 2 = 4 950.5
        (10_000, 9_903),    // 9 901 / 1.01 = 9 802.97
        (-500_000, 19_902), // 9 901 x 2
        (-100_000, 11_102), // 9 901 / 0.9 = 11 001.1
        (0, TTL + 1),
    ] {
        let told = Told::of_one().takes(A, "a").at(100).clock_runs(1, ppm);
        assert_eq!(grants(told), [short(1, "a", A, 0, until)], "{ppm} ppm");
    }
}

#[test]
fn a_lease_lasts_shorter_or_longer_on_a_clock_that_ran_wrong_before() {
    let told = Told::of_one()
        .clock_runs(1, 250_000)
        .at(1_000)
        .takes(A, "a");
    // 10 001 / 1.25 = 8 000.8
    assert_eq!(grants(told), [short(1, "a", A, 1_000, 9_001)]);
}

#[test]
fn rates_follow_each_other_and_steps_are_not_multiplied() {
    let told = Told::of_one()
        .takes(A, "a")
        .at(100)
        .clock_runs(1, 1_000_000)
        .at(1_100) // 2 100
        .clock_steps(1, 3_000) // 5 100
        .at(2_100) // 7 100
        .clock_runs(1, -500_000);
    // 2 901 x 2
    assert_eq!(grants(told), [short(1, "a", A, 0, 7_902)]);
}

#[test]
fn a_rate_does_not_prolong_a_grant_whose_key_is_hidden_but_not_deleted() {
    let told = Told::of_one()
        .takes(A, "a")
        .at(TTL + 500)
        .clock_runs(1, -500_000)
        .at(TTL + 800)
        .sweeps();
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
}

#[test]
fn an_offset_from_the_start_changes_no_grant() {
    let told = Told::of_one().clock_is_off(1, -90_000).at(7).takes(A, "a");
    assert_eq!(grants(told), [short(1, "a", A, 7, 7 + TTL + 1)]);
}

#[test]
fn a_suspended_server_goes_on_by_its_wall_clock() {
    let server = NodeId::Lock(1);
    let told = Told::of_one()
        .takes(A, "a")
        .at(100)
        .suspends(server, 50_000)
        .at(50_100)
        .resumes(server);
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
}

#[test]
fn lost_data_ends_a_grant() {
    let told = Told::of_one().takes(A, "a").at(300).loses_data(1);
    assert_eq!(grants(told), [short(1, "a", A, 0, 300)]);
}

#[test]
fn keys_that_are_flushed_or_evicted_end_a_grant_and_nobody_has_removed_it() {
    for why in [What::Flushed, What::Evicted] {
        let told = || Told::of_one().takes(A, "a").at(300).emptied(1, why.clone());
        assert_eq!(grants(told()), [short(1, "a", A, 0, 300)]);
        told().ended(300_000, |facts| assert_eq!(facts.removals, []));
        let again = told().at(400).takes(B, "b");
        let expected = [
            short(1, "a", A, 0, 300),
            short(2, "b", B, 400, 400 + TTL + 1),
        ];
        assert_eq!(grants(again), expected);
    }
}

#[test]
fn a_clock_or_data_of_another_server_ends_nothing() {
    let told = Told::of_five().asks(A);
    let told = (1..=3).fold(told, |told, server| told.sets_on(server, A, "a"));
    let told = told.at(100).clock_steps(4, 90_000).loses_data(5);
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
}

mod of_a_master_and_its_replicas {
    use super::*;

    #[test]
    fn a_copy_is_no_grant_and_its_deletion_no_removal() {
        let told = Told::of_replicated().takes(A, "a").at(5).copies(2, "a");
        let told = told.at(100).gives_back(A).at(105).emptied(2, What::Started);
        assert_eq!(grants(told), [short(1, "a", A, 0, 100)]);
    }

    #[test]
    fn a_promoted_copy_continues_the_grant() {
        let told = Told::of_replicated().takes(A, "a").at(5).copies(2, "a");
        let told = told.at(50).server_dies(1).at(100).promotes(2);
        assert_eq!(grants(told), [short(1, "a", A, 0, 5 + TTL + 1)]);
    }

    #[test]
    fn a_dead_masters_lock_is_in_force_until_another_one_leads() {
        let told = Told::of_replicated().takes(A, "a").at(50).server_dies(1);
        let told = told.at(100).promotes(2).at(200).asks(B).sets_on(2, B, "b");
        let expected = [
            short(1, "a", A, 0, 100),
            short(2, "b", B, 200, 200 + TTL + 1),
        ];
        assert_eq!(grants(told), expected);
    }

    #[test]
    fn two_masters_grant_both_until_one_follows() {
        let told = Told::of_replicated().takes(A, "a").at(100).promotes(2);
        let told = told.at(200).asks(B).sets_on(2, B, "b");
        let told = told.at(300).gives_back(A).at(400).takes(A, "c");
        let expected = [
            short(1, "a", A, 0, 300),
            short(2, "b", B, 200, 200 + TTL + 1),
            short(3, "c", A, 400, 500),
        ];
        assert_eq!(grants(told.at(500).follows(1, 2)), expected);
    }

    #[test]
    fn an_old_master_that_starts_again_shows_its_lock_again() {
        let told = Told::of_replicated().takes(A, "a").at(50).server_dies(1);
        let told = told.at(100).promotes(2).at(200).server_starts(1);
        assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
    }
}

#[test]
fn a_quorum_grants_when_the_third_of_five_servers_holds_the_token() {
    let told = Told::of_five()
        .asks(A)
        .sets_on(1, A, "a")
        .at(10)
        .sets_on(2, A, "a")
        .at(20)
        .sets_on(5, A, "a")
        .at(30)
        .sets_on(4, A, "a");
    // It is held until only two of the four are left.
    assert_eq!(grants(told), [short(1, "a", A, 20, 10 + TTL + 1)]);
}

#[test]
fn a_quorum_counts_only_what_is_there_at_once() {
    let told = Told::of_five()
        .asks(A)
        .sets_on(1, A, "a")
        .sets_on(2, A, "a")
        .at(TTL + 1)
        .sets_on(3, A, "a")
        .sets_on(4, A, "a");
    assert_eq!(grants(told), []);
}

#[test]
fn a_quorum_that_a_clock_brings_about_is_a_grant_to_whose_token_it_is() {
    let told = Told::of_five()
        .asks(A)
        .asks(B)
        .sets_on(1, A, "a")
        .sets_on(2, A, "a")
        .at(TTL + 1)
        .clock_steps(2, -5_000)
        .sets_on(3, A, "a")
        .at(TTL + 10)
        .clock_steps(1, -5_000);
    assert_eq!(grants(told), [short(1, "a", A, TTL + 10, TTL + 1 + 5_000)]);
}

#[test]
fn split_votes_grant_nobody() {
    let told = Told::of_five()
        .asks(A)
        .asks(B)
        .sets_on(1, A, "a")
        .sets_on(2, A, "a")
        .sets_on(3, B, "b")
        .sets_on(4, B, "b")
        .sets_on(5, C, "c");
    assert_eq!(grants(told), []);
}

#[test]
fn keys_beside_a_lock_are_not_granted() {
    let told = Told::of_one()
        .takes(A, "a")
        .about("lock:1:fence")
        .sets_for_ever(A, "1")
        .about("cache")
        .sets_for_ever(B, "x");
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
}

#[test]
fn a_key_that_is_given_to_somebody_who_asked_for_another_is_a_lock() {
    let told = Told::of_one()
        .asks(A)
        .about("lock:2")
        .sets(A, "a")
        .leased(A, "a", None);
    assert_eq!(grants(told), [short(1, "a", A, 0, TTL + 1)]);
}

#[test]
fn a_lock_in_the_process_grants_and_frees_itself() {
    let told = Told::of_none()
        .asks(A)
        .grants_itself(A, "a")
        .asks(B)
        .grants_itself(B, "b")
        .at(5)
        .frees_itself(A, "a");
    assert_eq!(
        grants(told),
        [short(1, "a", A, 0, 5), short(2, "b", B, 0, None)]
    );
}

#[test]
fn a_lock_in_the_process_dies_with_it() {
    let told = Told::of_none()
        .asks(A)
        .grants_itself(A, "a")
        .asks(B)
        .grants_itself(B, "b")
        .at(5)
        .crashes(A);
    assert_eq!(
        grants(told),
        [short(1, "a", A, 0, 5), short(2, "b", B, 0, None)]
    );
}

#[test]
fn a_lock_in_the_process_outlives_a_thread() {
    let told = Told::of_none()
        .asks(A)
        .grants_itself(A, "a")
        .at(5)
        .loses_its_thread(A);
    assert_eq!(grants(told), [short(1, "a", A, 0, None)]);
}

#[test]
fn a_write_belongs_to_the_grant_of_its_token() {
    let told = Told::of_one()
        .takes(A, "a")
        .at(20_000)
        .takes(B, "b")
        .writes(A, "a", 1, PLAIN)
        .writes(C, "c", 1, PLAIN);
    told.ended(300_000, |facts| {
        let grants: Vec<_> = facts.writes.iter().map(|write| write.grant).collect();
        assert_eq!(grants, [Some(0), None]);
    });
}

#[test]
fn an_ask_lasts_from_its_first_attempt_to_the_lease() {
    let told = Told::of_one()
        .takes(A, "a")
        .at(10)
        .asks(B)
        .denied(B, true)
        .at(20)
        .asks(B)
        .at(30)
        .gives_back(A)
        .sets(B, "b")
        .leased(B, "b", None)
        .at(40)
        .gives_back(B)
        .at(50)
        .asks(B)
        .at(60)
        .crashes(B);
    told.ended(300_000, |facts| {
        let asks: Vec<_> = facts
            .asks
            .iter()
            .filter(|ask| ask.client == B)
            .map(|ask| (ask.section, ask.attempts.clone(), ask.until, ask.leased))
            .collect();
        let expected = [
            (1, vec![10, 20], Some(30), true),
            (2, vec![50], Some(60), false),
        ];
        assert_eq!(asks, expected);
        let sections: Vec<_> = facts
            .sections
            .iter()
            .filter(|section| section.client == B)
            .map(|section| (section.number, section.from, section.until))
            .collect();
        assert_eq!(sections, [(1, 10, Some(40)), (2, 50, Some(60))]);
    });
}

#[test]
fn a_belief_ends_at_the_first_call_of_release_or_at_the_loss_or_the_crash() {
    let ends = [
        Told::of_one()
            .takes(A, "a")
            .at(10)
            .releasing(A, 1)
            .at(20)
            .releasing(A, 2),
        Told::of_one()
            .takes(A, "a")
            .at(10)
            .notices_loss(A)
            .at(20)
            .releasing(A, 1),
        Told::of_one().takes(A, "a").at(10).crashes(A),
        Told::of_one().takes(A, "a").at(10).loses_its_thread(A),
    ];
    for told in ends {
        told.ended(300_000, |facts| {
            assert_eq!((facts.beliefs.len(), facts.beliefs[0].until), (1, Some(10)));
        });
    }
    let paused = Told::of_one().takes(A, "a").at(10).pauses(A, 50_000);
    paused.ended(300_000, |facts| assert_eq!(facts.beliefs[0].until, None));
}

#[test]
fn faults_are_over_with_the_last_one_that_struck() {
    let over = |told: Told| told.ended(300_000, |facts| facts.faults_over);
    assert_eq!(over(Told::of_one()), Some(0));
    let two = Told::of_one().strikes(0).at(5).strikes(1).at(9).over(0);
    assert_eq!(over(two), None);
    let two = Told::of_one()
        .strikes(0)
        .at(5)
        .strikes(1)
        .over(1)
        .at(9)
        .over(0);
    assert_eq!(over(two), Some(9));
}
