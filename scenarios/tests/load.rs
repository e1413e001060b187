//! Scenario files: every built-in one loads, and a bad one gets an error that points at the
//! right line, says why, and what would be right.

use algorithms::Service;
use miette::Diagnostic;
use proptest::prelude::*;
use scenarios::scenario::{FaultKind, RedisShape, Role, WhenRange};
use scenarios::{BadScenario, Scenario, builtin, load};
use sim::fault::Point;
use sim::redis::Sentinels;

const FILE: &str = r#"name = "test"
title = "A test"
story = "Nothing much."
reaches = "woke-after-lease"

[world]
clients = 3
latency = "1ms..5ms"
ends = "300s"

[client]
retry = "200ms..600ms"
redis_timeout = "1s"
store_timeout = "5s"

[lock]
ttl = "30s"

[work]
kind = "payout"
keys = 1
items = 3
takes = "5s..20s"

[[fault]]
kind = "pause"
node = "client-1"
when = { client = "client-1", point = "before-write", nth = 2 }
lasts = "31s..60s"

[expect.plain]
must = ["double-write"]
may = ["overlap"]
why = "Nobody checks an owner."
"#;

fn loaded(text: &str) -> Scenario {
    load("test.toml", text, &[]).unwrap_or_else(|bad| panic!("{bad:?}\nin\n{text}"))
}

/// The file with one thing changed.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(
        FILE.matches(from).count(),
        1,
        "`{from}` is not once in the file"
    );
    FILE.replacen(from, to, 1)
}

fn refused(text: &str, overrides: &[(&str, &str)]) -> BadScenario {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    match load("test.toml", text, &overrides) {
        Ok(_) => panic!("this was accepted, with {overrides:?}:\n{text}"),
        Err(bad) => *bad,
    }
}

/// Where an error points: the line, counted from one, and the text under the label.
fn points_at(bad: &BadScenario, text: &str) -> (usize, String) {
    let label = bad.labels().unwrap().next().unwrap();
    let from = label.offset();
    let line = text[..from].matches('\n').count() + 1;
    (line, text[from..from + label.len()].to_owned())
}

fn help(bad: &BadScenario) -> String {
    bad.help().map_or_else(String::new, |help| help.to_string())
}

/// Changes `from` to `to` in the file. The error must point at `at` on the line of the change,
/// say `what`, and its help must say `right`.
fn assert_points(from: &str, to: &str, at: &str, what: &str, right: &str) {
    let text = changed(from, to);
    let bad = refused(&text, &[]);
    let place = FILE.find(from).unwrap();
    let line = FILE[..place].matches('\n').count()
        + 1
        + to[..to.find(at).unwrap_or(0)].matches('\n').count();
    assert_eq!(points_at(&bad, &text), (line, at.to_owned()), "{bad:?}");
    assert!(bad.to_string().contains(what), "{what} in {bad:?}");
    assert!(help(&bad).contains(right), "{right} in {bad:?}");
}

#[test]
fn every_built_in_file_loads_and_bears_the_name_of_its_file() {
    for (name, text) in builtin::FILES {
        let scenario = load(name, text, &[]).unwrap_or_else(|bad| panic!("{name}: {bad:?}"));
        assert_eq!(scenario.name, *name);
        assert!(!scenario.expect.is_empty(), "{name} expects nothing");
    }
    let directory = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let files = directory.filter_map(|entry| {
        let path = entry.unwrap().path();
        let is_scenario = path.extension()? == "toml" && path.file_name()? != "Cargo.toml";
        is_scenario.then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
    });
    for file in files {
        assert!(
            builtin::FILES.iter().any(|(name, _)| *name == file),
            "{file}.toml is not built in"
        );
    }
}

#[test]
fn a_file_says_what_it_says() {
    let scenario = loaded(FILE);
    assert_eq!(scenario.name, "test");
    assert_eq!(scenario.latency, 1..=5);
    assert_eq!(scenario.ends, 300_000);
    assert_eq!(scenario.lock.ttl, 30_000);
    assert_eq!(scenario.takes, 5_000..=20_000);
    let fault = &scenario.faults[0];
    let pause = FaultKind::Pause {
        node: Role::Client(1),
        lasts: 31_000..=60_000,
    };
    assert_eq!(fault.kind, pause);
    let when = WhenRange::Point {
        client: 1,
        point: Point::BeforeWrite,
        nth: 2,
    };
    assert_eq!(fault.when, when);
    assert_eq!(scenario.expect[0].must, ["double-write"]);
}

#[test]
fn an_unknown_field_suggests_the_nearest() {
    for (from, to, at, right) in [
        ("title =", "titel =", "titel", "`title`"),
        ("latency =", "latencey =", "latencey", "`latency`"),
        ("retry =", "retyr =", "retyr", "`retry`"),
        ("ttl =", "tll =", "tll", "`ttl`"),
        ("takes =", "take =", "take", "`takes`"),
        ("lasts =", "last =", "last", "`lasts`"),
        ("point =", "pont =", "pont", "`point`"),
        ("may =", "mai =", "mai", "`may`"),
        ("[work]", "[works]", "works", "`work`"),
    ] {
        assert_points(from, to, at, "unknown field", right);
    }
}

#[test]
fn a_field_in_the_wrong_section_is_told_where_it_belongs() {
    assert_points(
        "keys = 1",
        "clients = 1",
        "clients",
        "unknown field",
        "belongs into [world]",
    );
    assert_points(
        "keys = 1",
        "seeds = 1",
        "seeds",
        "unknown field",
        "above every [section]",
    );
}

#[test]
fn a_missing_field_is_named_with_an_example() {
    for (line, field, right) in [
        ("title = \"A test\"\n", "title", "title = "),
        ("ttl = \"30s\"\n", "ttl", "ttl = \"30s\""),
        ("kind = \"payout\"\n", "kind", "kind = \"payout\""),
        ("kind = \"pause\"\n", "kind", "kind = \"pause\""),
        ("client = \"client-1\", ", "client", "client = \"client-1\""),
        ("why = \"Nobody checks an owner.\"\n", "why", "why = "),
    ] {
        let text = changed(line, "");
        let bad = refused(&text, &[]);
        assert_eq!(bad.to_string(), format!("missing field `{field}`"));
        assert!(help(&bad).contains(right), "{right} in {bad:?}");
    }
    let bad = refused(&changed("[lock]\nttl = \"30s\"\n", ""), &[]);
    assert!(help(&bad).contains("add the section [lock]"), "{bad:?}");
}

#[test]
fn a_missing_field_points_into_its_section() {
    for (line, header) in [
        ("ttl = \"30s\"\n", "[lock]"),
        ("kind = \"pause\"\n", "[[fault]]"),
        ("client = \"client-1\", ", "when = "),
    ] {
        let text = changed(line, "");
        let bad = refused(&text, &[]);
        let expected = text
            .lines()
            .position(|line| line.starts_with(header))
            .unwrap()
            + 1;
        assert_eq!(points_at(&bad, &text).0, expected, "{bad:?}");
    }
}

#[test]
fn a_value_of_the_wrong_type_gets_an_example() {
    for (from, to, at, what, right) in [
        (
            "\"30s\"",
            "30",
            "30",
            "invalid type: integer",
            "ttl = \"30s\"",
        ),
        (
            "clients = 3",
            "clients = \"3\"",
            "\"3\"",
            "invalid type: string",
            "clients = 3",
        ),
        (
            "clients = 3",
            "clients = -3",
            "-3",
            "invalid value",
            "clients = 3",
        ),
        (
            "clients = 3",
            "clients = 65536",
            "65536",
            "invalid value",
            "clients = 3",
        ),
        (
            "clients = 3",
            "clients = 1.5",
            "1.5",
            "invalid type: floating",
            "clients = 3",
        ),
        (
            "[\"double-write\"]",
            "\"double-write\"",
            "\"double-write\"",
            "invalid type: string",
            "must = [",
        ),
        ("nth = 2", "nth = -1", "-1", "invalid value", "nth = 1"),
        (
            "kind = \"pause\"",
            "kind = true",
            "true",
            "invalid type: boolean",
            "kind = \"pause\"",
        ),
    ] {
        assert_points(from, to, at, what, right);
    }
}

#[test]
fn what_is_no_toml_points_at_the_place() {
    for (from, to) in [
        ("keys = 1", "keys = "),
        ("keys = 1", "keys 1"),
        ("keys = 1", "keys = 1\nkeys = 2"),
        ("keys = 1", "keys = 99999999999999999999"),
        ("ends = \"300s\"", "ends = \"300s"),
    ] {
        let text = changed(from, to);
        let bad = refused(&text, &[]);
        let place = FILE.find(from).unwrap();
        let first = FILE[..place].matches('\n').count() + 1;
        let (line, _) = points_at(&bad, &text);
        assert!(
            (first..=first + 1).contains(&line),
            "line {line} in {bad:?}"
        );
    }
    assert!(
        refused("", &[])
            .to_string()
            .contains("missing field `name`")
    );
}

#[test]
fn names_that_nobody_has_get_the_list_and_the_nearest() {
    for (from, to, at, what, right) in [
        (
            "\"test\"",
            "\"My Test\"",
            "\"My Test\"",
            "no name",
            "small letters",
        ),
        ("\"test\"", "\"\"", "\"\"", "no name", "small letters"),
        (
            "woke-after-lease",
            "woke-after-leese",
            "\"woke-after-leese\"",
            "no landmark",
            "`woke-after-lease`",
        ),
        (
            "\"payout\"",
            "\"payouts\"",
            "\"payouts\"",
            "no kind of work",
            "`payout`",
        ),
        (
            "\"pause\"",
            "\"paus\"",
            "\"paus\"",
            "no kind of fault",
            "`pause`",
        ),
        (
            "before-write",
            "before-wriet",
            "\"before-wriet\"",
            "no point",
            "`before-write`",
        ),
        (
            "node = \"client-1\"",
            "node = \"client-4\"",
            "\"client-4\"",
            "no node",
            "client-1 to client-3",
        ),
        (
            "node = \"client-1\"",
            "node = \"client-0\"",
            "\"client-0\"",
            "no node",
            "client-1 to client-3",
        ),
        (
            "node = \"client-1\"",
            "node = \"client-01\"",
            "\"client-01\"",
            "no node",
            "client-1 to client-3",
        ),
        (
            "node = \"client-1\"",
            "node = \"redis\"",
            "\"redis\"",
            "no node",
            "lock-1",
        ),
        (
            "client = \"client-1\"",
            "client = \"lock\"",
            "\"lock\"",
            "only clients",
            "",
        ),
        (
            "expect.plain",
            "expect.plane",
            "plane",
            "no family or algorithm",
            "`plain`",
        ),
        (
            "\"double-write\"",
            "\"double-wirte\"",
            "\"double-wirte\"",
            "no invariant",
            "`double-write`",
        ),
        (
            "ttl = \"30s\"",
            "ttl = \"30s\"\ncomparator = \"strikt\"",
            "\"strikt\"",
            "no comparator",
            "`strict`",
        ),
    ] {
        assert_points(from, to, at, what, right);
    }
}

#[test]
fn times_are_ranges_of_whole_milliseconds() {
    for (from, to, at, what) in [
        ("\"30s\"", "\"30\"", "\"30\"", "not a length of time"),
        (
            "\"30s\"",
            "\"half a minute\"",
            "\"half a minute\"",
            "not a length of time",
        ),
        (
            "\"30s\"",
            "\"1500us\"",
            "\"1500us\"",
            "not a length of time",
        ),
        (
            "\"30s\"",
            "\"1s..2s\"",
            "\"1s..2s\"",
            "not a length of time",
        ),
        ("\"30s\"", "\"-30s\"", "\"-30s\"", "not a length of time"),
        (
            "\"300s\"",
            "\"400days\"",
            "\"400days\"",
            "not a length of time",
        ),
        (
            "\"300s\"",
            "\"99999999999999999999s\"",
            "\"99999999999999999999s\"",
            "not a length",
        ),
        (
            "\"300s\"",
            "\"18446744073709551615y\"",
            "\"18446744073709551615y\"",
            "not a length",
        ),
        ("\"1ms..5ms\"", "\"5ms..1ms\"", "\"5ms..1ms\"", "is empty"),
        ("\"1ms..5ms\"", "\"1ms..\"", "\"1ms..\"", "not a range"),
        ("\"1ms..5ms\"", "\"..5ms\"", "\"..5ms\"", "not a range"),
        (
            "\"1ms..5ms\"",
            "\"1ms..5ms..9ms\"",
            "\"1ms..5ms..9ms\"",
            "not a range",
        ),
        ("\"1ms..5ms\"", "\"\"", "\"\"", "not a range"),
        (
            "\"1ms..5ms\"",
            "\"0.5ms..5ms\"",
            "\"0.5ms..5ms\"",
            "not a range",
        ),
    ] {
        assert_points(from, to, at, what, "\"30s\"");
    }
    let negative = "\"-5ms..5ms\"";
    assert_points("\"1ms..5ms\"", negative, negative, "cannot be negative", "");
    let still = changed("\"1ms..5ms\"", "\" 1ms .. 5ms \"");
    assert_eq!(loaded(&still).latency, 1..=5);
    let one = changed("\"1ms..5ms\"", "\"0s\"");
    assert_eq!(loaded(&one).latency, 0..=0);
    let sum = changed("\"30s\"", "\"1m 500ms\"");
    assert_eq!(loaded(&sum).lock.ttl, 60_500);
}

#[test]
fn nothing_that_needs_one_is_zero() {
    for (from, to, at, what) in [
        (
            "clients = 3",
            "clients = 0",
            "0",
            "clients must be at least 1",
        ),
        ("keys = 1", "keys = 0", "0", "keys must be at least 1"),
        ("items = 3", "items = 0", "0", "items must be at least 1"),
        ("\"30s\"", "\"0s\"", "\"0s\"", "a lease of no time"),
        (
            "ttl = \"30s\"",
            "ttl = \"30s\"\nrenew_every = \"0s\"",
            "\"0s\"",
            "all the time",
        ),
        (
            "ends = \"300s\"",
            "ends = \"300s\"\nstore = { keepalive = \"0s\" }",
            "\"0s\"",
            "no time",
        ),
        (
            "ends = \"300s\"",
            "ends = \"300s\"\nstore = { idle_timeout = \"0s\" }",
            "\"0s\"",
            "no time",
        ),
        ("nth = 2", "nth = 0", "0", "counted from 1"),
        ("\n\n[world]", "\nseeds = 0\n[world]", "0", "no seeds"),
    ] {
        assert_points(from, to, at, what, "");
    }
}

/// The file with another fault in place of its own.
fn with_fault(fault: &str) -> String {
    let from = FILE.find("kind = \"pause\"").unwrap();
    let to = FILE.find("\n\n[expect").unwrap();
    format!("{}{fault}{}", &FILE[..from], &FILE[to..])
}

fn fault_line(text: &str, at: &str) -> usize {
    let place = text.find("[[fault]]").unwrap();
    let place = place + text[place..].find(at).unwrap();
    text[..place].matches('\n').count() + 1
}

#[test]
fn every_kind_of_fault_loads() {
    for fault in [
        "kind = \"pause\"\nnode = \"lock\"\nlasts = \"1s\"\nat = \"0s..2s\"",
        "kind = \"crash\"\nnode = \"client-3\"\nat = \"1s\"",
        "kind = \"restart\"\nnode = \"lock-2\"\nafter = \"0s\"\ndata = \"lost\"\nat = \"1s\"",
        "kind = \"hold\"\nbetween = [\"client-1\", \"lock\"]\nlasts = \"1s\"\nat = \"1s\"",
        "kind = \"reset\"\nbetween = [\"client-1\", \"store\"]\nat = \"1s\"",
        "kind = \"drop-replies\"\nfrom = \"lock\"\nto = \"client-1\"\nlasts = \"1s\"\nat = \"1s\"",
        "kind = \"clock-step\"\nnode = \"lock\"\nby = \"-60s..31s\"\nat = \"1s\"",
        "kind = \"suspend\"\nnode = \"client-1\"\nlasts = \"1s\"\nat = \"0s..2s\"",
        "kind = \"flush\"\nnode = \"lock\"\nat = \"1s\"",
        "kind = \"evict\"\nnode = \"lock-2\"\nat = \"1s\"",
        "kind = \"power-loss\"\nnode = \"lock-2\"\nat = \"1s\"",
        "kind = \"refuse\"\nfrom = \"client-1\"\nto = \"lock\"\nlasts = \"1s\"\nat = \"1s\"",
        "kind = \"one-way\"\nfrom = \"lock\"\nto = \"client-1\"\nlasts = \"1s\"\nat = \"1s\"",
        "kind = \"slow\"\nbetween = [\"client-1\", \"lock\"]\nby = \"0ms..9ms\"\nlasts = \"1s\"\nat = \"1s\"",
        "kind = \"loss\"\nbetween = [\"client-1\", \"lock\"]\npercent = \"1..100\"\nlasts = \"1s\"\nat = \"1s\"",
        "kind = \"clock-rate\"\nnode = \"lock\"\nppm = \"-500..500\"\nat = \"1s\"",
        "kind = \"clock-offset\"\nnode = \"lock\"\nby = \"-60s..31s\"",
    ] {
        assert_eq!(loaded(&with_fault(fault)).faults.len(), 1);
    }
}

#[test]
fn a_clock_may_step_back() {
    let fault = "kind = \"clock-step\"\nnode = \"lock\"\nby = \"-60s..-31s\"\nat = \"1s\"";
    let by = FaultKind::ClockStep {
        node: Role::Lock,
        by: -60_000..=-31_000,
    };
    assert_eq!(loaded(&with_fault(fault)).faults[0].kind, by);
}

#[test]
fn a_clock_rate_is_a_number_or_a_range_of_them_as_text() {
    for (ppm, range) in [
        ("50000", 50_000..=50_000),
        ("-50_000", -50_000..=-50_000),
        ("0", 0..=0),
        ("\"700\"", 700..=700),
        ("\" -500 .. 500 \"", -500..=500),
        ("\"-500000..1000000\"", -500_000..=1_000_000),
    ] {
        let fault = format!("kind = \"clock-rate\"\nnode = \"lock\"\nppm = {ppm}\nat = \"1s\"");
        let kind = &loaded(&with_fault(&fault)).faults[0].kind;
        let node = Role::Lock;
        assert_eq!(*kind, FaultKind::ClockRate { node, ppm: range });
    }
    for (ppm, what) in [
        ("-500001", "must be between -500000 and 1000000"),
        ("1000001", "must be between"),
        ("\"0..2000000\"", "must be between"),
        ("\"5..4\"", "is empty"),
        ("\"5 %\"", "not a range of whole numbers"),
        ("\"5..\"", "not a range of whole numbers"),
        ("\"1.5\"", "not a range of whole numbers"),
        ("1.5", "expected a whole number, or a range"),
        ("true", "expected a whole number, or a range"),
        ("[5, 6]", "expected a whole number, or a range"),
    ] {
        let fault = format!("kind = \"clock-rate\"\nnode = \"lock\"\nppm = {ppm}\nat = \"1s\"");
        let text = with_fault(&fault);
        let bad = refused(&text, &[]);
        assert!(bad.to_string().contains(what), "{what} in {bad:?}");
        let place = (fault_line(&text, "ppm"), ppm.to_owned());
        assert_eq!(points_at(&bad, &text), place, "{bad:?}");
        assert!(help(&bad).contains("write "), "{bad:?}");
    }
}

#[test]
fn a_clock_that_is_wrong_from_the_start_has_no_moment() {
    let fault = "kind = \"clock-offset\"\nnode = \"lock\"\nby = \"3s\"";
    let loaded = loaded(&with_fault(fault));
    assert_eq!(loaded.faults[0].when, WhenRange::At(0..=0));
    for (when, name) in [
        ("at = \"0s\"", "at"),
        (
            "when = { client = \"client-1\", point = \"granted\" }",
            "when",
        ),
    ] {
        let text = with_fault(&format!("{fault}\n{when}"));
        let bad = refused(&text, &[]);
        let what = format!("from the start and has no `{name}`");
        assert!(bad.to_string().contains(&what), "{bad:?}");
        assert_eq!(points_at(&bad, &text).0, fault_line(&text, when));
        assert!(help(&bad).contains("clock-step"), "{bad:?}");
    }
}

#[test]
fn a_fault_has_what_its_kind_needs_and_nothing_else() {
    let both = "at = \"1s\"\nwhen = { client = \"client-1\", point = \"granted\" }";
    let both = format!("kind = \"crash\"\nnode = \"lock\"\n{both}");
    for (fault, line, what, right) in [
        (
            "kind = \"pause\"\nlasts = \"1s\"\nat = \"1s\"",
            "kind",
            "needs `node`",
            "node = \"client-1\"",
        ),
        (
            "kind = \"pause\"\nnode = \"lock\"\nat = \"1s\"",
            "kind",
            "needs `lasts`",
            "lasts = ",
        ),
        (
            "kind = \"hold\"\nlasts = \"1s\"\nat = \"1s\"",
            "kind",
            "needs `between`",
            "between = [",
        ),
        (
            "kind = \"hold\"\nbetween = [\"lock\"]\nlasts = \"1s\"\nat = \"1s\"",
            "between",
            "two sides",
            "between = [",
        ),
        (
            "kind = \"reset\"\nbetween = [\"lock\", \"lock\"]\nat = \"1s\"",
            "between",
            "from lock to itself",
            "two nodes",
        ),
        (
            "kind = \"drop-replies\"\nfrom = \"lock\"\nlasts = \"1s\"\nat = \"1s\"",
            "kind",
            "needs `to`",
            "to = ",
        ),
        (
            "kind = \"clock-step\"\nnode = \"lock\"\nat = \"1s\"",
            "kind",
            "needs `by`",
            "by = ",
        ),
        (
            "kind = \"one-way\"\nfrom = \"lock\"\nlasts = \"1s\"\nat = \"1s\"",
            "kind",
            "a one-way needs `to`",
            "to = ",
        ),
        (
            "kind = \"refuse\"\nfrom = \"lock\"\nto = \"lock\"\nlasts = \"1s\"\nat = \"1s\"",
            "to",
            "from lock to itself",
            "two nodes",
        ),
        (
            "kind = \"refuse\"\nbetween = [\"client-1\", \"lock\"]\nlasts = \"1s\"\nat = \"1s\"",
            "between",
            "a refuse has no `between`",
            "from = ",
        ),
        (
            "kind = \"slow\"\nbetween = [\"client-1\", \"lock\"]\nlasts = \"1s\"\nat = \"1s\"",
            "kind",
            "a slow needs `by`",
            "by = \"200ms\"",
        ),
        (
            "kind = \"slow\"\nbetween = [\"client-1\", \"lock\"]\nby = \"0s\"\nlasts = \"1s\"\nat = \"1s\"",
            "by",
            "slower by nothing",
            "",
        ),
        (
            "kind = \"loss\"\nbetween = [\"client-1\", \"lock\"]\nlasts = \"1s\"\nat = \"1s\"",
            "kind",
            "a loss needs `percent`",
            "percent = 10",
        ),
        (
            "kind = \"loss\"\nbetween = [\"client-1\", \"lock\"]\npercent = 0\nlasts = \"1s\"\nat = \"1s\"",
            "percent",
            "per cent must be between 1 and 100",
            "between 1 and 100",
        ),
        (
            "kind = \"loss\"\nbetween = [\"client-1\", \"lock\"]\npercent = \"10 %\"\nlasts = \"1s\"\nat = \"1s\"",
            "percent",
            "not a range of whole numbers",
            "one whole number",
        ),
        (
            "kind = \"power-loss\"\nnode = \"lock\"\nlasts = \"1s\"\nat = \"1s\"",
            "lasts",
            "a power-loss has no `lasts`",
            "kind = \"power-loss\"",
        ),
        (
            "kind = \"flush\"\nnode = \"store\"\nat = \"1s\"",
            "node",
            "store is no Redis server",
            "it must be `lock`",
        ),
        (
            "kind = \"evict\"\nat = \"1s\"",
            "kind",
            "an evict needs `node`",
            "kind = \"evict\"",
        ),
        (
            "kind = \"suspend\"\nnode = \"lock\"\nat = \"1s\"",
            "kind",
            "needs `lasts`",
            "kind = \"suspend\"",
        ),
        (
            "kind = \"clock-rate\"\nnode = \"lock\"\nat = \"1s\"",
            "kind",
            "needs `ppm`",
            "ppm = ",
        ),
        (
            "kind = \"clock-rate\"\nnode = \"lock\"\nppm = 5\nlasts = \"1s\"\nat = \"1s\"",
            "lasts",
            "a clock-rate has no `lasts`",
            "ppm = ",
        ),
        (
            "kind = \"clock-offset\"\nnode = \"lock\"\nppm = 5",
            "ppm",
            "a clock-offset has no `ppm`",
            "by = ",
        ),
        (
            "kind = \"restart\"\nnode = \"lock\"\nafter = \"1s\"\nat = \"1s\"",
            "kind",
            "needs `data`",
            "data = ",
        ),
        (
            "kind = \"restart\"\nnode = \"lock\"\nafter = \"1s\"\ndata = \"gone\"\nat = \"1s\"",
            "data",
            "no way of treating data",
            "lost",
        ),
        (
            "kind = \"crash\"\nnode = \"lock\"\nlasts = \"1s\"\nat = \"1s\"",
            "lasts",
            "a crash has no `lasts`",
            "kind = \"crash\"",
        ),
        (
            "kind = \"crash\"\nnode = \"lock\"",
            "kind",
            "either `at` a time or `when`",
            "before-write",
        ),
        (
            both.as_str(),
            "kind",
            "either `at` a time or `when`",
            "before-write",
        ),
    ] {
        let text = with_fault(fault);
        let bad = refused(&text, &[]);
        assert!(bad.to_string().contains(what), "{what} in {bad:?}");
        assert_eq!(points_at(&bad, &text).0, fault_line(&text, line), "{bad:?}");
        assert!(help(&bad).contains(right), "{right} in {bad:?}");
    }
}

#[test]
fn an_end_that_is_too_early_is_refused_and_the_right_one_accepted() {
    // Strikes at 20 s at the latest, lasts 60 s, then the ttl and 5 s: 115 s.
    let early = "\"114s\"";
    assert_points("\"300s\"", early, early, "the run ends before", "\"115s\"");
    assert_eq!(loaded(&changed("\"300s\"", "\"115s\"")).ends, 115_000);

    let step = "kind = \"clock-step\"\nnode = \"lock\"\nby = \"-290s\"\nat = \"1s..2s\"";
    let bad = refused(&with_fault(step), &[]);
    assert!(help(&bad).contains("\"327s\""), "{bad:?}");

    // Half as fast, a lease of 30 s lasts 60.
    let slow = "kind = \"clock-rate\"\nnode = \"lock\"\nppm = \"-500000..0\"\nat = \"240s\"";
    let bad = refused(&with_fault(slow), &[]);
    assert!(help(&bad).contains("\"305s\""), "{bad:?}");

    // The last segment may be a hundred times 100 ms late; or sent again after as long as the
    // fault has lasted and a second, two minutes at most.
    for (fault, end) in [
        (
            "kind = \"slow\"\nby = \"100ms\"\nlasts = \"255s\"",
            "\"301s\"",
        ),
        ("kind = \"loss\"\npercent = 5\nlasts = \"132s\"", "\"288s\""),
    ] {
        let place = "between = [\"client-1\", \"lock\"]\nat = \"1s\"";
        let text = with_fault(&format!("{fault}\n{place}")).replace("\"300s\"", "\"200s\"");
        let bad = refused(&text, &[]);
        assert!(help(&bad).contains(end), "{bad:?}");
    }
}

#[test]
fn a_capped_scenario_demands_nothing() {
    let text = changed("\n\n[world]", "\nseeds = 49\n\n[world]");
    let bad = refused(&text, &[]);
    let line = text
        .lines()
        .position(|line| line.starts_with("must"))
        .unwrap()
        + 1;
    assert_eq!(points_at(&bad, &text), (line, "\"double-write\"".into()));
    assert!(help(&bad).contains("`may`"), "{bad:?}");

    let enough = changed("\n\n[world]", "\nseeds = 50\n\n[world]");
    assert_eq!(loaded(&enough).seeds, Some(50));
}

#[test]
fn an_invariant_of_some_work_is_expected_with_that_work_alone() {
    let own = changed("\"overlap\"", "\"paid-twice\"");
    assert_eq!(loaded(&own).expect[0].may, ["paid-twice"]);
    let other = own.replace("\"payout\"", "\"counter\"");
    let bad = refused(&other, &[]);
    assert!(bad.to_string().contains("`paid-twice`"), "{bad:?}");
    let (_, at) = points_at(&bad, &other);
    assert_eq!(at, "\"paid-twice\"");
    assert!(help(&bad).contains("double-write"), "{bad:?}");
}

#[test]
fn an_expectation_has_a_reason() {
    let why = "\"Nobody checks an owner.\"";
    assert_points(why, "\" \"", "\" \"", "needs a reason", "");
}

fn set(overrides: &[(&str, &str)]) -> Scenario {
    let owned: Vec<_> = overrides
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    load("test.toml", FILE, &owned).unwrap_or_else(|bad| panic!("{overrides:?}: {bad:?}"))
}

#[test]
fn a_bare_name_sets_the_field_of_that_name() {
    assert_eq!(set(&[("ttl", "10s")]).lock.ttl, 10_000);
    assert_eq!(set(&[("renew_every", "9s")]).lock.renew_every, Some(9_000));
    assert_eq!(set(&[("clients", "7")]).clients, 7);
    assert_eq!(set(&[("takes", "1s..2s")]).takes, 1_000..=2_000);
    assert_eq!(set(&[("seeds", "60")]).seeds, Some(60));
    assert_eq!(set(&[("title", "Another")]).title, "Another");
    assert_eq!(set(&[("ttl", "1s"), ("ttl", "2s")]).lock.ttl, 2_000);
}

#[test]
fn a_dotted_key_sets_a_value_of_its_section() {
    assert_eq!(set(&[("lock.ttl", "10s")]).lock.ttl, 10_000);
    assert_eq!(set(&[("work.items", "5")]).items, 5);
    assert_eq!(set(&[("client.retry", "1s..2s")]).retry, 1_000..=2_000);
    assert_eq!(set(&[("expect.plain.may", "[]")]).expect[0].may, [""; 0]);
}

#[test]
fn a_fault_is_set_by_its_number_which_a_single_one_does_not_need() {
    for key in ["fault.lasts", "fault.1.lasts"] {
        assert_eq!(set(&[(key, "40s")]).faults[0].kind.longest(0), 40_000);
    }
    let point = set(&[("fault.when.point", "after-read")]);
    let is_after_read = |when: &WhenRange| matches!(when, WhenRange::Point { point, .. } if *point == Point::AfterRead);
    assert!(is_after_read(&point.faults[0].when));

    let bad = refused(FILE, &[("fault.2.lasts", "40s")]);
    assert_eq!(bad.to_string(), "there is no fault 2");
    let two = FILE.replace(
        "[expect.plain]",
        "[[fault]]\nkind = \"crash\"\nnode = \"lock\"\nat = \"1s\"\n\n[expect.plain]",
    );
    let bad = refused(&two, &[("fault.lasts", "40s")]);
    assert!(bad.to_string().contains("which one"), "{bad:?}");
    assert!(help(&bad).contains("fault.1.lasts"), "{bad:?}");
}

#[test]
fn a_key_that_names_nothing_is_an_error() {
    for (key, what, right) in [
        ("tttl", "no value `tttl`", "`ttl`"),
        ("lock.tttl", "unknown field `tttl`", "`ttl`"),
        ("lokc.ttl", "unknown field `lokc`", "`lock`"),
        ("world.ttl", "unknown field `ttl`", "[lock]"),
        ("name.first", "`name` has no parts", "name="),
        ("lock.", "unknown field ``", ""),
    ] {
        let bad = refused(FILE, &[(key, "10s")]);
        assert!(bad.to_string().contains(what), "{what} in {bad:?}");
        assert!(help(&bad).contains(right), "{right} in {bad:?}");
    }
}

#[test]
fn a_value_that_is_set_is_judged_like_one_in_the_file() {
    for (key, value, what) in [
        ("ttl", "soon", "not a length of time"),
        ("ttl", "5", "invalid type: integer"),
        ("ttl", "", "not a length of time"),
        ("takes", "2s..1s", "is empty"),
        ("clients", "0", "at least 1"),
        ("world", "3", "invalid type"),
        ("fault", "3", "invalid type"),
        ("ends", "10s", "the run ends before"),
        ("ttl", "\"\n[work]\nkeys = \"", ""),
    ] {
        let bad = refused(FILE, &[(key, value)]);
        assert!(bad.to_string().contains(what), "{what} in {bad:?}");
    }
}

/// Loads, and shows the error as the command line does.
fn load_and_show(text: &str, overrides: &[(String, String)]) {
    if let Err(bad) = load("any.toml", text, overrides) {
        let mut shown = String::new();
        let handler = miette::GraphicalReportHandler::new();
        handler.render_report(&mut shown, bad.as_ref()).unwrap();
    }
}

/// What mutations put in: what a file consists of, and what it should not.
fn piece() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "\"",
        "[",
        "]",
        "[[fault]]",
        "{",
        "}",
        "=",
        "..",
        "-",
        "\n",
        ".",
        ",",
        "0",
        "-1",
        "1e400",
        "nan",
        "99999999999999999999",
        "\"0s\"",
        "\"-1ms\"",
        "\"999y\"",
        "\"lock\"",
        "\"store\"",
        "\"client-65535\"",
        "seeds = 1\n",
        "\"paid-twice\"",
        "'''",
        "é",
        "\u{0}",
        "🔒",
        "#",
    ]);
    prop_oneof![known.prop_map(str::to_owned), any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_text_never_panics_the_loader(text in any::<String>()) {
        load_and_show(&text, &[]);
    }

    #[test]
    fn a_built_in_file_however_mutilated_never_panics_the_loader(
        file in prop::sample::select(builtin::FILES),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, piece()), 1..4),
    ) {
        let mut chars: Vec<char> = file.1.chars().collect();
        for (place, length, piece) in cuts {
            let from = place.index(chars.len() + 1);
            let to = (from + length).min(chars.len());
            chars.splice(from..to, piece.chars());
        }
        let text: String = chars.into_iter().collect();
        load_and_show(&text, &[]);
    }

    #[test]
    fn arbitrary_overrides_never_panic_the_loader(
        key in prop_oneof![
            "[a-z_.0-9]{0,12}",
            prop::sample::select(vec!["ttl", "fault.lasts", "fault", "expect.plain.may.1", "fault.0", "fault.1", "."])
                .prop_map(str::to_owned),
            any::<String>(),
        ],
        value in piece(),
    ) {
        load_and_show(FILE, &[(key, value)]);
    }
}

/// Says in [world] what Redis is like.
fn with_redis(redis: &str) -> String {
    format!("clients = 3\nredis = {redis}")
}

#[test]
fn a_replicated_redis_says_how_many_replicas_and_sentinels_it_has() {
    let replicated = r#"{ shape = "replicated", replicas = 2, sentinels = 3, down_after = "2s" }"#;
    let scenario = loaded(&changed("clients = 3", &with_redis(replicated)));
    let (number, down_after) = (3, 2_000);
    let shape = RedisShape::Replicated {
        replicas: 2,
        sentinels: Sentinels { number, down_after },
    };
    assert_eq!(scenario.redis, Some(shape));
    assert_eq!(scenario.servers(Service::Redis).0, 3);
    assert_eq!(scenario.servers(Service::Independent(5)).0, 5);
    assert_eq!(loaded(FILE).servers(Service::Redis).0, 1);
    let own = Service::Replicated {
        replicas: 1,
        sentinels: 3,
    };
    assert_eq!(loaded(FILE).servers(own).0, 2);

    for (redis, at, what) in [
        (
            r#"{ shape = "cluster" }"#,
            r#""cluster""#,
            "no shape of Redis",
        ),
        (
            r#"{ shape = "single", replicas = 1 }"#,
            "1",
            "only a replicated Redis",
        ),
        (r#"{ sentinels = 1 }"#, "1", "only a replicated Redis"),
        (
            r#"{ persistence = "rdb" }"#,
            r#""rdb""#,
            "no way of writing to disk",
        ),
        (
            r#"{ shape = "replicated", replicas = 0, sentinels = 0 }"#,
            "0",
            "replicas must be at least 1",
        ),
        (
            r#"{ shape = "replicated", replicas = 1, sentinels = 0, down_after = "1s" }"#,
            r#""1s""#,
            "nobody watches",
        ),
    ] {
        let text = changed("clients = 3", &with_redis(redis));
        let bad = refused(&text, &[]);
        assert!(bad.to_string().contains(what), "{what} in {bad:?}");
        assert_eq!(points_at(&bad, &text).1, at, "{bad:?}");
    }
    for (redis, missing) in [
        (r#"{ shape = "replicated", sentinels = 0 }"#, "replicas"),
        (r#"{ shape = "replicated", replicas = 1 }"#, "sentinels"),
        (
            r#"{ shape = "replicated", replicas = 1, sentinels = 1 }"#,
            "down_after",
        ),
    ] {
        let text = changed("clients = 3", &with_redis(redis));
        let bad = refused(&text, &[]);
        assert!(bad.to_string().contains(missing), "{missing} in {bad:?}");
        assert_eq!(points_at(&bad, &text).1, redis);
        assert!(help(&bad).contains("down_after = \"2s\""), "{bad:?}");
    }
}

#[test]
fn replicas_fail_only_where_there_are_some() {
    for fault in [
        "kind = \"failover\"\nnode = \"lock-1\"\nat = \"1s\"",
        "kind = \"replica-lag\"\nnode = \"lock-2\"\nlasts = \"1s\"\nat = \"1s\"",
    ] {
        let text = with_fault(fault);
        let bad = refused(&text, &[]);
        assert!(
            bad.to_string().contains("needs a Redis with replicas"),
            "{bad:?}"
        );
        let redis = with_redis("{ shape = \"replicated\", replicas = 1, sentinels = 0 }");
        let text = text.replacen("clients = 3", &redis, 1);
        assert_eq!(loaded(&text).faults.len(), 1);
    }
    let disk =
        "kind = \"restart\"\nnode = \"client-1\"\nafter = \"1s\"\ndata = \"on-disk\"\nat = \"1s\"";
    let bad = refused(&with_fault(disk), &[]);
    assert!(bad.to_string().contains("only Redis servers"), "{bad:?}");
}

#[test]
fn a_lock_meets_a_replicated_redis_unless_it_needs_something_else() {
    let redis = with_redis("{ shape = \"replicated\", replicas = 1, sentinels = 0 }");
    let scenario = loaded(&changed("clients = 3", &redis));
    for (name, reason) in [
        ("local-mutex", Some("it lives on no Redis server")),
        ("naive", None),
        ("fenced", None),
        ("sentinel", None),
        (
            "redlock",
            Some("it needs servers that know nothing of each other"),
        ),
    ] {
        let algorithm = algorithms::ALL.iter().find(|a| a.name() == name).unwrap();
        let said = scenario.not_applicable(&algorithm.declares(), &sim::engine::Event);
        assert_eq!(said.as_deref(), reason, "{name}");
    }
    let fault = "kind = \"pause\"\nnode = \"sentinel-1\"\nlasts = \"1s\"\nat = \"1s\"";
    let naive = algorithms::ALL
        .iter()
        .find(|a| a.name() == "naive")
        .unwrap();
    let said = loaded(&with_fault(fault)).not_applicable(&naive.declares(), &sim::engine::Event);
    assert_eq!(said.unwrap(), "no sentinel-1 watches over it");
}
