//! `fencepost list`.

use serde_json::Value;

use crate::printed;

#[test]
fn list_names_everything() {
    let list = printed(&["list"]);
    let algorithms = fencepost::algorithms::ALL
        .iter()
        .map(|a| a.name().to_owned());
    let scenarios = fencepost::scenarios::builtin::FILES
        .iter()
        .map(|(name, _)| (*name).to_owned());
    let invariants = fencepost::scenarios::invariants::ALL
        .iter()
        .map(|i| i.name().to_owned());
    let works = fencepost::scenarios::work::ALL
        .iter()
        .map(|w| w.name().to_owned());
    for name in algorithms.chain(scenarios).chain(invariants).chain(works) {
        let line = list
            .lines()
            .find(|line| line.trim().starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in\n{list}"));
        assert!(line.trim().len() > name.len() + 10, "no summary: {line}");
    }
    for word in [
        "woke-after-lease",
        "power-loss",
        "replica-lag",
        "before-write",
    ] {
        assert!(list.contains(word), "{word} is not in\n{list}");
    }
}

#[test]
fn list_as_json_is_complete() {
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    assert_eq!(list["schema"], "fencepost.list/1");
    let names = |key: &str| -> Vec<String> {
        let items = list[key].as_array().unwrap_or_else(|| panic!("no {key}"));
        let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
        items.iter().map(name).collect()
    };
    let algorithms = fencepost::algorithms::ALL.iter().map(|a| a.name());
    assert!(names("algorithms").iter().eq(algorithms));
    let scenarios = fencepost::scenarios::builtin::FILES
        .iter()
        .map(|(name, _)| name);
    assert!(names("scenarios").iter().eq(scenarios));
    let invariants = fencepost::scenarios::invariants::ALL
        .iter()
        .map(|i| i.name());
    assert!(names("invariants").iter().eq(invariants));
    for algorithm in list["algorithms"].as_array().unwrap() {
        for key in ["summary", "source", "family"] {
            let value = algorithm[key].as_str().unwrap();
            assert!(!value.is_empty(), "{key} of {algorithm}");
        }
        assert!(
            algorithm["servers"].is_u64() && algorithm["assumes"].is_array(),
            "{algorithm}"
        );
    }
    for key in ["work", "landmarks", "faults", "points"] {
        assert!(!list[key].as_array().unwrap().is_empty(), "{key}");
    }
}
