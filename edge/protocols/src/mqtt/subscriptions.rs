//! A session's topic filters: their matches, and their form in bindings.
//!
//! Routing is done by the exchange, on translated keys. Here a message that has come is matched once more by the rules of MQTT: routing
//! does not know identifiers and options, and matches a little more than MQTT does.

use message::mqtt::{loses, push_key, push_topic};
use wire::amqp091::{Table, TableBuf, Value};
use wire::mqtt::{Qos, RetainHandling, SubscriptionOptions};

/// Argument of a binding with what the binding key does not tell of a subscription.
const OPTIONS: &str = "x-mqtt-subscription-opts";

/// A subscription of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Topic filter, without the part that names a group.
    pub(crate) filter: Box<str>,
    /// The group that shares it, if one does.
    pub(crate) group: Option<Box<str>>,
    pub(crate) options: SubscriptionOptions,
    /// Subscription Identifier.
    pub(crate) id: Option<u32>,
    /// The source whose messages it is about.
    pub(crate) token: u32,
}

impl Filter {
    /// Whether it is the subscription to the same filter.
    pub(crate) fn is_named(&self, filter: &str, group: Option<&str>) -> bool {
        *self.filter == *filter && self.group.as_deref() == group
    }

    /// The binding key.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.filter.len());
        push_key(&self.filter, &mut key);
        key
    }

    /// The arguments of the binding: none for what the key and the queue tell.
    pub(crate) fn arguments(&self) -> TableBuf {
        let mut told = TableBuf::new();
        if let Some(id) = self.id {
            told.push_raw("id", Value::U32(id));
        }
        let SubscriptionOptions { qos, no_local, retain_as_published, retain_handling } = self.options;
        // Of others the queue tells it. All that share a queue have the same.
        if qos == Qos::ExactlyOnce || (self.group.is_some() && qos == Qos::AtMostOnce) {
            told.push_raw("qos", Value::U8(qos as u8));
        }
        for (name, is_set) in [("no-local", no_local), ("retain-as-published", retain_as_published)] {
            if is_set {
                told.push_bool(name, true);
            }
        }
        if retain_handling != RetainHandling::Send {
            told.push_raw("retain-handling", Value::U8(retain_handling as u8));
        }
        if loses(&self.filter) {
            told.push_str("filter", self.filter.as_bytes());
        }
        let mut arguments = TableBuf::new();
        if told != TableBuf::new() {
            arguments.push_table(OPTIONS, told.as_table());
        }
        arguments
    }

    /// Of a binding of a session's queue, of those with QoS 0 or the others.
    pub(crate) fn of_binding(key: &[u8], arguments: Table<'_>, token: u32, qos: Qos) -> Filter {
        let told = match arguments.get(OPTIONS) {
            Some(Value::Table(told)) => told,
            _ => Table::EMPTY,
        };
        let number = |name: &str| told.get(name).and_then(|value| value.as_i64());
        let flag = |name: &str| told.get(name) == Some(Value::Bool(true));
        let filter = match told.get("filter") {
            Some(Value::LongStr(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => {
                let mut filter = String::with_capacity(key.len());
                push_topic(key, true, &mut filter);
                filter
            }
        };
        let options = SubscriptionOptions {
            qos: match number("qos") {
                Some(0) => Qos::AtMostOnce,
                Some(2) => Qos::ExactlyOnce,
                _ => qos,
            },
            no_local: flag("no-local"),
            retain_as_published: flag("retain-as-published"),
            retain_handling: match number("retain-handling") {
                Some(1) => RetainHandling::SendIfNew,
                Some(2) => RetainHandling::DoNotSend,
                _ => RetainHandling::Send,
            },
        };
        let id = number("id").and_then(|id| u32::try_from(id).ok());
        Filter { filter: filter.into(), group: None, options, id, token }
    }
}

/// Whether a filter matches a topic (section 4.7). Wildcards at the first level do not match topics that begin with `$`.
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let (mut filters, mut levels) = (filter.split('/'), topic.split('/'));
    loop {
        match (filters.next(), levels.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(_)) => {}
            (Some(filter), Some(level)) if filter == level => {}
            _ => return false,
        }
    }
}

/// The options that the subscriptions to a topic have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The highest QoS.
    pub(crate) qos: Qos,
    /// One wants the retain flag as published.
    pub(crate) retain_as_published: bool,
    /// All are for messages of others.
    pub(crate) no_local: bool,
}

/// All subscriptions of the session.
#[derive(Debug, Default)]
pub(crate) struct Filters(Vec<Filter>);

impl Filters {
    /// Adds a subscription, or replaces the one to the same filter, which is returned.
    pub(crate) fn put(&mut self, filter: Filter) -> Option<Filter> {
        let group = filter.group.as_deref();
        match self.0.iter_mut().find(|old| old.is_named(&filter.filter, group)) {
            Some(old) => Some(std::mem::replace(old, filter)),
            None => {
                // Most clients have one.
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.push(filter);
                None
            }
        }
    }

    /// The subscription to this filter.
    pub(crate) fn get(&self, filter: &str, group: Option<&str>) -> Option<&Filter> {
        self.0.iter().find(|known| known.is_named(filter, group))
    }

    /// Removes the subscription to this filter.
    pub(crate) fn remove(&mut self, filter: &str, group: Option<&str>) -> Option<Filter> {
        let at = self.0.iter().position(|known| known.is_named(filter, group))?;
        Some(self.0.swap_remove(at))
    }

    /// Whether any is for messages of others only.
    pub(crate) fn has_no_local(&self) -> bool {
        self.0.iter().any(|filter| filter.options.no_local)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Filter>()
            + self.0.iter().map(|filter| filter.filter.len()).sum::<usize>()
    }

    /// The subscriptions that match a message from a source; identifiers are appended to `ids`.
    pub(crate) fn look(&self, token: u32, topic: &str, ids: &mut Vec<u32>) -> Option<Hit> {
        let mut found: Option<Hit> = None;
        for filter in self.0.iter().filter(|it| it.token == token && matches(&it.filter, topic)) {
            let SubscriptionOptions { qos, no_local, retain_as_published, .. } = filter.options;
            ids.extend(filter.id);
            found = Some(match found {
                None => Hit { qos, retain_as_published, no_local },
                Some(hit) => Hit {
                    qos: hit.qos.max(qos),
                    retain_as_published: hit.retain_as_published | retain_as_published,
                    no_local: hit.no_local & no_local,
                },
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(filter: &str, qos: Qos, id: Option<u32>) -> Filter {
        let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
        Filter { filter: filter.into(), group: None, options, id, token: 1 }
    }

    #[test]
    fn filters_match_as_in_the_specification() {
        for (filter, topic) in [
            ("sport/tennis/player1/#", "sport/tennis/player1"),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking"),
            ("sport/#", "sport"),
            ("#", "a/b"),
            ("sport/tennis/+", "sport/tennis/player1"),
            ("sport/+", "sport/"),
            ("+/+", "/finance"),
            ("/+", "/finance"),
            ("$SYS/#", "$SYS/monitor"),
        ] {
            assert!(matches(filter, topic), "{filter} {topic}");
        }
        for (filter, topic) in [
            ("sport/tennis/+", "sport/tennis/player1/ranking"),
            ("sport/+", "sport"),
            ("+", "/finance"),
            ("#", "$SYS/monitor"),
            ("+/monitor", "$SYS/monitor"),
            ("a/*", "a/b"),
            ("a", "A"),
        ] {
            assert!(!matches(filter, topic), "{filter} {topic}");
        }
    }

    #[test]
    fn overlapping_subscriptions_are_one_delivery_with_all_identifiers() {
        let mut filters = Filters::default();
        assert!(filters.put(filter("a/#", Qos::AtLeastOnce, Some(1))).is_none());
        assert!(filters.put(filter("a/b", Qos::ExactlyOnce, Some(2))).is_none());
        assert!(filters.put(filter("c", Qos::ExactlyOnce, None)).is_none());
        let mut ids = Vec::new();
        let hit = filters.look(1, "a/b", &mut ids).unwrap();
        assert_eq!((hit.qos, &ids[..]), (Qos::ExactlyOnce, &[1, 2][..]));
        assert_eq!(filters.look(1, "d", &mut ids), None);
        assert_eq!(filters.look(2, "c", &mut ids), None, "of another source");
        assert!(filters.put(filter("c", Qos::AtMostOnce, None)).is_some());
        assert!(filters.remove("c", None).is_some() && filters.get("c", None).is_none());
    }

    #[test]
    fn bindings_tell_subscriptions() {
        let plain = filter("a/+/#", Qos::AtLeastOnce, None);
        assert_eq!(plain.arguments(), TableBuf::new());
        let options = SubscriptionOptions {
            qos: Qos::ExactlyOnce,
            no_local: true,
            retain_as_published: true,
            retain_handling: RetainHandling::DoNotSend,
        };
        let rich = Filter { filter: "a.b/+".into(), options, id: Some(268_435_455), ..plain.clone() };
        for filter in [plain, rich] {
            let arguments = filter.arguments();
            let read = Filter::of_binding(&filter.key(), arguments.as_table(), 1, Qos::AtLeastOnce);
            assert_eq!(read, filter);
        }
    }
}
