//! Whether a policy can be what it wants to be, in the words of RabbitMQ 4.3.6. Refuses to know who asks.

use broker::policies::keys::{Merge, policy_key};
use broker::policies::policy_pattern_problem;
use metadata::{ApplyTo, PolicyDefinition, PolicyKind, PolicyValue, SetPolicy};
use serde_json::{Map, Value};

use super::NewPolicy;
use crate::resources::values::binary;

/// Widest list of settings in a text that stands on one line, characters.
const WIDTH: usize = 80;

/// Where RabbitMQ breaks the line in what is wrong with a pattern, characters.
const INDENT: usize = 54;

/// Beyond it numbers with a point are not exact.
const WRITTEN_WITH_POINT_MAX: f64 = 9e15;

/// A policy as the command that sets it.
///
/// # Errors
/// Everything that is wrong with it, for [`validation_failed`].
pub(crate) fn checked(
    kind: PolicyKind,
    vhost: &str,
    name: &str,
    new: &NewPolicy,
) -> Result<SetPolicy, Vec<String>> {
    let definition = definition(kind, &new.definition);
    let apply_to = apply_to(&new.apply_to);
    let pattern = pattern(&new.pattern);
    let priority = priority(&new.priority);
    match (definition, apply_to, pattern, priority) {
        (Ok(definition), Ok(apply_to), Ok(pattern), Ok(priority)) => {
            let (vhost, name) = (vhost.as_bytes().into(), name.into());
            Ok(SetPolicy { vhost, name, pattern, apply_to, priority, definition })
        }
        (definition, apply_to, pattern, priority) => {
            let problems = [definition.err(), apply_to.err(), pattern.err(), priority.err()];
            Err(problems.into_iter().flatten().collect())
        }
    }
}

/// RabbitMQ's text around what is wrong.
pub(crate) fn validation_failed(problems: &[String]) -> String {
    format!("Validation failed\n\n{}\n", problems.join("\n"))
}

/// Settings that are known are looked at first, those that are not known are named together.
fn definition(kind: PolicyKind, given: &Value) -> Result<PolicyDefinition, String> {
    let Value::Object(given) = given else {
        return Err(format!("definition should be an object of settings, actually was {}", term(given)));
    };
    if given.is_empty() {
        return Err("no policy provided".into());
    }
    if given.contains_key("queue-master-locator") {
        return Err("use of deprecated queue-master-locator argument is not permitted".into());
    }
    let (mut definition, mut unknown) = (PolicyDefinition::default(), Vec::new());
    for (name, value) in sorted(given) {
        let settable = |merge| kind == PolicyKind::User || merge != Merge::UserOnly;
        match policy_key(name).filter(|key| settable(key.merge)) {
            None => unknown.push((name, value)),
            Some(key) => match typed(value).filter(key.is_valid) {
                Some(value) => definition.set(name, value),
                None => return Err(format!("{} is not a valid {}", term(value), key.words)),
            },
        }
    }
    if unknown.is_empty() { delays(definition) } else { Err(not_recognised(&unknown)) }
}

/// Names that are no settings of such a policy.
pub(crate) fn unknown_settings(kind: PolicyKind, definition: &Value) -> Vec<&str> {
    let known = |name: &&String| match policy_key(name) {
        Some(key) => kind == PolicyKind::User || key.merge != Merge::UserOnly,
        None => false,
    };
    let names = definition.as_object().into_iter().flat_map(Map::keys);
    names.filter(|name| !known(name)).map(String::as_str).collect()
}

fn sorted(object: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let mut entries: Vec<_> = object.iter().map(|(name, value)| (name.as_str(), value)).collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    entries
}

/// Whole numbers that fit into 64 bits, and texts.
fn typed(value: &Value) -> Option<PolicyValue> {
    match value {
        Value::String(text) => Some(PolicyValue::Text(text.as_str().into())),
        Value::Number(number) => number.as_i64().map(PolicyValue::Integer),
        _ => None,
    }
}

/// A delay of retries has a shortest, and it is not longer than the longest.
fn delays(definition: PolicyDefinition) -> Result<PolicyDefinition, String> {
    let (kind, least, most) = (
        definition.text("delayed-retry-type"),
        definition.integer("delayed-retry-min"),
        definition.integer("delayed-retry-max"),
    );
    match (kind, least, most) {
        (Some(kind), None, _) if kind != "disabled" => {
            Err(format!("delayed-retry-min is required when delayed-retry-type is {kind}"))
        }
        (_, Some(least), Some(most)) if most < least => {
            Err(format!("delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"))
        }
        _ => Ok(definition),
    }
}

fn not_recognised(settings: &[(&str, &Value)]) -> String {
    format!("{} are not recognised policy settings", terms(settings))
}

/// Names and values as a list of RabbitMQ's.
pub(crate) fn terms(settings: &[(&str, &Value)]) -> String {
    let terms: Vec<String> =
        settings.iter().map(|(name, value)| format!("{{{},{}}}", binary(name), term(value))).collect();
    let on_one_line = terms.join(",");
    let list = if on_one_line.chars().count() + 2 <= WIDTH { on_one_line } else { terms.join(",\n ") };
    format!("[{list}]")
}

fn apply_to(given: &Value) -> Result<ApplyTo, String> {
    let known = given.as_str().and_then(ApplyTo::from_name);
    known.ok_or_else(|| {
        let given = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
        format!(
            "apply-to '{given}' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', \
             'exchanges', or 'all'"
        )
    })
}

fn pattern(given: &Value) -> Result<Box<str>, String> {
    let Value::String(pattern) = given else {
        return Err(format!("pattern should be a binary but was {}", term(given)));
    };
    match policy_pattern_problem(pattern) {
        None => Ok(pattern.as_str().into()),
        Some(problem) => Err(format!(
            "pattern should be regular expression but is invalid: {{\"{}\",\n{:INDENT$}{}}}",
            problem.text.replace('\\', "\\\\"),
            "",
            problem.position
        )),
    }
}

/// Whole, however it is written: RabbitMQ also takes 5.0, which some tools write, and 5.5.
fn priority(given: &Value) -> Result<i64, String> {
    let whole = given.as_f64().filter(|it| it.fract() == 0.0 && it.abs() <= WRITTEN_WITH_POINT_MAX);
    // Whole and far from what does not fit: nothing is lost.
    given
        .as_i64()
        .or(whole.map(|it| it as i64))
        .ok_or_else(|| format!("priority should be a number, actually was {}", term(given)))
}

/// A value as RabbitMQ's texts show it.
fn term(value: &Value) -> String {
    match value {
        Value::String(text) => binary(text),
        Value::Array(all) => format!("[{}]", all.iter().map(term).collect::<Vec<_>>().join(",")),
        Value::Object(entries) => {
            let entries = sorted(entries).into_iter();
            let entries = entries.map(|(name, value)| format!("{} => {}", binary(name), term(value)));
            format!("#{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(kind: PolicyKind, policy: &Value) -> String {
        let new = NewPolicy::from_json(policy.as_object().unwrap()).unwrap();
        checked(kind, "v", "p", &new).unwrap_err().join("\n")
    }

    #[test]
    fn settings_are_refused_in_rabbitmqs_words() {
        for (definition, words) in [
            (json!({}), "no policy provided"),
            (json!({"nope": 5}), "[{<<\"nope\">>,5}] are not recognised policy settings"),
            (json!({"max-length": "a", "zz": 1}), "<<\"a\">> is not a valid maximum length"),
            (json!({"expires": 0, "max-length": "a"}), "0 is not a valid queue expiry"),
            (json!({"max-length": {"a": 1}}), "#{<<\"a\">> => 1} is not a valid maximum length"),
            (json!({"max-length": [null]}), "[null] is not a valid maximum length"),
            (json!({"max-age": ""}), "<<>> is not a valid max age"),
            (json!({"stream-filter-size-bytes": 5}), "5 is not a valid filter size. Valid range is 16-255"),
            (
                json!({"delayed-retry-type": "all"}),
                "delayed-retry-min is required when delayed-retry-type is all",
            ),
            (
                json!({"queue-master-locator": "x"}),
                "use of deprecated queue-master-locator argument is not permitted",
            ),
            (
                json!({"nope":5,"zzz":"a","aaa":1.5,"l":[1,"x"],"m":{"k":1},"t":true,"n":null}),
                "[{<<\"aaa\">>,1.5},\n {<<\"l\">>,[1,<<\"x\">>]},\n {<<\"m\">>,#{<<\"k\">> => 1}},\n {<<\"n\">>,null},\n \
                 {<<\"nope\">>,5},\n {<<\"t\">>,true},\n {<<\"zzz\">>,<<\"a\">>}] are not recognised policy settings",
            ),
        ] {
            assert_eq!(refused(PolicyKind::User, &json!({"pattern": "", "definition": definition})), words);
        }
        let dead_letters = json!({"pattern": "", "definition": {"dead-letter-exchange": "x"}});
        assert_eq!(
            refused(PolicyKind::Operator, &dead_letters),
            "[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not recognised policy settings"
        );
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let policy =
            json!({"pattern": "(", "priority": "x", "apply-to": "zz", "definition": {"max-length": "a"}});
        let words = format!(
            "<<\"a\">> is not a valid maximum length\napply-to 'zz' unrecognised; should be one of: 'queues', 'classic_queues',  \
             'quorum_queues', 'streams', 'exchanges', or 'all'\npattern should be regular expression but is invalid: \
             {{\"missing closing parenthesis\",\n{:54}1}}\npriority should be a number, actually was <<\"x\">>",
            ""
        );
        assert_eq!(refused(PolicyKind::User, &policy), words);
    }

    #[test]
    fn a_policy_without_pattern_or_definition_is_told_so() {
        for (policy, key) in [(json!({"definition": {}}), "pattern"), (json!({"pattern": ""}), "definition")]
        {
            let missing = NewPolicy::from_json(policy.as_object().unwrap()).unwrap_err();
            assert_eq!(missing, super::super::PolicyProblem::KeyMissing(key));
        }
    }
}
