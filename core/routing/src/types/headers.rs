//! Headers exchanges (B89): an index from pairs of header and value to the bindings that ask for them.
//!
//! Keys do not matter (B90). Scanning all bindings per message is what this avoids:
//!
//! ```text
//!  pair -> bucket   any: destinations, reached by this pair alone
//!                   all: filter -> destinations, for the filters anchored here; the rest of the filter is checked
//! ```
//!
//! Most pairs stand in one binding, so a bucket with one filter holds it in place, and filters are packed bytes.
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
    all: Filters<Q>,
}

/// The filters anchored at one pair.
#[derive(Clone)]
enum Filters<Q: QueueHandle> {
    None,
    One(Filter, Targets<Q>),
    Many(Box<Hamt<Filter, Targets<Q>>>),
}

/// Pairs that a binding asks for, ordered, each once, packed:
///
/// ```text
///  per pair   hash of the name u64 | length of the pair u32 | pair, see `header_view`
/// ```
#[derive(Clone, PartialEq, Eq)]
struct Filter(Arc<[u8]>);

/// A pair on its way into or out of a filter.
struct Pair<'p> {
    name_hash: u64,
    bytes: &'p [u8],
}

impl Pair<'_> {
    /// Whether it asks only for presence.
    fn is_presence(&self) -> bool {
        self.bytes.len() == 1 + usize::from(self.bytes[0])
    }
}

impl Filter {
    fn pack(mut pairs: Vec<Vec<u8>>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut packed = Vec::new();
        for pair in &pairs {
            let name_hash = hash_of(&pair[..=usize::from(pair[0])]);
            let len = u32::try_from(pair.len()).expect("a field table is shorter than a frame");
            packed.extend_from_slice(&name_hash.to_ne_bytes());
            packed.extend_from_slice(&len.to_ne_bytes());
            packed.extend_from_slice(pair);
        }
        Self(packed.into())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (name_hash, behind) = rest.split_first_chunk()?;
            let (len, behind) = behind.split_first_chunk()?;
            let (bytes, behind) = behind.split_at(u32::from_ne_bytes(*len) as usize);
            rest = behind;
            Some(Pair { name_hash: u64::from_ne_bytes(*name_hash), bytes })
        })
    }
}

impl Hash for Filter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<Q: QueueHandle> Filters<Q> {
    fn len(&self) -> usize {
        match self {
            Filters::None => 0,
            Filters::One(..) => 1,
            Filters::Many(many) => many.len(),
        }
    }

    fn contains(&self, filter: &Filter) -> bool {
        match self {
            Filters::None => false,
            Filters::One(one, _) => one == filter,
            Filters::Many(many) => many.contains_key(filter),
        }
    }

    fn bind(&mut self, filter: Filter, destination: &Destination<Q>) -> bool {
        match self {
            Filters::One(one, targets) if *one == filter => return targets.bind(destination),
            Filters::None => *self = Filters::One(filter, Targets::only(destination)),
            Filters::One(one, targets) => {
                let mut many = Hamt::new();
                many.insert(one.clone(), targets.clone());
                many.insert(filter, Targets::only(destination));
                *self = Filters::Many(Box::new(many));
            }
            Filters::Many(many) => match many.get_mut(&filter) {
                Some(targets) => return targets.bind(destination),
                None => drop(many.insert(filter, Targets::only(destination))),
            },
        }
        true
    }

    fn unbind(&mut self, filter: &Filter, destination: &Destination<Q>) -> bool {
        match self {
            Filters::One(one, targets) if one == filter => {
                let changed = targets.unbind(destination);
                if targets.is_empty() {
                    *self = Filters::None;
                }
                changed
            }
            Filters::None | Filters::One(..) => false,
            Filters::Many(many) => {
                let Some(targets) = many.get_mut(filter) else { return false };
                let changed = targets.unbind(destination);
                if targets.is_empty() {
                    many.remove(filter);
                }
                let last = if many.len() == 1 { many.iter().next() } else { None };
                if let Some((filter, targets)) =
                    last.map(|(filter, targets)| (filter.clone(), targets.clone()))
                {
                    *self = Filters::One(filter, targets);
                }
                changed
            }
        }
    }

    fn each(&self, mut each: impl FnMut(&Filter, &Targets<Q>)) {
        match self {
            Filters::None => {}
            Filters::One(filter, targets) => each(filter, targets),
            Filters::Many(many) => many.iter().for_each(|(filter, targets)| each(filter, targets)),
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
    let Ok((quantity, with_x)) = parse_match(arguments) else {
        return (Quantity::Any, Filter::pack(Vec::new()));
    };
    let counts = |name: &[u8]| if with_x { name != MATCH_ARGUMENT } else { !name.starts_with(X_PREFIX) };
    let asked = arguments.iter().filter(|(name, _)| counts(name));
    let pairs = asked.map(|(name, value)| {
        let mut pair = Vec::new();
        write_name(name, &mut pair);
        if value != Value::Void {
            write_value(value, &mut pair);
        }
        pair
    });
    (quantity, Filter::pack(pairs.collect()))
}

impl<Q: QueueHandle> Default for Bucket<Q> {
    fn default() -> Self {
        Self { any: Targets::new(), all: Filters::None }
    }
}

impl<Q: QueueHandle> Default for HeadersTable<Q> {
    fn default() -> Self {
        Self { everything: Targets::new(), buckets: Hamt::new(), presence_count: 0 }
    }
}

impl<Q: QueueHandle> HeadersTable<Q> {
    fn bucket(&self, pair: &Pair<'_>) -> Option<&Bucket<Q>> {
        self.buckets.get(pair.bytes)
    }

    /// The pair under whose bucket the filter is.
    fn anchor_of<'f>(&self, filter: &'f Filter) -> Option<Pair<'f>> {
        filter.pairs().find(|pair| self.bucket(pair).is_some_and(|bucket| bucket.all.contains(filter)))
    }

    /// The pair under whose bucket a new filter is looked for least often.
    fn best_anchor<'f>(&self, filter: &'f Filter) -> Option<Pair<'f>> {
        let crowd = |pair: &Pair<'_>| self.bucket(pair).map_or(0, |bucket| bucket.all.len());
        filter.pairs().min_by_key(|pair| (pair.is_presence(), crowd(pair)))
    }

    fn bucket_mut(&mut self, pair: &Pair<'_>) -> &mut Bucket<Q> {
        if pair.is_presence() && !self.buckets.contains_key(pair.bytes) {
            self.presence_count += 1;
        }
        self.buckets.get_mut_or_insert_with(pair.bytes, || (pair.bytes.into(), Bucket::default()))
    }

    /// Changes the bucket of a pair, if it is there, and removes it when it has become empty.
    fn change_bucket(&mut self, pair: &Pair<'_>, change: impl FnOnce(&mut Bucket<Q>) -> bool) -> bool {
        let Some(bucket) = self.buckets.get_mut(pair.bytes) else { return false };
        let changed = change(bucket);
        if bucket.any.is_empty() && bucket.all.len() == 0 {
            self.buckets.remove(pair.bytes);
            self.presence_count -= usize::from(pair.is_presence());
        }
        changed
    }

    fn collect_bucket(bucket: &Bucket<Q>, headers: &HeaderView, sink: &mut Sink<'_, Q>) {
        if !bucket.any.is_empty() {
            sink.add(&bucket.any);
        }
        bucket.all.each(|filter, targets| {
            if filter.pairs().all(|pair| headers.has(pair.name_hash, pair.bytes)) {
                sink.add(targets);
            }
        });
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
            let bind = |changed, pair| self.bucket_mut(&pair).any.bind(destination) | changed;
            return filter.pairs().fold(false, bind);
        }
        let Some(anchor) = self.anchor_of(&filter).or_else(|| self.best_anchor(&filter)) else {
            return self.everything.bind(destination);
        };
        self.bucket_mut(&anchor).all.bind(filter.clone(), destination)
    }

    fn unbind(&mut self, _: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let (quantity, filter) = parse(arguments);
        if quantity == Quantity::Any {
            let mut unbind = |pair| self.change_bucket(&pair, |bucket| bucket.any.unbind(destination));
            return filter.pairs().fold(false, |changed, pair| unbind(pair) | changed);
        }
        if filter.is_empty() {
            return self.everything.unbind(destination);
        }
        let Some(anchor) = self.anchor_of(&filter) else { return false };
        self.change_bucket(&anchor, |bucket| bucket.all.unbind(&filter, destination))
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
