//! Policies as runtime parameters, which is what exports and listings of parameters show.

use metadata::PolicyKind;
use serde_json::Value;

/// Component under which RabbitMQ keeps operator policies among parameters.
pub(crate) const OPERATOR_POLICY: &str = "operator_policy";

/// The component of policies, which RabbitMQ leaves out of lists of all parameters.
pub(crate) const POLICY: &str = "policy";

/// Policies as parameters, by name: the name, and the value as RabbitMQ writes it.
pub(crate) fn policy_parameters(
    vhost: &metadata::Vhost,
    kind: PolicyKind,
) -> impl Iterator<Item = (String, String)> {
    let value = |policy: &metadata::Policy| {
        let pattern = Value::from(&*policy.pattern);
        let definition = super::definition_object(&policy.definition);
        let (priority, apply_to) = (policy.priority, policy.apply_to.name());
        format!(
            "{{\"pattern\":{pattern},\"definition\":{definition},\"priority\":{priority},\"apply-to\":\"{apply_to}\"}}"
        )
    };
    vhost.policies(kind).map(move |(name, policy)| (name.to_owned(), value(policy)))
}
