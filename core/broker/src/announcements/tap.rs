//! The last events, for those who ask again and again what has happened: kept only while somebody does. Refuses to know who asks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use message::TableBuf;
use parking_lot::Mutex;

/// Events kept; older ones are forgotten.
const EVENTS_MAX: usize = 10_000;

/// Bytes of their headers that are kept.
const BYTES_MAX: usize = 8 << 20;

/// When nobody has asked for so long, events are counted and no longer kept, ...
const KEPT_MS: u64 = 60_000;

/// ... and for so long, not even counted.
const COUNTED_MS: u64 = 600_000;

/// Something that has happened, as `amq.rabbitmq.event` tells it (B176).
#[derive(Clone, Debug)]
pub struct ToldEvent {
    /// Its number since the process started, from 1, among those that were counted.
    pub seq: u64,
    /// The kind of the event, such as `queue.created`.
    pub key: Box<str>,
    /// Everything else.
    pub headers: TableBuf,
}

/// The events since somebody asked before.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The number to ask with the next time.
    pub newest: u64,
    /// Events since then that were not kept.
    pub missed: u64,
    /// There were more of those: nobody had asked for so long that they were not even counted, or the number is none of this process.
    pub missed_more: bool,
    /// Oldest first.
    pub events: Vec<ToldEvent>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<ToldEvent>,
    bytes: usize,
    seq: u64,
    asked_ms: u64,
    /// The number of the first event of the last time that was not counted; 0 if there was none.
    uncounted: u64,
}

impl Kept {
    fn forget_one(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.headers.as_table().raw().len();
        }
    }

    fn forget_all(&mut self) {
        (self.events, self.bytes) = (VecDeque::new(), 0);
    }
}

/// Keeps events while somebody asks for them.
#[derive(Default)]
pub(crate) struct Tap {
    is_on: AtomicBool,
    kept: Mutex<Kept>,
}

impl Tap {
    /// Whether anybody has asked lately.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Keeps an event. When nobody has asked for a minute it is only counted, and after ten the last one is.
    pub(crate) fn keep(&self, key: &str, headers: &TableBuf, now_ms: u64) {
        let mut kept = self.kept.lock();
        let idle_ms = now_ms.saturating_sub(kept.asked_ms);
        kept.seq += 1;
        let seq = kept.seq;
        if idle_ms > KEPT_MS {
            kept.forget_all();
            if idle_ms > COUNTED_MS {
                kept.uncounted = seq;
                self.is_on.store(false, Ordering::Relaxed);
            }
            return;
        }
        kept.bytes += headers.as_table().raw().len();
        kept.events.push_back(ToldEvent { seq, key: key.into(), headers: headers.clone() });
        while kept.events.len() > EVENTS_MAX || kept.bytes > BYTES_MAX {
            kept.forget_one();
        }
    }

    /// Events behind a number; without one none, but from now on they are kept for a caller that asks again within a minute. A later caller
    /// is told how many there were.
    pub(crate) fn after(&self, seq: Option<u64>, now_ms: u64) -> Told {
        let mut kept = self.kept.lock();
        kept.asked_ms = now_ms;
        self.is_on.store(true, Ordering::Relaxed);
        let newest = kept.seq;
        let Some(seq) = seq else { return Told { newest, ..Told::default() } };
        let is_of_another = seq > newest;
        let seq = if is_of_another { 0 } else { seq };
        let first = kept.events.front().map_or(newest + 1, |event| event.seq);
        let from = kept.events.partition_point(|event| event.seq <= seq);
        Told {
            newest,
            missed: first.saturating_sub(seq.saturating_add(1)),
            missed_more: is_of_another || seq < kept.uncounted,
            events: kept.events.range(from..).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(bytes: usize) -> TableBuf {
        let mut table = TableBuf::new();
        table.push_str("name", vec![b'x'; bytes]);
        table
    }

    #[test]
    fn who_asks_again_gets_each_event_once_and_nothing_of_before() {
        let tap = Tap::default();
        assert!(!tap.is_on());
        assert_eq!(tap.after(None, 0).newest, 0);
        assert!(tap.is_on());
        tap.keep("queue.created", &of_bytes(1), 5);
        tap.keep("queue.deleted", &of_bytes(1), 6);
        let told = tap.after(Some(0), 7);
        assert_eq!(
            told.events.iter().map(|it| &*it.key).collect::<Vec<_>>(),
            ["queue.created", "queue.deleted"]
        );
        assert_eq!((told.newest, told.missed), (2, 0));
        assert!(tap.after(Some(2), 8).events.is_empty());
        assert!(tap.after(None, 9).events.is_empty());
    }

    #[test]
    fn who_comes_back_within_a_minute_misses_nothing() {
        let tap = Tap::default();
        let newest = tap.after(None, 0).newest;
        tap.keep("a", &of_bytes(1), 1);
        tap.keep("b", &of_bytes(1), KEPT_MS);
        let told = tap.after(Some(newest), KEPT_MS + 30_000);
        assert_eq!((told.events.len(), told.missed, told.missed_more), (2, 0, false));
    }

    #[test]
    fn who_comes_back_later_is_told_how_many_events_there_were() {
        let tap = Tap::default();
        let newest = tap.after(None, 0).newest;
        tap.keep("a", &of_bytes(1), 1);
        (0..5).for_each(|_| tap.keep("a", &of_bytes(1), KEPT_MS + 1));
        assert!(tap.is_on() && tap.kept.lock().events.is_empty());
        let told = tap.after(Some(newest), COUNTED_MS);
        assert_eq!((told.events.len(), told.missed, told.missed_more), (0, 6, false));
        let told = tap.after(Some(told.newest), COUNTED_MS + 1);
        assert_eq!((told.missed, told.missed_more), (0, false));
    }

    #[test]
    fn nothing_is_counted_when_nobody_has_asked_for_long_and_that_is_told() {
        let tap = Tap::default();
        let newest = tap.after(None, 0).newest;
        tap.keep("a", &of_bytes(1), COUNTED_MS + 1);
        assert!(!tap.is_on());
        let told = tap.after(Some(newest), 2 * COUNTED_MS);
        assert_eq!((told.missed, told.missed_more), (1, true));
        let told = tap.after(Some(told.newest), 2 * COUNTED_MS);
        assert_eq!((told.missed, told.missed_more), (0, false));
        let told = tap.after(Some(1_000), 2 * COUNTED_MS);
        assert!(told.missed_more, "the number is of a process that has ended");
    }

    #[test]
    fn at_the_bound_the_oldest_are_forgotten_and_counted() {
        let tap = Tap::default();
        tap.after(None, 0);
        (0..EVENTS_MAX + 5).for_each(|_| tap.keep("a", &of_bytes(1), 1));
        let told = tap.after(Some(2), 1);
        assert_eq!((told.missed, told.events.len()), (3, EVENTS_MAX));
        (0..20).for_each(|_| tap.keep("a", &of_bytes(1 << 20), 1));
        assert!(tap.kept.lock().bytes <= BYTES_MAX && tap.after(Some(0), 1).events.len() < 9);
    }
}
