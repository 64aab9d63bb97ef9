//! Events of policies: set, cleared, and the queues to which they make a difference. Definitions are written as Erlang terms in
//! text. Refuses to know which policy wins.

use metadata::{ClearPolicy, PolicyDefinition, PolicyValue, QueueType, SetPolicy};

use super::changes::module;
use super::erlang;
use super::events::Voice;
use crate::policies::AppliedPolicies;

/// Each setting as `{<<"name">>,value}`.
fn settings(definition: &PolicyDefinition) -> Vec<String> {
    let setting = |(name, value): (&str, &PolicyValue)| {
        let mut term = String::from("{");
        erlang::binary(&mut term, name.as_bytes());
        term.push(',');
        match value {
            PolicyValue::Integer(number) => term.push_str(&number.to_string()),
            PolicyValue::Text(text) => erlang::binary(&mut term, text.as_bytes()),
        }
        term.push('}');
        term
    };
    definition.iter().map(setting).collect()
}

impl Voice {
    /// A policy or an operator policy was set.
    pub(super) fn policy_set(&self, set: &SetPolicy, by: &str) {
        self.tell("policy.set", |headers| {
            headers
                .text("apply-to", set.apply_to.name())
                .texts("definition", settings(&set.definition))
                .text("name", &*set.name)
                .text("pattern", &*set.pattern)
                .value("priority", wire::amqp091::Value::I64(set.priority))
                .text("vhost", &set.vhost)
                .by(by);
        });
    }

    /// A policy or an operator policy was cleared.
    pub(super) fn policy_cleared(&self, clear: &ClearPolicy, by: &str) {
        self.tell("policy.cleared", |headers| {
            headers.text("name", &*clear.name).text("vhost", &clear.vhost).by(by);
        });
    }

    /// Other policies apply to a queue than before, or say something else.
    pub(crate) fn queue_ruled(
        &self,
        (vhost, name, queue_type): (&str, &[u8], QueueType),
        policies: &AppliedPolicies,
        by: &str,
    ) {
        let key = if policies.is_empty() { "queue.policy.cleared" } else { "queue.policy.updated" };
        self.tell(key, |headers| {
            headers.text("name", name).text("type", module(queue_type)).text("vhost", vhost).by(by);
            if !policies.is_empty() {
                headers.texts("definition", settings(&policies.definition()));
            }
            let named = [("policy", policies.policy()), ("operator_policy", policies.operator_policy())];
            for (header, policy) in named {
                if let Some(policy) = policy {
                    headers.text(header, &*policy.name);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_terms() {
        let mut definition = PolicyDefinition::default();
        definition.set("max-length", PolicyValue::Integer(5));
        definition.set("dead-letter-exchange", PolicyValue::Text("a\"b".into()));
        let expected = [r#"{<<"dead-letter-exchange">>,<<"a\"b">>}"#, r#"{<<"max-length">>,5}"#];
        assert_eq!(settings(&definition), expected);
    }
}
