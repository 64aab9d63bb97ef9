//! The nodes of a cluster and what they propose. Each node numbers its proposals; the machine takes each number once and in order, so that a node may
//! send again what was not answered. Knows nothing of how proposals travel or come to be committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::changes::{Applied, Outcome};
use crate::codec::{Codec, DecodeError, Reader, coded, record};
use crate::entry::Entry;
use crate::records::{FIRST_NODE, NodeRow, QueueRecord};
use crate::refusal::Refusal;
use crate::replicas::{ChangeReplicas, NodeSeen};
use crate::state::{Nodes, State};

record! {
    /// A node proposes.
    pub struct Proposed {
        /// Its number.
        pub node: u16,
        /// In this life.
        pub life: u32,
        /// Which proposal of this life; from 1, without gaps.
        pub request: u64,
        /// Its proposals; none, when it only wants to know that all before is applied.
        pub entry: Option<Entry>,
    }

    /// A node becomes a member. One that is known by name and data stays as it is.
    pub struct AddNode {
        /// Its name.
        pub name: Box<str>,
        /// The identity of its data directory.
        pub data_id: [u8; 16],
    }

    /// A node starts: the objects of its earlier lives go.
    pub struct BeginLife {
        /// Its number.
        pub node: u16,
        /// The identity of its data directory.
        pub data_id: [u8; 16],
        /// Drawn by the process.
        pub nonce: u64,
    }

    /// A node is no member any more; its queues go.
    pub struct ForgetNode {
        /// Its number.
        pub node: u16,
    }
}

coded! {
    /// One step of a cluster's machine. Codes of the encoding are never used again for something else.
    pub enum ClusterStep: u8 as "step of a cluster's metadata" {
        /// See [`Proposed`].
        1 => Proposed(Proposed),
        /// See [`AddNode`].
        2 => AddNode(AddNode),
        /// See [`BeginLife`].
        3 => BeginLife(BeginLife),
        /// See [`ForgetNode`].
        4 => ForgetNode(ForgetNode),
        /// See [`NodeSeen`].
        5 => NodeSeen(NodeSeen),
        /// See [`ChangeReplicas`].
        6 => ChangeReplicas(ChangeReplicas),
    }
}

impl ClusterStep {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads steps until the bytes end: one entry of the group holds those of one turn.
    ///
    /// # Errors
    /// [`DecodeError`] for anything but what [`ClusterStep::encode`] writes.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut steps = Vec::new();
        while !reader.is_empty() {
            steps.push(Self::get(&mut reader)?);
        }
        Ok(steps)
    }
}

/// The result of a step.
#[derive(Debug)]
pub enum Stepped {
    /// A proposal was applied, or refused by the machine.
    Proposed {
        /// Its node.
        node: u16,
        /// Its number.
        request: u64,
        /// The answer for its proposer; `None` when nothing was asked.
        outcome: Option<Result<Outcome, Refusal>>,
    },
    /// The proposal is not the next of its node: it was applied before, comes too early, or is of another life.
    PassedOver,
    /// A node became a member, or is known as one.
    NodeAdded(u16),
    /// A node cannot become a member: another data directory has its name.
    NameTaken,
    /// A node has begun this life.
    LifeBegun(u16, u32),
    /// There is no such member with this data directory.
    NoSuchNode,
    /// A node was forgotten.
    Forgotten(u16),
    /// The step about a node or about members of a queue is applied, or came too late.
    Noted,
}

impl State {
    /// Makes it the state of a cluster, which has this node as its first member. Things that are not durable do not go along: those of a
    /// node alone end with its life.
    pub fn form_cluster(&mut self, name: &str, data_id: [u8; 16]) {
        let row = NodeRow { name: name.into(), data_id, life: 0, nonce: 0, answered: 0 };
        self.nodes = Some(Nodes {
            rows: BTreeMap::from([(FIRST_NODE, row)]),
            next: FIRST_NODE + 1,
            ..Nodes::default()
        });
    }

    /// Whether it is the state of a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.nodes.is_some()
    }

    /// The members by number; none on a node alone.
    pub fn nodes(&self) -> impl Iterator<Item = (u16, &NodeRow)> {
        self.nodes.iter().flat_map(|nodes| nodes.rows.iter().map(|(number, row)| (*number, row)))
    }

    /// A member by its number.
    #[must_use]
    pub fn node(&self, number: u16) -> Option<&NodeRow> {
        self.nodes.as_ref()?.rows.get(&number)
    }

    /// The member of that name.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<u16> {
        self.nodes().find(|(_, row)| &*row.name == name).map(|(number, _)| number)
    }

    /// Does one step. The changes that must follow are appended to `applied`.
    pub fn step(&mut self, step: &ClusterStep, applied: &mut Applied) -> Stepped {
        match step {
            ClusterStep::Proposed(proposed) => self.step_proposed(proposed, applied),
            ClusterStep::AddNode(add) => self.add_node(add),
            ClusterStep::BeginLife(begin) => self.begin_life(begin, applied),
            ClusterStep::ForgetNode(forget) => self.forget_node(forget, applied),
            ClusterStep::NodeSeen(seen) => {
                self.see_node(seen, applied);
                Stepped::Noted
            }
            ClusterStep::ChangeReplicas(asked) => {
                self.change_replicas(asked, applied);
                Stepped::Noted
            }
        }
    }

    /// Whether a proposal is the next of its node: any other is passed over.
    fn is_next(&self, proposed: &Proposed) -> bool {
        self.node(proposed.node)
            .is_some_and(|row| row.life == proposed.life && row.answered + 1 == proposed.request)
    }

    /// Takes a proposal if it is the next of its node; its entry is to be applied then, before anything else.
    pub fn take_proposed(&mut self, proposed: &Proposed) -> bool {
        let is_next = self.is_next(proposed);
        if is_next && let Some(row) = self.nodes.as_mut().and_then(|nodes| nodes.rows.get_mut(&proposed.node))
        {
            row.answered = proposed.request;
            self.declaring = proposed.node;
        }
        is_next
    }

    fn step_proposed(&mut self, proposed: &Proposed, applied: &mut Applied) -> Stepped {
        if !self.take_proposed(proposed) {
            return Stepped::PassedOver;
        }
        let outcome = proposed.entry.as_ref().map(|entry| self.apply_entry(entry, applied));
        Stepped::Proposed { node: proposed.node, request: proposed.request, outcome }
    }

    fn add_node(&mut self, add: &AddNode) -> Stepped {
        if let Some((number, row)) = self.nodes().find(|(_, row)| row.name == add.name) {
            return if row.data_id == add.data_id { Stepped::NodeAdded(number) } else { Stepped::NameTaken };
        }
        let Some(nodes) = &mut self.nodes else { return Stepped::NoSuchNode };
        let number = nodes.next;
        nodes.next += 1;
        let row = NodeRow { name: add.name.clone(), data_id: add.data_id, life: 0, nonce: 0, answered: 0 };
        nodes.rows.insert(number, row);
        Stepped::NodeAdded(number)
    }

    fn begin_life(&mut self, begin: &BeginLife, applied: &mut Applied) -> Stepped {
        let row = self.nodes.as_mut().and_then(|nodes| nodes.rows.get_mut(&begin.node));
        let Some(row) = row.filter(|row| row.data_id == begin.data_id) else { return Stepped::NoSuchNode };
        if row.nonce == begin.nonce && row.life > 0 {
            return Stepped::LifeBegun(begin.node, row.life);
        }
        (row.life, row.nonce, row.answered) = (row.life + 1, begin.nonce, 0);
        let life = row.life;
        self.remove_queues(applied, |queue| {
            let owned = queue.exclusive_owner.is_some_and(|owner| owner.node == begin.node);
            owned || (queue.home == begin.node && !queue.durable)
        });
        self.restart_replicas(begin.node, applied);
        Stepped::LifeBegun(begin.node, life)
    }

    fn forget_node(&mut self, forget: &ForgetNode, applied: &mut Applied) -> Stepped {
        let nodes = self.nodes.as_mut();
        if nodes.and_then(|nodes| nodes.rows.remove(&forget.node)).is_none() {
            return Stepped::NoSuchNode;
        }
        let nobodys = self.forget_replicas(forget.node, applied);
        let replicated: BTreeSet<_> =
            self.nodes.iter().flat_map(|nodes| nodes.replicas.keys().copied()).collect();
        self.remove_queues(applied, |queue| match replicated.contains(&queue.id) {
            true => nobodys.contains(&queue.id),
            false => queue.home == forget.node,
        });
        Stepped::Forgotten(forget.node)
    }

    /// Removes all queues that are to go, in order of vhosts and names.
    fn remove_queues(&mut self, applied: &mut Applied, goes: impl Fn(&QueueRecord) -> bool) {
        let goes = |queue: &&&Arc<QueueRecord>| goes(queue);
        let going: Vec<_> = self
            .vhosts()
            .flat_map(|vhost| vhost.queues().iter().filter(goes).map(|it| Arc::clone(it)).collect::<Vec<_>>())
            .collect();
        for queue in &going {
            self.remove_queue(queue, applied);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::{Command, DeclareQueue};
    use crate::testing::histories::commands;
    use crate::testing::{declare_queue, snapshot};
    use stdx::ConnectionId;

    fn step(state: &mut State, step: &ClusterStep) -> Stepped {
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        assert_eq!(ClusterStep::decode_all(&bytes).as_ref(), Ok(&vec![step.clone()]));
        state.step(step, &mut Applied::default())
    }

    fn begin(state: &mut State, node: u16, nonce: u64) -> Stepped {
        step(state, &ClusterStep::BeginLife(BeginLife { node, data_id: [node as u8; 16], nonce }))
    }

    fn propose(state: &mut State, (node, life): (u16, u32), request: u64, command: Command) -> Stepped {
        let entry = Some(Entry::new("u", command));
        step(state, &ClusterStep::Proposed(Proposed { node, life, request, entry }))
    }

    fn queue(name: &str, durable: bool, owner: Option<ConnectionId>) -> Command {
        Command::DeclareQueue(DeclareQueue { durable, exclusive_owner: owner, ..declare_queue(name) })
    }

    fn has(state: &State, name: &str) -> bool {
        state.vhost(b"/").is_some_and(|vhost| vhost.queue(name.as_bytes()).is_some())
    }

    /// Two nodes in their first lives, and a vhost.
    fn two() -> State {
        let mut state = State::new();
        state.form_cluster("a@x", [1; 16]);
        let add = AddNode { name: "b@x".into(), data_id: [2; 16] };
        assert!(matches!(step(&mut state, &ClusterStep::AddNode(add)), Stepped::NodeAdded(2)));
        for node in [1, 2] {
            assert!(matches!(begin(&mut state, node, 7), Stepped::LifeBegun(_, 1)));
        }
        propose(&mut state, (1, 1), 1, crate::testing::add_vhost("/"));
        state
    }

    #[test]
    fn each_number_of_a_node_counts_once_and_in_order() {
        let mut state = two();
        let is_next = |stepped: &Stepped| matches!(stepped, Stepped::Proposed { outcome: Some(Ok(_)), .. });
        assert!(!is_next(&propose(&mut state, (2, 1), 2, queue("early", true, None))));
        assert!(is_next(&propose(&mut state, (2, 1), 1, queue("first", true, None))));
        assert!(!is_next(&propose(&mut state, (2, 1), 1, queue("again", true, None))));
        assert!(!is_next(&propose(&mut state, (2, 9), 2, queue("stranger", true, None))));
        assert!(is_next(&propose(&mut state, (2, 1), 2, queue("second", true, None))));
        let there: Vec<_> =
            ["early", "first", "again", "stranger", "second"].map(|name| has(&state, name)).into();
        assert_eq!(there, [false, true, false, false, true]);
        assert_eq!(state.vhost(b"/").unwrap().queue(b"first").unwrap().home, 2);
    }

    #[test]
    fn a_balanced_queue_lives_on_the_node_with_the_fewest_of_its_type_that_is_up() {
        use crate::entry::Condition;
        use crate::records::Placement;

        let mut state = two();
        let homes =
            |state: &State, name: &str| state.vhost(b"/").unwrap().queue(name.as_bytes()).unwrap().home;
        let mut request = 0;
        let mut declare = |state: &mut State, name: &str, owner| {
            request += 1;
            let entry = Entry::new("u", queue(name, true, owner))
                .only_if(Condition::HomeOfQueue(Placement::Balanced));
            step(state, &ClusterStep::Proposed(Proposed { node: 2, life: 1, request, entry: Some(entry) }));
            homes(state, name)
        };
        let own = ConnectionId { node: 2, life: 1, count: 1 };
        assert_eq!(declare(&mut state, "a", None), 2, "among equals the one that declares");
        assert_eq!(declare(&mut state, "b", None), 1);
        assert_eq!(declare(&mut state, "exclusive", Some(own)), 2);
        assert_eq!(declare(&mut state, "c", None), 1, "the other has two");
        step(&mut state, &ClusterStep::NodeSeen(NodeSeen { node: 1, life: 1, is_up: false }));
        for name in ["d", "e", "f"] {
            assert_eq!(declare(&mut state, name, None), 2, "the other is down");
        }
        step(&mut state, &ClusterStep::NodeSeen(NodeSeen { node: 1, life: 1, is_up: true }));
        propose(&mut state, (1, 1), 2, queue("as before", true, None));
        assert_eq!(homes(&state, "as before"), 1);
    }

    #[test]
    fn a_new_life_removes_what_the_earlier_one_owned_and_a_forgotten_node_takes_its_queues_along() {
        let mut state = two();
        let owner = ConnectionId { node: 2, life: 1, count: 1 };
        propose(&mut state, (2, 1), 1, queue("durable", true, None));
        propose(&mut state, (2, 1), 2, queue("transient", false, None));
        propose(&mut state, (2, 1), 3, queue("exclusive", false, Some(owner)));
        propose(&mut state, (1, 1), 2, queue("other", false, None));
        assert!(matches!(begin(&mut state, 2, 7), Stepped::LifeBegun(2, 1)), "the same start");
        assert!(has(&state, "transient"));
        assert!(matches!(begin(&mut state, 2, 8), Stepped::LifeBegun(2, 2)));
        let there =
            |state: &State| ["durable", "transient", "exclusive", "other"].map(|name| has(state, name));
        assert_eq!(there(&state), [true, false, false, true]);
        assert_eq!(state.exclusive_queues(owner).count(), 0);
        let wrong = BeginLife { node: 2, data_id: [9; 16], nonce: 1 };
        assert!(matches!(step(&mut state, &ClusterStep::BeginLife(wrong)), Stepped::NoSuchNode));
        step(&mut state, &ClusterStep::ForgetNode(ForgetNode { node: 2 }));
        assert_eq!(there(&state), [false, false, false, true]);
        let again = AddNode { name: "b@x".into(), data_id: [3; 16] };
        assert!(matches!(step(&mut state, &ClusterStep::AddNode(again)), Stepped::NodeAdded(3)));
    }

    proptest! {
        #[test]
        fn a_snapshot_of_a_cluster_holds_all_of_it(history in proptest::collection::vec(commands(), 0..60)) {
            let mut state = two();
            for (request, command) in history.into_iter().enumerate() {
                propose(&mut state, (2, 1), request as u64 + 1, command);
            }
            let bytes = snapshot(&state);
            let mut back = State::decode_snapshot(&bytes).unwrap();
            prop_assert_eq!(snapshot(&back), bytes);
            prop_assert!(state.changes_to(&back).is_empty());
            // The next declaration gets the same identifiers.
            for state in [&mut state, &mut back] {
                propose(state, (1, 1), 2, crate::testing::add_vhost("next"));
                propose(state, (1, 1), 3, queue("next", false, None));
            }
            prop_assert_eq!(snapshot(&state), snapshot(&back));
        }
    }
}
