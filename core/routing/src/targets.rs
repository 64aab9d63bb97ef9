//! Where one place of a routing table leads: queues, exchanges, and how many bindings stand behind each.
//!
//! Refuses to know which key or arguments brought one here.
//!
//! Several bindings may lead from the same place to the same destination (they differ in arguments that the exchange
//! type does not look at, B84); the destination stays until the last of them is removed. Only the second binding and
//! the ones after it take memory for counting.

use std::hash::Hash;
use std::sync::Arc;

use stdx::hamt::Hamt;

use crate::{Destination, DestinationSet, QueueHandle};

#[derive(Clone)]
pub(crate) struct Targets<Q: QueueHandle> {
    queues: DestinationSet<Q>,
    rare: Option<Arc<Rare<Q>>>,
}

/// Fields that most places do not use.
struct Rare<Q: QueueHandle> {
    exchanges: DestinationSet<Arc<Q::Exchange>>,
    queue_repeats: Hamt<Q, u32>,
    exchange_repeats: Hamt<Arc<Q::Exchange>, u32>,
}

// By hand: an exchange need not be cloned for that.
impl<Q: QueueHandle> Clone for Rare<Q> {
    fn clone(&self) -> Self {
        Self {
            exchanges: self.exchanges.clone(),
            queue_repeats: self.queue_repeats.clone(),
            exchange_repeats: self.exchange_repeats.clone(),
        }
    }
}

impl<Q: QueueHandle> Targets<Q> {
    pub(crate) const fn new() -> Self {
        Self { queues: DestinationSet::new(), rare: None }
    }

    /// One destination, bound once.
    pub(crate) fn only(destination: &Destination<Q>) -> Self {
        let mut targets = Self::new();
        targets.bind(destination);
        targets
    }

    /// The destination of [`Targets::only`].
    pub(crate) fn first(&self) -> Option<Destination<Q>> {
        let queue = self.queues.as_slice().and_then(<[Q]>::first).cloned().map(Destination::Queue);
        let exchange = || self.exchanges()?.iter().next().cloned().map(Destination::Exchange);
        queue.or_else(exchange)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.exchanges().is_none()
    }

    #[inline]
    pub(crate) const fn queues(&self) -> &DestinationSet<Q> {
        &self.queues
    }

    /// The exchanges, if there are any.
    #[inline]
    pub(crate) fn exchanges(&self) -> Option<&DestinationSet<Arc<Q::Exchange>>> {
        let exchanges = &self.rare.as_ref()?.exchanges;
        (!exchanges.is_empty()).then_some(exchanges)
    }

    /// Counts one more binding to that destination; says whether it is the first.
    pub(crate) fn bind(&mut self, destination: &Destination<Q>) -> bool {
        match destination {
            Destination::Queue(queue) => {
                self.queues.insert(queue.clone()) || repeat(&mut self.rare_mut().queue_repeats, queue)
            }
            Destination::Exchange(exchange) => {
                let rare = self.rare_mut();
                rare.exchanges.insert(Arc::clone(exchange)) || repeat(&mut rare.exchange_repeats, exchange)
            }
        }
    }

    /// Counts one binding less; says whether it was the last. Without any it changes nothing.
    pub(crate) fn unbind(&mut self, destination: &Destination<Q>) -> bool {
        let Some(rare) = &mut self.rare else {
            return match destination {
                Destination::Queue(queue) => self.queues.remove(queue),
                Destination::Exchange(_) => false,
            };
        };
        let rare = Arc::make_mut(rare);
        let last = match destination {
            Destination::Queue(queue) => {
                !repeat_less(&mut rare.queue_repeats, queue) && self.queues.remove(queue)
            }
            Destination::Exchange(exchange) => {
                !repeat_less(&mut rare.exchange_repeats, exchange) && rare.exchanges.remove(exchange)
            }
        };
        if rare.exchanges.is_empty() && rare.queue_repeats.is_empty() && rare.exchange_repeats.is_empty() {
            self.rare = None;
        }
        last
    }

    fn rare_mut(&mut self) -> &mut Rare<Q> {
        let rare = self.rare.get_or_insert_with(|| {
            let (queue_repeats, exchange_repeats) = (Hamt::new(), Hamt::new());
            Arc::new(Rare { exchanges: DestinationSet::new(), queue_repeats, exchange_repeats })
        });
        Arc::make_mut(rare)
    }
}

/// Counts one more binding beyond the first. Always `false`: it changes no route.
fn repeat<T: Clone + Eq + Hash>(repeats: &mut Hamt<T, u32>, destination: &T) -> bool {
    *repeats.get_mut_or_insert_with(destination, || (destination.clone(), 0)) += 1;
    false
}

/// Takes one binding off those beyond the first; `false` if there is none.
fn repeat_less<T: Clone + Eq + Hash>(repeats: &mut Hamt<T, u32>, destination: &T) -> bool {
    match repeats.get_mut(destination) {
        None => return false,
        Some(1) => {
            repeats.remove(destination);
        }
        Some(count) => *count -= 1,
    }
    true
}

impl<Q: QueueHandle> Default for Targets<Q> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exchange, ExchangeKind};

    #[test]
    fn a_destination_stays_until_its_last_binding_is_removed() {
        let exchange = Arc::new(Exchange::<u32>::new(1, b"x", ExchangeKind::Direct));
        for destination in [Destination::Queue(5), Destination::from(&exchange)] {
            let mut targets = Targets::new();
            assert!(!targets.unbind(&destination));
            assert_eq!([targets.bind(&destination), targets.bind(&destination)], [true, false]);
            assert!(!targets.bind(&destination));
            assert!(!targets.unbind(&destination));
            assert!(!targets.unbind(&destination));
            assert!(!targets.is_empty());
            assert!(targets.unbind(&destination));
            assert!(targets.is_empty());
            assert!(targets.rare.is_none(), "nothing is left of the counting");
        }
        assert_eq!(Arc::strong_count(&exchange), 1);
    }

    #[test]
    fn a_place_without_exchanges_and_repeats_is_three_words() {
        assert_eq!(size_of::<Targets<u64>>(), 24);
    }
}
