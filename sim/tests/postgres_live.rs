//! The simulated store and a real PostgreSQL, asked the same.
//!
//! Random interleavings of some sessions: each operation's SQL, as its documentation has it, goes to
//! the real server, and every reply must be the same, and the same sessions must wait. Runs only if it
//! is named: `--test postgres_live`. Another seed every time; `SEED=n` repeats one, `STREAMS=n` asks for
//! more, `LINES=n` shows more of what came before a difference.

mod postgres;

use postgres::{Answer, Server, Session, pause};
use sim::store::{
    Comparator, Database, Guard, Operation, Place, Reply, Request, Row, Scope, SessionId,
};
use sim::{Lane, Millis, NodeId, Purpose};

/// How many statements a stream has.
const LENGTH: usize = 300;
/// How many sessions take part.
const SESSIONS: usize = 4;
const ROWS: u32 = 3;
/// What the simulated store's clock shows all the time. Leases last for no time or for an hour.
const WALL: Millis = 1_000_000;
const HOUR: Millis = 3_600_000;

const TABLES: &str = "
    CREATE TABLE rows (id int PRIMARY KEY, value bigint NOT NULL DEFAULT 0,
        fence bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0,
        claimed_by text, taken_by text, taken_until timestamptz);
    CREATE TABLE marks (id int PRIMARY KEY, value bigint);
    CREATE TABLE leases (key text PRIMARY KEY, token text, fence bigint, expires timestamptz);
    CREATE SEQUENCE fences";

/// The SQL that an operation stands for.
fn sql(operation: &Operation, token: &str) -> String {
    let write = |row: u32, value: String, guard: &Guard| {
        let (sets, demands) = match guard {
            Guard::Plain => (String::new(), String::new()),
            Guard::Fence { fence, comparator } => {
                let compare = match comparator {
                    Comparator::Strict => "<",
                    Comparator::AtLeast => "<=",
                };
                (
                    format!(" fence = {fence},"),
                    format!(" AND fence {compare} {fence}"),
                )
            }
            Guard::Claimed { fence } => (String::new(), format!(" AND fence = {fence}")),
            Guard::Version { version } => (String::new(), format!(" AND version = {version}")),
            Guard::Least { value } => (String::new(), format!(" AND value >= {value}")),
            Guard::Taken => (String::new(), format!(" AND taken_by = '{token}'")),
            Guard::Absent => unreachable!("an insert's"),
        };
        format!(
            "UPDATE rows SET value = {value},{sets} version = version + 1 WHERE id = {row}{demands}"
        )
    };
    let ids = |of: &[Place]| {
        let ids: Vec<_> = of.iter().map(|place| place.row.to_string()).collect();
        format!("ARRAY[{}]", ids.join(", "))
    };
    match operation {
        Operation::Read { row } => {
            format!("SELECT value, fence, version FROM rows WHERE id = {row}")
        }
        Operation::Claim { row, fence } => format!(
            "UPDATE rows SET fence = {fence}, claimed_by = '{token}' WHERE id = {row} AND (fence < \
             {fence} OR (fence = {fence} AND claimed_by = '{token}')) RETURNING value, fence, version"
        ),
        Operation::Write { row, value, guard } => write(*row, value.to_string(), guard),
        Operation::Add { row, value, guard } => write(*row, format!("value + {value}"), guard),
        Operation::Insert {
            row,
            value,
            or_nothing,
        } => {
            let or = if *or_nothing {
                " ON CONFLICT DO NOTHING"
            } else {
                ""
            };
            format!("INSERT INTO marks (id, value) VALUES ({row}, {value}){or}")
        }
        Operation::NextValue => "SELECT nextval('fences')".into(),
        Operation::Begin => "BEGIN".into(),
        Operation::Commit => "COMMIT".into(),
        Operation::Rollback => "ROLLBACK".into(),
        Operation::Lock { key, scope, waits } => {
            let tries = if *waits { "" } else { "try_" };
            let xact = match scope {
                Scope::Session => "",
                Scope::Transaction => "xact_",
            };
            format!("SELECT pg_{tries}advisory_{xact}lock(hashtextextended('{key}', 0))")
        }
        Operation::Unlock { key } => {
            format!("SELECT pg_advisory_unlock(hashtextextended('{key}', 0))")
        }
        Operation::Lease { key, lasts } => format!(
            "INSERT INTO leases (key, token, fence, expires) VALUES ('{key}', '{token}', 1, \
             clock_timestamp() + interval '{lasts} milliseconds') ON CONFLICT (key) DO UPDATE SET \
             token = '{token}', fence = leases.fence + 1, expires = excluded.expires WHERE \
             leases.expires <= clock_timestamp() RETURNING fence"
        ),
        Operation::EndLease { key } => format!(
            "UPDATE leases SET expires = '-infinity' WHERE key = '{key}' AND token = '{token}' AND \
             expires > '-infinity'"
        ),
        Operation::TakeNext { of } => format!(
            "SELECT id, value, fence, version FROM rows WHERE id = ANY({}) AND value = 0 ORDER BY id \
             LIMIT 1 FOR UPDATE SKIP LOCKED",
            ids(of)
        ),
        Operation::ClaimNext { of, lasts } => {
            let until = lasts.map_or("'infinity'".into(), |lasts| {
                format!("clock_timestamp() + interval '{lasts} milliseconds'")
            });
            format!(
                "UPDATE rows SET taken_by = '{token}', taken_until = {until} WHERE id = (SELECT id \
                 FROM rows WHERE id = ANY({}) AND value = 0 AND (taken_until IS NULL OR taken_until \
                 <= clock_timestamp()) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, \
                 value, fence, version",
                ids(of)
            )
        }
        Operation::Unclaim { of } => format!(
            "UPDATE rows SET taken_by = NULL, taken_until = NULL WHERE id = {} AND taken_by = \
             '{token}'",
            of.row
        ),
    }
}

/// A real answer in the store's words.
fn reply(operation: &Operation, answer: &Answer) -> Option<Reply> {
    let (tag, row) = match answer {
        Answer::Done(tag, row) => (tag.as_str(), row),
        Answer::Failed(state) => {
            use sim::store::SqlError::*;
            let all = [InFailedTransaction, Deadlock, UniqueViolation, OutOfRange];
            let error = all.into_iter().find(|error| error.state() == state)?;
            return Some(Reply::Failed { error });
        }
    };
    let number = |place: usize| row.get(place)?.as_ref()?.parse::<i64>().ok();
    let row_from = |from: usize| {
        Some(Row {
            value: number(from)?,
            fence: number(from + 1)? as u64,
            version: number(from + 2)? as u64,
        })
    };
    Some(match operation {
        Operation::Begin | Operation::Commit | Operation::Rollback => match tag {
            "ROLLBACK" => Reply::RolledBack,
            _ => Reply::Done,
        },
        Operation::Read { .. } => Reply::Row(row_from(0)?),
        Operation::Claim { .. } => row_from(0).map_or(Reply::Refused, Reply::Row),
        Operation::TakeNext { .. } | Operation::ClaimNext { .. } => match row_from(1) {
            Some(row) => Reply::Chosen {
                id: number(0)? as u32,
                row,
            },
            None => Reply::Refused,
        },
        Operation::NextValue => Reply::Number {
            number: number(0)? as u64,
        },
        Operation::Lease { .. } => match number(0) {
            Some(fence) => Reply::Number {
                number: fence as u64,
            },
            None => Reply::Refused,
        },
        Operation::Lock { waits: true, .. } => Reply::Accepted,
        Operation::Lock { .. } | Operation::Unlock { .. } => match row.first()?.as_deref()? {
            "t" => Reply::Accepted,
            "f" => Reply::Refused,
            _ => return None,
        },
        _ => match tag {
            "UPDATE 1" | "INSERT 0 1" => Reply::Accepted,
            "UPDATE 0" | "INSERT 0 0" => Reply::Refused,
            _ => return None,
        },
    })
}

/// Draws statements.
struct Draw(Lane);

impl Draw {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0.within(&(0..=most))
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.up_to(99) < percent
    }

    fn row(&mut self) -> u32 {
        self.up_to(u64::from(ROWS) - 1) as u32 + 1
    }

    fn key(&mut self) -> String {
        format!("k{}", self.up_to(1))
    }

    fn guard(&mut self) -> Guard {
        let small = self.up_to(6);
        let comparator = if self.chance(50) {
            Comparator::Strict
        } else {
            Comparator::AtLeast
        };
        match self.up_to(7) {
            0 | 1 => Guard::Fence {
                fence: small,
                comparator,
            },
            2 => Guard::Claimed { fence: small },
            3 => Guard::Version { version: small },
            4 => Guard::Least {
                value: small as i64 - 2,
            },
            5 => Guard::Taken,
            _ => Guard::Plain,
        }
    }

    fn places(&mut self) -> Vec<Place> {
        let first = self.row();
        let place = |row: u32| Place {
            key: row.to_string(),
            row,
        };
        (first..=ROWS).rev().map(place).collect()
    }

    fn lasts(&mut self) -> Millis {
        if self.chance(50) { 0 } else { HOUR }
    }

    fn operation(&mut self, in_transaction: bool) -> Operation {
        let (row, value) = (self.row(), self.up_to(3) as i64);
        match self.up_to(29) {
            0..=2 => Operation::Read { row },
            3 => Operation::Claim {
                row,
                fence: self.up_to(6),
            },
            4..=8 => Operation::Write {
                row,
                value,
                guard: self.guard(),
            },
            9 | 10 => {
                let value = if self.chance(10) { i64::MAX } else { value - 2 };
                Operation::Add {
                    row,
                    value,
                    guard: self.guard(),
                }
            }
            11 | 12 => {
                let or_nothing = self.chance(70);
                Operation::Insert {
                    row: self.up_to(40) as u32,
                    value,
                    or_nothing,
                }
            }
            13 => Operation::NextValue,
            14..=17 if in_transaction => {
                if self.chance(60) {
                    Operation::Commit
                } else {
                    Operation::Rollback
                }
            }
            14..=17 => Operation::Begin,
            18 if self.chance(30) => Operation::Commit,
            18 if self.chance(30) => Operation::Rollback,
            18 => Operation::Begin,
            19..=21 => {
                let scope = if self.chance(50) {
                    Scope::Session
                } else {
                    Scope::Transaction
                };
                Operation::Lock {
                    key: self.key(),
                    scope,
                    waits: self.chance(50),
                }
            }
            22 | 23 => Operation::Unlock { key: self.key() },
            24 => Operation::Lease {
                key: self.key(),
                lasts: self.lasts(),
            },
            25 => Operation::EndLease { key: self.key() },
            26 | 27 => Operation::TakeNext { of: self.places() },
            28 => {
                let lasts = if self.chance(80) {
                    Some(self.lasts())
                } else {
                    None
                };
                Operation::ClaimNext {
                    of: self.places(),
                    lasts,
                }
            }
            _ => Operation::Unclaim {
                of: Place {
                    key: String::new(),
                    row,
                },
            },
        }
    }
}

/// Both sides.
struct Both<'s> {
    server: &'s Server,
    control: Session,
    real: Vec<Session>,
    database: Database,
    simulated: Vec<SessionId>,
    /// What each session waits with.
    waits: Vec<Option<Operation>>,
    said: Vec<String>,
    waited: usize,
}

impl<'s> Both<'s> {
    fn new(server: &'s Server, control: Session) -> Self {
        let mut database = Database::default();
        Self {
            server,
            control,
            real: (0..SESSIONS).map(|_| server.connect()).collect(),
            simulated: (0..SESSIONS).map(|_| database.connect()).collect(),
            database,
            waits: vec![None; SESSIONS],
            said: Vec::new(),
            waited: 0,
        }
    }

    fn differs(&self, what: &str) -> ! {
        let from = self
            .said
            .len()
            .saturating_sub(number("LINES").unwrap_or(40) as usize);
        let last = self.said[from..].join("\n");
        panic!("{what}, in {}, after:\n{last}", self.said[0]);
    }

    fn ask(&mut self, on: usize, operation: Operation) {
        let token = format!("token-{on}");
        let sql = sql(&operation, &token);
        self.said.push(format!("{on}: {sql}"));
        let looked = self.server.looked();
        self.real[on].send(&sql);
        let request = Request::new(token, operation.clone());
        let by = NodeId::Client(on as u16 + 1);
        self.waits[on] = Some(operation);
        self.database
            .execute(self.simulated[on], by, &request, WALL);
        self.compare();
        if self.waits[on].is_some() {
            // Whoever closes a circle later is to be the one who finds it.
            let looks = (0..5_000).any(|_| {
                pause(1);
                self.server.looked() > looked
            });
            assert!(looks, "session {on} waits and does not look for a deadlock");
        }
    }

    /// Every reply that the simulated store gives must come from the real one, and whoever waits
    /// here must wait there.
    fn compare(&mut self) {
        for done in self.database.take_done() {
            let on = self
                .simulated
                .iter()
                .position(|s| *s == done.session)
                .expect("known");
            let operation = self.waits[on].take().expect("it was asked");
            let Some(answer) = self.real[on].receive() else {
                self.differs(&format!(
                    "{on} gets {:?}, and in reality nothing",
                    done.reply
                ));
            };
            self.said.push(format!("{on}: -> {answer:?}"));
            if reply(&operation, &answer) != Some(done.reply) {
                self.differs(&format!(
                    "{on} gets {:?}, and in reality {answer:?}",
                    done.reply
                ));
            }
        }
        let waiting = self.waits.iter().flatten().count();
        self.waited += usize::from(waiting > 0);
        if waiting > 0 && !self.settle(waiting) {
            self.differs(&format!("{waiting} wait, and in reality not as many"));
        }
    }

    /// Waits until as many sessions of the real server wait for a lock.
    fn settle(&mut self, waiting: usize) -> bool {
        const COUNT: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        let expected = Answer::Done("SELECT 1".into(), vec![Some(waiting.to_string())]);
        (0..2_000).any(|_| self.control.ask(COUNT) == expected)
    }

    /// The client goes away.
    fn disconnect(&mut self, on: usize) {
        self.said.push(format!("{on}: disconnects"));
        let gone = std::mem::replace(&mut self.real[on], self.server.connect()).process;
        let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {gone}");
        let none = Answer::Done("SELECT 1".into(), vec![Some("0".into())]);
        while self.control.ask(&is_there) != none {
            pause(1);
        }
        self.database.end(self.simulated[on]);
        self.simulated[on] = self.database.connect();
        self.compare();
    }

    /// Of several that wait for one row, anyone may be first on a real server: for an insert all are
    /// woken at once, and when an update is committed each sets out for the row's new version.
    fn would_race(&self, next: &Operation) -> bool {
        let place = |operation: &Operation| match operation {
            Operation::Insert { row, .. } => Some(format!("mark {row}")),
            Operation::Lease { key, .. } | Operation::EndLease { key } => Some(key.clone()),
            Operation::Claim { row, .. }
            | Operation::Write { row, .. }
            | Operation::Add { row, .. }
            | Operation::Unclaim {
                of: Place { row, .. },
            } => Some(format!("row {row}")),
            _ => None,
        };
        let next = place(next);
        next.is_some()
            && self
                .waits
                .iter()
                .flatten()
                .any(|waits| place(waits) == next)
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "another seed every time"
)]
fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs() * 1_000
}

#[test]
fn a_real_server_replies_the_same_and_lets_the_same_sessions_wait() {
    let first = number("SEED").unwrap_or_else(any_seed);
    let streams = number("STREAMS").unwrap_or(if number("SEED").is_some() { 1 } else { 120 });
    println!(
        "seeds {first} to {}; SEED=n repeats one",
        first + streams - 1
    );
    let server = Server::start();
    let mut control = server.connect();
    control.ask(TABLES);
    let (mut compared, mut waited) = (0, 0);
    for seed in first..first + streams {
        let fill = format!(
            "TRUNCATE rows, marks, leases; ALTER SEQUENCE fences RESTART; INSERT INTO rows (id) \
             SELECT generate_series(1, {ROWS})"
        );
        let filled = control.ask(&fill);
        assert!(matches!(filled, Answer::Done(..)), "{filled:?}");
        let mut draw = Draw(Lane::new(seed, Purpose::Work, 0));
        let mut both = Both::new(&server, control);
        both.said.push(format!("seed {seed}"));
        for _ in 0..LENGTH {
            let on = draw.up_to(SESSIONS as u64 - 1) as usize;
            if both.waits[on].is_some() {
                continue;
            }
            if draw.chance(1) {
                both.disconnect(on);
                continue;
            }
            let operation = draw.operation(both.database.in_transaction(both.simulated[on]));
            if !both.would_race(&operation) {
                both.ask(on, operation);
                compared += 1;
            }
        }
        waited += both.waited;
        control = both.control;
        // What still waits ends with its session; the next stream begins with nobody.
        let ended = control.ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = \
             'client backend' AND pid <> pg_backend_pid()",
        );
        assert!(matches!(ended, Answer::Done(..)), "{ended:?}");
        const ALONE: &str =
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        let alone = Answer::Done("SELECT 1".into(), vec![Some("1".into())]);
        while control.ask(ALONE) != alone {
            pause(1);
        }
    }
    println!("{compared} statements compared; after {waited} of them somebody waited");
}
