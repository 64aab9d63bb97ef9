//! Topic exchanges (B88): a map for binding keys without wildcards, and a trie of words for the others.
//!
//! Arguments do not matter.
//!
//! ```text
//!  exact     binding key -> destinations                             one probe finds them all
//!  patterns  node: destinations of the pattern that ends here
//!                  word -> edge  |  * -> edge  |  # -> edge
//!            edge: node  |  tail: the rest of the only pattern beyond, and its destinations
//! ```
//!
//! A pattern that shares its beginning with no other takes one edge, however long it is. Invariant: no edge leads to
//! nothing, and no edge leads to a node where a tail would do; so the shape depends on the bindings alone, and what is
//! unbound leaves no memory behind.

use std::sync::Arc;

use message::Table as Arguments;
use smallvec::SmallVec;
use stdx::hamt::{Hamt, hash_of};

use super::direct::DirectTable;
use super::pattern::{HASH, STAR, each_word, matches, matches_an_ending, split, words_of};
use crate::key::Key;
use crate::sink::Sink;
use crate::targets::Targets;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle};

/// Most `#` in one binding key; more would make matching explode (B88, RabbitMQ 4.3.5).
const HASHES_MAX: usize = 2;

/// A binding key with more `#` than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} '#' wildcards, at most {max} are allowed")]
pub struct TooManyHashes {
    /// How many there are.
    pub count: usize,
    /// How many are allowed.
    pub max: usize,
}

/// Whether a topic binding may have that key.
///
/// # Errors
/// [`TooManyHashes`] if more than two of its words are `#` (B88).
pub fn topic_key_check(key: &[u8]) -> Result<(), TooManyHashes> {
    let count = each_word(key).filter(|&word| word == HASH).count();
    if count > HASHES_MAX { Err(TooManyHashes { count, max: HASHES_MAX }) } else { Ok(()) }
}

#[derive(Clone)]
pub(crate) struct TopicTable<Q: QueueHandle> {
    exact: DirectTable<Q>,
    patterns: Node<Q>,
}

#[derive(Clone)]
struct Node<Q: QueueHandle> {
    here: Targets<Q>,
    words: Hamt<Key, Edge<Q>>,
    star: Option<Edge<Q>>,
    hash: Option<Edge<Q>>,
}

#[derive(Clone)]
enum Edge<Q: QueueHandle> {
    Node(Arc<Node<Q>>),
    Tail(Arc<Tail<Q>>),
}

#[derive(Clone)]
struct Tail<Q: QueueHandle> {
    /// The words behind the edge's.
    rest: Option<Key>,
    targets: Targets<Q>,
}

impl<Q: QueueHandle> Tail<Q> {
    fn rest(&self) -> Option<&[u8]> {
        self.rest.as_ref().map(Key::as_bytes)
    }

    fn edge(rest: Option<&[u8]>, targets: Targets<Q>) -> Edge<Q> {
        Edge::Tail(Arc::new(Self { rest: rest.map(Key::from), targets }))
    }
}

fn has_wildcard(key: &[u8]) -> bool {
    each_word(key).any(|word| word == STAR || word == HASH)
}

impl<Q: QueueHandle> Default for TopicTable<Q> {
    fn default() -> Self {
        Self { exact: DirectTable::default(), patterns: Node::default() }
    }
}

impl<Q: QueueHandle> Default for Node<Q> {
    fn default() -> Self {
        Self { here: Targets::new(), words: Hamt::new(), star: None, hash: None }
    }
}

impl<Q: QueueHandle> TypeTable<Q> for TopicTable<Q> {
    fn check<'a>(key: &'a [u8], _: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        Ok(topic_key_check(key)?)
    }

    fn bind(&mut self, key: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        if has_wildcard(key) {
            self.patterns.bind(words_of(key), destination)
        } else {
            self.exact.add(key, destination)
        }
    }

    fn unbind(&mut self, key: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        if has_wildcard(key) {
            self.patterns.unbind(words_of(key), destination)
        } else {
            self.exact.remove(key, destination)
        }
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }

    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        for key in message.keys {
            if let Some(targets) = self.exact.get(key) {
                sink.add(targets);
            }
            self.patterns.each_match(key, |targets| sink.add(targets));
        }
    }

    fn lookup(&self, key: &[u8]) -> Lookup<'_, Q> {
        let mut found = self.exact.get(key);
        let mut several = false;
        self.patterns.each_match(key, |targets| several |= found.replace(targets).is_some());
        if several { Lookup::Walk } else { Lookup::of(found) }
    }
}

// Changing.
impl<Q: QueueHandle> Node<Q> {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.words.is_empty() && self.star.is_none() && self.hash.is_none()
    }

    /// The edge of that word; a new one leads to an empty tail.
    fn edge_mut(&mut self, word: &[u8], rest: Option<&[u8]>) -> &mut Edge<Q> {
        let new = || Tail::edge(rest, Targets::new());
        match word {
            STAR => self.star.get_or_insert_with(new),
            HASH => self.hash.get_or_insert_with(new),
            word => self.words.get_mut_or_insert_with(word, || (word.into(), new())),
        }
    }

    // The recursion goes as deep as a key has words: 256 at most.
    fn bind(&mut self, words: Option<&[u8]>, destination: &Destination<Q>) -> bool {
        let Some(words) = words else { return self.here.bind(destination) };
        let (word, rest) = split(words);
        let edge = self.edge_mut(word, rest);
        if let Edge::Tail(tail) = edge {
            if tail.rest() == rest {
                return Arc::make_mut(tail).targets.bind(destination);
            }
            *edge = Edge::Node(Arc::new(Node::holding(tail)));
        }
        let Edge::Node(node) = edge else { unreachable!("a tail was made a node above") };
        Arc::make_mut(node).bind(rest, destination)
    }

    /// A node with nothing but what the tail held.
    fn holding(tail: &Tail<Q>) -> Self {
        let mut node = Self::default();
        match tail.rest().map(split) {
            None => node.here = tail.targets.clone(),
            Some((word, rest)) => *node.edge_mut(word, rest) = Tail::edge(rest, tail.targets.clone()),
        }
        node
    }

    fn unbind(&mut self, words: Option<&[u8]>, destination: &Destination<Q>) -> bool {
        let Some(words) = words else { return self.here.unbind(destination) };
        let (word, rest) = split(words);
        let edge = match word {
            STAR => self.star.as_mut(),
            HASH => self.hash.as_mut(),
            word => self.words.get_mut(word),
        };
        let Some(edge) = edge else { return false };
        let changed = edge.unbind(rest, destination);
        if edge.is_empty() {
            match word {
                STAR => self.star = None,
                HASH => self.hash = None,
                word => drop(self.words.remove(word)),
            }
        }
        changed
    }

    /// The tail that can stand for this node, if only one pattern ends here or beyond.
    fn as_tail(&self) -> Option<Edge<Q>> {
        let edge_count =
            self.words.len() + usize::from(self.star.is_some()) + usize::from(self.hash.is_some());
        if edge_count == 0 {
            return Some(Tail::edge(None, self.here.clone()));
        }
        if edge_count > 1 || !self.here.is_empty() {
            return None;
        }
        let star = self.star.as_ref().map(|edge| (STAR, edge));
        let hash = self.hash.as_ref().map(|edge| (HASH, edge));
        let word = || self.words.iter().next().map(|(word, edge)| (word.as_bytes(), edge));
        let (word, Edge::Tail(tail)) = star.or(hash).or_else(word)? else { return None };
        let rest = match tail.rest() {
            None => word.to_vec(),
            Some(rest) => [word, rest].join(&b'.'),
        };
        Some(Tail::edge(Some(&rest), tail.targets.clone()))
    }
}

impl<Q: QueueHandle> Edge<Q> {
    /// Whether nothing is bound beyond. A node is never left empty: it becomes a tail first.
    fn is_empty(&self) -> bool {
        matches!(self, Edge::Tail(tail) if tail.targets.is_empty())
    }

    fn unbind(&mut self, rest: Option<&[u8]>, destination: &Destination<Q>) -> bool {
        match self {
            Edge::Tail(tail) if tail.rest() == rest => Arc::make_mut(tail).targets.unbind(destination),
            Edge::Tail(_) => false,
            Edge::Node(node) => {
                let changed = Arc::make_mut(node).unbind(rest, destination);
                if let Some(tail) = node.as_tail() {
                    *self = tail;
                }
                changed
            }
        }
    }
}

/// A node reached by the words so far.
struct State<'t, Q: QueueHandle> {
    node: &'t Node<Q>,
    /// Reached by `#`, so it stays reached whatever word comes.
    stays: bool,
}

impl<Q: QueueHandle> Clone for State<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q: QueueHandle> Copy for State<'_, Q> {}

/// Nodes reached by the words so far, each once: a node is reached over its only edge, and where `#` makes a node stay
/// and be reached again, the second time is left out.
struct States<'t, Q: QueueHandle> {
    list: SmallVec<[State<'t, Q>; 16]>,
    /// So many at the front stayed from the word before.
    stayed: usize,
    may_repeat: bool,
}

/// Up to so many staying nodes are searched for repeats one by one; more are sorted.
const SEARCHED_LEN_MAX: usize = 32;

impl<'t, Q: QueueHandle> States<'t, Q> {
    fn new() -> Self {
        Self { list: SmallVec::new(), stayed: 0, may_repeat: false }
    }

    /// Begins a new word with the nodes that stay.
    fn restart(&mut self, before: &Self) {
        self.list.clear();
        self.list.extend(before.list.iter().filter(|state| state.stays).copied());
        self.stayed = self.list.len();
        self.may_repeat = false;
    }

    /// Adds a node, and what `#` lets be reached from it without a word.
    fn enter(
        &mut self,
        mut state: State<'t, Q>,
        words: Option<&[u8]>,
        emit: &mut impl FnMut(&'t Targets<Q>),
    ) {
        loop {
            if state.stays && self.stayed > 0 {
                let (stayed, node) = (&self.list[..self.stayed.min(SEARCHED_LEN_MAX)], state.node);
                if stayed.iter().any(|other| std::ptr::eq(other.node, node)) {
                    return;
                }
                self.may_repeat |= self.stayed > SEARCHED_LEN_MAX;
            }
            self.list.push(state);
            match &state.node.hash {
                None => return,
                Some(Edge::Tail(tail)) => {
                    if matches_an_ending(tail.rest(), words) {
                        emit(&tail.targets);
                    }
                    return;
                }
                Some(Edge::Node(node)) => state = State { node, stays: true },
            }
        }
    }

    fn follow(&mut self, edge: &'t Edge<Q>, words: Option<&[u8]>, emit: &mut impl FnMut(&'t Targets<Q>)) {
        match edge {
            Edge::Node(node) => self.enter(State { node, stays: false }, words, emit),
            Edge::Tail(tail) if matches(tail.rest(), words) => emit(&tail.targets),
            Edge::Tail(_) => {}
        }
    }

    fn leave_out_repeats(&mut self) {
        if self.may_repeat {
            self.list.sort_unstable_by_key(|state| std::ptr::from_ref(state.node));
            self.list.dedup_by(|one, other| std::ptr::eq(one.node, other.node));
        }
    }
}

// Matching.
impl<Q: QueueHandle> Node<Q> {
    /// Gives out the destinations of every pattern that matches the key. The same ones may come more than once.
    fn each_match<'t>(&'t self, key: &[u8], mut emit: impl FnMut(&'t Targets<Q>)) {
        if self.is_empty() {
            return;
        }
        let emit = &mut emit;
        let mut rest = words_of(key);
        let (mut now, mut next) = (States::new(), States::new());
        now.enter(State { node: self, stays: false }, rest, emit);
        while let Some(words) = rest {
            let (word, behind) = split(words);
            let mut hash = None;
            next.restart(&now);
            for State { node, .. } in &now.list {
                if let Some(edge) = &node.star {
                    next.follow(edge, behind, emit);
                }
                if !node.words.is_empty() {
                    let hash = *hash.get_or_insert_with(|| hash_of(word));
                    if let Some(edge) = node.words.get_hashed(hash, word) {
                        next.follow(edge, behind, emit);
                    }
                }
            }
            next.leave_out_repeats();
            std::mem::swap(&mut now, &mut next);
            if now.list.is_empty() {
                return;
            }
            rest = behind;
        }
        for State { node, .. } in &now.list {
            if !node.here.is_empty() {
                emit(&node.here);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keys: &[&str]) -> TopicTable<u32> {
        let mut table = TopicTable::default();
        for (queue, key) in (0..).zip(keys) {
            assert!(table.bind(key.as_bytes(), Arguments::EMPTY, &Destination::Queue(queue)), "{key}");
        }
        table
    }

    fn matching(table: &TopicTable<u32>, key: &str) -> Vec<u32> {
        let mut queues: Vec<u32> =
            table.exact.get(key.as_bytes()).iter().flat_map(|t| t.queues().iter()).copied().collect();
        table.patterns.each_match(key.as_bytes(), |targets| queues.extend(targets.queues().iter()));
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    #[test]
    fn three_hashes_are_too_many_and_only_whole_words_count() {
        assert_eq!(topic_key_check(b"#.a.#"), Ok(()));
        assert_eq!(topic_key_check(b"####.#.#.a#"), Ok(()));
        let error = TooManyHashes { count: 3, max: 2 };
        assert_eq!(topic_key_check(b"#.#.#"), Err(error));
        assert_eq!(error.to_string(), "3 '#' wildcards, at most 2 are allowed");
    }

    #[test]
    fn patterns_that_share_a_beginning_are_told_apart() {
        let table = table(&["a.*.c", "a.*.d", "a.*", "a.#", "a.b.c", "#", "", "a.*.c.#"]);
        assert_eq!(matching(&table, "a.b.c"), [0, 3, 4, 5, 7]);
        assert_eq!(matching(&table, "a.b"), [2, 3, 5]);
        assert_eq!(matching(&table, "a"), [3, 5]);
        assert_eq!(matching(&table, ""), [5, 6]);
        assert_eq!(matching(&table, "a.b.d"), [1, 3, 5]);
        assert_eq!(matching(&table, "a."), [2, 3, 5]);
    }

    #[test]
    fn many_staying_nodes_do_not_multiply() {
        let patterns: Vec<String> =
            (0..200).flat_map(|n| [format!("#.w{n}.#"), format!("#.w{n}.#.x")]).collect();
        let table = table(&patterns.iter().map(String::as_str).collect::<Vec<_>>());
        let key = (0..40).map(|n| format!("w{}", n % 20)).collect::<Vec<_>>().join(".");
        assert_eq!(matching(&table, &key).len(), 20);
        let words: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
        assert_eq!(matching(&table, &format!("{}.x", words.join("."))).len(), 200);
    }

    #[test]
    fn unbinding_everything_leaves_nothing_and_a_lone_pattern_is_a_tail() {
        let keys = ["a.*.c", "a.*.d", "a.*", "a.#", "#.x.#", "#", "*"];
        let mut table = table(&keys);
        for (queue, key) in (0..).zip(keys).skip(1) {
            assert!(table.unbind(key.as_bytes(), Arguments::EMPTY, &Destination::Queue(queue)));
            assert!(!table.unbind(key.as_bytes(), Arguments::EMPTY, &Destination::Queue(queue)));
        }
        let edge = table.patterns.words.get(&b"a"[..]);
        assert!(matches!(edge, Some(Edge::Tail(tail)) if tail.rest() == Some(b"*.c")));
        assert!(table.unbind(b"a.*.c", Arguments::EMPTY, &Destination::Queue(0)));
        assert!(table.is_empty() && table.patterns.is_empty());
    }
}
