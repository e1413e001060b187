//! What must hold of every lock whatever goes wrong, from reasoning alone. A breach is a bug of
//! the testbed or of the lock's code, never a finding.

use algorithms::{Algorithm, Assumption, Family, Settings};
use scenarios::scenario::{FaultKind, FaultRange, Role, WhenRange};
use scenarios::work::{Counter, Payout, WorkKind};
use scenarios::{Run, Scenario, run};
use sim::engine::Event;
use sim::fault::{Data, Point};
use sim::history::What;
use sim::store::Comparator;
use sim::{Lane, Millis, Purpose};

const TTL: Millis = 3_000;
const SEEDS: u64 = 25;

fn scenario(name: &str, work: &'static dyn WorkKind, faults: Vec<FaultRange>) -> Scenario {
    Scenario {
        name: name.into(),
        title: String::new(),
        story: String::new(),
        reaches: None,
        seeds: None,
        clients: 3,
        redis: None,
        persistence: sim::redis::Persistence::default(),
        latency: 1..=8,
        ends: 120_000,
        retry: 50..=150,
        redis_timeout: 500,
        store_timeout: 1_000,
        store: sim::store::Settings::default(),
        lock: Settings {
            ttl: TTL,
            renew_every: None,
            server_timeout: None,
            comparator: Comparator::Strict,
        },
        work,
        keys: 2,
        items: 4,
        takes: 100..=1_000,
        first_takes: None,
        limit: 0,
        faults,
        expect: Vec::new(),
    }
}

/// Six faults at random within the first ten seconds or at points; no data is lost.
fn trouble(seed: u64) -> Vec<FaultRange> {
    const POINTS: &[Point] = &[
        Point::AcquireSent,
        Point::Granted,
        Point::ReadChecked,
        Point::AfterRead,
        Point::WriteChecked,
        Point::BeforeRelease,
    ];
    let mut lane = Lane::new(seed, Purpose::Faults, 1 << 32);
    let mut draw = |low, high| lane.within(&(low..=high));
    let faults = (0..6).map(|_| {
        let client = Role::Client(draw(1, 3) as u16);
        let server = [Role::Lock, Role::LockServer(1), Role::Store][draw(0, 2) as usize];
        let either = [client, server][draw(0, 1) as usize];
        let lasts = draw(1, 2 * TTL);
        let lasts = lasts..=lasts;
        let other = [server, client][draw(0, 1) as usize];
        let kind = match draw(0, 14) {
            0 => FaultKind::Pause {
                node: either,
                lasts,
            },
            1 => FaultKind::Restart {
                node: server,
                after: lasts,
                data: Data::Kept,
            },
            2 => FaultKind::Hold {
                between: (client, server),
                lasts,
            },
            3 => FaultKind::Reset {
                between: (client, server),
            },
            4 => FaultKind::DropReplies {
                to: client,
                from: server,
                lasts,
            },
            5 => FaultKind::Crash { node: client },
            6 => FaultKind::PowerLoss { node: client },
            7 => FaultKind::Suspend {
                node: either,
                lasts,
            },
            8 => FaultKind::OneWay {
                from: [server, client][usize::from(other == server)],
                to: other,
                lasts,
            },
            9 => FaultKind::Refuse {
                from: client,
                to: server,
                lasts,
            },
            10 => FaultKind::Slow {
                between: (client, server),
                by: 1..=20,
                lasts,
            },
            11 => FaultKind::Loss {
                between: (client, server),
                percent: 1..=60,
                lasts: 1..=TTL,
            },
            12 => FaultKind::ClockRate {
                node: either,
                ppm: -200_000..=200_000,
            },
            13 => FaultKind::ThreadDeath { node: client },
            _ => FaultKind::ClockStep {
                node: either,
                by: -2_000..=4_000,
            },
        };
        let at = draw(0, 10_000);
        let when = match draw(0, 1) {
            0 => WhenRange::At(at..=at),
            _ => WhenRange::Point {
                client: draw(1, 3) as u16,
                point: POINTS[draw(0, POINTS.len() as u64 - 1) as usize],
                nth: draw(1, 3) as u32,
            },
        };
        FaultRange { kind, when }
    });
    faults.collect()
}

fn play(algorithm: &dyn Algorithm, scenario: &Scenario, seed: u64) -> Run {
    run(algorithm, scenario, seed, &Event)
        .unwrap_or_else(|failed| panic!("{} under seed {seed}: {failed}", algorithm.name()))
}

#[track_caller]
fn never(run: &Run, breached: &[&str]) {
    for violation in &run.verdict.violations {
        assert!(
            !breached.contains(&violation.invariant),
            "{} under seed {} of {}: {violation:?}\nplan: {:?}",
            run.algorithm,
            run.seed,
            run.scenario,
            run.instance.setup.plan,
        );
    }
}

#[test]
fn without_trouble_no_lock_breaches_anything_that_excludes_others() {
    for work in [&Counter as &'static dyn WorkKind, &Payout] {
        let calm = scenario("calm", work, Vec::new());
        for algorithm in algorithms::ALL {
            let excludes = !["local-mutex", "pg-pooled"].contains(&algorithm.name());
            let applies = calm.not_applicable(&algorithm.declares(), &Event).is_none();
            if !excludes || !applies {
                continue;
            }
            for seed in 0..20 {
                let run = play(*algorithm, &calm, seed);
                assert_eq!(run.verdict.breached(), [""; 0], "{} {seed}", run.algorithm);
            }
        }
    }
}

#[test]
fn in_trouble_every_lock_keeps_the_laws_of_its_family() {
    for seed in 0..SEEDS {
        for work in [&Counter as &'static dyn WorkKind, &Payout] {
            let troubled = scenario("trouble", work, trouble(seed));
            for algorithm in algorithms::ALL {
                let declaration = algorithm.declares();
                if troubled.not_applicable(&declaration, &Event).is_some() {
                    continue;
                }
                let run = play(*algorithm, &troubled, seed);
                // What a dead thread held is renewed for as long as its process lives, and what is
                // bound to a session stays with it.
                let threads_live = run
                    .history
                    .events
                    .iter()
                    .all(|event| event.what != What::ThreadDied);
                match declaration.family {
                    Family::Plain => {}
                    Family::Renewing | Family::Quorum if !threads_live => {
                        never(&run, &["wrong-release"]);
                    }
                    // A queue waits for those who died in it.
                    Family::Renewing if declaration.ordered => never(&run, &["wrong-release"]),
                    // Without a TTL it waits for those who died, and for what they forgot.
                    Family::Tokened if declaration.assumes.contains(&Assumption::HoldersLive) => {
                        never(&run, &["wrong-release"]);
                    }
                    // Nobody deletes what is not his.
                    Family::Tokened | Family::Renewing | Family::Quorum => {
                        never(&run, &["wrong-release", "stuck"]);
                    }
                    // The counter is kept with the lock, so it grows with the grants, and the
                    // store lets nobody write behind a newer one.
                    // A number of the database's may be drawn long before the lock is taken, or
                    // after.
                    Family::Fenced if algorithm.name() == "fenced-sequence" => {
                        never(&run, &["wrong-release", "stuck", "double-write"]);
                    }
                    Family::Fenced if algorithm.name() == "fenced-sequence-late" => {
                        never(&run, &["wrong-release", "stuck"]);
                    }
                    Family::Fenced => never(
                        &run,
                        &[
                            "wrong-release",
                            "stuck",
                            "double-write",
                            "token-order",
                            "refused-holder",
                        ],
                    ),
                    // And nobody reads in between.
                    Family::Claimed => never(
                        &run,
                        &[
                            "wrong-release",
                            "stuck",
                            "double-write",
                            "token-order",
                            "refused-holder",
                            "lost-update",
                        ],
                    ),
                    // A pooler's sessions are everybody's.
                    Family::Session if algorithm.name() == "pg-pooled" => {}
                    // A session that ends takes nothing from anybody else, and revisions grow, also
                    // over the end of the session. A key that was not given back may be taken up
                    // again under its revision, which a strict store refuses.
                    Family::Session => {
                        never(&run, &["wrong-release"]);
                        if declaration.assumes.contains(&Assumption::StoreChecks) {
                            never(&run, &["double-write", "token-order"]);
                        }
                        // A lock-delay comes after the end of the session.
                        let lingers = ["consul", "pg-session"].contains(&algorithm.name());
                        if threads_live && !lingers {
                            never(&run, &["stuck"]);
                        }
                    }
                    // Lock and write come and go together.
                    Family::Transactional => never(
                        &run,
                        &[
                            "wrong-release",
                            "double-write",
                            "stale-write",
                            "lost-update",
                            "paid-twice",
                            "refused-holder",
                        ],
                    ),
                    // Every condition is checked with the write.
                    Family::LockFree => never(&run, &["paid-twice", "lost-update"]),
                }
            }
        }
    }
}

#[test]
fn the_same_run_gives_the_same_history_and_verdict() {
    for seed in 0..5 {
        let troubled = scenario("trouble", &Payout, trouble(seed));
        for algorithm in algorithms::ALL {
            if troubled
                .not_applicable(&algorithm.declares(), &Event)
                .is_none()
            {
                let (one, other) = (
                    play(*algorithm, &troubled, seed),
                    play(*algorithm, &troubled, seed),
                );
                assert!(one.history == other.history, "{} {seed}", one.algorithm);
                assert_eq!(one.verdict, other.verdict);
            }
        }
    }
}
