//! Headers exchanges (B89): an index from pairs of header and value to the bindings that ask for them.
//!
//! Keys do not matter (B90). Scanning all bindings per message is what this avoids:
//!
//! ```text
//!  pair -> bucket   any: destinations, reached by this pair alone
//!                   all: filter -> destinations, for the filters anchored here; the rest of the filter is checked
//! ```
//!
//! A filter that asks for several pairs is anchored at the one with the fewest filters, preferably one that asks for a
//! value and not for mere presence. A message looks up each of its headers once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use stdx::hamt::{Hamt, hash_of};
use wire::amqp091::{Table as Arguments, Value};

use super::header_view::{HeaderView, write_name, write_value};
use crate::key::Key;
use crate::sink::Sink;
use crate::table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::targets::Targets;
use crate::{Destination, QueueHandle};

const MATCH_ARGUMENT: &[u8] = b"x-match";
const X_PREFIX: &[u8] = b"x-";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    All,
    Any,
}

#[derive(Clone)]
pub(crate) struct HeadersTable<Q: QueueHandle> {
    /// Bindings that ask for nothing, and for all of it.
    everything: Targets<Q>,
    buckets: Hamt<Key, Bucket<Q>>,
    /// Buckets for mere presence; without any, messages need not look for them.
    presence_count: usize,
}

#[derive(Clone)]
struct Bucket<Q: QueueHandle> {
    any: Targets<Q>,
    all: Hamt<Arc<Filter>, Targets<Q>>,
}

/// Pairs that a binding asks for, ordered, each once.
struct Filter(Vec<Pair>);

struct Pair {
    name_hash: u64,
    key: Key,
    /// Whether it asks only for presence.
    presence: bool,
}

impl Pair {
    fn new(name: &[u8], value: Value<'_>) -> Self {
        let mut bytes = Vec::new();
        write_name(name, &mut bytes);
        let name_hash = hash_of(&bytes[..]);
        let presence = value == Value::Void;
        if !presence {
            write_value(value, &mut bytes);
        }
        Self { name_hash, key: bytes[..].into(), presence }
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|pair| &pair.key).eq(other.0.iter().map(|pair| &pair.key))
    }
}

impl Eq for Filter {}

impl Hash for Filter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for pair in &self.0 {
            pair.key.hash(state);
        }
    }
}

/// `x-match`, and whether arguments that begin with `x-` count.
fn parse_match(arguments: Arguments<'_>) -> Result<(Quantity, bool), BindingError<'_>> {
    match arguments.get(MATCH_ARGUMENT) {
        None | Some(Value::LongStr(b"all")) => Ok((Quantity::All, false)),
        Some(Value::LongStr(b"any")) => Ok((Quantity::Any, false)),
        Some(Value::LongStr(b"all-with-x")) => Ok((Quantity::All, true)),
        Some(Value::LongStr(b"any-with-x")) => Ok((Quantity::Any, true)),
        Some(Value::LongStr(other)) => Err(BindingError::XMatchValue(other)),
        Some(other) => Err(BindingError::XMatchType(other)),
    }
}

/// What the arguments ask for; nothing that ever matches if they do not pass the check.
fn parse(arguments: Arguments<'_>) -> (Quantity, Filter) {
    let Ok((quantity, with_x)) = parse_match(arguments) else { return (Quantity::Any, Filter(Vec::new())) };
    let counts = |name: &[u8]| if with_x { name != MATCH_ARGUMENT } else { !name.starts_with(X_PREFIX) };
    let asked = arguments.iter().filter(|(name, _)| counts(name));
    let mut pairs: Vec<Pair> = asked.map(|(name, value)| Pair::new(name, value)).collect();
    pairs.sort_unstable_by(|one, other| one.key.as_bytes().cmp(other.key.as_bytes()));
    pairs.dedup_by(|one, other| one.key == other.key);
    (quantity, Filter(pairs))
}

impl<Q: QueueHandle> Default for Bucket<Q> {
    fn default() -> Self {
        Self { any: Targets::new(), all: Hamt::new() }
    }
}

impl<Q: QueueHandle> Default for HeadersTable<Q> {
    fn default() -> Self {
        Self { everything: Targets::new(), buckets: Hamt::new(), presence_count: 0 }
    }
}

impl<Q: QueueHandle> HeadersTable<Q> {
    /// The pair under whose bucket the filter is.
    fn anchor_of<'f>(&self, filter: &'f Filter) -> Option<&'f Pair> {
        filter
            .0
            .iter()
            .find(|pair| self.buckets.get(&pair.key).is_some_and(|bucket| bucket.all.contains_key(filter)))
    }

    /// The pair under whose bucket a new filter is looked for least often.
    fn best_anchor<'f>(&self, filter: &'f Filter) -> Option<&'f Pair> {
        let crowd = |pair: &Pair| self.buckets.get(&pair.key).map_or(0, |bucket| bucket.all.len());
        filter.0.iter().min_by_key(|pair| (pair.presence, crowd(pair)))
    }

    fn bucket_mut(&mut self, pair: &Pair) -> &mut Bucket<Q> {
        if pair.presence && !self.buckets.contains_key(&pair.key) {
            self.presence_count += 1;
        }
        self.buckets.get_mut_or_insert_with(&pair.key, || (pair.key.clone(), Bucket::default()))
    }

    /// Changes the bucket of a pair, if it is there, and removes it when it has become empty.
    fn change_bucket(&mut self, pair: &Pair, change: impl FnOnce(&mut Bucket<Q>) -> bool) -> bool {
        let Some(bucket) = self.buckets.get_mut(&pair.key) else { return false };
        let changed = change(bucket);
        if bucket.any.is_empty() && bucket.all.is_empty() {
            self.buckets.remove(&pair.key);
            self.presence_count -= usize::from(pair.presence);
        }
        changed
    }

    fn collect_bucket(bucket: &Bucket<Q>, headers: &HeaderView, sink: &mut Sink<'_, Q>) {
        if !bucket.any.is_empty() {
            sink.add(&bucket.any);
        }
        for (filter, targets) in &bucket.all {
            if filter.0.iter().all(|pair| headers.has(pair.name_hash, pair.key.as_bytes())) {
                sink.add(targets);
            }
        }
    }
}

impl<Q: QueueHandle> TypeTable<Q> for HeadersTable<Q> {
    const NEEDS_HEADERS: bool = true;

    fn check<'a>(_: &'a [u8], arguments: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        parse_match(arguments).map(drop)
    }

    fn bind(&mut self, _: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let (quantity, filter) = parse(arguments);
        if quantity == Quantity::Any {
            let bind = |changed, pair| self.bucket_mut(pair).any.bind(destination) | changed;
            return filter.0.iter().fold(false, bind);
        }
        let Some(anchor) = self.anchor_of(&filter).or_else(|| self.best_anchor(&filter)) else {
            return self.everything.bind(destination);
        };
        let all = &mut self.bucket_mut(anchor).all;
        match all.get_mut(&filter) {
            Some(targets) => targets.bind(destination),
            None => {
                let mut targets = Targets::new();
                targets.bind(destination);
                all.insert(Arc::new(filter), targets);
                true
            }
        }
    }

    fn unbind(&mut self, _: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let (quantity, filter) = parse(arguments);
        if quantity == Quantity::Any {
            let mut unbind = |pair| self.change_bucket(pair, |bucket| bucket.any.unbind(destination));
            return filter.0.iter().fold(false, |changed, pair| unbind(pair) | changed);
        }
        if filter.0.is_empty() {
            return self.everything.unbind(destination);
        }
        let Some(anchor) = self.anchor_of(&filter) else { return false };
        self.change_bucket(anchor, |bucket| {
            let Some(targets) = bucket.all.get_mut(&filter) else { return false };
            let changed = targets.unbind(destination);
            if targets.is_empty() {
                bucket.all.remove(&filter);
            }
            changed
        })
    }

    fn is_empty(&self) -> bool {
        self.everything.is_empty() && self.buckets.is_empty()
    }

    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        if !self.everything.is_empty() {
            sink.add(&self.everything);
        }
        if self.buckets.is_empty() {
            return;
        }
        for (pair, name) in message.headers.iter() {
            if let Some(bucket) = self.buckets.get(pair) {
                Self::collect_bucket(bucket, message.headers, sink);
            }
            if self.presence_count > 0
                && let Some(bucket) = self.buckets.get(name)
            {
                Self::collect_bucket(bucket, message.headers, sink);
            }
        }
    }

    fn lookup(&self, _: &[u8]) -> Lookup<'_, Q> {
        if self.buckets.is_empty() { Lookup::of(Some(&self.everything)) } else { Lookup::Walk }
    }
}

#[cfg(test)]
mod tests {
    use wire::amqp091::TableBuf;

    use super::*;

    fn arguments(entries: &[(&str, Value<'_>)]) -> TableBuf {
        let mut table = TableBuf::new();
        for (name, value) in entries {
            table.push_raw(name, *value);
        }
        table
    }

    #[test]
    fn x_match_must_be_one_of_four_long_strings() {
        for mode in ["all", "any", "all-with-x", "any-with-x"] {
            let arguments = arguments(&[("x-match", mode.into())]);
            assert_eq!(<HeadersTable<u32>>::check(b"", arguments.as_table(), BindingTo::Exchange), Ok(()));
        }
        let unknown = arguments(&[("x-match", "some".into())]);
        assert_eq!(
            <HeadersTable<u32>>::check(b"", unknown.as_table(), BindingTo::Exchange),
            Err(BindingError::XMatchValue(b"some"))
        );
        let number = arguments(&[("x-match", Value::I32(5))]);
        let error = <HeadersTable<u32>>::check(b"", number.as_table(), BindingTo::Exchange).unwrap_err();
        assert_eq!(error, BindingError::XMatchType(Value::I32(5)));
        assert_eq!(error.to_string(), "x-match is a signedint and no longstr");
    }

    #[test]
    fn a_filter_is_anchored_where_the_fewest_are_and_leaves_nothing_behind() {
        let mut table = HeadersTable::default();
        let bindings: Vec<_> = (0..100)
            .map(|id| arguments(&[("format", "pdf".into()), ("id", Value::I64(id)), ("user", Value::Void)]))
            .collect();
        for arguments in &bindings {
            assert!(table.bind(b"", arguments.as_table(), &Destination::Queue(1u32)));
            assert!(table.bind(b"", arguments.as_table(), &Destination::Queue(2)));
        }
        assert!(table.buckets.iter().all(|(_, bucket)| bucket.all.len() <= 2));
        for arguments in &bindings {
            assert!(table.unbind(b"", arguments.as_table(), &Destination::Queue(1)));
            assert!(!table.unbind(b"", arguments.as_table(), &Destination::Queue(1)));
            assert!(table.unbind(b"", arguments.as_table(), &Destination::Queue(2)));
        }
        assert!(table.is_empty() && table.presence_count == 0);
    }

    #[test]
    fn arguments_that_fail_the_check_never_match() {
        let mut table = HeadersTable::default();
        let bad = arguments(&[("x-match", "some".into()), ("a", Value::Void)]);
        assert!(!table.bind(b"", bad.as_table(), &Destination::Queue(1u32)));
        assert!(table.is_empty());
    }
}
