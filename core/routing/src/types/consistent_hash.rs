//! `x-consistent-hash` (B92): a ring of buckets; the hash of the routing key, of a header or of a property chooses one.
//!
//! As RabbitMQ's plugin does it, bucket for bucket: a binding adds as many buckets to the end of the ring as its key, a
//! number, says; jump consistent hashing over Erlang's generator chooses; buckets behind a removed binding move down. So a
//! new queue takes its share from all others and nothing else moves.
//!
//! Two differences, on purpose. Of several bindings to one queue the oldest counts, and when it goes the next one counts, as
//! if the first had never been; there the queue leaves the ring with whichever goes first. Headers that hold tables, arrays
//! or decimals hash by their bytes.
//!
//! Invariant: the ring is a function of the bindings and of the order in which those that are left were made.

use std::collections::VecDeque;

use message::{Table as Arguments, Value};
use stdx::hamt::Hamt;

use crate::erlang::{Exs1024, FALSE_HASH, NIL_HASH, TRUE_HASH, UNDEFINED_HASH, hash_binary, hash_float};
use crate::exchange_type::ArgumentError;
use crate::line::Line;
use crate::sink::Sink;
use crate::targets::Targets;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle, RoutesBy};

/// Most buckets of one binding.
const WEIGHT_MAX: u32 = 10_000;

const HEADER_ARGUMENT: &str = "hash-header";
const PROPERTY_ARGUMENT: &str = "hash-property";

/// The part of a message that is hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum HashOn {
    #[default]
    Key,
    Header(Box<[u8]>),
    MessageId,
    CorrelationId,
    Timestamp,
}

/// Whether an exchange of this type may have these arguments.
pub(crate) fn check_arguments(arguments: Arguments<'_>) -> Result<(), ArgumentError> {
    hash_on(arguments).map(drop)
}

fn hash_on(arguments: Arguments<'_>) -> Result<HashOn, ArgumentError> {
    let text = |argument: &'static str| match arguments.get(argument) {
        None => Ok(None),
        Some(Value::LongStr(text)) => Ok(Some(text)),
        Some(other) => Err(ArgumentError::Type { argument, received: other.type_name() }),
    };
    match (text(HEADER_ARGUMENT)?, text(PROPERTY_ARGUMENT)?) {
        (None, None) => Ok(HashOn::Key),
        (Some(_), Some(_)) => Err(ArgumentError::HeaderAndProperty),
        (Some(header), None) => Ok(HashOn::Header(header.into())),
        (None, Some(b"message_id")) => Ok(HashOn::MessageId),
        (None, Some(b"correlation_id")) => Ok(HashOn::CorrelationId),
        (None, Some(b"timestamp")) => Ok(HashOn::Timestamp),
        (None, Some(other)) => Err(ArgumentError::UnknownProperty(other.into())),
    }
}

impl HashOn {
    /// The number that seeds the jump.
    fn key_of(&self, message: &Prepared<'_>) -> u64 {
        let text = |text: Option<&[u8]>| text.map_or(UNDEFINED_HASH, hash_binary).into();
        match self {
            HashOn::Key => text(message.keys.first().copied()),
            HashOn::Header(name) => {
                let headers = message.raw_headers.iter().flat_map(Arguments::iter);
                let value = headers.filter(|(other, _)| *other == &**name).map(|(_, value)| value).last();
                value.map_or(UNDEFINED_HASH.into(), key_of_value)
            }
            HashOn::MessageId => text(message.properties.message_id().map(|id| id.as_bytes())),
            HashOn::CorrelationId => text(message.properties.correlation_id().map(|id| id.as_bytes())),
            HashOn::Timestamp => match message.properties.timestamp() {
                None => UNDEFINED_HASH.into(),
                Some(seconds) => hash_binary(seconds.to_string().as_bytes()).into(),
            },
        }
    }
}

/// Integers seed as they are, timestamps in milliseconds, everything else by its hash.
fn key_of_value(value: Value<'_>) -> u64 {
    if let Some(number) = value.as_i64() {
        return number.cast_unsigned();
    }
    if let Some(number) = value.as_f64() {
        return hash_float(number).into();
    }
    let hash = match value {
        Value::LongStr(bytes) | Value::Bytes(bytes) => hash_binary(bytes),
        Value::Bool(true) => TRUE_HASH,
        Value::Bool(false) => FALSE_HASH,
        Value::Timestamp(seconds) => return seconds.wrapping_mul(1000),
        Value::Array(array) if array.is_empty() => NIL_HASH,
        Value::Table(table) if table.is_empty() => NIL_HASH,
        Value::Array(array) => hash_binary(array.raw()),
        Value::Table(table) => hash_binary(table.raw()),
        Value::Decimal { scale, value } => hash_binary(&[&[scale][..], &value.to_be_bytes()].concat()),
        _ => UNDEFINED_HASH,
    };
    hash.into()
}

/// Jump consistent hashing (Lamping and Veach): a bucket below `count`, which is not 0.
fn jump(key: u64, count: u64) -> u64 {
    if count == 1 {
        return 0;
    }
    let mut draws = Exs1024::seeded(key);
    let (mut bucket, mut next) = (0, 0);
    while next < count {
        bucket = next;
        next = ((bucket + 1) as f64 / draws.uniform()) as u64;
    }
    bucket
}

/// A destination in the ring.
#[derive(Clone)]
struct Seat<Q: QueueHandle> {
    /// Of the binding that counts.
    number: u64,
    /// One destination, as a lookup gives it out.
    targets: Targets<Q>,
    /// Fields that most exchanges do not have.
    more: Option<Box<More>>,
}

#[derive(Clone, Default)]
struct More {
    /// Of the binding that counts.
    spelling: Spelling,
    /// The destination's younger bindings, oldest first.
    waiting: VecDeque<Waiting>,
}

#[derive(Clone)]
struct Waiting {
    number: u64,
    weight: u32,
    spelling: Spelling,
}

/// The difference between bindings of one destination and one weight: key and arguments. `None` is the weight in plain digits
/// without arguments.
#[derive(Clone, Default, PartialEq, Eq)]
struct Spelling(Option<Box<[u8]>>);

impl Spelling {
    fn new(key: &[u8], arguments: Arguments<'_>) -> Self {
        let is_plain = arguments.is_empty() && matches!(key, [b'1'..=b'9', ..]);
        // There is no comma in a key that is a weight.
        Self((!is_plain).then(|| [key, b",", arguments.raw()].concat().into()))
    }
}

impl<Q: QueueHandle> Seat<Q> {
    fn new(number: u64, targets: Targets<Q>, spelling: Spelling, waiting: VecDeque<Waiting>) -> Self {
        let has_more = spelling.0.is_some() || !waiting.is_empty();
        Self { number, targets, more: has_more.then(|| Box::new(More { spelling, waiting })) }
    }

    fn destination(&self) -> Destination<Q> {
        self.targets.first().expect("a seat has a destination")
    }

    fn is_spelled(&self, spelling: &Spelling) -> bool {
        self.more.as_ref().map_or(spelling.0.is_none(), |more| more.spelling == *spelling)
    }

    /// The seat of the oldest of its younger bindings, with its weight.
    fn next(self) -> Option<(Self, u32)> {
        let mut waiting = self.more?.waiting;
        let Waiting { number, weight, spelling } = waiting.pop_front()?;
        Some((Self::new(number, self.targets, spelling, waiting), weight))
    }

    /// Takes a younger binding away.
    fn give_up(&mut self, weight: u32, spelling: &Spelling) {
        let Some(more) = &mut self.more else { return };
        more.waiting.retain(|other| other.weight != weight || other.spelling != *spelling);
        self.more.take_if(|more| more.waiting.is_empty() && more.spelling.0.is_none());
    }
}

#[derive(Clone)]
pub(crate) struct ConsistentHashTable<Q: QueueHandle> {
    hash_on: HashOn,
    ring: Line<Seat<Q>>,
    /// Numbers of seats.
    seats: Hamt<Destination<Q>, u64>,
    /// Bindings are numbered in the order in which they are made.
    next_number: u64,
}

impl<Q: QueueHandle> Default for ConsistentHashTable<Q> {
    fn default() -> Self {
        Self { hash_on: HashOn::Key, ring: Line::default(), seats: Hamt::new(), next_number: 0 }
    }
}

/// Why a key is no weight, or the weight.
fn weight_of(key: &[u8]) -> Result<u32, BindingError<'_>> {
    let (sign, digits) = match key {
        [sign @ (b'+' | b'-'), digits @ ..] => (*sign, digits),
        digits => (b'+', digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BindingError::WeightText(key));
    }
    let add = |number: u32, digit: &u8| number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    match digits.iter().fold(0, add) {
        0 => Err(BindingError::WeightZero),
        _ if sign == b'-' => Err(BindingError::WeightZero),
        weight if weight > WEIGHT_MAX => Err(BindingError::WeightTooLarge { max: WEIGHT_MAX }),
        weight => Ok(weight),
    }
}

impl<Q: QueueHandle> ConsistentHashTable<Q> {
    fn choose(&self, key: impl FnOnce() -> u64) -> Option<&Targets<Q>> {
        match self.ring.sum() {
            0 => None,
            1 => self.ring.pick(0),
            count => self.ring.pick(jump(key(), count)),
        }
        .map(|seat| &seat.targets)
    }

    fn seat(&mut self, seat: Seat<Q>, weight: u32) {
        let number = seat.number;
        self.seats.insert(seat.destination(), number);
        self.ring.insert(seat, weight, |other| other.number.cmp(&number));
    }

    /// Whether that binding is the one that gives its destination its buckets.
    pub(crate) fn counts(&self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let seat =
            self.seats.get(destination).and_then(|&number| self.ring.find(|seat| seat.number.cmp(&number)));
        seat.is_some_and(|(seat, weight, _)| {
            weight_of(key) == Ok(weight) && seat.is_spelled(&Spelling::new(key, arguments))
        })
    }

    /// The destinations in the order of the ring, with the number of their buckets.
    pub(crate) fn seats(&self) -> impl Iterator<Item = (Destination<Q>, u32)> {
        self.ring.iter().map(|(seat, weight)| (seat.destination(), weight))
    }
}

impl<Q: QueueHandle> TypeTable<Q> for ConsistentHashTable<Q> {
    /// Arguments that fail [`check_arguments`] hash the key.
    fn new(arguments: Arguments<'_>) -> Self {
        Self { hash_on: hash_on(arguments).unwrap_or_default(), ..Self::default() }
    }

    fn emptied(&self) -> Self {
        Self { hash_on: self.hash_on.clone(), ..Self::default() }
    }

    fn check<'a>(key: &'a [u8], _: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        weight_of(key).map(drop)
    }

    fn bind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let Ok(weight) = weight_of(key) else { return false };
        let (new, spelling) = (self.next_number, Spelling::new(key, arguments));
        self.next_number += 1;
        if let Some(&number) = self.seats.get(destination) {
            self.ring.change(
                |seat| seat.number.cmp(&number),
                |seat, _| {
                    let younger = Waiting { number: new, weight, spelling };
                    seat.more.get_or_insert_default().waiting.push_back(younger);
                },
            );
            return false;
        }
        self.seat(Seat::new(new, Targets::only(destination), spelling, VecDeque::new()), weight);
        true
    }

    fn unbind(&mut self, key: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let (Ok(gone), Some(&number)) = (weight_of(key), self.seats.get(destination)) else { return false };
        let seek = |seat: &Seat<Q>| seat.number.cmp(&number);
        let spelling = Spelling::new(key, arguments);
        let Some((seat, weight, _)) = self.ring.find(seek) else { return false };
        if weight != gone || !seat.is_spelled(&spelling) {
            self.ring.change(seek, |seat, _| seat.give_up(gone, &spelling));
            return false;
        }
        let Some(seat) = self.ring.remove(seek) else { return false };
        self.seats.remove(destination);
        if let Some((next, weight)) = seat.next() {
            self.seat(next, weight);
        }
        true
    }

    fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    fn routes_by(&self) -> RoutesBy {
        if self.hash_on == HashOn::Key { RoutesBy::Key } else { RoutesBy::Message }
    }

    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        if let Some(targets) = self.choose(|| self.hash_on.key_of(message)) {
            sink.add(targets);
        }
    }

    fn lookup(&self, key: &[u8]) -> Lookup<'_, Q> {
        if self.hash_on == HashOn::Key || self.ring.sum() < 2 {
            Lookup::of(self.choose(|| hash_binary(key).into()))
        } else {
            Lookup::Walk
        }
    }
}

#[cfg(test)]
mod tests {
    use message::TableBuf;

    use super::*;

    fn bind(table: &mut ConsistentHashTable<u32>, key: &str, queue: u32) -> bool {
        table.bind(key.as_bytes(), Arguments::EMPTY, &Destination::Queue(queue))
    }

    fn ring(table: &ConsistentHashTable<u32>) -> Vec<(u32, u32)> {
        let queue = |destination: Destination<u32>| match destination {
            Destination::Queue(queue) => queue,
            Destination::Exchange(_) => unreachable!("only queues are bound here"),
        };
        table.seats().map(|(destination, weight)| (queue(destination), weight)).collect()
    }

    #[test]
    fn keys_of_bindings_are_weights_from_1_to_10000() {
        for (key, expected) in [
            (&b"1"[..], Ok(1)),
            (b"+3", Ok(3)),
            (b"010000", Ok(10_000)),
            (b"0", Err(BindingError::WeightZero)),
            (b"-7", Err(BindingError::WeightZero)),
            (b"10001", Err(BindingError::WeightTooLarge { max: 10_000 })),
            (b"99999999999999999999", Err(BindingError::WeightTooLarge { max: 10_000 })),
            (b"", Err(BindingError::WeightText(b""))),
            (b"+", Err(BindingError::WeightText(b"+"))),
            (b" 4", Err(BindingError::WeightText(b" 4"))),
            (b"1.5", Err(BindingError::WeightText(b"1.5"))),
        ] {
            assert_eq!(weight_of(key), expected);
        }
    }

    #[test]
    fn the_oldest_binding_of_a_queue_counts_and_then_the_next() {
        let mut table = ConsistentHashTable::default();
        assert!(bind(&mut table, "2", 7) && bind(&mut table, "3", 8) && !bind(&mut table, "5", 7));
        assert_eq!(ring(&table), [(7, 2), (8, 3)]);
        assert!(table.unbind(b"2", Arguments::EMPTY, &Destination::Queue(7)));
        assert_eq!(ring(&table), [(8, 3), (7, 5)]);
        assert!(!table.unbind(b"2", Arguments::EMPTY, &Destination::Queue(7)));
        assert!(table.unbind(b"5", Arguments::EMPTY, &Destination::Queue(7)));
        assert_eq!(ring(&table), [(8, 3)]);
        assert!(table.unbind(b"3", Arguments::EMPTY, &Destination::Queue(8)) && table.is_empty());
    }

    #[test]
    fn of_two_bindings_with_one_weight_the_one_that_is_named_goes() {
        let mut table = ConsistentHashTable::<u32>::default();
        let with = |number: i64| {
            let mut arguments = TableBuf::new();
            arguments.push_i64("x", number);
            arguments
        };
        let (one, two, r1) = (with(1), with(2), Destination::Queue(1));
        assert!(table.bind(b"5", one.as_table(), &r1) && bind(&mut table, "5", 2));
        assert!(!table.bind(b"5", two.as_table(), &r1) && !bind(&mut table, "+5", 1));
        assert!(!table.unbind(b"5", two.as_table(), &r1));
        assert_eq!(ring(&table), [(1, 5), (2, 5)]);
        assert!(table.unbind(b"5", one.as_table(), &r1));
        assert_eq!(ring(&table), [(2, 5), (1, 5)]);
        assert!(!table.unbind(b"5", Arguments::EMPTY, &r1), "5 is not +5");
        assert!(table.unbind(b"+5", Arguments::EMPTY, &r1));
        assert_eq!(ring(&table), [(2, 5)]);
    }

    #[test]
    fn a_new_queue_takes_its_share_and_moves_nothing_else() {
        let mut table = ConsistentHashTable::default();
        for queue in 0..9 {
            bind(&mut table, "10", queue);
        }
        let mut grown = table.clone();
        bind(&mut grown, "10", 9);
        let to = |table: &ConsistentHashTable<u32>, key: u32| {
            let hash = hash_binary(key.to_string().as_bytes());
            *table.choose(|| hash.into()).and_then(|targets| targets.queues().iter().next()).unwrap()
        };
        let moved: Vec<u32> = (0..20_000).filter(|&key| to(&table, key) != to(&grown, key)).collect();
        assert!(moved.iter().all(|&key| to(&grown, key) == 9));
        assert!((1_700..2_300).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn arguments_say_what_is_hashed() {
        let table = |name: &str, value: Value<'_>| {
            let mut table = TableBuf::new();
            table.push_raw(name, value);
            table
        };
        let parsed = |table: &TableBuf| hash_on(table.as_table());
        assert_eq!(parsed(&TableBuf::new()), Ok(HashOn::Key));
        assert_eq!(parsed(&table("hash-header", "h".into())), Ok(HashOn::Header(b"h"[..].into())));
        assert_eq!(parsed(&table("hash-property", "timestamp".into())), Ok(HashOn::Timestamp));
        assert_eq!(
            parsed(&table("hash-property", "app_id".into())),
            Err(ArgumentError::UnknownProperty(b"app_id"[..].into()))
        );
        assert_eq!(
            parsed(&table("hash-header", Value::I32(1))),
            Err(ArgumentError::Type { argument: "hash-header", received: "signedint" })
        );
        let mut both = table("hash-header", "h".into());
        both.push_str("hash-property", "message_id");
        assert_eq!(parsed(&both), Err(ArgumentError::HeaderAndProperty));
    }
}
