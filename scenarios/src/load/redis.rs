//! How a file says what the Redis servers are like, and what needs them to be like that.

use std::ops::Range;

use sim::fault::Data;
use sim::redis::{Persistence, Sentinels};
use toml::Spanned;

use super::file::{FaultEntry, Redis, example_of};
use super::read::{Read, Reader};
use crate::scenario::{FaultKind, RedisShape, Role, Scenario};

/// More replicas or sentinels than this would only cost time.
const MOST_SERVERS: u16 = 9;

impl Reader<'_> {
    /// How the Redis servers are set up, where that is the subject.
    pub(super) fn redis(&self, entry: &Spanned<Redis>) -> Read<(Option<RedisShape>, Persistence)> {
        let redis = entry.get_ref();
        let shapes = [("single", false), ("replicated", true)];
        let replicated = match &redis.shape {
            Some(shape) => Some(self.one_of("shape of Redis", shape, shapes.into_iter())?),
            None => None,
        };
        let ways = [
            ("none", Persistence::None),
            ("everysec", Persistence::EverySecond),
            ("always", Persistence::Always),
        ];
        let persistence = match &redis.persistence {
            Some(way) => self.one_of("way of writing to disk", way, ways.into_iter())?,
            None => Persistence::default(),
        };
        let only = |span: Option<Range<usize>>, name: &str| match span {
            Some(span) if replicated != Some(true) => {
                let what = format!("only a replicated Redis has `{name}`");
                let mut bad = self.error(span, what, "not for this shape");
                bad.help = Some(format!(
                    "write it as in: {}",
                    example_of("world", "redis").unwrap_or_default()
                ));
                Err(bad)
            }
            _ => Ok(()),
        };
        only(redis.replicas.as_ref().map(Spanned::span), "replicas")?;
        only(redis.sentinels.as_ref().map(Spanned::span), "sentinels")?;
        only(redis.down_after.as_ref().map(Spanned::span), "down_after")?;
        if replicated != Some(true) {
            return Ok((replicated.map(|_| RedisShape::Single), persistence));
        }
        let missing = |name: &str| {
            let mut bad = self.error(entry.span(), format!("it needs `{name}`"), "here");
            bad.help = example_of("world", "redis").map(|it| format!("write it as in: {it}"));
            bad
        };
        let replicas = redis.replicas.as_ref().ok_or_else(|| missing("replicas"))?;
        let replicas = self.at_least_one(replicas, "replicas")?;
        let sentinels = redis
            .sentinels
            .as_ref()
            .ok_or_else(|| missing("sentinels"))?;
        let number = *sentinels.get_ref();
        if replicas > MOST_SERVERS || number > MOST_SERVERS {
            let what = format!("more than {MOST_SERVERS} of them show nothing that fewer do not");
            return Err(self.error(entry.span(), what, "too many"));
        }
        let down_after = match (&redis.down_after, number) {
            (Some(text), 1..) => self.some_length(text)?,
            (None, 1..) => return Err(missing("down_after")),
            (Some(text), 0) => {
                let what = "nobody watches whether a server is down";
                return Err(self.error(text.span(), what, "without sentinels"));
            }
            (None, 0) => 0,
        };
        let sentinels = Sentinels { number, down_after };
        let shape = RedisShape::Replicated {
            replicas,
            sentinels,
        };
        Ok((Some(shape), persistence))
    }

    /// Replicas can only fall behind or be promoted where there are some, and only a Redis server
    /// has a disk of which something can be said.
    pub(super) fn check_redis(
        &self,
        scenario: &Scenario,
        files: &[Spanned<FaultEntry>],
    ) -> Read<()> {
        let replicated = matches!(scenario.redis, Some(RedisShape::Replicated { .. }));
        for (fault, file) in scenario.faults.iter().zip(files) {
            let kind = &file.get_ref().kind;
            let about = matches!(
                fault.kind,
                FaultKind::Failover { .. } | FaultKind::ReplicaLag { .. }
            );
            if let FaultKind::Restart { node, data, .. } = &fault.kind
                && *data == Data::OnDisk
                && !matches!(node, Role::Lock | Role::LockServer(_))
            {
                let at = file.get_ref().data.as_ref().map_or(0..0, Spanned::span);
                let what = "only Redis servers have a disk that is looked at";
                let mut bad = self.error(at, what, "not for this node");
                bad.help = Some("it must be \"kept\" or \"lost\"".into());
                return Err(bad);
            }
            if about && !replicated {
                let what = format!("a {} needs a Redis with replicas", kind.get_ref());
                let mut bad = self.error(kind.span(), what, "there are no replicas");
                bad.help = example_of("world", "redis").map(|it| format!("say in [world]: {it}"));
                return Err(bad);
            }
        }
        Ok(())
    }
}
