//! Events of policies: set, cleared, and the queues to which they make a difference. Refuses to know which policy wins.

use message::{TableBuf, Value};
use metadata::{
    ApplyTo, ClearPolicy, Command, PolicyDefinition, PolicyKind, PolicyValue, QueueType, SetPolicy,
};

use super::changes::module;
use super::events::{Announcer, Headers};
use crate::policies::AppliedPolicies;

/// Component of operator policies, which RabbitMQ keeps as parameters.
const OPERATOR_POLICY: &str = "operator_policy";

fn table(definition: &PolicyDefinition) -> TableBuf {
    let mut table = TableBuf::new();
    for (name, value) in definition.iter() {
        match value {
            PolicyValue::Integer(number) => table.push(name, Value::I64(*number)),
            PolicyValue::Text(text) => table.push(name, Value::LongStr(text.as_bytes())),
        };
    }
    table
}

/// The content of a policy.
struct Rule<'a> {
    pattern: &'a str,
    apply_to: ApplyTo,
    priority: i64,
    definition: &'a PolicyDefinition,
}

impl<'a> Rule<'a> {
    fn of(set: &'a SetPolicy) -> Rule<'a> {
        let SetPolicy { pattern, apply_to, priority, definition, .. } = set;
        Rule { pattern, apply_to: *apply_to, priority: *priority, definition }
    }

    fn fill(&self, headers: &mut Headers) {
        headers
            .text("apply-to", self.apply_to.name())
            .value("definition", Value::Table(table(self.definition).as_table()))
            .text("pattern", self.pattern)
            .value("priority", Value::I64(self.priority));
    }
}

impl Announcer {
    /// A policy was set.
    pub(super) fn policy_set(&self, kind: PolicyKind, set: &SetPolicy, by: &str) {
        if kind == PolicyKind::Operator {
            self.tell("parameter.set", |headers| {
                let mut value = TableBuf::new();
                value.push_str("apply-to", set.apply_to.name()).push_str("pattern", &*set.pattern);
                value.push_i64("priority", set.priority);
                value.push_table("definition", table(&set.definition).as_table());
                headers.text("component", OPERATOR_POLICY).text("name", &*set.name);
                headers.value("value", Value::Table(value.as_table())).text("vhost", &set.vhost).by(by);
            });
        }
        self.tell("policy.set", |headers| {
            Rule::of(set).fill(headers);
            headers.text("name", &*set.name).text("vhost", &set.vhost).by(by);
        });
    }

    /// A policy was cleared.
    pub(super) fn policy_cleared(&self, kind: PolicyKind, clear: &ClearPolicy, by: &str) {
        let key = match kind {
            PolicyKind::User => "policy.cleared",
            PolicyKind::Operator => {
                self.parameter_cleared(OPERATOR_POLICY, &clear.name, Some(&clear.vhost), by);
                "operator.policy.cleared"
            }
        };
        self.tell(key, |headers| {
            headers.text("name", &*clear.name).text("vhost", &clear.vhost).by(by);
        });
    }

    /// Other policies apply to a queue than before, or say something else. As in RabbitMQ it is told of by the policy that was set
    /// or cleared, whatever else applies; where several were, by one that applies now.
    pub(crate) fn queue_ruled(
        &self,
        (vhost, name, queue_type): (&str, &[u8], QueueType),
        command: &Command,
        policies: &AppliedPolicies,
        by: &str,
    ) {
        let rule = rule_of(command, policies);
        let key = if rule.is_some() { "queue.policy.updated" } else { "queue.policy.cleared" };
        self.tell(key, |headers| {
            headers.text("name", name).text("type", module(queue_type)).text("vhost", vhost).by(by);
            if let Some(rule) = &rule {
                rule.fill(headers);
            }
        });
    }
}

/// The rule that a queue gets.
fn rule_of<'a>(command: &'a Command, policies: &AppliedPolicies) -> Option<Rule<'a>> {
    match command {
        Command::SetPolicy(set) | Command::SetOperatorPolicy(set) => Some(Rule::of(set)),
        Command::ImportBatch(batch) => batch.commands.iter().rev().find_map(|command| {
            let (set, applied) = match command {
                Command::SetPolicy(set) => (set, policies.policy()),
                Command::SetOperatorPolicy(set) => (set, policies.operator_policy()),
                _ => return None,
            };
            applied.filter(|policy| policy.name == set.name).map(|_| Rule::of(set))
        }),
        _ => None,
    }
}
