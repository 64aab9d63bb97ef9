//! Report of the entries that an import left out, and the consequences: one row each. Refuses to know its reader.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use metadata::{Bind, Name, SetPolicy};
use serde_json::{Value, json};

use super::Left;
use crate::resources::policies::without_effect;

/// Keys that a row names; of more it says how many there are.
const KEYS_NAMED_MAX: usize = 10;

/// Something that a person has to know about an import that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kind of thing that was left out, or `traffic` and `policy keys`, which say what follows from it.
    pub kind: &'static str,
    /// Where it is.
    pub vhost: String,
    /// Which one.
    pub name: String,
    /// Why it was left out, or what no longer happens; may be empty.
    pub why: String,
}

/// Traffic that is lost because bindings were left out.
pub(crate) const TRAFFIC: &str = "traffic";

/// Settings that were taken and change nothing here.
pub(crate) const POLICY_KEYS: &str = "policy keys";

impl Row {
    pub(super) fn of(left: &Left) -> Row {
        let vhost = String::from_utf8_lossy(&left.vhost).into_owned();
        Row { kind: left.what.words().0, vhost, name: left.name.clone(), why: left.detail.clone() }
    }

    /// As one line of a log.
    #[must_use]
    pub fn line(&self) -> String {
        let Row { kind, vhost, name, why } = self;
        match *kind {
            TRAFFIC => format!("traffic of exchange '{name}' in vhost '{vhost}': {why}"),
            POLICY_KEYS => format!("policy '{name}' in vhost '{vhost}': {why}"),
            _ if why.is_empty() => format!("skipped: {kind} '{name}' in vhost '{vhost}'"),
            _ => format!("skipped: {kind} '{name}' in vhost '{vhost}': {why}"),
        }
    }

    /// As an object of JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"kind": self.kind, "vhost": self.vhost, "name": self.name, "why": self.why})
    }
}

/// For each exchange that loses bindings: how many, and which keys lead nowhere now. `keys_from` has the keys of the bindings that an
/// exchange has after the import, and nothing for one that is not there.
pub(super) fn traffic(lost: &[Bind], keys_from: impl Fn(&Name, &Name) -> Option<HashSet<Name>>) -> Vec<Row> {
    let mut of_sources: BTreeMap<(&Name, &Name), Vec<&Name>> = BTreeMap::new();
    for bind in lost {
        of_sources.entry((&bind.vhost, &bind.source)).or_default().push(&bind.key);
    }
    let row = |((vhost, source), lost): ((&Name, &Name), Vec<&Name>)| {
        let there = keys_from(vhost, source)?;
        let gone: BTreeSet<&Name> = lost.iter().copied().filter(|key| !there.contains(*key)).collect();
        let keys: Vec<String> =
            gone.into_iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        let why = consequence(lost.len(), &keys, !there.is_empty());
        let [vhost, name] = [vhost, source].map(|name| String::from_utf8_lossy(name).into_owned());
        Some(Row { kind: TRAFFIC, vhost, name, why })
    };
    of_sources.into_iter().filter_map(row).collect()
}

fn consequence(count: usize, keys: &[String], has_others: bool) -> String {
    let bindings =
        if count == 1 { "1 binding left out".to_owned() } else { format!("{count} bindings left out") };
    let shown = |key: &String| if key.is_empty() { "''".to_owned() } else { key.clone() };
    let mut named = keys.iter().take(KEYS_NAMED_MAX).map(shown).collect::<Vec<_>>().join(", ");
    if keys.len() > KEYS_NAMED_MAX {
        named.push_str(&format!(" and {} more", keys.len() - KEYS_NAMED_MAX));
    }
    let (key, reach) = if keys.len() == 1 { ("key", "reaches") } else { ("keys", "reach") };
    match (keys.is_empty(), has_others) {
        (true, _) => format!("{bindings}; others with the same keys stay"),
        (false, true) => format!("{bindings}; no other binding has the {key} {named}"),
        (false, false) => format!("{bindings}; {key} {named} now {reach} no queue"),
    }
}

/// For each policy with settings that change nothing here: which those are.
pub(super) fn policy_keys(policies: &[SetPolicy]) -> Vec<Row> {
    policies.iter().filter_map(of_policy).collect()
}

fn of_policy(set: &SetPolicy) -> Option<Row> {
    let why = without_effect(|key| set.definition.get(key).is_some())?;
    let vhost = String::from_utf8_lossy(&set.vhost).into_owned();
    Some(Row { kind: POLICY_KEYS, vhost, name: set.name.to_string(), why })
}

#[cfg(test)]
mod tests {
    use metadata::{Arguments, DestinationName};

    use super::*;

    fn bind(source: &str, key: &str, queue: &str) -> Bind {
        Bind {
            vhost: (*b"/").into(),
            source: source.as_bytes().into(),
            destination: DestinationName::Queue(queue.as_bytes().into()),
            key: key.as_bytes().into(),
            arguments: Arguments::default(),
        }
    }

    #[test]
    fn lost_bindings_are_counted_by_exchange_with_the_keys_that_lead_nowhere() {
        let lost = [
            bind("x", "orders.*", "s"),
            bind("x", "audit", "s"),
            bind("x", "both", "s"),
            bind("gone", "k", "q"),
        ];
        let rows =
            traffic(&lost, |_, source| (**source == *b"x").then(|| HashSet::from([Name::from(*b"both")])));
        assert_eq!(rows.len(), 1);
        let line = "traffic of exchange 'x' in vhost '/': 3 bindings left out; no other binding has the keys audit, orders.*";
        assert_eq!(rows[0].line(), line);
        let rows = traffic(&lost[..1], |_, _| Some(HashSet::new()));
        assert_eq!(rows[0].why, "1 binding left out; key orders.* now reaches no queue");
        assert_eq!(consequence(1, &[], true), "1 binding left out; others with the same keys stay");
        let many: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert!(consequence(12, &many, false).contains("8, 9 and 2 more now reach"));
    }
}
