//! Ledger of a tenant about its messages: where each may be, and whether it must be there. Knows nothing of queues beyond their
//! numbers, and nothing of the broker.

use std::collections::BTreeMap;

use super::ending::Ended;

/// Queues of a tenant, one bit each.
pub(crate) type Places = u32;

/// The knowledge of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It must be found.
    There,
    /// It may be found.
    Perhaps,
    /// It left in this life: a crash may bring it back.
    Left,
    /// It must never be found again.
    Gone,
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    known: Known,
    /// Where it may be.
    pub(crate) places: Places,
    confirmed: bool,
    /// It survives a restart.
    durable: bool,
    /// A crash came while it may have been between two queues: it may be there more than once.
    may_repeat: bool,
    /// When it may go on by itself, milliseconds since the epoch, and to where; to nowhere: it is gone then.
    moves: Option<(u64, Places)>,
    /// From when on it may be gone for good.
    ends_ms: Option<u64>,
}

impl Entry {
    /// A message that was published to one of these queues.
    pub(crate) fn new(places: Places, durable: bool) -> Entry {
        Entry {
            known: Known::There,
            places,
            confirmed: false,
            durable,
            may_repeat: false,
            moves: None,
            ends_ms: None,
        }
    }

    /// At that time it goes to one of `places`.
    pub(crate) fn moving(mut self, at_ms: Option<u64>, places: Places) -> Entry {
        self.moves = at_ms.map(|at_ms| (at_ms, places));
        self
    }

    /// From that time on it need not be there.
    pub(crate) fn ending(mut self, at_ms: Option<u64>) -> Entry {
        self.ends_ms = at_ms;
        self
    }

    /// Whether its confirm says that it is on disk; not when its queue went, and it with it.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable && self.known != Known::Left
    }

    /// From that time on it need not be there, if that is not known of an earlier time.
    pub(crate) fn end_by(&mut self, at_ms: u64) {
        self.ends_ms = Some(self.ends_ms.map_or(at_ms, |ends_ms| ends_ms.min(at_ms)));
    }
}

/// All messages of a tenant, by number.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) entries: BTreeMap<u64, Entry>,
    /// The disk fails: queues may be read back in the middle of a life, without what was settled last.
    is_doubtful: bool,
}

impl Ledger {
    /// The broker says that it has it, or that it does not.
    pub(crate) fn confirm(&mut self, id: u64, rejected: bool) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if rejected {
            self.lose(id);
        } else {
            entry.confirmed = true;
        }
    }

    /// The broker has said that it has it.
    pub(crate) fn is_confirmed(&self, id: u64) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.confirmed)
    }

    /// It need not be found any more.
    pub(crate) fn lose(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.known == Known::There
        {
            entry.known = Known::Perhaps;
        }
    }

    /// It has left the broker for good, as far as this life is concerned.
    pub(crate) fn settle(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let may_come_back = entry.may_repeat || self.is_doubtful;
            entry.known = if may_come_back { Known::Perhaps } else { Known::Left };
        }
    }

    /// It must be found from now on.
    pub(crate) fn must_be_there(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.known == Known::Perhaps
        {
            entry.known = Known::There;
        }
    }

    /// It was published once more: it may be found from now on.
    pub(crate) fn may_be_there(&mut self, id: u64, places: Places) {
        let entry = self.entries.entry(id).or_insert_with(|| Entry::new(places, true));
        (entry.known, entry.may_repeat) = (Known::Perhaps, true);
    }

    /// It may be there more than once.
    pub(crate) fn may_repeat(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.may_repeat = true;
        }
    }

    /// It has left, if it was heard that it should.
    pub(crate) fn may_come_back(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.known == Known::Left
        {
            entry.known = Known::Perhaps;
        }
    }

    /// It may be in these queues from now on, too.
    pub(crate) fn may_move(&mut self, id: u64, places: Places) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.places |= places;
        }
    }

    /// Messages that may be in one of these queues, oldest first.
    pub(crate) fn at(&self, places: Places) -> Vec<u64> {
        let may_be = |entry: &Entry| matches!(entry.known, Known::There | Known::Perhaps);
        let here = self.entries.iter().filter(|(_, entry)| may_be(entry) && entry.places & places != 0);
        here.map(|(id, _)| *id).collect()
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Vec<u64> {
        let mut moved = Vec::new();
        for (id, entry) in &mut self.entries {
            if let Some((_, places)) = entry.moves.take_if(|(at_ms, _)| *at_ms <= now_ms) {
                entry.places |= places;
                moved.push(*id);
            }
            if entry.known == Known::There && entry.ends_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                entry.known = Known::Perhaps;
            }
        }
        moved
    }

    /// Somebody received it.
    pub(crate) fn delivered(&mut self, id: u64, place: Places) -> Result<(), String> {
        let entry = self.entries.get(&id).ok_or_else(|| format!("{id} was never published there"))?;
        let is_allowed = matches!(entry.known, Known::There | Known::Perhaps) && entry.places & place != 0;
        if is_allowed { Ok(()) } else { Err(format!("{id} is found in place {place:#b}: {entry:?}")) }
    }

    /// Everything there is was found: each message with the places where it was.
    pub(crate) fn compare(&mut self, found: &BTreeMap<u64, Vec<Places>>) -> Result<(), String> {
        for (id, places) in found {
            for place in places {
                self.delivered(*id, *place)?;
            }
        }
        for (id, entry) in &mut self.entries {
            match (found.get(id).map_or(0, Vec::len), entry.known) {
                (0, Known::There) => return Err(format!("{id} is lost: {entry:?}")),
                (0, Known::Perhaps) => entry.known = Known::Gone,
                (0, _) => {}
                (1, _) => (entry.known, entry.may_repeat) = (Known::There, false),
                (times, _) if !entry.may_repeat => {
                    return Err(format!("{id} is there {times} times: {entry:?}"));
                }
                _ => entry.known = Known::There,
            }
        }
        Ok(())
    }

    /// Until the end of this life what has left may come back.
    pub(crate) fn doubt(&mut self) {
        self.is_doubtful = true;
        let left = self.entries.values_mut().filter(|entry| entry.known == Known::Left);
        left.for_each(|entry| entry.known = Known::Perhaps);
    }

    /// The life is over.
    pub(crate) fn ended(&mut self, how: Ended) {
        self.is_doubtful = false;
        match how {
            Ended::Crashed => self.after_crash(),
            Ended::Stopped => self.after_stop(),
        }
        self.prune();
    }

    /// The process ended without a word.
    fn after_crash(&mut self) {
        for entry in self.entries.values_mut() {
            entry.known = match entry.known {
                Known::Gone => Known::Gone,
                _ if !entry.durable => Known::Gone,
                Known::There if entry.confirmed => Known::There,
                _ => Known::Perhaps,
            };
            entry.may_repeat |= entry.places.count_ones() > 1 || entry.moves.is_some();
        }
    }

    /// The broker was shut down in order.
    fn after_stop(&mut self) {
        for entry in self.entries.values_mut() {
            entry.known = match entry.known {
                Known::Left | Known::Gone => Known::Gone,
                _ if !entry.durable => Known::Gone,
                known => known,
            };
        }
    }

    /// A message that has long been gone need not be remembered.
    fn prune(&mut self) {
        let newest = self.entries.keys().next_back().copied().unwrap_or(0);
        self.entries.retain(|id, entry| entry.known != Known::Gone || id + 5000 > newest);
    }
}
