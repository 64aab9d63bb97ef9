//! A persistent hash map: cloning is O(1), and a change copies only the path from the root to the entry it touches.
//!
//! It refuses to know what it holds. Nodes that no other clone shares are edited in place, so a batch of changes to
//! one copy pays for each path once.
//!
//! ```text
//!  node   bitmap u32, one bit per taken slot | slots, packed       32 ways, 5 bits of the hash per level
//!  slot   entry  |  node of the next level
//!  when all 64 bits are used up, entries with equal hashes sit in one node, in a row
//! ```
//!
//! Invariant: but for the root, a node has at least two slots or a node in its only slot; so the shape depends on the
//! keys alone, and an emptied map holds no memory.
//!
//! Hashes are seeded with a constant until [`seed_hashes`] is called, as a server does: until then the same changes give the same
//! order of iteration on every run, which tests and simulations rely on.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

const LEVEL_BITS: u32 = 5;
const LEVEL_MASK: u64 = (1 << LEVEL_BITS) - 1;
const HASH_BITS: u32 = u64::BITS;
const SEED: u64 = 0x5741_5252_454e_0001;

static SHARED: OnceLock<SharedSeed> = OnceLock::new();

/// Makes hashes of this process unpredictable, so that nobody can choose keys that collide. For the start of a process that takes keys
/// from strangers; says whether it came in time, before the first hash. Too late, it changes nothing.
pub fn seed_hashes(seed: u64) -> bool {
    SHARED.set(SharedSeed::from_u64(seed)).is_ok()
}

/// The hash that [`Hamt`] places keys by; the same throughout a process.
#[inline]
pub fn hash_of<B: Hash + ?Sized>(key: &B) -> u64 {
    let shared = SHARED.get_or_init(|| SharedSeed::global_fixed().clone());
    SeedableRandomState::with_seed(SEED, shared).hash_one(key)
}

/// A persistent hash map from `K` to `V`.
pub struct Hamt<K, V> {
    root: Option<Arc<Node<K, V>>>,
    len: usize,
}

#[derive(Clone)]
struct Node<K, V> {
    bitmap: u32,
    slots: Vec<Slot<K, V>>,
}

#[derive(Clone)]
enum Slot<K, V> {
    Entry(K, V),
    Node(Arc<Node<K, V>>),
}

impl<K, V> Hamt<K, V> {
    /// The empty map; does not allocate.
    #[must_use]
    pub const fn new() -> Self {
        Self { root: None, len: 0 }
    }

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries in the order of their hashes.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { levels: self.root.iter().map(|root| root.slots.iter()).collect() }
    }
}

impl<K: Eq + Hash, V> Hamt<K, V> {
    /// The value of that key.
    #[inline]
    pub fn get<B>(&self, key: &B) -> Option<&V>
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        let root = self.root.as_ref()?;
        root.get(hash_of(key), key)
    }

    /// As [`Hamt::get`] with the key's [`hash_of`] at hand. With another number the answer may be a wrong `None`.
    #[inline]
    pub fn get_hashed<B>(&self, hash: u64, key: &B) -> Option<&V>
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        self.root.as_ref()?.get(hash, key)
    }

    /// Whether there is an entry of that key.
    pub fn contains_key<B>(&self, key: &B) -> bool
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        self.get(key).is_some()
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Hamt<K, V> {
    /// Sets the value of a key and returns the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(kept) = self.get_mut(&key) {
            return Some(std::mem::replace(kept, value));
        }
        self.len += 1;
        let root = self.root.get_or_insert_with(Node::empty);
        let probe = key.clone();
        Node::slot_of(root, hash_of(&probe), 0, &probe, || (key, value));
        None
    }

    /// The value of that key, to be changed. Copies the path to it if it is shared.
    pub fn get_mut<B>(&mut self, key: &B) -> Option<&mut V>
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        self.get(key)?;
        Node::get_mut(self.root.as_mut()?, hash_of(key), 0, key)
    }

    /// The value of that key, to be changed; if there is none yet, the entry that `make` returns is added first. Its
    /// key must equal `key`.
    pub fn get_mut_or_insert_with<B>(&mut self, key: &B, make: impl FnOnce() -> (K, V)) -> &mut V
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        let len = &mut self.len;
        let root = self.root.get_or_insert_with(Node::empty);
        Node::slot_of(root, hash_of(key), 0, key, || {
            *len += 1;
            make()
        })
    }

    /// Removes the entry of that key and returns its value.
    pub fn remove<B>(&mut self, key: &B) -> Option<V>
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        self.get(key)?;
        let value = Node::remove(self.root.as_mut()?, hash_of(key), 0, key);
        self.len -= 1;
        if self.len == 0 {
            self.root = None;
        }
        Some(value)
    }
}

impl<K, V> Node<K, V> {
    fn empty() -> Arc<Self> {
        Arc::new(Self { bitmap: 0, slots: Vec::new() })
    }

    /// Where the slot of this hash is or would be, and its bit in the bitmap.
    #[inline]
    fn position(&self, hash: u64, shift: u32) -> (usize, u32) {
        let bit = 1 << ((hash >> shift) & LEVEL_MASK);
        ((self.bitmap & (bit - 1)).count_ones() as usize, bit)
    }

    fn put(&mut self, position: usize, bit: u32, slot: Slot<K, V>) {
        self.bitmap |= bit;
        self.slots.reserve_exact(1);
        self.slots.insert(position, slot);
    }
}

impl<K: Eq + Hash, V> Node<K, V> {
    #[inline]
    fn get<B>(&self, hash: u64, key: &B) -> Option<&V>
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        let mut node = self;
        let mut shift = 0;
        while shift < HASH_BITS {
            let (position, bit) = node.position(hash, shift);
            if node.bitmap & bit == 0 {
                return None;
            }
            match &node.slots[position] {
                Slot::Entry(found, value) => return (found.borrow() == key).then_some(value),
                Slot::Node(child) => node = child,
            }
            shift += LEVEL_BITS;
        }
        node.slots.get(node.position_in_row(key)?)?.value()
    }

    /// Among entries of equal hashes: where the key is.
    fn position_in_row<B>(&self, key: &B) -> Option<usize>
    where
        K: Borrow<B>,
        B: Eq + ?Sized,
    {
        self.slots.iter().position(|slot| matches!(slot, Slot::Entry(found, _) if found.borrow() == key))
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Node<K, V> {
    /// The value of the key, which is there.
    fn get_mut<'n, B>(node: &'n mut Arc<Self>, hash: u64, shift: u32, key: &B) -> Option<&'n mut V>
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        let node = Arc::make_mut(node);
        let position =
            if shift < HASH_BITS { node.position(hash, shift).0 } else { node.position_in_row(key)? };
        match &mut node.slots[position] {
            Slot::Entry(_, value) => Some(value),
            Slot::Node(child) => Self::get_mut(child, hash, shift + LEVEL_BITS, key),
        }
    }

    /// The value of the key, added if it was not there.
    fn slot_of<'n, B>(
        node: &'n mut Arc<Self>,
        hash: u64,
        shift: u32,
        key: &B,
        make: impl FnOnce() -> (K, V),
    ) -> &'n mut V
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        let node = Arc::make_mut(node);
        let (position, bit) = match shift {
            HASH_BITS.. => (node.position_in_row(key).unwrap_or(node.slots.len()), 0),
            _ => node.position(hash, shift),
        };
        let taken = if shift < HASH_BITS { node.bitmap & bit != 0 } else { position < node.slots.len() };
        if !taken {
            let (key, value) = make();
            node.put(position, bit, Slot::Entry(key, value));
            return node.slots[position].value_mut();
        }
        if matches!(&node.slots[position], Slot::Entry(found, _) if found.borrow() != key) {
            push_down(&mut node.slots[position], shift + LEVEL_BITS);
        }
        match &mut node.slots[position] {
            Slot::Entry(_, value) => value,
            Slot::Node(child) => Self::slot_of(child, hash, shift + LEVEL_BITS, key, make),
        }
    }

    /// Removes the entry of the key, which is there.
    fn remove<B>(node: &mut Arc<Self>, hash: u64, shift: u32, key: &B) -> V
    where
        K: Borrow<B>,
        B: Eq + Hash + ?Sized,
    {
        const PRESENT: &str = "the caller found the key";
        let node = Arc::make_mut(node);
        let (position, bit) = match shift {
            HASH_BITS.. => (node.position_in_row(key).expect(PRESENT), 0),
            _ => node.position(hash, shift),
        };
        let Slot::Node(child) = &mut node.slots[position] else {
            node.bitmap &= !bit;
            let removed = node.slots.remove(position);
            if node.slots.capacity() > 2 * node.slots.len() + 2 {
                node.slots.shrink_to_fit();
            }
            let Slot::Entry(_, value) = removed else { unreachable!("{PRESENT}") };
            return value;
        };
        let value = Self::remove(child, hash, shift + LEVEL_BITS, key);
        if let [Slot::Entry(key, value)] = &child.slots[..] {
            node.slots[position] = Slot::Entry(key.clone(), value.clone());
        }
        value
    }
}

/// Replaces an entry by a node of the next level that holds it.
fn push_down<K: Hash, V>(slot: &mut Slot<K, V>, shift: u32) {
    let empty = Slot::Node(Node::empty());
    let entry = std::mem::replace(slot, empty);
    let (Slot::Entry(key, _), Slot::Node(child)) = (&entry, slot) else { return };
    let hash = hash_of(key);
    let child = Arc::get_mut(child).expect("the node was made here");
    let bit = if shift < HASH_BITS { child.position(hash, shift).1 } else { 0 };
    child.put(0, bit, entry);
}

impl<K, V> Slot<K, V> {
    fn value(&self) -> Option<&V> {
        if let Slot::Entry(_, value) = self { Some(value) } else { None }
    }

    fn value_mut(&mut self) -> &mut V {
        match self {
            Slot::Entry(_, value) => value,
            Slot::Node(_) => unreachable!("the slot was filled with an entry"),
        }
    }
}

impl<K, V> Clone for Hamt<K, V> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), len: self.len }
    }
}

impl<K, V> Default for Hamt<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug for Hamt<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'m, K, V> IntoIterator for &'m Hamt<K, V> {
    type Item = (&'m K, &'m V);
    type IntoIter = Iter<'m, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterator over the entries of a [`Hamt`].
pub struct Iter<'m, K, V> {
    levels: Vec<std::slice::Iter<'m, Slot<K, V>>>,
}

impl<'m, K, V> Iterator for Iter<'m, K, V> {
    type Item = (&'m K, &'m V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.levels.last_mut()?.next() {
                Some(Slot::Entry(key, value)) => return Some((key, value)),
                Some(Slot::Node(child)) => self.levels.push(child.slots.iter()),
                None => {
                    self.levels.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A key whose hash has few values, so that deep nodes and rows of equal hashes come up.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Colliding(u16);

    impl Hash for Colliding {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            (self.0 % 3).hash(state);
        }
    }

    fn assert_shape<K: Hash, V>(node: &Node<K, V>, is_root: bool) {
        let lone_entry = matches!(&node.slots[..], [] | [Slot::Entry(..)]);
        assert!(is_root || !lone_entry, "a node that could be an entry of its parent");
        for slot in &node.slots {
            if let Slot::Node(child) = slot {
                assert_shape(child, false);
            }
        }
    }

    /// Runs the changes on both kinds of map, keeping old clones, and compares everything at the end.
    fn same_as_hash_map<K: Copy + Eq + Hash + std::fmt::Debug>(changes: &[(K, Option<u32>)]) {
        let (mut map, mut model) = (Hamt::new(), HashMap::new());
        let mut versions = Vec::new();
        for (step, &(key, value)) in changes.iter().enumerate() {
            match value {
                Some(value) if value % 2 == 0 => assert_eq!(map.insert(key, value), model.insert(key, value)),
                Some(value) => {
                    *map.get_mut_or_insert_with(&key, || (key, 0)) += value;
                    *model.entry(key).or_insert(0) += value;
                }
                None => assert_eq!(map.remove(&key), model.remove(&key)),
            }
            assert_eq!(map.get(&key), model.get(&key));
            if step % 7 == 0 {
                versions.push((map.clone(), model.clone()));
            }
        }
        versions.push((map, model));
        for (map, model) in versions {
            assert_eq!(map.len(), model.len());
            assert_eq!(map.iter().map(|(k, v)| (*k, *v)).collect::<HashMap<_, _>>(), model);
            assert_eq!(map.iter().count(), model.len());
            assert_eq!(map.root.is_some(), !map.is_empty());
            if let Some(root) = &map.root {
                assert_shape(root, true);
            }
        }
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_hash_map_and_clones_never_change(
            changes in prop::collection::vec((0u16..300, prop::option::of(0u32..100)), 0..400),
        ) {
            same_as_hash_map(&changes);
        }

        #[test]
        fn keys_of_equal_hashes_are_told_apart(
            changes in prop::collection::vec(((0u16..24).prop_map(Colliding), prop::option::of(0u32..100)), 0..100),
        ) {
            same_as_hash_map(&changes);
        }
    }

    #[test]
    fn a_change_leaves_what_it_does_not_touch_shared() {
        let mut map = Hamt::new();
        for key in 0..10_000u32 {
            map.insert(key, key);
        }
        let before = map.clone();
        *map.get_mut(&7).unwrap() = 0;
        let (old, new) = (before.root.as_ref().unwrap(), map.root.as_ref().unwrap());
        let copied = old.slots.iter().zip(&new.slots).filter(|pair| match pair {
            (Slot::Node(old), Slot::Node(new)) => !Arc::ptr_eq(old, new),
            _ => false,
        });
        assert_eq!(copied.count(), 1);
        assert_eq!((before.get(&7), map.get(&7)), (Some(&7), Some(&0)));
    }

    #[test]
    fn borrowed_keys_find_owned_ones() {
        let mut map = Hamt::new();
        map.insert(Box::<[u8]>::from(*b"key"), 1);
        assert_eq!(map.get(&b"key"[..]), Some(&1));
        assert_eq!(map.get_hashed(hash_of(&b"key"[..]), &b"key"[..]), Some(&1));
        assert_eq!(map.remove(&b"key"[..]), Some(1));
        assert!(map.is_empty());
    }
}
