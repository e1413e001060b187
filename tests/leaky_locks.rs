//! Locks that act by something else than their seed are found out, and told where.
//!
//! Each is written as somebody would write it for production, with a reason for what it does.

#![expect(
    clippy::disallowed_macros,
    reason = "a leak: which branch `select!` polls first is drawn from a generator of tokio's own"
)]
#![allow(
    clippy::type_complexity,
    reason = "answers of the redis crate have long types"
)]

#[path = "../examples/own_lock.rs"]
#[allow(dead_code, reason = "`main` is for `cargo run`")]
mod own_lock;

use std::pin::pin;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use fencepost::algorithms::declare::{Holders, owner_by_majority, owner_of_key};
use fencepost::algorithms::{
    AcquireError, Algorithm, Assumption, Client, Declaration, Family, Lease, Lock, ReleaseError,
    Service, Worker, Works, standard,
};
use fencepost::scenarios::matrix::Seeds;
use fencepost::scenarios::verify;
use fencepost::sim::engine::{Engine, Event, Turmoil};
use fencepost::sim::trace::Traced;
use fencepost::{FirstDifference, Unverified};
use redis::{AsyncCommands, ExistenceCheck, RedisResult, SetExpiry, SetOptions};

/// One attempt to take a key on one server: whether it was free, if that is known.
async fn set(client: &Client, server: usize, key: &str, token: &str) -> Option<bool> {
    let options = SetOptions::default()
        .conditional_set(ExistenceCheck::NX)
        .with_expiration(SetExpiry::PX(client.ttl()));
    let mut redis = client.redis(server);
    let answer: RedisResult<Option<String>> = redis.set_options(key, token, options).await;
    answer.ok().map(|answer| answer.is_some())
}

/// Deletes a key on one server if it is still ours.
async fn delete(client: &Client, server: usize, lease: &Lease) -> Result<(), ReleaseError> {
    const COMPARE_AND_DELETE: &str = r#"
        if redis.call("GET", KEYS[1]) == ARGV[1] then
            return redis.call("DEL", KEYS[1])
        end
        return 0
    "#;
    let mut eval = redis::cmd("EVAL");
    let eval = eval.arg(COMPARE_AND_DELETE).arg(1);
    let eval = eval.arg(&lease.key).arg(&lease.token);
    match eval.query_async(&mut client.redis(server)).await {
        Ok(1) => Ok(()),
        Ok(_) => Err(ReleaseError::NotOwner),
        Err::<u64, _>(_) => Err(ReleaseError::Unknown),
    }
}

/// Asks both servers at once, and gives up as soon as one of them says no.
struct TwoServers {
    client: Client,
}

impl TwoServers {
    /// The leak: `select!` asks in a random order.
    async fn ask(&self, key: &str, token: &str) -> Result<(), AcquireError> {
        let mut first = pin!(set(&self.client, 0, key, token));
        let mut second = pin!(set(&self.client, 1, key, token));
        let (mut first_waits, mut second_waits) = (true, true);
        let mut unknown = false;
        while first_waits || second_waits {
            let answer = tokio::select! {
                answer = &mut first, if first_waits => {
                    first_waits = false;
                    answer
                }
                answer = &mut second, if second_waits => {
                    second_waits = false;
                    answer
                }
            };
            match answer {
                Some(true) => {}
                Some(false) => return Err(AcquireError::Held),
                None => unknown = true,
            }
        }
        if unknown {
            return Err(AcquireError::Unknown);
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Lock for TwoServers {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let asked = self.ask(key, &token).await;
        let lease = Lease::plain(key, token);
        match asked {
            Ok(()) => Ok(lease),
            Err(why) => {
                let _ = self.release(&lease).await;
                Err(why)
            }
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let there = delete(&self.client, 0, lease).await;
        there.and(delete(&self.client, 1, lease).await)
    }
}

/// Keeps its servers by name, as its configuration does, and asks one after the other.
#[expect(
    clippy::disallowed_types,
    reason = "the leak: a map's order is another one in every map"
)]
struct ByName {
    client: Client,
    servers: std::collections::HashMap<String, usize>,
}

#[async_trait(?Send)]
impl Lock for ByName {
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let token = self.client.token();
        let mut granted = 0;
        for &server in self.servers.values() {
            granted += usize::from(set(&self.client, server, key, &token).await == Some(true));
        }
        if granted > self.servers.len() / 2 {
            return Ok(Lease::plain(key, token));
        }
        let lease = Lease::plain(key, token);
        let _ = self.release(&lease).await;
        Err(AcquireError::Unknown)
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        let mut released = 0;
        for &server in self.servers.values() {
            released += usize::from(delete(&self.client, server, lease).await.is_ok());
        }
        match released > self.servers.len() / 2 {
            true => Ok(()),
            false => Err(ReleaseError::Unknown),
        }
    }
}

/// Its token is the time, which never comes twice.
struct TimeAsToken {
    client: Client,
}

#[async_trait(?Send)]
impl Lock for TimeAsToken {
    #[expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "the leak: the machine's clock"
    )]
    async fn acquire(&mut self, key: &str) -> Result<Lease, AcquireError> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = since.expect("it is later than 1970").as_nanos();
        let token = format!("{}@{nanos}", self.client.node());
        match set(&self.client, 0, key, &token).await {
            Some(true) => Ok(Lease::plain(key, token)),
            Some(false) => Err(AcquireError::Held),
            None => Err(AcquireError::Unknown),
        }
    }

    async fn release(&mut self, lease: &Lease) -> Result<(), ReleaseError> {
        delete(&self.client, 0, lease).await
    }
}

/// A leaky lock and what the testbed must know of it.
struct Leaky {
    name: &'static str,
    service: Service,
    holders: Holders,
    start: fn(Client) -> Box<dyn Worker>,
}

impl Algorithm for Leaky {
    fn name(&self) -> &'static str {
        self.name
    }

    fn declares(&self) -> Declaration {
        Declaration {
            summary: "a lock that acts by something else than its seed",
            source: "this file",
            family: Family::Tokened,
            service: self.service,
            points: &[],
            ordered: false,
            works: Works::Any,
            assumes: &[Assumption::SectionWithinLease],
            holders: Some(self.holders),
        }
    }

    fn start(&self, client: Client) -> Box<dyn Worker> {
        (self.start)(client)
    }
}

const TWO_SERVERS: Leaky = Leaky {
    name: "two-servers",
    service: Service::Independent(2),
    holders: owner_by_majority,
    start: |client| standard(client.clone(), TwoServers { client }),
};

const BY_NAME: Leaky = Leaky {
    name: "by-name",
    service: Service::Independent(5),
    holders: owner_by_majority,
    start: |client| {
        let servers = (0..5).map(|server| (format!("redis-{server}.internal"), server));
        let servers = servers.collect();
        standard(client.clone(), ByName { client, servers })
    },
};

const TIME_AS_TOKEN: Leaky = Leaky {
    name: "time-as-token",
    service: Service::Redis,
    holders: owner_of_key,
    start: |client| standard(client.clone(), TimeAsToken { client }),
};

const SEEDS: std::ops::Range<u64> = 0..6;

/// Verifies a lock under a few seeds: the first event that differs, for each seed that does.
fn differences(algorithm: &dyn Algorithm, scenario: &str) -> Vec<FirstDifference> {
    differences_on(&Event, SEEDS, algorithm, scenario)
}

fn differences_on(
    engine: &dyn Engine,
    seeds: std::ops::Range<u64>,
    algorithm: &dyn Algorithm,
    scenario: &str,
) -> Vec<FirstDifference> {
    let scenario = fencepost::scenario(scenario).expect("it is built in");
    let verified = seeds.map(|seed| verify(algorithm, &scenario, seed, engine));
    let differing = verified.filter_map(|verified| match verified {
        Ok(_) => None,
        Err(Unverified::Differs(first)) => Some(*first),
        Err(Unverified::Failed(failed)) => panic!("{}: {failed}", algorithm.name()),
    });
    differing.collect()
}

/// What the two plays did where they first differed. A client did it, by sending something.
fn sent(first: &FirstDifference) -> [&str; 2] {
    let text = |traced: &Option<Traced>| {
        let traced = traced.as_ref().unwrap_or_else(|| panic!("{first}"));
        assert_eq!(traced.kind, "sent", "{first}");
        assert!(traced.node.is_some_and(|node| node.is_client()), "{first}");
    };
    text(&first.one);
    text(&first.other);
    [&first.one, &first.other].map(|traced| traced.as_ref().map_or("", |it| it.text.as_str()))
}

#[test]
fn an_unbiased_select_is_found_out_where_a_client_asks_the_other_server_first() {
    for scenario in ["calm", "gc-pause"] {
        let found = differences(&TWO_SERVERS, scenario);
        assert!(!found.is_empty(), "{scenario}");
        for first in &found {
            let [one, other] = sent(first);
            let servers = [one, other].map(|text| text.split(':').next());
            assert_ne!(servers[0], servers[1], "{first}");
            assert!(servers.contains(&Some("to lock-1")), "{first}");
        }
    }
}

#[test]
fn the_order_of_a_hash_map_is_found_out_where_a_client_asks_another_server() {
    for scenario in ["calm", "gc-pause"] {
        let found = differences(&BY_NAME, scenario);
        assert_eq!(found.len(), SEEDS.count(), "{scenario}");
        for first in &found {
            let [one, other] = sent(first);
            assert!(
                one.starts_with("to lock-") && other.starts_with("to lock-"),
                "{first}"
            );
            assert_ne!(one.split(':').next(), other.split(':').next(), "{first}");
        }
    }
}

#[test]
fn the_machines_clock_is_found_out_where_a_client_sends_it() {
    for scenario in ["calm", "gc-pause"] {
        let found = differences(&TIME_AS_TOKEN, scenario);
        assert_eq!(found.len(), SEEDS.count(), "{scenario}");
        for first in &found {
            for text in sent(first) {
                assert!(text.starts_with("to lock-1: "), "{first}");
                assert!(
                    text.contains("SET $6 lock:1 ") && text.contains("client-1@"),
                    "{first}"
                );
            }
            assert!(
                first.to_string().contains(" s, client-1: sent to lock-1: "),
                "{first}"
            );
        }
    }
}

#[test]
fn leaks_are_found_out_on_turmoil_too() {
    for leaky in [TIME_AS_TOKEN, BY_NAME] {
        let found = differences_on(&Turmoil, 0..1, &leaky, "calm");
        assert_eq!(found.len(), 1, "{}", leaky.name);
        let [one, other] = sent(&found[0]);
        assert!(one.starts_with("to lock-") && other.starts_with("to lock-"));
    }
    let honest = differences_on(&Turmoil, 0..1, &own_lock::OwnLock, "calm");
    assert_eq!(honest, []);
}

#[test]
fn a_lock_that_acts_by_its_client_alone_is_verified() {
    for scenario in ["calm", "gc-pause", "redis-restart"] {
        assert_eq!(differences(&own_lock::OwnLock, scenario), [], "{scenario}");
    }
}

#[test]
fn a_verified_run_is_the_run_that_anybody_gets() {
    let scenario = fencepost::scenario("gc-pause").expect("it is built in");
    let verified = fencepost::verify(&own_lock::OwnLock, &scenario, 1).expect("it is honest");
    let run = fencepost::run(&own_lock::OwnLock, &scenario, 1).expect("the testbed does not fail");
    assert_eq!(verified.run.history, run.history);
    assert_eq!(verified.fingerprint(), run.history.fingerprint);
    assert!(verified.events() > run.history.events.len() as u64);
}

#[test]
fn a_matrix_names_the_cells_and_seeds_that_differ() {
    let scenarios = ["calm", "gc-pause"].map(|name| fencepost::scenario(name).expect("built in"));
    let algorithms: [&dyn Algorithm; 2] = [&own_lock::OwnLock, &BY_NAME];
    let never = AtomicBool::new(false);
    let seeds = Seeds { from: 0, count: 3 };
    let (matrix, verification) =
        verify::play(&algorithms, &scenarios, seeds, &Event, &|| {}, &never);
    assert_eq!(matrix.cells.len(), 4);
    assert_eq!(verification.verified, 6);
    let differing: Vec<_> = verification
        .differing
        .iter()
        .map(|run| (run.algorithm.as_str(), run.scenario.as_str(), run.seed))
        .collect();
    let expected: Vec<_> = ["calm", "gc-pause"]
        .iter()
        .flat_map(|scenario| (0..3).map(move |seed| ("by-name", *scenario, seed)))
        .collect();
    assert_eq!(differing, expected);
    for run in &verification.differing {
        sent(
            run.first
                .as_ref()
                .expect("it differs whenever it is looked at"),
        );
    }
}
