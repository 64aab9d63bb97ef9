//! A hash table of things that know their own name, so that a name is stored once. Its order is never given out:
//! lists are sorted by name, so that no result depends on hashing.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Something with a name of its own.
pub(crate) trait Named {
    fn name(&self) -> &[u8];
}

/// Entries by name.
#[derive(Debug)]
pub(crate) struct Names<E> {
    table: HashTable<E>,
    hasher: RandomState,
}

impl<E> Default for Names<E> {
    fn default() -> Self {
        Self { table: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<E: Named> Names<E> {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// In no order: not for what must be the same everywhere.
    pub(crate) fn unsorted(&self) -> impl Iterator<Item = &E> {
        self.table.iter()
    }

    /// Bytes of the table, without what hangs on its entries.
    pub(crate) fn table_bytes(&self) -> usize {
        self.table.allocation_size()
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&E> {
        self.table.find(self.hasher.hash_one(name), |entry| entry.name() == name)
    }

    pub(crate) fn get_mut(&mut self, name: &[u8]) -> Option<&mut E> {
        self.table.find_mut(self.hasher.hash_one(name), |entry| entry.name() == name)
    }

    /// Adds an entry. The name must be new.
    pub(crate) fn insert(&mut self, entry: E) {
        debug_assert!(self.get(entry.name()).is_none(), "names in a table are unique");
        let hash = self.hasher.hash_one(entry.name());
        self.table.insert_unique(hash, entry, |entry| self.hasher.hash_one(entry.name()));
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<E> {
        let found = self.table.find_entry(self.hasher.hash_one(name), |entry| entry.name() == name).ok()?;
        Some(found.remove().0)
    }

    /// All entries in order of their names.
    pub(crate) fn sorted(&self) -> Vec<&E> {
        let mut all: Vec<&E> = self.table.iter().collect();
        all.sort_unstable_by(|left, right| left.name().cmp(right.name()));
        all
    }
}
