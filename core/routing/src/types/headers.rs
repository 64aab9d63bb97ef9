//! Headers exchanges (B89): an index from header and value to the bindings that ask for them.
//!
//! Keys do not matter (B90). Scanning all bindings per message is what this avoids:
//!
//! ```text
//!  name -> number, presence -> bucket, value -> bucket
//!          bucket   any: destinations, reached by this pair alone
//!                   all: filter -> destinations, for the filters anchored here; the filter is the rest of the pairs
//! ```
//!
//! A filter that asks for several pairs is anchored at the one with the fewest filters, preferably one that asks for a
//! value and not for mere presence. A message looks up each of its headers once.

use message::{Table as Arguments, Value};
use smallvec::SmallVec;
use stdx::hamt::Hamt;

use super::header_bucket::Bucket;
use super::header_filter::{Asked, Filter, Found, FoundHeaders};
use super::header_view::write_value;
use crate::key::Key;
use crate::sink::Sink;
use crate::targets::Targets;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle};

const MATCH_ARGUMENT: &[u8] = b"x-match";
const X_PREFIX: &[u8] = b"x-";

/// Filters of more pairs are kept whole, their anchor too: with the anchor left out, finding out where a filter is anchored
/// takes one packing per pair.
const SHORTENED_PAIRS_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    All,
    Any,
}

#[derive(Clone)]
pub(crate) struct HeadersTable<Q: QueueHandle> {
    /// Bindings that ask for nothing, and for all of it.
    everything: Targets<Q>,
    names: Hamt<Key, Name<Q>>,
    /// Names are numbered as they come; a number is never given twice.
    next_number: u64,
}

/// A header that some binding asks for.
#[derive(Clone)]
struct Name<Q: QueueHandle> {
    /// Stands for the name in filters.
    number: u64,
    /// How many filters ask for it.
    filter_count: usize,
    presence: Option<Bucket<Q>>,
    values: Hamt<Key, Bucket<Q>>,
}

impl<Q: QueueHandle> Name<Q> {
    const fn new(number: u64) -> Self {
        Self { number, filter_count: 0, presence: None, values: Hamt::new() }
    }

    fn is_unused(&self) -> bool {
        self.filter_count == 0 && self.presence.is_none() && self.values.is_empty()
    }

    fn bucket(&self, value: Option<&[u8]>) -> Option<&Bucket<Q>> {
        match value {
            None => self.presence.as_ref(),
            Some(value) => self.values.get(value),
        }
    }

    fn bucket_mut(&mut self, value: Option<&[u8]>) -> &mut Bucket<Q> {
        match value {
            None => self.presence.get_or_insert_with(Bucket::default),
            Some(value) => self.values.get_mut_or_insert_with(value, || (value.into(), Bucket::default())),
        }
    }

    /// Changes a bucket, if it is there, and removes it when it has become empty.
    fn change_bucket<R: Default>(
        &mut self,
        value: Option<&[u8]>,
        change: impl FnOnce(&mut Bucket<Q>) -> R,
    ) -> R {
        let bucket = match value {
            None => self.presence.as_mut(),
            Some(value) => self.values.get_mut(value),
        };
        let Some(bucket) = bucket else { return R::default() };
        let result = change(bucket);
        if bucket.is_empty() {
            match value {
                None => self.presence = None,
                Some(value) => drop(self.values.remove(value)),
            }
        }
        result
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

/// The conditions of the arguments, ordered, each once; none that ever matches if they do not pass the check.
fn parse(arguments: Arguments<'_>) -> (Quantity, Vec<Asked<'_>>) {
    let Ok((quantity, with_x)) = parse_match(arguments) else { return (Quantity::Any, Vec::new()) };
    let counts = |name: &[u8]| if with_x { name != MATCH_ARGUMENT } else { !name.starts_with(X_PREFIX) };
    let asked = arguments.iter().filter(|(name, _)| counts(name));
    let mut pairs: Vec<_> = asked
        .map(|(name, value)| {
            let value = (value != Value::Void).then(|| {
                let mut bytes = Vec::new();
                write_value(value, &mut bytes);
                bytes
            });
            Asked { name, value }
        })
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    (quantity, pairs)
}

impl<Q: QueueHandle> Default for HeadersTable<Q> {
    fn default() -> Self {
        Self { everything: Targets::new(), names: Hamt::new(), next_number: 0 }
    }
}

impl<Q: QueueHandle> HeadersTable<Q> {
    /// The name's entry, made if it is new.
    fn name_mut(&mut self, name: &[u8]) -> &mut Name<Q> {
        let next = &mut self.next_number;
        self.names.get_mut_or_insert_with(name, || {
            let number = *next;
            *next += 1;
            (name.into(), Name::new(number))
        })
    }

    /// Changes a name's entry, if it is there, and removes it when nobody asks for it any more.
    fn change_name<R: Default>(&mut self, name: &[u8], change: impl FnOnce(&mut Name<Q>) -> R) -> R {
        let Some(entry) = self.names.get_mut(name) else { return R::default() };
        let result = change(entry);
        if entry.is_unused() {
            self.names.remove(name);
        }
        result
    }

    /// The filter of these pairs under the anchor at that place. All names must be known.
    fn filter_at(&self, pairs: &[Asked<'_>], anchor: usize) -> Option<Filter> {
        let is_whole = pairs.len() > SHORTENED_PAIRS_MAX;
        let rest = pairs.iter().enumerate().filter(|(at, _)| is_whole || *at != anchor);
        Filter::pack(rest.map(|(_, pair)| Some((self.names.get(pair.name)?.number, pair.value.as_deref()))))
    }

    fn bucket(&self, pair: &Asked<'_>) -> Option<&Bucket<Q>> {
        self.names.get(pair.name)?.bucket(pair.value.as_deref())
    }

    /// Where a filter is that is there: the place of its anchor among the pairs, and the filter.
    fn anchored(&self, pairs: &[Asked<'_>]) -> Option<(usize, Filter)> {
        pairs.iter().enumerate().find_map(|(at, pair)| {
            let bucket = self.bucket(pair).filter(|bucket| bucket.filter_count() > 0)?;
            let filter = self.filter_at(pairs, at)?;
            bucket.contains(&filter).then_some((at, filter))
        })
    }

    /// The place of the pair under whose bucket a new filter is looked for least often.
    fn best_anchor(&self, pairs: &[Asked<'_>]) -> Option<usize> {
        let crowd = |pair: &Asked<'_>| self.bucket(pair).map_or(0, Bucket::filter_count);
        (0..pairs.len()).min_by_key(|&at| (pairs[at].value.is_none(), crowd(&pairs[at])))
    }

    fn bind_all(&mut self, pairs: &[Asked<'_>], destination: &Destination<Q>) -> bool {
        let known = self.anchored(pairs);
        let is_new = known.is_none();
        let Some(anchor) = known.as_ref().map(|(at, _)| *at).or_else(|| self.best_anchor(pairs)) else {
            return self.everything.bind(destination);
        };
        if is_new {
            pairs.iter().for_each(|pair| self.name_mut(pair.name).filter_count += 1);
        }
        let filter = known.map(|(_, filter)| filter).or_else(|| self.filter_at(pairs, anchor));
        let filter = filter.expect("all names of the filter are known");
        let Asked { name, value } = &pairs[anchor];
        self.name_mut(name).bucket_mut(value.as_deref()).bind(filter, destination)
    }

    fn unbind_all(&mut self, pairs: &[Asked<'_>], destination: &Destination<Q>) -> bool {
        if pairs.is_empty() {
            return self.everything.unbind(destination);
        }
        let Some((anchor, filter)) = self.anchored(pairs) else { return false };
        let Asked { name, value } = &pairs[anchor];
        let (changed, is_gone) = self.change_name(name, |name| {
            name.change_bucket(value.as_deref(), |bucket| {
                (bucket.unbind(&filter, destination), !bucket.contains(&filter))
            })
        });
        if is_gone {
            pairs.iter().for_each(|pair| self.change_name(pair.name, |name| name.filter_count -= 1));
        }
        changed
    }

    fn bind_any(&mut self, pairs: &[Asked<'_>], destination: &Destination<Q>) -> bool {
        pairs.iter().fold(false, |changed, Asked { name, value }| {
            self.name_mut(name).bucket_mut(value.as_deref()).bind_any(destination) | changed
        })
    }

    fn unbind_any(&mut self, pairs: &[Asked<'_>], destination: &Destination<Q>) -> bool {
        pairs.iter().fold(false, |changed, Asked { name, value }| {
            self.change_name(name, |name| {
                name.change_bucket(value.as_deref(), |bucket| bucket.unbind_any(destination))
            }) | changed
        })
    }
}

impl<Q: QueueHandle> TypeTable<Q> for HeadersTable<Q> {
    const NEEDS_HEADERS: bool = true;

    fn check<'a>(_: &'a [u8], arguments: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        parse_match(arguments).map(drop)
    }

    fn bind(&mut self, _: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        match parse(arguments) {
            (Quantity::All, pairs) => self.bind_all(&pairs, destination),
            (Quantity::Any, pairs) => self.bind_any(&pairs, destination),
        }
    }

    fn unbind(&mut self, _: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        match parse(arguments) {
            (Quantity::All, pairs) => self.unbind_all(&pairs, destination),
            (Quantity::Any, pairs) => self.unbind_any(&pairs, destination),
        }
    }

    fn is_empty(&self) -> bool {
        self.everything.is_empty() && self.names.is_empty()
    }

    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        if !self.everything.is_empty() {
            sink.add(&self.everything);
        }
        if self.names.is_empty() {
            return;
        }
        // Messages with more headers that bindings ask for allocate.
        let mut names: SmallVec<[(&Name<Q>, &[u8]); 24]> = SmallVec::new();
        let asked_for = |(name, value)| Some((self.names.get::<[u8]>(name)?, value));
        names.extend(message.headers.iter().filter_map(asked_for));
        names.sort_unstable_by_key(|(name, _)| name.number);
        let found =
            FoundHeaders::new(names.iter().map(|&(name, value)| Found { number: name.number, value }));
        for &(name, value) in &names {
            let of_value = name.values.get(value);
            for bucket in of_value.into_iter().chain(&name.presence) {
                bucket.collect(&found, sink);
            }
        }
    }

    fn lookup(&self, _: &[u8]) -> Lookup<'_, Q> {
        if self.names.is_empty() { Lookup::of(Some(&self.everything)) } else { Lookup::Walk }
    }
}

#[cfg(test)]
mod tests {
    use message::TableBuf;

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
        let crowd = |name: &str| {
            let name = table.names.get(name.as_bytes()).unwrap();
            let buckets = name.values.iter().map(|(_, bucket)| bucket).chain(&name.presence);
            (name.filter_count, buckets.map(Bucket::filter_count).max().unwrap_or(0))
        };
        assert_eq!([crowd("format"), crowd("id"), crowd("user")], [(100, 1), (100, 1), (100, 0)]);
        for arguments in &bindings {
            assert!(table.unbind(b"", arguments.as_table(), &Destination::Queue(1)));
            assert!(!table.unbind(b"", arguments.as_table(), &Destination::Queue(1)));
            assert!(table.unbind(b"", arguments.as_table(), &Destination::Queue(2)));
        }
        assert!(table.is_empty());
    }

    #[test]
    fn arguments_that_fail_the_check_never_match() {
        let mut table = HeadersTable::default();
        let bad = arguments(&[("x-match", "some".into()), ("a", Value::Void)]);
        assert!(!table.bind(b"", bad.as_table(), &Destination::Queue(1u32)));
        assert!(table.is_empty());
    }

    #[test]
    fn long_filters_are_found_again() {
        let mut table = HeadersTable::default();
        let names: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), Value::I64(7))).collect();
        let bindings = [arguments(&all), arguments(&all[1..]), arguments(&all[..SHORTENED_PAIRS_MAX])];
        for arguments in &bindings {
            assert!(table.bind(b"", arguments.as_table(), &Destination::Queue(1u32)));
            assert!(!table.bind(b"", arguments.as_table(), &Destination::Queue(1u32)));
        }
        for arguments in &bindings {
            assert!(!table.unbind(b"", arguments.as_table(), &Destination::Queue(1u32)));
            assert!(table.unbind(b"", arguments.as_table(), &Destination::Queue(1u32)));
        }
        assert!(table.is_empty());
    }
}
