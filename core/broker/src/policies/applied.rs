//! From the policies of a vhost to those that apply to one thing, and to what they say together. Refuses to know what
//! becomes of it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use metadata::{ApplyTo, PolicyDefinition, PolicyKind, PolicyValue, QueueType};

use super::candidates::Candidates;
use super::keys::{Merge, policy_key};
use super::patience::{Excess, PatientPattern};

/// A policy with its pattern ready for use.
#[derive(Debug)]
pub struct RuntimePolicy {
    /// Its name.
    pub name: Box<str>,
    /// The settings of the policy.
    pub definition: PolicyDefinition,
    priority: i64,
    apply_to: ApplyTo,
    pattern: Arc<PatientPattern>,
    unknown_to: Vec<QueueType>,
}

impl RuntimePolicy {
    fn new(name: &str, policy: &metadata::Policy, pattern: Arc<PatientPattern>) -> RuntimePolicy {
        let keys = policy.definition.iter().filter_map(|(name, _)| policy_key(name));
        RuntimePolicy {
            name: name.into(),
            definition: policy.definition.clone(),
            priority: policy.priority,
            apply_to: policy.apply_to,
            pattern,
            unknown_to: keys.flat_map(|key| key.unknown_to).copied().collect(),
        }
    }

    fn is_for_queue(&self, name: &[u8], queue_type: QueueType) -> bool {
        let of_type = match self.apply_to {
            ApplyTo::All | ApplyTo::Queues => true,
            ApplyTo::Exchanges => false,
            ApplyTo::ClassicQueues => queue_type == QueueType::Classic,
            ApplyTo::QuorumQueues => queue_type == QueueType::Quorum,
            ApplyTo::Streams => queue_type == QueueType::Stream,
        };
        of_type && !self.unknown_to.contains(&queue_type) && self.pattern.matches(name)
    }

    fn is_for_exchange(&self, name: &[u8]) -> bool {
        matches!(self.apply_to, ApplyTo::All | ApplyTo::Exchanges) && self.pattern.matches(name)
    }
}

/// Policies, those that win first.
#[derive(Debug, Default)]
struct Ranked {
    policies: Vec<Arc<RuntimePolicy>>,
    /// By what their patterns need, since the first name.
    candidates: OnceLock<Candidates>,
}

impl Ranked {
    fn new(mut policies: Vec<Arc<RuntimePolicy>>) -> Ranked {
        // Stable: among equals the first by name stays first. RabbitMQ takes any of them.
        policies.sort_by_key(|policy| std::cmp::Reverse(policy.priority));
        Ranked { policies, candidates: OnceLock::new() }
    }

    fn iter(&self) -> std::slice::Iter<'_, Arc<RuntimePolicy>> {
        self.policies.iter()
    }

    /// The one that wins among those that are for a name.
    fn first(&self, name: &[u8], is_for: impl Fn(&RuntimePolicy) -> bool) -> Option<Arc<RuntimePolicy>> {
        let needles = || self.policies.iter().map(|policy| policy.pattern.needles());
        let candidates = self.candidates.get_or_init(|| Candidates::of(needles()));
        let place = candidates.first(name, |place| is_for(&self.policies[place]))?;
        self.policies.get(place).cloned()
    }
}

/// All policies of a vhost, those that win first.
#[derive(Debug, Default)]
pub struct VhostPolicies {
    of_users: Ranked,
    of_operators: Ranked,
    /// Time that their patterns took beyond what they may take.
    excess: Arc<Excess>,
}

impl VhostPolicies {
    /// The policies that the metadata have.
    #[must_use]
    pub fn of(vhost: &metadata::Vhost) -> VhostPolicies {
        VhostPolicies::default().then(vhost)
    }

    /// The policies that the metadata have now. Patterns that are as before stay as they are: compiled, or given up.
    #[must_use]
    pub fn then(&self, vhost: &metadata::Vhost) -> VhostPolicies {
        let sorted = |kind| {
            let (former, what) = match kind {
                PolicyKind::User => (&self.of_users, "policy"),
                PolicyKind::Operator => (&self.of_operators, "operator policy"),
            };
            let former: HashMap<&str, &RuntimePolicy> = former.iter().map(|it| (&*it.name, &**it)).collect();
            let pattern = |name: &str, text: &str| {
                let former = former.get(name).filter(|it| *it.pattern.text == *text);
                former.map_or_else(
                    || {
                        let policy =
                            format!("{what} '{name}' in vhost '{}'", String::from_utf8_lossy(vhost.name()));
                        Arc::new(PatientPattern::new(text, &policy, &self.excess))
                    },
                    |former| former.pattern.clone(),
                )
            };
            let policies = vhost.policies(kind);
            let policies = policies.map(|(name, policy)| {
                Arc::new(RuntimePolicy::new(name, policy, pattern(name, &policy.pattern)))
            });
            Ranked::new(policies.collect())
        };
        let (of_users, of_operators) = (sorted(PolicyKind::User), sorted(PolicyKind::Operator));
        VhostPolicies { of_users, of_operators, excess: self.excess.clone() }
    }

    /// How many of them match nothing because that took too long.
    pub(crate) fn given_up_count(&self) -> usize {
        let all = self.of_users.iter().chain(self.of_operators.iter());
        all.filter(|policy| policy.pattern.is_given_up()).count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_users.policies.is_empty() && self.of_operators.policies.is_empty()
    }

    /// Names of the policies that match a queue, the one that applies first. Operator policies are not among them.
    #[must_use]
    pub fn matching_queue(&self, name: &[u8], queue_type: QueueType) -> Vec<&str> {
        self.names(|policy| policy.is_for_queue(name, queue_type))
    }

    /// As [`VhostPolicies::matching_queue`], of an exchange.
    #[must_use]
    pub fn matching_exchange(&self, name: &[u8]) -> Vec<&str> {
        self.names(|policy| policy.is_for_exchange(name))
    }

    fn names(&self, matches: impl Fn(&RuntimePolicy) -> bool) -> Vec<&str> {
        self.of_users.iter().filter(|policy| matches(policy)).map(|policy| &*policy.name).collect()
    }

    /// The settings that apply to a queue.
    #[must_use]
    pub fn of_queue(&self, name: &[u8], queue_type: QueueType) -> AppliedPolicies {
        let first = |policies: &Ranked| policies.first(name, |policy| policy.is_for_queue(name, queue_type));
        AppliedPolicies { of_users: first(&self.of_users), of_operators: first(&self.of_operators) }
    }

    /// The settings that apply to an exchange: there is nothing that operators could set for one.
    #[must_use]
    pub fn of_exchange(&self, name: &[u8]) -> AppliedPolicies {
        let of_users = self.of_users.first(name, |policy| policy.is_for_exchange(name));
        AppliedPolicies { of_users, of_operators: None }
    }
}

/// The policies that apply to one thing.
#[derive(Clone, Debug, Default)]
pub struct AppliedPolicies {
    of_users: Option<Arc<RuntimePolicy>>,
    of_operators: Option<Arc<RuntimePolicy>>,
}

impl AppliedPolicies {
    /// The policy, if any.
    #[must_use]
    pub fn policy(&self) -> Option<&RuntimePolicy> {
        self.of_users.as_deref()
    }

    /// The operator policy, if any.
    #[must_use]
    pub fn operator_policy(&self) -> Option<&RuntimePolicy> {
        self.of_operators.as_deref()
    }

    /// Whether there is neither.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_users.is_none() && self.of_operators.is_none()
    }

    /// Whether they are the same by name and say the same.
    #[must_use]
    pub fn says_the_same_as(&self, other: &AppliedPolicies) -> bool {
        let same = |one: &Option<Arc<RuntimePolicy>>, other: &Option<Arc<RuntimePolicy>>| match (one, other) {
            (Some(one), Some(other)) => one.name == other.name && one.definition == other.definition,
            (None, None) => true,
            _ => false,
        };
        same(&self.of_users, &other.of_users) && same(&self.of_operators, &other.of_operators)
    }

    /// A setting: of the one that has it, or merged from both.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PolicyValue> {
        let user = self.of_users.as_deref().and_then(|policy| policy.definition.get(name));
        let operator = self.of_operators.as_deref().and_then(|policy| policy.definition.get(name));
        match (user, operator) {
            (Some(user), Some(operator)) => Some(merged(name, user, operator)),
            (one, other) => one.or(other),
        }
    }

    /// A setting that is a number and not negative.
    #[must_use]
    pub fn natural(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            PolicyValue::Integer(number) => u64::try_from(*number).ok(),
            PolicyValue::Text(_) => None,
        }
    }

    /// A setting that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            PolicyValue::Text(text) => Some(text),
            PolicyValue::Integer(_) => None,
        }
    }

    /// All settings.
    #[must_use]
    pub fn definition(&self) -> PolicyDefinition {
        let both = [self.policy(), self.operator_policy()];
        let names = both.into_iter().flatten().flat_map(|policy| policy.definition.iter());
        names.filter_map(|(name, _)| Some((name, self.get(name)?.clone()))).collect()
    }
}

fn merged<'a>(name: &str, user: &'a PolicyValue, operator: &'a PolicyValue) -> &'a PolicyValue {
    let merge = policy_key(name).map_or(Merge::UserOnly, |key| key.merge);
    match (merge, user, operator) {
        (Merge::UserOnly, ..) => user,
        (Merge::Lower, PolicyValue::Integer(one), PolicyValue::Integer(other)) if one < other => user,
        (Merge::Higher, PolicyValue::Integer(one), PolicyValue::Integer(other)) if one > other => user,
        _ => operator,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, priority: i64, apply_to: ApplyTo, json: &str) -> Arc<RuntimePolicy> {
        let definition = PolicyDefinition::from_json(json).expect("it is one");
        let record = metadata::Policy { pattern: "^q".into(), apply_to, priority, definition };
        let pattern = PatientPattern::new(&record.pattern, name, &Arc::default());
        Arc::new(RuntimePolicy::new(name, &record, Arc::new(pattern)))
    }

    fn applied(user: &str, operator: &str) -> AppliedPolicies {
        AppliedPolicies {
            of_users: Some(policy("u", 0, ApplyTo::All, user)),
            of_operators: Some(policy("o", 0, ApplyTo::All, operator)),
        }
    }

    #[test]
    fn limits_merge_to_the_lower_and_words_to_those_of_operators() {
        let user = r#"{"dead-letter-exchange":"x","expires":9,"max-length":3,"overflow":"reject-publish","queue-version":1}"#;
        let operator = r#"{"max-length":2,"message-ttl":7,"overflow":"drop-head","queue-version":2}"#;
        let both = applied(user, operator);
        assert_eq!(
            both.definition().to_json(),
            r#"{"dead-letter-exchange":"x","expires":9,"max-length":2,"message-ttl":7,"overflow":"drop-head","queue-version":2}"#
        );
        let user = r#"{"delayed-retry-max":40,"delayed-retry-min":4}"#;
        let operator = r#"{"delayed-retry-max":30,"delayed-retry-min":9}"#;
        assert_eq!(applied(user, operator).definition().to_json(), operator);
    }

    #[test]
    fn the_highest_priority_wins_and_among_equals_the_first_name() {
        let one = r#"{"max-length":1}"#;
        let of_users = Ranked::new(vec![
            policy("classic", 4, ApplyTo::ClassicQueues, one),
            policy("first", 5, ApplyTo::Exchanges, one),
            policy("quorum", 5, ApplyTo::QuorumQueues, one),
            policy("foreign", 5, ApplyTo::All, r#"{"delivery-limit":1,"max-length":1}"#),
        ]);
        let policies = VhostPolicies { of_users, ..VhostPolicies::default() };
        let name_of = |applied: AppliedPolicies| applied.policy().map(|it| it.name.to_string());
        assert_eq!(name_of(policies.of_queue(b"q", QueueType::Classic)).as_deref(), Some("classic"));
        assert_eq!(name_of(policies.of_queue(b"q", QueueType::Quorum)).as_deref(), Some("quorum"));
        assert_eq!(name_of(policies.of_exchange(b"q")).as_deref(), Some("first"));
        assert!(policies.of_queue(b"other", QueueType::Classic).is_empty());
    }

    #[test]
    fn of_many_policies_the_one_applies_that_applies_when_each_is_tried() {
        let forms = [
            "^shop-N\\.",
            "orders-N$",
            "^(?!amq)shop-N",
            "^[a-z]+-N",
            "(shop|mail)-N\\.",
            "^.*N",
            "^[^N]+$",
            "^none-N",
        ];
        let patterns: Vec<String> =
            (0..400).map(|nth| forms[nth % 8].replace('N', &(nth % 50).to_string())).collect();
        let policies = patterns.iter().enumerate().map(|(nth, pattern)| {
            let name = format!("{nth}");
            let definition = PolicyDefinition::from_json(r#"{"max-length":1}"#).expect("it is one");
            let (apply_to, priority) = (ApplyTo::All, nth as i64 * 7919 % 10);
            let record =
                metadata::Policy { pattern: pattern.as_str().into(), apply_to, priority, definition };
            let pattern = PatientPattern::new(pattern, &name, &Arc::default());
            Arc::new(RuntimePolicy::new(&name, &record, Arc::new(pattern)))
        });
        let policies =
            VhostPolicies { of_users: Ranked::new(policies.collect()), ..VhostPolicies::default() };
        let names = (0..60).flat_map(|nth| {
            ["shop-N.orders-N", "amq-N", "mail-N.", "", "7", "none-N"]
                .map(|it| it.replace('N', &nth.to_string()))
        });
        for name in names {
            let applied = policies.of_queue(name.as_bytes(), QueueType::Classic);
            let first = policies.matching_queue(name.as_bytes(), QueueType::Classic).first().copied();
            assert_eq!(applied.policy().map(|it| &*it.name), first, "{name}");
        }
    }
}
