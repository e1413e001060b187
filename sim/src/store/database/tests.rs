use super::*;

const A: NodeId = NodeId::Client(1);
const WALL: Millis = 1_000_000;

/// Some sessions, and what they are answered.
struct Asked {
    database: Database,
    sessions: Vec<SessionId>,
}

impl Asked {
    fn new(sessions: usize) -> Self {
        let mut database = Database::default();
        let sessions = (0..sessions).map(|_| database.connect()).collect();
        Self { database, sessions }
    }

    /// The replies that come because of one request: of which session, and what.
    fn all(&mut self, on: usize, operation: Operation) -> Vec<(usize, Reply)> {
        let request = Request::new(format!("token-{on}"), operation);
        self.database.execute(self.sessions[on], A, &request, WALL);
        self.done()
    }

    fn done(&mut self) -> Vec<(usize, Reply)> {
        let done = self.database.take_done().into_iter();
        let place = |session| self.sessions.iter().position(|s| *s == session).unwrap();
        done.map(|done| (place(done.session), done.reply)).collect()
    }

    #[track_caller]
    fn one(&mut self, on: usize, operation: Operation) -> Reply {
        let replies = self.all(on, operation);
        assert_eq!(replies.len(), 1, "{replies:?}");
        assert_eq!(replies[0].0, on);
        replies[0].1
    }

    #[track_caller]
    fn waits(&mut self, on: usize, operation: Operation) {
        assert_eq!(self.all(on, operation), []);
    }

    fn writes(&mut self) -> Vec<(u64, bool, i64)> {
        let told = self.database.take_told().into_iter();
        told.filter_map(|(_, what)| match what {
            What::Write {
                sequence,
                accepted,
                value,
                ..
            } => Some((sequence, accepted, value)),
            _ => None,
        })
        .collect()
    }
}

fn write(value: i64, guard: Guard) -> Operation {
    Operation::Write {
        row: 1,
        value,
        guard,
    }
}

fn fenced(fence: u64, comparator: Comparator) -> Operation {
    write(5, Guard::Fence { fence, comparator })
}

fn value(reply: Reply) -> i64 {
    let Reply::Row(row) = reply else {
        panic!("{reply:?}")
    };
    row.value
}

fn lock(scope: Scope, waits: bool) -> Operation {
    let key = "k".into();
    Operation::Lock { key, scope, waits }
}

fn unlock() -> Operation {
    Operation::Unlock { key: "k".into() }
}

const READ: Operation = Operation::Read { row: 1 };

#[test]
fn a_strict_fence_refuses_the_same_number_twice_and_at_least_does_not() {
    for (comparator, second) in [
        (Comparator::Strict, Reply::Refused),
        (Comparator::AtLeast, Reply::Accepted),
    ] {
        let mut asked = Asked::new(1);
        assert_eq!(asked.one(0, fenced(3, comparator)), Reply::Accepted);
        assert_eq!(asked.one(0, fenced(3, comparator)), second);
        assert_eq!(asked.one(0, fenced(2, comparator)), Reply::Refused);
    }
}

#[test]
fn a_claim_shuts_older_holders_out_and_passes_again_for_its_own_token() {
    let mut asked = Asked::new(2);
    let claim = |fence| Operation::Claim { row: 1, fence };
    assert!(matches!(asked.one(0, claim(1)), Reply::Row(_)));
    assert!(matches!(asked.one(1, claim(2)), Reply::Row(_)));
    assert!(matches!(asked.one(1, claim(2)), Reply::Row(_)));
    assert_eq!(asked.one(0, claim(2)), Reply::Refused);
    assert_eq!(
        asked.one(0, write(9, Guard::Claimed { fence: 1 })),
        Reply::Refused
    );
    assert_eq!(
        asked.one(1, write(9, Guard::Claimed { fence: 2 })),
        Reply::Accepted
    );
}

#[test]
fn a_refused_write_changes_nothing_and_still_has_a_number() {
    let mut asked = Asked::new(1);
    asked.one(0, fenced(1, Comparator::Strict));
    asked.one(0, fenced(1, Comparator::Strict));
    assert_eq!(asked.writes(), [(1, true, 5), (2, false, 5)]);
    let row = Row {
        value: 5,
        fence: 1,
        version: 1,
    };
    assert_eq!(asked.one(0, READ), Reply::Row(row));
}

#[test]
fn a_write_in_a_transaction_is_seen_by_others_and_numbered_at_commit() {
    let mut asked = Asked::new(2);
    asked.one(0, Operation::Begin);
    asked.one(0, write(7, Guard::Plain));
    assert_eq!(value(asked.one(0, READ)), 7);
    assert_eq!(value(asked.one(1, READ)), 0);
    let other = Operation::Write {
        row: 2,
        value: 8,
        guard: Guard::Plain,
    };
    asked.one(1, other);
    assert_eq!(asked.one(0, Operation::Commit), Reply::Done);
    assert_eq!(asked.writes(), [(1, true, 8), (2, true, 7)]);
    assert_eq!(value(asked.one(1, READ)), 7);
}

#[test]
fn the_second_writer_waits_and_then_looks_again() {
    for (end, second) in [
        (Operation::Commit, Reply::Refused),
        (Operation::Rollback, Reply::Accepted),
    ] {
        let mut asked = Asked::new(2);
        asked.one(0, Operation::Begin);
        asked.one(0, write(7, Guard::Version { version: 0 }));
        asked.waits(1, write(8, Guard::Version { version: 0 }));
        let replies = asked.all(0, end);
        assert_eq!(replies[1], (1, second));
    }
}

#[test]
fn who_has_waited_keeps_the_row_also_if_its_condition_no_longer_holds() {
    let mut asked = Asked::new(3);
    asked.one(0, Operation::Begin);
    asked.one(0, write(7, Guard::Plain));
    asked.one(1, Operation::Begin);
    asked.waits(1, write(8, Guard::Version { version: 0 }));
    assert_eq!(asked.all(0, Operation::Commit)[1], (1, Reply::Refused));
    asked.waits(2, write(9, Guard::Plain));
    assert_eq!(asked.all(1, Operation::Commit)[1], (2, Reply::Accepted));
}

#[test]
fn a_condition_that_does_not_hold_waits_for_nobody() {
    let mut asked = Asked::new(2);
    asked.one(0, Operation::Begin);
    asked.one(0, write(7, Guard::Plain));
    assert_eq!(
        asked.one(1, write(8, Guard::Version { version: 1 })),
        Reply::Refused
    );
}

#[test]
fn after_an_error_a_transaction_hears_nothing_but_its_end() {
    let mut asked = Asked::new(2);
    let insert = |or_nothing| Operation::Insert {
        row: 1,
        value: 1,
        or_nothing,
    };
    asked.one(0, insert(true));
    assert_eq!(asked.one(0, insert(true)), Reply::Refused);
    asked.one(0, Operation::Begin);
    asked.one(0, write(7, Guard::Plain));
    let error = SqlError::UniqueViolation;
    assert_eq!(asked.one(0, insert(false)), Reply::Failed { error });
    let error = SqlError::InFailedTransaction;
    assert_eq!(asked.one(0, READ), Reply::Failed { error });
    assert_eq!(asked.one(0, unlock()), Reply::Failed { error });
    // Its row lock is free already.
    assert_eq!(asked.one(1, write(1, Guard::Plain)), Reply::Accepted);
    assert_eq!(asked.one(0, Operation::Commit), Reply::RolledBack);
    assert_eq!(value(asked.one(0, READ)), 1);
}

#[test]
fn a_circle_of_waiting_is_an_error_for_whoever_closes_it() {
    let mut asked = Asked::new(2);
    let on = |row| Operation::Write {
        row,
        value: 1,
        guard: Guard::Plain,
    };
    for session in [0, 1] {
        asked.one(session, Operation::Begin);
        asked.one(session, on(session as u32 + 1));
    }
    asked.waits(0, on(2));
    let replies = asked.all(1, on(1));
    let error = SqlError::Deadlock;
    assert_eq!(
        replies,
        [(1, Reply::Failed { error }), (0, Reply::Accepted)]
    );
}

#[test]
fn a_session_lock_is_counted_and_survives_a_rollback() {
    let mut asked = Asked::new(2);
    asked.one(0, Operation::Begin);
    assert_eq!(asked.one(0, lock(Scope::Session, false)), Reply::Accepted);
    assert_eq!(asked.one(0, lock(Scope::Session, true)), Reply::Accepted);
    asked.one(0, Operation::Rollback);
    assert_eq!(asked.one(1, lock(Scope::Session, false)), Reply::Refused);
    assert_eq!(asked.one(1, unlock()), Reply::Refused);
    assert_eq!(asked.one(0, unlock()), Reply::Accepted);
    asked.waits(1, lock(Scope::Session, true));
    assert_eq!(
        asked.all(0, unlock()),
        [(0, Reply::Accepted), (1, Reply::Accepted)]
    );
    assert_eq!(asked.one(0, unlock()), Reply::Refused);
}

#[test]
fn a_transaction_lock_goes_with_its_transaction_and_cannot_be_unlocked() {
    for end in [Operation::Commit, Operation::Rollback] {
        let mut asked = Asked::new(2);
        asked.one(0, Operation::Begin);
        asked.one(0, lock(Scope::Transaction, false));
        assert_eq!(asked.one(0, unlock()), Reply::Refused);
        assert_eq!(
            asked.one(1, lock(Scope::Transaction, false)),
            Reply::Refused
        );
        asked.one(0, end);
        assert_eq!(asked.one(1, lock(Scope::Session, false)), Reply::Accepted);
    }
}

#[test]
fn with_a_session_its_locks_and_its_open_transaction_end() {
    let mut asked = Asked::new(2);
    asked.one(0, lock(Scope::Session, false));
    asked.one(0, Operation::Begin);
    asked.one(0, write(7, Guard::Plain));
    asked.waits(1, lock(Scope::Session, true));
    asked.database.end(asked.sessions[0]);
    assert_eq!(asked.done(), [(1, Reply::Accepted)]);
    assert_eq!(value(asked.one(1, READ)), 0);
    assert_eq!(asked.writes(), []);
}

#[test]
fn a_number_is_not_given_back() {
    let mut asked = Asked::new(2);
    asked.one(0, Operation::Begin);
    assert_eq!(
        asked.one(0, Operation::NextValue),
        Reply::Number { number: 1 }
    );
    asked.one(0, Operation::Rollback);
    assert_eq!(
        asked.one(1, Operation::NextValue),
        Reply::Number { number: 2 }
    );
    let drawn = asked.database.take_told().into_iter();
    let drawn = drawn.filter_map(|(of, what)| match what {
        What::Drawn { number, .. } => Some((of, number)),
        _ => None,
    });
    assert_eq!(
        drawn.collect::<Vec<_>>(),
        [(NodeId::Store, 1), (NodeId::Store, 2)]
    );
}

#[test]
fn who_skips_locked_rows_gets_the_next_one() {
    let of: Vec<_> = (1..=2)
        .map(|row| super::super::Place {
            key: row.to_string(),
            row,
        })
        .collect();
    let take = || Operation::TakeNext { of: of.clone() };
    let mut asked = Asked::new(3);
    let chosen = |reply| matches!(reply, Reply::Chosen { id, .. } if id == 1);
    for session in 0..3 {
        asked.one(session, Operation::Begin);
    }
    assert!(chosen(asked.one(0, take())));
    assert!(matches!(asked.one(1, take()), Reply::Chosen { id: 2, .. }));
    assert_eq!(asked.one(2, take()), Reply::Refused);
    asked.one(0, Operation::Rollback);
    assert!(chosen(asked.one(2, take())));
}

#[test]
fn a_lease_is_over_at_its_time_and_keeps_its_fence() {
    let mut asked = Asked::new(2);
    let lease = |lasts| Operation::Lease {
        key: "k".into(),
        lasts,
    };
    assert_eq!(asked.one(0, lease(0)), Reply::Number { number: 1 });
    assert_eq!(asked.one(1, lease(10)), Reply::Number { number: 2 });
    assert_eq!(asked.one(0, lease(10)), Reply::Refused);
    let end = || Operation::EndLease { key: "k".into() };
    assert_eq!(asked.one(0, end()), Reply::Refused);
    assert_eq!(asked.one(1, end()), Reply::Accepted);
    assert_eq!(asked.one(0, lease(10)), Reply::Number { number: 3 });
}
