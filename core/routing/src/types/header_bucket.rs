//! The headers bindings that are found by one header: those that ask for nothing else, and those that ask for more.
//!
//! Most buckets hold one filter; that and its destinations lie in place. Refuses to know which header leads here.

use stdx::hamt::Hamt;

use super::header_filter::{Filter, FoundHeaders};
use crate::sink::Sink;
use crate::targets::Targets;
use crate::{Destination, QueueHandle};

#[derive(Clone)]
pub(super) struct Bucket<Q: QueueHandle>(Inner<Q>);

#[derive(Clone)]
enum Inner<Q: QueueHandle> {
    Any(Targets<Q>),
    One(Filter, Targets<Q>),
    Crowd(Box<Crowd<Q>>),
}

#[derive(Clone)]
struct Crowd<Q: QueueHandle> {
    any: Targets<Q>,
    all: Hamt<Filter, Targets<Q>>,
}

impl<Q: QueueHandle> Default for Bucket<Q> {
    fn default() -> Self {
        Self(Inner::Any(Targets::new()))
    }
}

impl<Q: QueueHandle> Bucket<Q> {
    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.0, Inner::Any(any) if any.is_empty())
    }

    pub(super) fn filter_count(&self) -> usize {
        match &self.0 {
            Inner::Any(_) => 0,
            Inner::One(..) => 1,
            Inner::Crowd(crowd) => crowd.all.len(),
        }
    }

    pub(super) fn contains(&self, filter: &Filter) -> bool {
        match &self.0 {
            Inner::Any(_) => false,
            Inner::One(one, _) => one == filter,
            Inner::Crowd(crowd) => crowd.all.contains_key(filter),
        }
    }

    /// Adds a binding that asks for this header or others; says whether routes change.
    pub(super) fn bind_any(&mut self, destination: &Destination<Q>) -> bool {
        match &mut self.0 {
            Inner::Any(any) => any.bind(destination),
            Inner::One(..) | Inner::Crowd(_) => self.crowd_mut().any.bind(destination),
        }
    }

    /// Adds a binding that asks for this header and what the filter says; says whether routes change.
    pub(super) fn bind(&mut self, filter: Filter, destination: &Destination<Q>) -> bool {
        match &mut self.0 {
            Inner::Any(any) if any.is_empty() => {
                self.0 = Inner::One(filter, Targets::only(destination));
                true
            }
            Inner::One(one, targets) if *one == filter => targets.bind(destination),
            _ => {
                let all = &mut self.crowd_mut().all;
                all.get_mut_or_insert_with(&filter, || (filter.clone(), Targets::new())).bind(destination)
            }
        }
    }

    pub(super) fn unbind_any(&mut self, destination: &Destination<Q>) -> bool {
        let changed = match &mut self.0 {
            Inner::Any(any) => any.unbind(destination),
            Inner::One(..) => false,
            Inner::Crowd(crowd) => crowd.any.unbind(destination),
        };
        self.settle();
        changed
    }

    pub(super) fn unbind(&mut self, filter: &Filter, destination: &Destination<Q>) -> bool {
        let (changed, is_gone) = match &mut self.0 {
            Inner::One(one, targets) if one == filter => (targets.unbind(destination), targets.is_empty()),
            Inner::Any(_) | Inner::One(..) => return false,
            Inner::Crowd(crowd) => {
                let Some(targets) = crowd.all.get_mut(filter) else { return false };
                let changed = targets.unbind(destination);
                if targets.is_empty() {
                    crowd.all.remove(filter);
                }
                (changed, false)
            }
        };
        if is_gone {
            *self = Self::default();
        }
        self.settle();
        changed
    }

    /// Takes what a message that has this header goes to.
    #[inline]
    pub(super) fn collect(&self, headers: &FoundHeaders<'_>, sink: &mut Sink<'_, Q>) {
        match &self.0 {
            Inner::Any(any) => sink.add(any),
            Inner::One(filter, targets) => {
                if filter.fits(headers) {
                    sink.add(targets);
                }
            }
            Inner::Crowd(crowd) => {
                if !crowd.any.is_empty() {
                    sink.add(&crowd.any);
                }
                for (filter, targets) in crowd.all.iter() {
                    if filter.fits(headers) {
                        sink.add(targets);
                    }
                }
            }
        }
    }

    fn crowd_mut(&mut self) -> &mut Crowd<Q> {
        if !matches!(self.0, Inner::Crowd(_)) {
            let mut crowd = Crowd { any: Targets::new(), all: Hamt::new() };
            match std::mem::replace(&mut self.0, Inner::Any(Targets::new())) {
                Inner::Any(any) => crowd.any = any,
                Inner::One(filter, targets) => drop(crowd.all.insert(filter, targets)),
                Inner::Crowd(_) => unreachable!("looked at above"),
            }
            self.0 = Inner::Crowd(Box::new(crowd));
        }
        let Inner::Crowd(crowd) = &mut self.0 else { unreachable!("made above") };
        crowd
    }

    /// Gives up the crowd where a simpler shape does.
    fn settle(&mut self) {
        let Inner::Crowd(crowd) = &mut self.0 else { return };
        if crowd.all.is_empty() {
            self.0 = Inner::Any(std::mem::take(&mut crowd.any));
        } else if crowd.all.len() == 1 && crowd.any.is_empty() {
            let only = crowd.all.iter().next().map(|(filter, targets)| (filter.clone(), targets.clone()));
            let (filter, targets) = only.expect("there is one");
            self.0 = Inner::One(filter, targets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_of_one_filter_is_six_words() {
        assert_eq!(size_of::<Bucket<u64>>(), 48);
    }
}
