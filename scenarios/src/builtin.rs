//! The scenarios that come with fencepost: the TOML files beside this crate's `src`.

use crate::load::{BadScenario, load};
use crate::scenario::Scenario;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../", $name, ".toml")))),*]
    };
}

/// The built-in scenarios: name and file, in the order of reports.
pub const FILES: &[(&str, &str)] = files![
    "calm",
    "short-lease",
    "slow-work",
    "failed-renewal",
    "gc-pause",
    "vm-suspend",
    "pause-after-check",
    "paused-reader",
    "suspended-holder",
    "delayed-write",
    "crashed-holder",
    "dead-thread",
    "crash-between",
    "stale-now",
    "cut-off-holder",
    "server-clock-step",
    "server-clock-back",
    "refused-acquire",
    "lost-acquire-reply",
    "interrupted-acquire",
    "late-acquire-replies",
    "barely-late-replies",
    "reset-release",
    "replayed-release",
    "redis-restart",
    "redlock-clock-step",
    "redlock-three-clock-steps",
    "redlock-restart",
    "redlock-three-restarts",
    "redlock-delayed-restart",
    "missed-wake-up",
    "fair-clock-skew",
    "skewed-clients",
    "dead-fair-waiter",
    "reader-starves-writer",
    "leader-change",
    "power-loss-everysec",
    "power-loss-always",
    "failover-before-replication",
    "failover-to-acked-replica",
    "failover-to-stale-replica",
    "isolated-master",
    "counter-rollback",
    "seckill-rush",
    "idle-in-pool",
    "worker-dies-mid-job",
    "limiter-restart",
    "herd",
    "herd-fine-grained",
];

/// A built-in scenario by its name, with some of its values changed; nothing if there is none
/// of that name.
pub fn get(
    name: &str,
    overrides: &[(String, String)],
) -> Option<Result<Scenario, Box<BadScenario>>> {
    let (name, text) = FILES.iter().find(|(known, _)| *known == name)?;
    Some(load(&format!("{name}.toml"), text, overrides))
}

/// Every built-in scenario.
pub fn all() -> Vec<Scenario> {
    let load = |(name, text): &(&str, &str)| {
        load(&format!("{name}.toml"), text, &[])
            .unwrap_or_else(|error| panic!("built-in scenario {name}: {error:?}"))
    };
    FILES.iter().map(load).collect()
}
