//! A map that mostly has one entry or a few.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// So many entries lie in a list, which is looked through; more lie in a hash table.
const FEW: usize = 8;

/// A map that takes little memory while it has few entries. They come in no order.
#[derive(Clone, Debug)]
pub struct FewMap<K, V>(Entries<K, V>);

#[expect(clippy::box_collection, reason = "a list is smaller than a hash table, and mostly it is one")]
#[derive(Clone, Debug)]
enum Entries<K, V> {
    Few(Vec<(K, V)>),
    Many(Box<HashMap<K, V, RandomState>>),
}

impl<K, V> Default for FewMap<K, V> {
    fn default() -> Self {
        Self(Entries::Few(Vec::new()))
    }
}

impl<K: Eq + Hash, V> FewMap<K, V> {
    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        match &self.0 {
            Entries::Few(few) => few.iter().find(|(known, _)| known == key).map(|(_, value)| value),
            Entries::Many(many) => many.get(key),
        }
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Puts a value in, and gives the one that the key had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Entries::Few(few) = &mut self.0 {
            if let Some((_, old)) = few.iter_mut().find(|(known, _)| *known == key) {
                return Some(std::mem::replace(old, value));
            }
            if few.len() < FEW {
                if few.len() == few.capacity() {
                    few.reserve_exact(few.len().max(1));
                }
                few.push((key, value));
                return None;
            }
            self.0 = Entries::Many(Box::new(few.drain(..).collect()));
        }
        let Entries::Many(many) = &mut self.0 else { return None };
        many.insert(key, value)
    }

    /// Takes a key out, and gives its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.0 {
            Entries::Few(few) => {
                let at = few.iter().position(|(known, _)| known == key)?;
                Some(few.swap_remove(at).1)
            }
            Entries::Many(many) => {
                let value = many.remove(key);
                if many.is_empty() {
                    *self = Self::default();
                }
                value
            }
        }
    }

    /// Takes all out.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, V)> + use<K, V> {
        let (few, many) = match std::mem::take(self).0 {
            Entries::Few(few) => (few, None),
            Entries::Many(many) => (Vec::new(), Some(many)),
        };
        few.into_iter().chain(many.into_iter().flat_map(|many| *many))
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        let (few, many) = match &self.0 {
            Entries::Few(few) => (few.as_slice(), None),
            Entries::Many(many) => (&[][..], Some(many)),
        };
        few.iter().map(|(_, value)| value).chain(many.into_iter().flat_map(|many| many.values()))
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::Few(few) => few.len(),
            Entries::Many(many) => many.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap, those that entries hold aside.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Entries::Few(few) => few.capacity() * size_of::<(K, V)>(),
            Entries::Many(many) => {
                size_of::<HashMap<K, V, RandomState>>() + many.capacity() * (size_of::<(K, V)>() + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_any_map_would(steps in proptest::collection::vec((any::<bool>(), 0..20_u8, any::<u16>()), 0..200)) {
            let (mut map, mut model) = (FewMap::default(), BTreeMap::new());
            for (puts_in, key, value) in steps {
                if puts_in {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!((map.get(&key), map.contains_key(&key)), (model.get(&key), model.contains_key(&key)));
                let mut values: Vec<_> = map.values().copied().collect();
                values.sort_unstable();
                let mut expected: Vec<_> = model.values().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(values, expected);
            }
            prop_assert_eq!(map.clone().drain().collect::<BTreeMap<_, _>>(), model);
            drop(map.drain());
            prop_assert!(map.is_empty());
        }
    }

    #[test]
    fn one_entry_takes_the_place_of_one() {
        let mut map = FewMap::default();
        map.insert(1_u64, 2_u64);
        assert_eq!(map.heap_bytes(), size_of::<(u64, u64)>());
    }
}
