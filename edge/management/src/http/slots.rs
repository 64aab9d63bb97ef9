//! Connection slots: the connections that may stay on a listener for HTTP, bounds in number and per address, and which idle connection
//! makes room for a new one. Refuses to know sockets and requests.
//!
//! A connection is busy from the end of a request's head to the end of its answer, and fresh for a moment before its first request.
//! Otherwise it is idle, also while it goes on to send a body after the answer. Only idle ones are ended: when thousands come at once, each
//! gets to ask.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How long a new connection may take to ask before it counts as idle, while most have not asked anything: somebody only connects.
const FRESH: Duration = Duration::from_secs(2);

/// How long otherwise: a packet that a client sent while it waited in the kernel comes again only when the client tries again, in seconds.
const FRESH_AMONG_BUSY: Duration = Duration::from_secs(10);

/// How many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotBounds {
    /// Connections at once.
    pub(super) count_max: usize,
    /// The connections of one address that may be idle at once; a further one ends the oldest of them.
    pub(super) address_idle_max: usize,
}

type Line = tokio::sync::Mutex<()>;

/// The slots of a listener.
#[derive(Debug)]
pub(super) struct Slots {
    connections: Mutex<HashMap<u64, Connection>>,
    next: AtomicU64,
    freed: Notify,
    /// Connections that wait for a slot: one looks for it, the others stand in line behind, one of each address.
    line: Line,
    /// The others of an address wait behind the one that stands in line.
    lines: Mutex<HashMap<IpAddr, Weak<Line>>>,
    bounds: SlotBounds,
    fresh: Duration,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    /// Requests that are not answered yet.
    calls: u32,
    /// Whether a whole head of a request ever came.
    has_called: bool,
    /// Whether it sends what nobody wants: its request was refused before the body came.
    is_lingering: bool,
    idle_since: Instant,
    /// Tells its connection to end; it keeps its slot until it has.
    end: Arc<Notify>,
    is_ending: bool,
}

impl Connection {
    fn is_idle(&self, fresh: Duration) -> bool {
        self.calls == 0 && !self.is_ending && (self.has_called || self.idle_since.elapsed() >= fresh)
    }

    /// The order in which connections make room: one that has the answer and only sends, one that never asked, one that has been idle
    /// longest.
    fn rank(&self) -> (bool, bool, Instant) {
        (!self.is_lingering, self.has_called, self.idle_since)
    }

    fn end(&mut self) {
        self.is_ending = true;
        self.end.notify_one();
    }
}

/// A slot, until dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    end: Arc<Notify>,
}

/// A body that comes after its answer, until dropped.
#[derive(Debug)]
pub(super) struct Lingering(Arc<Slot>);

/// A request that is being answered, until dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Slot>);

impl Slots {
    /// So many, all free.
    pub(super) fn new(bounds: SlotBounds) -> Arc<Self> {
        Self::with_fresh(bounds, FRESH)
    }

    fn with_fresh(bounds: SlotBounds, fresh: Duration) -> Arc<Self> {
        Arc::new(Self {
            connections: Mutex::default(),
            next: AtomicU64::default(),
            freed: Notify::new(),
            line: Line::default(),
            lines: Mutex::default(),
            bounds,
            fresh,
        })
    }

    /// A slot for a connection from there; addresses take turns, and of one address it goes by the order of asking. When all are taken, an
    /// idle connection makes room; when none is idle, this waits.
    pub(super) async fn acquire(self: &Arc<Self>, address: IpAddr) -> Slot {
        let own = self.line_of(address);
        let _first_of_address = own.lock().await;
        let _first = self.line.lock().await;
        loop {
            let freed = self.freed.notified();
            if let Some(slot) = self.try_acquire(address) {
                return slot;
            }
            // A connection that became idle in between is found at the next look.
            let _ = tokio::time::timeout(Duration::from_millis(20), freed).await;
        }
    }

    /// Where connections from there wait for each other.
    fn line_of(&self, address: IpAddr) -> Arc<Line> {
        let mut lines = self.lines.lock();
        if let Some(line) = lines.get(&address).and_then(Weak::upgrade) {
            return line;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::default();
        lines.insert(address, Arc::downgrade(&line));
        line
    }

    /// How long a connection is fresh now.
    fn patience(&self, taken: &HashMap<u64, Connection>) -> Duration {
        let silent = taken.values().filter(|it| !it.has_called).count();
        if 2 * silent > taken.len() { self.fresh } else { self.fresh.max(FRESH_AMONG_BUSY) }
    }

    fn try_acquire(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let mut taken = self.connections.lock();
        if taken.len() >= self.bounds.address_idle_max {
            let fresh = self.patience(&taken);
            let idle = taken.values_mut().filter(|it| it.address == address && it.is_idle(fresh));
            let mut idle: Vec<_> = idle.collect();
            if idle.len() >= self.bounds.address_idle_max {
                idle.iter_mut().min_by_key(|it| it.rank()).into_iter().for_each(|it| it.end());
            }
        }
        if taken.len() >= self.bounds.count_max {
            if !taken.values().any(|it| it.is_ending) {
                let fresh = self.patience(&taken);
                make_room(&mut taken, fresh);
            }
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let end = Arc::new(Notify::new());
        let it = Connection {
            address,
            calls: 0,
            has_called: false,
            is_lingering: false,
            idle_since: Instant::now(),
            end: end.clone(),
            is_ending: false,
        };
        taken.insert(number, it);
        Some(Slot { slots: self.clone(), number, end })
    }
}

/// Ends an idle connection of the address with the most of them.
fn make_room(taken: &mut HashMap<u64, Connection>, fresh: Duration) {
    // One look: with a second one somebody would be idle who was not.
    let mut idle: Vec<_> = taken.values_mut().filter(|it| it.is_idle(fresh)).collect();
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    idle.iter().for_each(|it| *counts.entry(it.address).or_default() += 1);
    let victim = idle.iter_mut().min_by_key(|it| (std::cmp::Reverse(counts[&it.address]), it.rank()));
    victim.into_iter().for_each(|it| it.end());
}

impl Slot {
    /// Waits until the connection may have to make room; [`Slot::is_given_up`] tells whether it has to.
    pub(super) async fn ended(&self) {
        self.end.notified().await;
    }

    /// Whether the connection has to make room. A connection whose request came in between stays, and another one goes.
    pub(super) fn is_given_up(&self) -> bool {
        let look = |it: &mut Connection| {
            it.is_ending &= it.calls == 0;
            it.is_ending
        };
        self.with(look).unwrap_or(true)
    }

    /// The connection was to make room and stays, as if it had come now: there is something to read.
    pub(super) fn stay(&self) {
        self.with(|it| {
            it.is_ending = false;
            it.idle_since = Instant::now();
        });
    }

    /// Whether a whole head of a request ever came.
    pub(super) fn has_called(&self) -> bool {
        self.with(|it| it.has_called).unwrap_or_default()
    }

    /// A request came.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.with(|it| {
            it.calls += 1;
            it.has_called = true;
        });
        Busy(self.clone())
    }

    /// The answer is known, and the rest of the body is read only so that the client gets to read it.
    pub(super) fn linger(self: &Arc<Self>) -> Lingering {
        self.with(|it| it.is_lingering = true);
        Lingering(self.clone())
    }

    /// Whether what comes now is the rest of such a body.
    pub(super) fn is_lingering(&self) -> bool {
        self.with(|it| it.is_lingering).unwrap_or_default()
    }

    fn with<T>(&self, look: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        self.slots.connections.lock().get_mut(&self.number).map(look)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.connections.lock().remove(&self.number);
        self.slots.freed.notify_one();
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.with(|it| it.is_lingering = false);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.with(|it| {
            it.calls -= 1;
            it.idle_since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    const ADDRESS_IDLE_MAX: usize = 256;

    fn bounds(count_max: usize) -> SlotBounds {
        SlotBounds { count_max, address_idle_max: ADDRESS_IDLE_MAX }
    }

    /// Slots in which nothing is fresh.
    fn slots_of(count_max: usize) -> Arc<Slots> {
        Slots::with_fresh(bounds(count_max), Duration::ZERO)
    }

    fn is_ending(slot: &Slot) -> bool {
        slot.with(|it| it.is_ending).unwrap()
    }

    #[test]
    fn the_greediest_address_makes_room_and_of_it_the_connection_that_never_asked() {
        let slots = slots_of(4);
        let other = Arc::new(slots.try_acquire(OTHER).unwrap());
        let asked = Arc::new(slots.try_acquire(ONE).unwrap());
        drop(asked.begin());
        let (first, second) = (slots.try_acquire(ONE).unwrap(), slots.try_acquire(ONE).unwrap());
        assert!(slots.try_acquire(OTHER).is_none() && slots.try_acquire(OTHER).is_none());
        let ending = [&other, &asked].map(|slot| is_ending(slot));
        assert_eq!((ending, is_ending(&first), is_ending(&second)), ([false, false], true, false));
        drop(first);
        assert!(slots.try_acquire(OTHER).is_some());
    }

    #[test]
    fn who_has_the_answer_and_only_sends_makes_room_first() {
        let slots = slots_of(3);
        let taken: Vec<_> = (0..3).map(|_| Arc::new(slots.try_acquire(ONE).unwrap())).collect();
        let (lingering, busy) = (taken[1].linger(), taken[1].begin());
        assert!(slots.try_acquire(ONE).is_none() && !is_ending(&taken[1]), "its answer is not sent yet");
        taken[0].stay();
        drop(busy);
        assert!(slots.try_acquire(ONE).is_none() && is_ending(&taken[1]) && taken[1].is_lingering());
        drop(lingering);
        assert!(!taken[1].is_lingering());
    }

    #[tokio::test]
    async fn addresses_take_turns_however_many_wait_of_one() {
        let slots = slots_of(1);
        let slot = Arc::new(slots.try_acquire(ONE).unwrap());
        let busy = slot.begin();
        let order: Arc<Mutex<Vec<IpAddr>>> = Arc::default();
        let waiting: Vec<_> = [ONE, ONE, ONE, OTHER]
            .into_iter()
            .map(|address| {
                let (slots, order) = (slots.clone(), order.clone());
                tokio::spawn(async move {
                    let slot = slots.acquire(address).await;
                    order.lock().push(address);
                    drop(slot);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        drop((busy, slot));
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), [ONE, OTHER, ONE, ONE]);
        assert_eq!(
            (slots.line_of(OTHER), slots.lines.lock().len()).1,
            1,
            "lines without anybody are forgotten"
        );
    }

    #[test]
    fn busy_connections_stay() {
        let slots = slots_of(2);
        let taken = [ONE, OTHER].map(|address| Arc::new(slots.try_acquire(address).unwrap()));
        let busy = taken.each_ref().map(Slot::begin);
        assert!(slots.try_acquire(ONE).is_none() && !taken.iter().any(|slot| is_ending(slot)));
        drop(busy);
        assert!(slots.try_acquire(ONE).is_none() && taken.iter().any(|slot| is_ending(slot)));
    }

    #[tokio::test]
    async fn who_asks_just_when_he_is_to_make_room_stays() {
        let slots = slots_of(1);
        let slot = Arc::new(slots.try_acquire(ONE).unwrap());
        assert!(slots.try_acquire(OTHER).is_none() && is_ending(&slot));
        let busy = slot.begin();
        slot.ended().await;
        assert!(!slot.is_given_up() && !is_ending(&slot));
        drop(busy);
        assert!(slots.try_acquire(OTHER).is_none());
        slot.ended().await;
        assert!(slot.is_given_up());
        slot.stay();
        assert!(!slot.is_given_up());
    }

    #[test]
    fn an_address_keeps_so_many_idle_connections_and_no_more() {
        let slots = slots_of(10_000);
        let mut taken: Vec<Slot> = (0..ADDRESS_IDLE_MAX).map(|_| slots.try_acquire(ONE).unwrap()).collect();
        assert!(!taken.iter().any(is_ending));
        taken.push(slots.try_acquire(ONE).unwrap());
        assert!(is_ending(&taken[0]) && taken.iter().filter(|slot| is_ending(slot)).count() == 1);
        assert!(!is_ending(&slots.try_acquire(OTHER).unwrap()));
    }

    #[test]
    fn thousands_who_come_at_once_get_to_ask_before_others_take_their_slots() {
        let slots = Slots::with_fresh(bounds(2 * ADDRESS_IDLE_MAX), Duration::MAX);
        let taken: Vec<_> =
            (0..2 * ADDRESS_IDLE_MAX).map(|_| Arc::new(slots.try_acquire(ONE).unwrap())).collect();
        assert!(slots.try_acquire(ONE).is_none() && !taken.iter().any(|slot| is_ending(slot)), "he waits");
        drop(taken[7].begin());
        assert!(slots.try_acquire(ONE).is_none() && is_ending(&taken[7]), "who has asked makes room");
    }

    #[test]
    fn who_is_silent_among_those_who_ask_has_more_time() {
        let slots = slots_of(4);
        let mut taken: Vec<_> = (0..4).map(|_| Arc::new(slots.try_acquire(ONE).unwrap())).collect();
        let mut busy: Vec<Busy> = taken[..2].iter().map(Slot::begin).collect();
        assert!(slots.try_acquire(ONE).is_none() && !taken.iter().any(|slot| is_ending(slot)));
        busy.pop();
        taken.remove(1);
        taken.push(Arc::new(slots.try_acquire(ONE).unwrap()));
        assert!(slots.try_acquire(ONE).is_none() && is_ending(&taken[1]), "three of four are silent");
    }

    #[test]
    fn who_becomes_idle_while_room_is_made_does_no_harm() {
        for nth in 0..500 {
            let slots = Slots::with_fresh(bounds(200), Duration::from_nanos(nth * 200));
            let _taken: Vec<_> = (0..200).map(|at| slots.try_acquire(IpAddr::from([10, 0, 1, at]))).collect();
            assert!(slots.try_acquire(ONE).is_none());
        }
    }

    #[tokio::test]
    async fn who_finds_no_slot_gets_the_next_one() {
        let slots = slots_of(1);
        let slot = Arc::new(slots.acquire(ONE).await);
        let busy = slot.begin();
        let waits = tokio::spawn({
            let slots = slots.clone();
            async move { slots.acquire(OTHER).await }
        });
        tokio::task::yield_now().await;
        drop(busy);
        slot.ended().await;
        drop(slot);
        assert_eq!(waits.await.unwrap().with(|it| it.address), Some(OTHER));
    }
}
