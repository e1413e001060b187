//! Small matrices and scenarios written by hand, for the tests of the formats.

use algorithms::Settings;
use scenarios::cost::Cost;
use scenarios::landmark::Landmark;
use scenarios::matrix::{Cell, CellViolation, Matrix, Rate, Seeds};
use scenarios::scenario::{FaultKind, FaultRange, Role, WhenRange};
use scenarios::work::{Counter, Payout, WorkKind};
use scenarios::{Run, Scenario};
use sim::fault::{Data, Point};
use sim::store::Comparator;

/// A scenario of which only name and title matter.
pub(crate) fn scenario() -> Scenario {
    gc_pause()
}

fn base(name: &str, title: &str, reaches: Option<Landmark>, faults: Vec<FaultRange>) -> Scenario {
    Scenario {
        name: name.into(),
        title: title.into(),
        story: String::new(),
        reaches,
        seeds: None,
        clients: 3,
        redis: None,
        persistence: sim::redis::Persistence::default(),
        latency: 1..=5,
        ends: 400_000,
        retry: 200..=600,
        redis_timeout: 1_000,
        store_timeout: 5_000,
        store: sim::store::Settings::default(),
        lock: Settings {
            ttl: 30_000,
            renew_every: None,
            server_timeout: None,
            comparator: Comparator::Strict,
        },
        work: &Payout as &dyn WorkKind,
        keys: 1,
        items: 3,
        takes: 5_000..=20_000,
        first_takes: None,
        limit: 0,
        faults,
        expect: Vec::new(),
    }
}

fn at(point: Point) -> WhenRange {
    WhenRange::Point {
        client: 1,
        point,
        nth: 1,
    }
}

/// Client-1 stops for longer than its lease, before its write.
pub(crate) fn gc_pause() -> Scenario {
    let kind = FaultKind::Pause {
        node: Role::Client(1),
        lasts: 31_000..=60_000,
    };
    let when = at(Point::BeforeWrite);
    base(
        "gc-pause",
        "The holder stops for longer than its lease",
        Some(Landmark::WokeAfterLease),
        vec![FaultRange { kind, when }],
    )
}

/// Client-1 dies after its read and never comes back.
pub(crate) fn crashed_holder() -> Scenario {
    let kind = FaultKind::Crash {
        node: Role::Client(1),
    };
    let when = at(Point::AfterRead);
    base(
        "crashed-holder",
        "The holder dies and never comes back",
        Some(Landmark::HolderDied),
        vec![FaultRange { kind, when }],
    )
}

/// Every lock server loses its data while client-1 holds.
pub(crate) fn redis_restart() -> Scenario {
    let kind = FaultKind::Restart {
        node: Role::Lock,
        after: 500..=2_000,
        data: Data::Lost,
    };
    let when = at(Point::AfterRead);
    base(
        "redis-restart",
        "The lock's servers come back empty",
        Some(Landmark::DataLostWhileHeld),
        vec![FaultRange { kind, when }],
    )
}

/// Something happens after client-1's first read.
pub(crate) fn after_read(kind: FaultKind) -> Scenario {
    let when = at(Point::AfterRead);
    let faults = vec![FaultRange { kind, when }];
    base("after-read", "Something happens", None, faults)
}

/// Many clients, one short section each.
pub(crate) fn herd() -> Scenario {
    let mut herd = base("herd", "Everybody at once", None, Vec::new());
    (herd.clients, herd.items, herd.takes, herd.work) = (200, 1, 5..=5, &Counter);
    herd
}

/// Nothing goes wrong.
pub(crate) fn calm() -> Scenario {
    base("calm", "Nothing goes wrong", None, Vec::new())
}

/// A built-in scenario.
pub(crate) fn built_in(name: &str) -> Scenario {
    let loaded = scenarios::builtin::get(name, &[]).expect("a known name");
    loaded.unwrap_or_else(|bad| panic!("{bad:?}"))
}

/// Plays a scenario.
pub(crate) fn run(algorithm: &str, scenario: &Scenario, seed: u64) -> Run {
    let found = algorithms::ALL.iter().find(|a| a.name() == algorithm);
    scenarios::run(*found.unwrap(), scenario, seed, &sim::engine::Event).unwrap()
}

/// The first run that breaches an invariant.
pub(crate) fn breach(algorithm: &str, scenario: &Scenario, invariant: &str) -> Run {
    (0..200)
        .map(|seed| run(algorithm, scenario, seed))
        .find(|run| run.verdict.has(invariant) && !run.verdict.vacuous)
        .unwrap()
}

/// A matrix with a cell of every sort.
pub(crate) fn matrix() -> Matrix {
    let violation = |invariant, hits, first_seed| CellViolation {
        invariant,
        rate: Rate { hits, of: 197 },
        first_seed,
    };
    let cell = |algorithm: &str| Cell {
        algorithm: algorithm.into(),
        scenario: "gc-pause".into(),
        not_applicable: None,
        seeds: 200,
        runs: 197,
        vacuous: 3,
        failed: 0,
        first_failure: None,
        stuck_not_judged: 0,
        stuck_for: None,
        never_struck: [(1, 197)].into(),
        violations: vec![
            violation("double-write", 0, None),
            violation("stuck", 0, None),
            violation("stale-write", 0, None),
        ],
        cost: Cost {
            commands: 1_000,
            peak_commands_per_second: 41,
            sections: 400,
            waits: [(1, 1), (12, 1), (30_110, 1)].into(),
            overtaken: 3,
            idle: 600,
            orphaned: 8_001,
        },
    };
    let mut naive = cell("naive");
    naive.violations[0] = violation("double-write", 71, Some(4));
    naive.violations[2] = violation("stale-write", 3, Some(12));
    let mut local = cell("local-mutex");
    local.not_applicable = Some("it lives on no server".into());
    let mut vacuous = cell("tokened");
    (vacuous.runs, vacuous.vacuous) = (0, 200);
    vacuous
        .violations
        .iter_mut()
        .for_each(|violation| violation.rate.of = 0);
    let mut failed = cell("redlock");
    (failed.failed, failed.stuck_not_judged) = (2, 5);
    failed.first_failure = Some((17, "index out of bounds".into()));
    Matrix {
        engine: "event",
        seeds: Seeds {
            from: 0,
            count: 200,
        },
        cells: vec![local, naive, vacuous, cell("setnx"), failed],
        stopped: false,
    }
}
