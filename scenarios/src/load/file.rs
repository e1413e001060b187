//! The shape of a scenario file, field by field, and how each should be written.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use toml::Spanned;

pub(super) type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Text,
    pub(super) title: String,
    pub(super) story: String,
    pub(super) reaches: Option<Text>,
    pub(super) seeds: Option<Spanned<u64>>,
    pub(super) world: World,
    pub(super) client: Client,
    pub(super) lock: Lock,
    pub(super) work: Work,
    #[serde(default)]
    pub(super) fault: Vec<Spanned<FaultEntry>>,
    #[serde(default)]
    pub(super) expect: BTreeMap<Text, Spanned<Expect>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct World {
    pub(super) clients: Spanned<u16>,
    pub(super) redis: Option<Spanned<Redis>>,
    pub(super) latency: Text,
    pub(super) ends: Text,
    pub(super) store: Option<Store>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    pub(super) idle_timeout: Option<Text>,
    pub(super) keepalive: Option<Text>,
    pub(super) pool: Option<Spanned<u16>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Redis {
    pub(super) shape: Option<Text>,
    pub(super) replicas: Option<Spanned<u16>>,
    pub(super) sentinels: Option<Spanned<u16>>,
    pub(super) down_after: Option<Text>,
    pub(super) persistence: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) retry: Text,
    pub(super) redis_timeout: Text,
    pub(super) store_timeout: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lock {
    pub(super) ttl: Text,
    pub(super) renew_every: Option<Text>,
    pub(super) server_timeout: Option<Text>,
    pub(super) comparator: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Work {
    pub(super) kind: Text,
    pub(super) keys: Spanned<u16>,
    pub(super) items: Spanned<u16>,
    pub(super) takes: Text,
    pub(super) first_takes: Option<Text>,
    pub(super) limit: Option<Spanned<u16>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultEntry {
    pub(super) kind: Text,
    pub(super) node: Option<Text>,
    pub(super) between: Option<Spanned<Vec<Text>>>,
    pub(super) from: Option<Text>,
    pub(super) to: Option<Text>,
    pub(super) lasts: Option<Text>,
    pub(super) after: Option<Text>,
    pub(super) by: Option<Text>,
    pub(super) ppm: Option<Spanned<Numbers>>,
    pub(super) percent: Option<Spanned<Numbers>>,
    pub(super) data: Option<Text>,
    pub(super) at: Option<Text>,
    pub(super) when: Option<Spanned<When>>,
}

/// A whole number, or a range of them as text.
pub(super) struct Numbers(pub(super) String);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or a range of them as text")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Numbers, E> {
                Ok(Numbers(number.to_string()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Numbers, E> {
                Ok(Numbers(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    pub(super) client: Text,
    pub(super) point: Text,
    pub(super) nth: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    #[serde(default)]
    pub(super) must: Vec<Text>,
    #[serde(default)]
    pub(super) may: Vec<Text>,
    pub(super) why: Text,
}

/// The tables of a file.
pub(super) const SECTIONS: &[&str] = &["world", "client", "lock", "work", "fault", "expect"];

/// Every field of a file: its section, its name, and a value as it should be written.
pub(super) const FIELDS: &[(&str, &str, &str)] = &[
    ("", "name", r#""my-scenario""#),
    (
        "",
        "title",
        r#""The holder stops for longer than its lease""#,
    ),
    ("", "story", r#""Pod A takes the lock and freezes ...""#),
    ("", "reaches", r#""woke-after-lease""#),
    ("", "seeds", "20"),
    ("world", "clients", "3"),
    (
        "world",
        "redis",
        r#"{ shape = "replicated", replicas = 1, sentinels = 3, down_after = "2s" }"#,
    ),
    ("world", "latency", r#""1ms..5ms""#),
    ("world", "ends", r#""300s""#),
    ("world", "store", r#"{ idle_timeout = "10s" }"#),
    ("store", "idle_timeout", r#""10s""#),
    ("store", "keepalive", r#""60s""#),
    ("store", "pool", "20"),
    ("client", "retry", r#""200ms..600ms""#),
    ("client", "redis_timeout", r#""1s""#),
    ("client", "store_timeout", r#""5s""#),
    ("lock", "ttl", r#""30s""#),
    ("lock", "renew_every", r#""10s""#),
    ("lock", "server_timeout", r#""150ms""#),
    ("lock", "comparator", r#""strict""#),
    ("work", "kind", r#""payout""#),
    ("work", "keys", "1"),
    ("work", "items", "3"),
    ("work", "takes", r#""5s..20s""#),
    ("work", "first_takes", r#""11s..20s""#),
    ("work", "limit", "3"),
    ("fault", "kind", r#""pause""#),
    ("fault", "node", r#""client-1""#),
    ("fault", "between", r#"["client-1", "lock"]"#),
    ("fault", "from", r#""lock""#),
    ("fault", "to", r#""client-1""#),
    ("fault", "lasts", r#""31s..60s""#),
    ("fault", "after", r#""1s""#),
    ("fault", "by", r#""-60s..-31s""#),
    ("fault", "ppm", "50000"),
    ("fault", "percent", "10"),
    ("fault", "data", r#""lost""#),
    ("fault", "at", r#""20s""#),
    (
        "fault",
        "when",
        r#"{ client = "client-1", point = "before-write" }"#,
    ),
    ("fault", "client", r#""client-1""#),
    ("fault", "point", r#""before-write""#),
    ("fault", "nth", "1"),
    ("expect", "must", r#"["double-write"]"#),
    ("expect", "may", r#"["overlap", "stale-write"]"#),
    ("expect", "why", r#""nobody checks who owns the lock""#),
];

/// A field as it should be written, preferably that of the section.
pub(super) fn example_of(section: &str, field: &str) -> Option<String> {
    let of = |wanted: Option<&str>| {
        FIELDS
            .iter()
            .find(|(section, name, _)| *name == field && wanted.is_none_or(|w| w == *section))
    };
    let (_, name, example) = of(Some(section)).or_else(|| of(None))?;
    Some(format!("{name} = {example}"))
}

/// The fields that only one section has, with that section.
pub(super) fn bare_fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIELDS
        .iter()
        .filter(|(section, _, _)| !["fault", "expect", "store"].contains(section))
        .map(|(section, field, _)| (*section, *field))
}
