//! The queues of a history: a few names, each with the shape it is declared with every time. Knows nothing of what happens to
//! them.

use platform::SeededRandom;
use wire::amqp091::TableBuf;

/// How many queue names there are.
pub(crate) const SLOTS: usize = 8;

/// The one to which policies apply, now these, now those.
pub(crate) const POLICED: usize = 7;

/// The exchange that fans out.
pub(crate) const FAN: &[u8] = b"fan";

/// The declaration under a name. Letters go to lower numbers only: no cycles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kind {
    pub(crate) durable: bool,
    pub(crate) max_priority: u8,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) rejects: bool,
    /// Limits come and go that nobody tells the model of.
    pub(crate) policed: bool,
    pub(crate) exclusive: bool,
    pub(crate) single_active: bool,
    pub(crate) letters_to: Option<usize>,
    /// Much comes to it at once, all of it persistent: its messages lie together in the message log.
    pub(crate) bulk: bool,
}

impl Kind {
    /// As arguments of queue.declare.
    pub(crate) fn arguments(&self) -> TableBuf {
        let mut arguments = TableBuf::new();
        if self.max_priority > 0 {
            arguments.push_i32("x-max-priority", i32::from(self.max_priority));
        }
        if let Some(ttl_ms) = self.ttl_ms {
            arguments.push_i64("x-message-ttl", ttl_ms.cast_signed());
        }
        if let Some(max_length) = self.max_length {
            arguments.push_i64("x-max-length", max_length.cast_signed());
        }
        if self.rejects {
            let overflow = if self.letters_to.is_some() { "reject-publish-dlx" } else { "reject-publish" };
            arguments.push_str("x-overflow", overflow);
        }
        if self.single_active {
            arguments.push_bool("x-single-active-consumer", true);
        }
        if let Some(slot) = self.letters_to {
            arguments.push_str("x-dead-letter-exchange", "");
            arguments.push_str("x-dead-letter-routing-key", name(slot));
        }
        arguments
    }
}

/// The name of a queue.
pub(crate) fn name(slot: usize) -> String {
    format!("q{slot}")
}

/// Slots that much comes to in a history of bulk.
const BULK: [usize; 4] = [0, 1, 3, 6];

/// Makes it a history of bulk.
pub(crate) fn bulk(kinds: &mut [Kind; SLOTS]) {
    BULK.into_iter().for_each(|slot| kinds[slot].bulk = true);
}

/// The kinds of one history: a sink for letters, a plain queue, a chain of two that dead-letter, one that drops or refuses, a transient one,
/// one with priorities and one with policies.
pub(crate) fn choose(random: &SeededRandom) -> [Kind; SLOTS] {
    let durable = Kind { durable: true, ..Kind::default() };
    let some = |value: u64| random.chance(1, 2).then_some(value);
    let ttl_ms = |random: &SeededRandom| 50 + random.below(5000);
    [
        durable.clone(),
        Kind { single_active: random.chance(1, 2), ..durable.clone() },
        Kind {
            letters_to: Some(0),
            ttl_ms: some(ttl_ms(random)),
            max_length: some(5 + random.below(100)),
            ..durable.clone()
        },
        Kind {
            letters_to: Some(2),
            ttl_ms: some(ttl_ms(random)),
            max_length: some(5 + random.below(100)),
            ..durable.clone()
        },
        Kind {
            ttl_ms: some(ttl_ms(random)),
            max_length: some(5 + random.below(100)),
            rejects: random.chance(1, 2),
            letters_to: some(0).map(|_| 0),
            ..durable.clone()
        },
        Kind { exclusive: random.chance(1, 2), ..Kind::default() },
        Kind { max_priority: 1 + u8::try_from(random.below(5)).expect("below 5"), ..durable.clone() },
        Kind { policed: true, letters_to: some(0).map(|_| 0), ..durable },
    ]
}
