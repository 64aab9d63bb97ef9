//! A hash table of shared things that know their own name: eight bytes an entry instead of a second copy of each name.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Something with a name that never changes.
pub(crate) trait HasName {
    fn name(&self) -> &[u8];
}

/// Things by name.
pub(crate) struct NameTable<T> {
    table: HashTable<Arc<T>>,
    hasher: RandomState,
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        NameTable { table: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<T: HasName> NameTable<T> {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of the table, without the things themselves.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.allocation_size()
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<T>> {
        self.table.find(self.hasher.hash_one(name), |entry| entry.name() == name)
    }

    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.table.iter()
    }

    /// Takes the place of what had the name before.
    pub(crate) fn insert(&mut self, thing: Arc<T>) {
        drop(self.remove(thing.name()));
        let hash = self.hasher.hash_one(thing.name());
        self.table.insert_unique(hash, thing, |entry| self.hasher.hash_one(entry.name()));
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Arc<T>> {
        let found = self.table.find_entry(self.hasher.hash_one(name), |entry| entry.name() == name);
        Some(found.ok()?.remove().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasName for String {
        fn name(&self) -> &[u8] {
            self.as_bytes()
        }
    }

    #[test]
    fn a_name_stands_for_what_was_inserted_last() {
        let mut table = NameTable::default();
        let (one, other) = (Arc::new("a".to_owned()), Arc::new("a".to_owned()));
        table.insert(one);
        table.insert(other.clone());
        assert_eq!(table.len(), 1);
        assert!(table.get(b"a").is_some_and(|found| Arc::ptr_eq(found, &other)));
        assert!(table.remove(b"a").is_some() && table.remove(b"a").is_none());
        assert_eq!(table.iter().count(), 0);
    }
}
