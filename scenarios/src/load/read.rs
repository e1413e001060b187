//! From a file's values to a scenario, with an error that points at the value for whatever
//! cannot be one.

use std::ops::{Range, RangeInclusive};

use algorithms::{Family, Settings};
use miette::NamedSource;
use sim::Millis;
use sim::clock::RATES;
use sim::fault::{Data, KINDS, Point};
use sim::redis::Persistence;
use sim::store::{self, Comparator};
use toml::Spanned;

use super::faults::help;
use super::file::{
    Expect, FaultEntry, File, Numbers, SECTIONS, Store, Text, Work, bare_fields, example_of,
};
use super::{BadScenario, nearest};
use crate::invariants;
use crate::landmark::Landmark;
use crate::matrix::FEW_RUNS;
use crate::scenario::{Expectation, FaultKind, FaultRange, RedisShape, Role, Scenario, WhenRange};
use crate::work::{self, WorkKind};

/// Where the errors of one file come from.
pub(super) struct Reader<'a> {
    pub(super) file_name: &'a str,
    pub(super) text: &'a str,
}

pub(super) type Read<T> = Result<T, Box<BadScenario>>;

impl Reader<'_> {
    pub(super) fn error(
        &self,
        at: Range<usize>,
        what: impl Into<String>,
        label: &str,
    ) -> Box<BadScenario> {
        Box::new(BadScenario {
            what: what.into(),
            file: NamedSource::new(self.file_name, self.text.to_owned()).with_language("toml"),
            at: (at.start, at.len()).into(),
            label: label.to_owned(),
            help: None,
        })
    }

    pub(super) fn of_toml(&self, error: &toml::de::Error) -> Box<BadScenario> {
        let at = error.span().unwrap_or(0..0);
        let message = error.message();
        let mut bad = self.error(at.clone(), message, "here");
        let section = self.section(at.start);
        let named = message.split('`').nth(1).unwrap_or_default();
        bad.help = if message.starts_with("unknown field") {
            // serde lists what it knows after "expected one of"; name the nearest.
            let known = message.split('`').skip(3).step_by(2);
            let elsewhere = || {
                let (section, field) = bare_fields().find(|(_, field)| *field == named)?;
                Some(match section {
                    "" => format!("`{field}` stands above every [section]"),
                    _ => format!("`{field}` belongs into [{section}]"),
                })
            };
            let near = nearest(named, known).map(|near| format!("did you mean `{near}`?"));
            elsewhere().or(near)
        } else if message.starts_with("missing field") {
            bad.label = format!("`{named}` is missing");
            let in_fault = section == "fault"; // a `when` has a `client`, too
            if SECTIONS.contains(&named) && !in_fault {
                Some(format!("add the section [{named}]"))
            } else {
                example_of(section, named).map(|example| format!("add it, as in: {example}"))
            }
        } else if message.starts_with("invalid") {
            let line = self.text.get(..at.start).unwrap_or_default().trim_end();
            let key = line.strip_suffix('=').unwrap_or_default().trim_end();
            let key = key
                .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .next();
            key.and_then(|key| match key {
                "fault" => Some("every fault is a section of its own: [[fault]]".into()),
                _ if SECTIONS.contains(&key) && section != "fault" => {
                    Some(format!("it is a section: [{key}]"))
                }
                _ => example_of(section, key).map(|example| format!("write it as in: {example}")),
            })
        } else {
            None
        };
        bad
    }

    /// The section that a place lies in, as far as its headers tell.
    fn section(&self, at: usize) -> &str {
        let before = self.text.get(..at).unwrap_or_default().len();
        let line_end = self.text[before..]
            .find('\n')
            .map_or(self.text.len(), |end| before + end);
        let lines = self.text[..line_end].lines().rev();
        let header = lines.map(str::trim).find(|line| line.starts_with('['));
        let name = header.unwrap_or_default().trim_start_matches('[');
        name.split(['.', ']']).next().unwrap_or_default().trim()
    }

    /// One of some names, or an error that lists them and suggests the nearest.
    pub(super) fn one_of<'n, T>(
        &self,
        what: &str,
        name: &Text,
        all: impl Iterator<Item = (&'n str, T)>,
    ) -> Read<T> {
        let (names, values): (Vec<_>, Vec<T>) = all.unzip();
        let wrong = name.get_ref();
        if let Some(place) = names.iter().position(|known| known == wrong) {
            return Ok(values.into_iter().nth(place).expect("as many as names"));
        }
        let mut bad = self.error(
            name.span(),
            format!("there is no {what} `{wrong}`"),
            "unknown",
        );
        let suggestion = nearest(wrong, names.iter().copied());
        let listed = format!("one of: {}", names.join(", "));
        bad.help = Some(match suggestion {
            Some(near) => format!("did you mean `{near}`? It must be {listed}"),
            None => format!("it must be {listed}"),
        });
        Err(bad)
    }

    pub(super) fn length(&self, text: &Text) -> Read<Millis> {
        millis(text.get_ref()).ok_or_else(|| {
            let what = format!("`{}` is not a length of time", text.get_ref());
            let mut bad = self.error(text.span(), what, "not a length of time");
            bad.help =
                Some("write it in whole milliseconds or more: \"30s\", \"1500ms\", \"2m\"".into());
            bad
        })
    }

    /// A time after which something happens, which cannot be at once.
    pub(super) fn some_length(&self, text: &Text) -> Read<Millis> {
        let length = self.length(text)?;
        if length == 0 {
            let mut bad = self.error(text.span(), "a time-out of no time", "must be longer");
            bad.help = Some("leave it out for what is usual".into());
            return Err(bad);
        }
        Ok(length)
    }

    fn lengths(&self, text: &Text) -> Read<RangeInclusive<Millis>> {
        let range = self.signed(text)?;
        let (low, high) = (*range.start(), *range.end());
        match (u64::try_from(low), u64::try_from(high)) {
            (Ok(low), Ok(high)) => Ok(low..=high),
            _ => Err(self.error(
                text.span(),
                "a length of time cannot be negative",
                "negative",
            )),
        }
    }

    fn signed(&self, text: &Text) -> Read<RangeInclusive<i64>> {
        let written = text.get_ref();
        let (low, high) = written.split_once("..").unwrap_or((written, written));
        let side = |side: &str| {
            let side = side.trim();
            match side.strip_prefix('-') {
                Some(back) => millis(back).map(|length| -(length as i64)),
                None => millis(side).map(|length| length as i64),
            }
        };
        let help = "write one length of time, \"30s\", or a range with the smaller side first, \"1ms..5ms\"";
        match (side(low), side(high)) {
            (Some(low), Some(high)) if low <= high => Ok(low..=high),
            (Some(_), Some(_)) => {
                let mut bad = self.error(
                    text.span(),
                    format!("the range `{written}` is empty"),
                    "the first side is the larger one",
                );
                bad.help = Some(help.into());
                Err(bad)
            }
            _ => {
                let what = format!("`{written}` is not a range of times");
                let mut bad = self.error(text.span(), what, "not a range of times");
                bad.help = Some(help.into());
                Err(bad)
            }
        }
    }

    /// A number or a range of numbers, all of them in `allowed`. `what` they are is a plural.
    fn numbers(
        &self,
        numbers: &Spanned<Numbers>,
        what: &str,
        allowed: &RangeInclusive<i64>,
    ) -> Read<RangeInclusive<i64>> {
        let Numbers(written) = numbers.get_ref();
        let (low, high) = written.split_once("..").unwrap_or((written, written));
        let (first, last) = (allowed.start(), allowed.end());
        let refuse = |problem: String, label: &str| {
            let mut bad = self.error(numbers.span(), problem, label);
            bad.help = Some(format!(
                "write one whole number, or a range of them with the smaller side first, between \
                 {first} and {last}"
            ));
            Err(bad)
        };
        let side = |side: &str| side.trim().parse::<i64>().ok();
        match (side(low), side(high)) {
            (Some(low), Some(high)) if low > high => refuse(
                format!("the range `{written}` is empty"),
                "the first side is the larger one",
            ),
            (Some(low), Some(high)) if allowed.contains(&low) && allowed.contains(&high) => {
                Ok(low..=high)
            }
            (Some(_), Some(_)) => refuse(
                format!("{what} must be between {first} and {last}"),
                "out of range",
            ),
            _ => refuse(
                format!("`{written}` is not a range of whole numbers"),
                "not a range of numbers",
            ),
        }
    }

    pub(super) fn at_least_one(&self, number: &Spanned<u16>, what: &str) -> Read<u16> {
        let value = *number.get_ref();
        if value == 0 {
            return Err(self.error(
                number.span(),
                format!("{what} must be at least 1"),
                "too few",
            ));
        }
        Ok(value)
    }

    pub(super) fn scenario(&self, file: File) -> Read<Scenario> {
        let name = file.name.get_ref().clone();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            let mut bad = self.error(file.name.span(), "this is no name for a scenario", "here");
            bad.help = Some("use small letters, digits and hyphens, as in `gc-pause`".into());
            return Err(bad);
        }
        if let Some(seeds) = file.seeds.as_ref().filter(|seeds| *seeds.get_ref() == 0) {
            let mut bad = self.error(seeds.span(), "a scenario of no seeds is never run", "none");
            bad.help = Some("leave it out to run as many as are asked for".into());
            return Err(bad);
        }
        let marks = Landmark::ALL.iter().map(|mark| (mark.name(), *mark));
        let reaches = file
            .reaches
            .as_ref()
            .map(|mark| self.one_of("landmark", mark, marks))
            .transpose()?;
        let kinds = work::ALL.iter().map(|kind| (kind.name(), *kind));
        let work: &dyn WorkKind = self.one_of("kind of work", &file.work.kind, kinds)?;
        let clients = self.at_least_one(&file.world.clients, "clients")?;
        let least = work.least_clients();
        if clients < least {
            let what = format!(
                "the work `{}` needs {least} clients: {}",
                work.name(),
                work.summary()
            );
            return Err(self.error(file.world.clients.span(), what, "too few"));
        }
        if clients > MOST_CLIENTS {
            let what = format!("more than {MOST_CLIENTS} clients take longer than anybody waits");
            return Err(self.error(file.world.clients.span(), what, "too many"));
        }
        let (redis, persistence) = match &file.world.redis {
            Some(redis) => self.redis(redis)?,
            None => (None, Persistence::default()),
        };
        let latency = self.lengths(&file.world.latency)?;
        let patient = |timeout: &Text| {
            let length = self.length(timeout)?;
            let ways = ONE_WAYS
                + match redis {
                    Some(RedisShape::Replicated { sentinels, .. }) if sentinels.number > 0 => 8,
                    Some(RedisShape::Replicated { .. }) => 2,
                    _ => 0,
                };
            let needs = *latency.end() * ways;
            if length <= needs {
                let what = "no answer can come within this time-out";
                let mut bad = self.error(timeout.span(), what, "too short");
                bad.help = Some(format!(
                    "connecting and one request take {ways} times the latency: \
                     it must be more than {needs} ms"
                ));
                return Err(bad);
            }
            Ok(length)
        };
        let optional =
            |text: &Option<Text>| text.as_ref().map(|text| self.length(text)).transpose();
        let comparators = [
            ("strict", Comparator::Strict),
            ("at-least", Comparator::AtLeast),
        ];
        let comparator = match &file.lock.comparator {
            Some(text) => self.one_of("comparator", text, comparators.into_iter())?,
            None => Comparator::Strict,
        };
        let ttl = self.length(&file.lock.ttl)?;
        if ttl == 0 {
            return Err(self.error(file.lock.ttl.span(), "a lease of no time is none", "here"));
        }
        let lock = Settings {
            ttl,
            renew_every: optional(&file.lock.renew_every)?,
            server_timeout: optional(&file.lock.server_timeout)?,
            comparator,
        };
        if lock.renew_every == Some(0) {
            let at = file.lock.renew_every.as_ref().map_or(0..0, Spanned::span);
            return Err(self.error(at, "a lock cannot be refreshed all the time", "too often"));
        }
        let faults = file.fault.iter().map(|fault| self.fault(fault, clients));
        let scenario = Scenario {
            name,
            title: printable(&file.title),
            story: printable(file.story.trim()),
            reaches,
            seeds: file.seeds.as_ref().map(|seeds| *seeds.get_ref()),
            clients,
            redis,
            persistence,
            latency: latency.clone(),
            ends: self.length(&file.world.ends)?,
            retry: self.lengths(&file.client.retry)?,
            redis_timeout: patient(&file.client.redis_timeout)?,
            store_timeout: patient(&file.client.store_timeout)?,
            lock,
            work,
            store: self.store(file.world.store.as_ref())?,
            limit: self.limit(&file.work, work)?,
            keys: self.at_least_one(&file.work.keys, "keys")?,
            items: self.at_least_one(&file.work.items, "items")?,
            takes: self.lengths(&file.work.takes)?,
            first_takes: match &file.work.first_takes {
                Some(text) => Some(self.lengths(text)?),
                None => None,
            },
            faults: faults.collect::<Read<_>>()?,
            expect: Vec::new(),
        };
        self.check_redis(&scenario, &file.fault)?;
        self.check_end(&scenario, &file.world.ends, &file.fault)?;
        let capped = scenario.seeds.is_some_and(|seeds| seeds < FEW_RUNS);
        let expect = file
            .expect
            .iter()
            .map(|(of, entry)| self.expectation(of, entry, work, capped));
        Ok(Scenario {
            expect: expect.collect::<Read<_>>()?,
            ..scenario
        })
    }

    /// What a file does not say of the store is as it comes from its makers.
    fn store(&self, file: Option<&Store>) -> Read<store::Settings> {
        let usual = store::Settings::default();
        let Some(file) = file else {
            return Ok(usual);
        };
        let length = |text: &Option<Text>| match text {
            Some(text) => self.some_length(text).map(Some),
            None => Ok(None),
        };
        Ok(store::Settings {
            idle_timeout: length(&file.idle_timeout)?,
            keepalive: length(&file.keepalive)?.unwrap_or(usual.keepalive),
            pool: match &file.pool {
                Some(pool) => usize::from(self.at_least_one(pool, "sessions of the pooler")?),
                None => usual.pool,
            },
            ..usual
        })
    }

    /// How often the work may be done, if it is of a kind that wants to know.
    fn limit(&self, file: &Work, work: &dyn WorkKind) -> Read<i64> {
        match (&file.limit, work.is_limited()) {
            (Some(limit), true) => self.at_least_one(limit, "a limit").map(i64::from),
            (None, false) => Ok(0),
            (Some(limit), false) => {
                let what = format!("the work `{}` has no limit", work.name());
                Err(self.error(limit.span(), what, "not for this kind"))
            }
            (None, true) => {
                let what = format!("the work `{}` needs `limit`", work.name());
                let mut bad = self.error(file.kind.span(), what, "of this work");
                bad.help = example_of("work", "limit").map(|line| format!("add it, as in: {line}"));
                Err(bad)
            }
        }
    }

    /// After every fault there must be time to see whether the lock comes free again.
    fn check_end(
        &self,
        scenario: &Scenario,
        ends: &Text,
        files: &[Spanned<FaultEntry>],
    ) -> Read<()> {
        for (fault, file) in scenario.faults.iter().zip(files) {
            let strikes = match &fault.when {
                WhenRange::At(at) => *at.end(),
                WhenRange::Point { .. } => {
                    let first = scenario
                        .first_takes
                        .as_ref()
                        .map_or(0, |takes| *takes.end());
                    first.max(*scenario.takes.end())
                }
            };
            let patience = scenario.lock.ttl + invariants::PATIENCE;
            let longest = fault.kind.longest(scenario.lock.ttl);
            let needs = strikes + longest + patience;
            if scenario.ends < needs {
                let kind = file.get_ref().kind.get_ref();
                let what = format!(
                    "the run ends before anybody can tell whether the {kind} leaves the lock stuck"
                );
                let mut bad = self.error(ends.span(), what, "too early");
                bad.help = Some(format!(
                    "it must be \"{}s\" or later: the {kind} can strike at {} s, last or step {} s, \
                     and a ttl and 5 s more must pass",
                    needs.div_ceil(1_000),
                    strikes as f64 / 1_000.0,
                    longest as f64 / 1_000.0,
                ));
                return Err(bad);
            }
        }
        Ok(())
    }

    fn role(&self, role: &Text, clients: u16) -> Read<Role> {
        let number = |prefix: &str| {
            let digits = role.get_ref().strip_prefix(prefix)?;
            let plain = !digits.starts_with(['0', '+']);
            digits.parse::<u16>().ok().filter(|_| plain)
        };
        let found = match role.get_ref().as_str() {
            "lock" => Some(Role::Lock),
            "sentinels" => Some(Role::Sentinels),
            "store" => Some(Role::Store),
            _ => number("client-")
                .filter(|number| (1..=clients).contains(number))
                .map(Role::Client)
                .or_else(|| number("lock-").filter(|n| *n > 0).map(Role::LockServer))
                .or_else(|| number("sentinel-").filter(|n| *n > 0).map(Role::Sentinel)),
        };
        found.ok_or_else(|| {
            let what = format!("there is no node `{}`", role.get_ref());
            let mut bad = self.error(role.span(), what, "no such node");
            bad.help = Some(format!(
                "it must be client-1 to client-{clients}, `lock` for every server that the lock \
                 lives on, lock-1, lock-2, ... for one of them, `sentinels` or sentinel-1, \
                 sentinel-2, ... where there are some, or `store`"
            ));
            bad
        })
    }

    /// The two sides of a link.
    fn sides(&self, a: &Text, b: &Text, clients: u16) -> Read<(Role, Role)> {
        let sides = (self.role(a, clients)?, self.role(b, clients)?);
        if sides.0 == sides.1 {
            let what = format!("no link leads from {} to itself", b.get_ref());
            let mut bad = self.error(b.span(), what, "the same node");
            bad.help = Some("name two nodes, as in \"client-1\" and \"lock\"".into());
            return Err(bad);
        }
        Ok(sides)
    }

    fn fault(&self, entry: &Spanned<FaultEntry>, clients: u16) -> Read<FaultRange> {
        let fault = entry.get_ref();
        let kinds = KINDS.iter().map(|&name| (name, name));
        let kind = self.one_of("kind of fault", &fault.kind, kinds)?;
        self.check_fields(fault, kind)?;
        let needs = |name: &str| {
            let mut bad = self.error(
                fault.kind.span(),
                format!("{} {kind} needs `{name}`", article(kind)),
                "of this fault",
            );
            bad.help = Some(help(kind).advice());
            bad
        };
        let role = |text: &Option<Text>, name: &str| match text {
            Some(text) => self.role(text, clients),
            None => Err(needs(name)),
        };
        let lengths = |text: &Option<Text>, name: &str| match text {
            Some(text) => self.lengths(text),
            None => Err(needs(name)),
        };
        let between = || {
            let sides = fault.between.as_ref().ok_or_else(|| needs("between"))?;
            let [a, b] = sides.get_ref().as_slice() else {
                let mut bad = self.error(sides.span(), "a link has two sides", "not two");
                bad.help = Some(help(kind).advice());
                return Err(bad);
            };
            self.sides(a, b, clients)
        };
        let server = || {
            let text = fault.node.as_ref().ok_or_else(|| needs("node"))?;
            let node = self.role(text, clients)?;
            if matches!(node, Role::Lock | Role::LockServer(_)) {
                return Ok(node);
            }
            let what = format!("{} is no Redis server and has no keys", text.get_ref());
            let mut bad = self.error(text.span(), what, "not a Redis server");
            bad.help = Some("it must be `lock`, or lock-1, lock-2, ... for one of them".into());
            Err(bad)
        };
        let one_way = || {
            let from = fault.from.as_ref().ok_or_else(|| needs("from"))?;
            let to = fault.to.as_ref().ok_or_else(|| needs("to"))?;
            self.sides(from, to, clients)
        };
        let kind = match kind {
            "pause" => FaultKind::Pause {
                node: role(&fault.node, "node")?,
                lasts: lengths(&fault.lasts, "lasts")?,
            },
            "suspend" => FaultKind::Suspend {
                node: role(&fault.node, "node")?,
                lasts: lengths(&fault.lasts, "lasts")?,
            },
            "crash" => FaultKind::Crash {
                node: role(&fault.node, "node")?,
            },
            "thread-death" => FaultKind::ThreadDeath {
                node: self.client_with_a_thread(fault, || needs("node"), clients)?,
            },
            "power-loss" => FaultKind::PowerLoss {
                node: role(&fault.node, "node")?,
            },
            "restart" => FaultKind::Restart {
                node: role(&fault.node, "node")?,
                after: lengths(&fault.after, "after")?,
                data: self.one_of(
                    "way of treating data",
                    fault.data.as_ref().ok_or_else(|| needs("data"))?,
                    [
                        ("kept", Data::Kept),
                        ("lost", Data::Lost),
                        ("on-disk", Data::OnDisk),
                    ]
                    .into_iter(),
                )?,
            },
            "hold" => FaultKind::Hold {
                between: between()?,
                lasts: lengths(&fault.lasts, "lasts")?,
            },
            "reset" => FaultKind::Reset {
                between: between()?,
            },
            "refuse" => {
                let (from, to) = one_way()?;
                let lasts = lengths(&fault.lasts, "lasts")?;
                FaultKind::Refuse { from, to, lasts }
            }
            "one-way" => {
                let (from, to) = one_way()?;
                let lasts = lengths(&fault.lasts, "lasts")?;
                FaultKind::OneWay { from, to, lasts }
            }
            "slow" => {
                let by = lengths(&fault.by, "by")?;
                if *by.end() == 0 {
                    let at = fault.by.as_ref().map_or(0..0, Spanned::span);
                    let what = "a network that is slower by nothing is not slow";
                    return Err(self.error(at, what, "here"));
                }
                FaultKind::Slow {
                    between: between()?,
                    by,
                    lasts: lengths(&fault.lasts, "lasts")?,
                }
            }
            "loss" => {
                let percent = fault.percent.as_ref().ok_or_else(|| needs("percent"))?;
                let percent = self.numbers(percent, "per cent", &(1..=100))?;
                FaultKind::Loss {
                    between: between()?,
                    percent: percent.start().unsigned_abs()..=percent.end().unsigned_abs(),
                    lasts: lengths(&fault.lasts, "lasts")?,
                }
            }
            "drop-replies" => {
                let (from, to) = one_way()?;
                if let (Role::Client(_), Some(text)) = (from, &fault.from) {
                    let what = "a client answers nothing";
                    let mut bad = self.error(text.span(), what, "whose answers are lost");
                    bad.help = Some(help(kind).advice());
                    return Err(bad);
                }
                FaultKind::DropReplies {
                    to,
                    from,
                    lasts: lengths(&fault.lasts, "lasts")?,
                }
            }
            "failover" => FaultKind::Failover { node: server()? },
            "replica-lag" => FaultKind::ReplicaLag {
                node: server()?,
                lasts: lengths(&fault.lasts, "lasts")?,
            },
            "flush" => FaultKind::Flush { node: server()? },
            "evict" => FaultKind::Evict { node: server()? },
            "clock-step" => FaultKind::ClockStep {
                node: role(&fault.node, "node")?,
                by: self.signed(fault.by.as_ref().ok_or_else(|| needs("by"))?)?,
            },
            "clock-rate" => {
                let ppm = fault.ppm.as_ref().ok_or_else(|| needs("ppm"))?;
                FaultKind::ClockRate {
                    node: role(&fault.node, "node")?,
                    ppm: self.numbers(ppm, "parts per million", &RATES)?,
                }
            }
            "clock-offset" => FaultKind::ClockOffset {
                node: role(&fault.node, "node")?,
                by: self.signed(fault.by.as_ref().ok_or_else(|| needs("by"))?)?,
            },
            other => unreachable!("{other} is listed as a kind of fault"),
        };
        let when = match kind {
            FaultKind::ClockOffset { .. } => self.at_the_start(fault)?,
            _ => self.when(fault, clients)?,
        };
        Ok(FaultRange { kind, when })
    }

    /// Servers are known from outside alone: what runs in them has no threads here.
    fn client_with_a_thread(
        &self,
        fault: &FaultEntry,
        missing: impl FnOnce() -> Box<BadScenario>,
        clients: u16,
    ) -> Read<Role> {
        let text = fault.node.as_ref().ok_or_else(missing)?;
        let node = self.role(text, clients)?;
        if matches!(node, Role::Client(_)) {
            return Ok(node);
        }
        let what = format!(
            "{} is no client and has no thread that works",
            text.get_ref()
        );
        let mut bad = self.error(text.span(), what, "not a client");
        bad.help = Some("it must be client-1, client-2, ...; a server has crashes".into());
        Err(bad)
    }

    /// A clock that is wrong from the start has no moment of its own.
    fn at_the_start(&self, fault: &FaultEntry) -> Read<WhenRange> {
        let at = fault.at.as_ref().map(|at| ("at", at.span()));
        let when = fault.when.as_ref().map(|when| ("when", when.span()));
        let Some((name, span)) = at.or(when) else {
            return Ok(WhenRange::At(0..=0));
        };
        let what = format!("a clock-offset is there from the start and has no `{name}`");
        let mut bad = self.error(span, what, "not for this kind");
        bad.help = Some("leave it out; a clock that jumps later is a clock-step".into());
        Err(bad)
    }

    fn when(&self, fault: &FaultEntry, clients: u16) -> Read<WhenRange> {
        match (&fault.at, &fault.when) {
            (Some(at), None) => Ok(WhenRange::At(self.lengths(at)?)),
            (None, Some(when)) => {
                let when = when.get_ref();
                let Role::Client(client) = self.role(&when.client, clients)? else {
                    return Err(self.error(
                        when.client.span(),
                        "only clients reach points",
                        "here",
                    ));
                };
                let points = Point::ALL.iter().map(|point| (point.name(), *point));
                let point = self.one_of("point", &when.point, points)?;
                let nth = when.nth.as_ref().map_or(1, |nth| *nth.get_ref());
                if nth == 0 {
                    let at = when.nth.as_ref().map_or(0..0, Spanned::span);
                    return Err(self.error(at, "times are counted from 1", "here"));
                }
                Ok(WhenRange::Point { client, point, nth })
            }
            (None, None) | (Some(_), Some(_)) => {
                let what = "a fault strikes either `at` a time or `when` a client reaches a point";
                let mut bad = self.error(fault.kind.span(), what, "of this fault");
                bad.help = Some(
                    "at = \"20s\", or when = { client = \"client-1\", point = \"before-write\" }"
                        .into(),
                );
                Err(bad)
            }
        }
    }

    /// A fault says nothing that its kind does not have.
    fn check_fields(&self, fault: &FaultEntry, kind: &str) -> Read<()> {
        let given = [
            ("node", fault.node.as_ref().map(Spanned::span)),
            ("between", fault.between.as_ref().map(Spanned::span)),
            ("from", fault.from.as_ref().map(Spanned::span)),
            ("to", fault.to.as_ref().map(Spanned::span)),
            ("lasts", fault.lasts.as_ref().map(Spanned::span)),
            ("after", fault.after.as_ref().map(Spanned::span)),
            ("by", fault.by.as_ref().map(Spanned::span)),
            ("ppm", fault.ppm.as_ref().map(Spanned::span)),
            ("percent", fault.percent.as_ref().map(Spanned::span)),
            ("data", fault.data.as_ref().map(Spanned::span)),
        ];
        let has: Vec<_> = help(kind).fields().collect();
        for (name, span) in given {
            if let Some(span) = span.filter(|_| !has.contains(&name)) {
                let mut bad = self.error(
                    span,
                    format!("{} {kind} has no `{name}`", article(kind)),
                    "not for this kind",
                );
                bad.help = Some(help(kind).advice());
                return Err(bad);
            }
        }
        Ok(())
    }

    fn expectation(
        &self,
        of: &Text,
        entry: &Spanned<Expect>,
        work: &dyn WorkKind,
        capped: bool,
    ) -> Read<Expectation> {
        let families = Family::ALL.iter().map(|family| family.name());
        let names = algorithms::ALL.iter().map(|algorithm| algorithm.name());
        let subjects = families.chain(names).map(|name| (name, name));
        let of_whom = self.one_of("family or algorithm", of, subjects)?;
        let entry = entry.get_ref();
        let own = work.invariant().map(|invariant| invariant.name());
        let judged = invariants::ALL
            .iter()
            .map(|invariant| invariant.name())
            .filter(|name| {
                let of_a_work = work::ALL.iter().any(|kind| {
                    kind.invariant()
                        .is_some_and(|invariant| invariant.name() == *name)
                });
                own == Some(*name) || !of_a_work
            });
        let invariants = |texts: &[Text]| {
            let name = |text: &Text| {
                self.one_of(
                    "invariant of this work",
                    text,
                    judged.clone().map(|name| (name, name)),
                )
            };
            texts.iter().map(name).collect::<Read<Vec<&'static str>>>()
        };
        if let Some(first) = entry.must.first().filter(|_| capped) {
            let what = format!("below {FEW_RUNS} seeds nothing can be demanded");
            let mut bad = self.error(first.span(), what, "a `must` in a capped scenario");
            bad.help = Some("say `may`, or raise `seeds`".into());
            return Err(bad);
        }
        if entry.why.get_ref().trim().is_empty() {
            return Err(self.error(entry.why.span(), "an expectation needs a reason", "empty"));
        }
        Ok(Expectation {
            of: of_whom.to_owned(),
            must: invariants(&entry.must)?,
            may: invariants(&entry.may)?,
            why: entry.why.get_ref().clone(),
        })
    }
}

/// Before the name of a kind of fault. A "one-way" begins as "won" does.
fn article(kind: &str) -> &'static str {
    match kind.as_bytes() {
        [b'a' | b'e' | b'i', ..] => "an",
        _ => "a",
    }
}

/// Every client has two lanes, a store connection and one to every server.
const MOST_CLIENTS: u16 = 1_000;

/// How often a first request's segments cross the network: connecting, introducing oneself, and
/// the request, each there and back. Where a master has replicas, it is asked for its role; where
/// there are sentinels, one of them is connected to and asked, too.
const ONE_WAYS: Millis = 6;

/// Text without control characters, which terminals and pictures would take for orders.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|c| *c == '\n' || !c.is_control())
        .collect()
}

/// A length of time in whole milliseconds.
fn millis(text: &str) -> Option<Millis> {
    let length = humantime::parse_duration(text.trim()).ok()?;
    let whole = length.subsec_nanos() % 1_000_000 == 0;
    // A year is more than any run needs, and far from overflow.
    let millis = Millis::try_from(length.as_millis()).ok()?;
    (whole && millis <= 366 * 24 * 3_600_000).then_some(millis)
}
