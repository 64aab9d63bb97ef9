//! The oracle: for every copy of a message what may and what must be found. Naive on purpose; where the broker has a choice
//! (what was not confirmed, what expires, what a power cut undoes) it allows each outcome until one is seen. Knows nothing of
//! the broker.

use std::collections::{BTreeMap, BTreeSet};

use wire::amqp091::{Properties, Value};

use crate::kinds::{Kind, SLOTS};

/// A copy: the message's number and the queue it was routed to first. Its letters carry both.
pub(crate) type Key = (u64, usize);

/// How often a letter may be there, about.
const LETTER_TIMES_MAX: u64 = 4;

/// The knowledge of where a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// In this queue, and nowhere else.
    Held(usize),
    /// In some of the places it may have come to, in none or in several.
    Loose,
    /// Gone for this life, at this moment; the log may not know it yet.
    Settled { at: u64, how: Settled },
    /// Never to be seen again.
    Gone,
}

/// How a copy left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Its settlement was logged with the call.
    AtOnce,
    /// Its settlement is logged some time later.
    Later,
}

/// One copy.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) persistent: bool,
    pub(crate) priority: u8,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) bytes: u64,
    /// When it was published, in operations.
    pub(crate) at: u64,
    pub(crate) fate: Fate,
    pub(crate) confirmed: bool,
    /// It may have gone by itself, or never have become durable.
    pub(crate) excused: bool,
}

impl Copy {
    /// Whether it has to be found somewhere.
    pub(crate) fn is_required(&self) -> bool {
        self.confirmed && !self.excused && matches!(self.fate, Fate::Held(_) | Fate::Loose)
    }
}

/// Where a declared queue is between two answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    #[default]
    Absent,
    Declaring,
    Present,
    Deleting,
}

/// A message as somebody received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    /// The queue it died in first.
    pub(crate) first_death: Option<usize>,
}

impl Seen {
    /// Reads what [`body`] made, and where it comes from.
    pub(crate) fn read(properties: &[u8], body: &[u8]) -> Result<Seen, String> {
        let damaged = || format!("a body of {} bytes is not what was published", body.len());
        let (id, rest) = body.split_first_chunk().ok_or_else(damaged)?;
        let id = u64::from_be_bytes(*id);
        if rest.iter().enumerate().any(|(at, byte)| *byte != filler(id, at)) {
            return Err(damaged());
        }
        let headers = Properties::new(properties).headers();
        let first_death = match headers.and_then(|headers| headers.get("x-first-death-queue")) {
            Some(Value::LongStr(name)) => {
                std::str::from_utf8(&name[1..]).ok().and_then(|slot| slot.parse().ok())
            }
            _ => None,
        };
        Ok(Seen { id, first_death })
    }
}

fn filler(id: u64, at: usize) -> u8 {
    (id.wrapping_mul(31).wrapping_add(at as u64 * 7) & 0xff) as u8
}

/// A body that tells its message's number and whether it was damaged.
pub(crate) fn body(id: u64, filler_bytes: usize) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    body.extend((0..filler_bytes).map(|at| filler(id, at)));
    body
}

/// All that is known.
pub(crate) struct Model {
    pub(crate) kinds: [Kind; SLOTS],
    pub(crate) presence: [Presence; SLOTS],
    /// Whether the queue is bound to the fanout exchange.
    pub(crate) bound: [bool; SLOTS],
    /// Whether that was answered.
    pub(crate) binding_is_known: [bool; SLOTS],
    pub(crate) copies: BTreeMap<Key, Copy>,
    /// Whether every copy in this queue is known for certain.
    pub(crate) is_exact: [bool; SLOTS],
}

impl Model {
    pub(crate) fn new(kinds: [Kind; SLOTS]) -> Model {
        Model {
            kinds,
            presence: Default::default(),
            bound: [false; SLOTS],
            binding_is_known: [true; SLOTS],
            copies: BTreeMap::new(),
            is_exact: [true; SLOTS],
        }
    }

    /// The queues that letters of a copy in `slot` can come to, itself first.
    pub(crate) fn chain(&self, slot: usize) -> Vec<usize> {
        let mut chain = vec![slot];
        while let Some(next) = chain.last().and_then(|last| self.kinds[*last].letters_to) {
            chain.push(next);
        }
        chain
    }

    /// Whether a copy that dies in `slot` is safe in a queue further on, whatever happens there.
    fn letters_are_safe(&self, slot: usize) -> bool {
        self.kinds[slot].letters_to.is_some()
            && self.chain(slot)[1..].iter().all(|next| self.presence[*next] == Presence::Present)
    }

    /// A copy dies in `slot`, or may have died: it is on its way down the chain.
    pub(crate) fn may_die(&mut self, key: Key, slot: usize) {
        let safe = self.letters_are_safe(slot);
        for place in self.chain(slot) {
            self.is_exact[place] = false;
        }
        let copy = self.copies.get_mut(&key).expect("a copy that dies is known");
        let was_held = matches!(copy.fate, Fate::Held(_));
        copy.excused |= !safe;
        copy.fate = Fate::Loose;
        if let Some(next) = self.kinds[slot].letters_to.filter(|_| was_held) {
            self.may_overflow(next);
        }
    }

    /// Letters that may be under way to a queue that is not there need not be found.
    pub(crate) fn excuse_lost_letters(&mut self) {
        let broken: Vec<bool> = (0..SLOTS)
            .map(|slot| self.kinds[slot].letters_to.is_some() && !self.letters_are_safe(slot))
            .collect();
        for ((_, root), copy) in &mut self.copies {
            copy.excused |= broken[*root] && copy.fate == Fate::Loose;
        }
    }

    /// The keys of copies that are, or may be, in `slot`.
    pub(crate) fn keys_at(&self, slot: usize) -> Vec<Key> {
        let here = |(key, copy): (&Key, &Copy)| match copy.fate {
            Fate::Held(at) => (at == slot).then_some(*key),
            Fate::Loose => self.chain(key.1).contains(&slot).then_some(*key),
            _ => None,
        };
        self.copies.iter().filter_map(here).collect()
    }

    /// A message that has died of its own by `now_ms` may be further on from then on.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        let is_due = |copy: &Copy| copy.expires_ms.is_some_and(|at| at <= now_ms);
        let due: Vec<Key> =
            self.copies.iter().filter(|(_, copy)| is_due(copy)).map(|(key, _)| *key).collect();
        for key in due {
            match self.copies[&key].fate {
                Fate::Held(at) => self.may_die(key, at),
                Fate::Loose => self.may_die(key, key.1),
                _ => {}
            }
        }
    }

    /// A queue with a limit may have got more: it may let any of its messages go.
    pub(crate) fn may_overflow(&mut self, slot: usize) {
        let kind = &self.kinds[slot];
        let Some(max) = kind.max_length.filter(|_| !kind.rejects) else { return };
        let keys = self.keys_at(slot);
        // A letter is sent again after each crash that came before its removal was logged.
        let times = |key: &Key| if self.copies[key].fate == Fate::Loose { LETTER_TIMES_MAX } else { 1 };
        if keys.iter().map(times).sum::<u64>() <= max {
            return;
        }
        for key in keys {
            self.may_die(key, slot);
        }
    }

    /// A consumer is done with a copy that it had from `slot`.
    pub(crate) fn settle(&mut self, key: Key, slot: usize, at: u64) {
        let copy = self.copies.get_mut(&key).expect("a delivered copy is known");
        let how =
            if copy.fate == Fate::Held(slot) && key.1 == slot { Settled::AtOnce } else { Settled::Later };
        copy.fate = Fate::Settled { at, how };
    }

    /// Nobody knows whether it is there.
    pub(crate) fn doubt(&mut self, key: Key) {
        if let Some(copy) = self.copies.get_mut(&key) {
            copy.excused = true;
            copy.fate = if matches!(copy.fate, Fate::Held(_)) { Fate::Loose } else { copy.fate };
        }
    }

    /// A settlement may have gone unheard.
    pub(crate) fn doubt_settlement(&mut self, key: Key) {
        if let Some(Copy { fate: Fate::Settled { how, .. }, .. }) = self.copies.get_mut(&key) {
            *how = Settled::Later;
        }
    }

    /// All copies in a queue go with it. The log knows nothing of that: they are back if its deletion does not become durable.
    pub(crate) fn clear_deleted(&mut self, slot: usize, at: u64) {
        self.clear(slot, &BTreeSet::new(), at, Settled::Later);
    }

    /// All copies in a queue but those delivered are purged.
    pub(crate) fn clear_purged(&mut self, slot: usize, at: u64, spared: &BTreeSet<Key>) {
        self.clear(slot, spared, at, Settled::AtOnce);
    }

    fn clear(&mut self, slot: usize, spared: &BTreeSet<Key>, at: u64, how: Settled) {
        for key in self.keys_at(slot) {
            let copy = self.copies.get_mut(&key).expect("just listed");
            copy.excused |= !spared.contains(&key) || copy.fate == Fate::Loose;
            match copy.fate {
                Fate::Held(_) if !spared.contains(&key) => {
                    // Letters are found again where they came from when a power cut undoes their removal there.
                    let later = Fate::Settled { at, how: Settled::Later };
                    copy.fate = if key.1 == slot { Fate::Settled { at, how } } else { later };
                }
                Fate::Loose => self.is_exact[slot] = false,
                _ => {}
            }
        }
    }

    /// The deletion of a queue is durable: messages that were in it alone never come back.
    pub(crate) fn forget(&mut self, slot: usize) {
        let is_alone = self.kinds[slot].letters_to.is_none();
        for (key, copy) in &mut self.copies {
            if key.1 == slot && is_alone {
                copy.fate = Fate::Gone;
            } else if key.1 == slot || copy.fate == Fate::Held(slot) {
                copy.excused = true;
                // Letters that came out of it stay where they are known to be.
                if !matches!(copy.fate, Fate::Held(at) if at != slot) && copy.fate != Fate::Gone {
                    copy.fate = Fate::Loose;
                }
            }
        }
        self.excuse_lost_letters();
        self.is_exact[slot] = self.keys_at(slot).is_empty();
    }

    /// A message published at `at` is durable: so is every settlement logged before.
    pub(crate) fn durable_up_to(&mut self, at: u64) {
        for copy in self.copies.values_mut() {
            if let Fate::Settled { at: settled, how: Settled::AtOnce } = copy.fate
                && settled < at
            {
                copy.fate = Fate::Gone;
            }
        }
    }

    /// The process or the power is gone: messages that were not durable may be there, or not.
    pub(crate) fn after_crash(&mut self) {
        for ((_, root), copy) in &mut self.copies {
            let was_settled = matches!(copy.fate, Fate::Settled { .. });
            copy.fate = match copy.fate {
                Fate::Gone => Fate::Gone,
                _ if !copy.persistent || !self.kinds[*root].durable => Fate::Gone,
                _ => Fate::Loose,
            };
            // A settled message may come back, an unconfirmed one may not be there.
            copy.excused |= !copy.confirmed || was_settled;
        }
        self.is_exact = [false; SLOTS];
        self.prune();
    }

    /// The broker was shut down in order: settled messages stay so, and the others are there.
    pub(crate) fn after_stop(&mut self) {
        for ((_, root), copy) in &mut self.copies {
            let stays = copy.persistent && self.kinds[*root].durable;
            copy.fate = match copy.fate {
                Fate::Held(at) if stays => Fate::Held(at),
                Fate::Loose if stays => Fate::Loose,
                // A power cut may have left it in two places, of which a consumer emptied one.
                Fate::Settled { how: Settled::Later, .. }
                    if stays && self.kinds[*root].letters_to.is_some() =>
                {
                    copy.excused = true;
                    Fate::Loose
                }
                _ => Fate::Gone,
            };
            copy.confirmed |= matches!(copy.fate, Fate::Held(_));
            copy.excused &= !matches!(copy.fate, Fate::Held(_));
        }
        self.prune();
    }

    /// Messages that are gone for good need not be remembered one by one for ever, only long enough to be noticed.
    fn prune(&mut self) {
        let newest = self.copies.keys().next_back().map_or(0, |(id, _)| *id);
        self.copies.retain(|(id, _), copy| copy.fate != Fate::Gone || id + 20_000 > newest);
    }
}
