//! The nodes of a cluster and what they propose. Each node numbers its proposals; the machine takes each number once and in order, so that a node may
//! send again what was not answered. Knows nothing of how proposals travel or come to be committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::changes::{Applied, Outcome};
use crate::codec::{Codec, DecodeError, Reader, coded, record};
use crate::entry::Entry;
use crate::records::QueueRecord;
use crate::refusal::Refusal;
use crate::state::State;

/// The number of the node that forms a cluster, and of a node alone.
pub const FIRST_NODE: u16 = 1;

record! {
    /// A node that is a member.
    pub struct NodeRow {
        /// Its name, such as `rabbit@host`.
        pub name: Box<str>,
        /// What its data directory is known by: one whose disk was lost has another one.
        pub data_id: [u8; 16],
        /// Its present start: grows with each.
        pub life: u32,
        /// What the process of its present start drew: a start that asks twice gets one life.
        pub nonce: u64,
        /// Its proposals of this life up to this number were applied.
        pub answered: u64,
    }

    /// A node's row with its number, in a snapshot.
    pub struct NumberedNode {
        /// The number, never used again.
        pub number: u16,
        /// The row.
        pub row: NodeRow,
    }

    /// How far numbers of nodes have been given out.
    pub struct NodesFact {
        /// The next number.
        pub next: u16,
    }

    /// A node proposes.
    pub struct Proposed {
        /// Its number.
        pub node: u16,
        /// In this life.
        pub life: u32,
        /// Which proposal of this life; from 1, without gaps.
        pub request: u64,
        /// What it proposes; nothing, when it only wants to know that all before is applied.
        pub entry: Option<Entry>,
    }

    /// A node becomes a member. One that is known by name and data stays as it is.
    pub struct AddNode {
        /// Its name.
        pub name: Box<str>,
        /// What its data directory is known by.
        pub data_id: [u8; 16],
    }

    /// A node starts: what its earlier lives own goes.
    pub struct BeginLife {
        /// Its number.
        pub node: u16,
        /// What its data directory is known by.
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

/// Who is a member.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) rows: BTreeMap<u16, NodeRow>,
    /// The next number that is given out.
    pub(crate) next: u16,
}

/// What a step came to.
#[derive(Debug)]
pub enum Stepped {
    /// A proposal was applied, or refused by the machine.
    Proposed {
        /// Its node.
        node: u16,
        /// Its number.
        request: u64,
        /// The answer for whoever proposed it; `None` when nothing was asked.
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
}

impl State {
    /// Makes it the state of a cluster, which has this node as its first member. Things that are not durable do not go along: those of a
    /// node alone end with its life.
    pub fn form_cluster(&mut self, name: &str, data_id: [u8; 16]) {
        let row = NodeRow { name: name.into(), data_id, life: 0, nonce: 0, answered: 0 };
        self.nodes = Some(Nodes { rows: BTreeMap::from([(FIRST_NODE, row)]), next: FIRST_NODE + 1 });
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

    /// Does one step. What must follow is appended to `applied`.
    pub fn step(&mut self, step: &ClusterStep, applied: &mut Applied) -> Stepped {
        match step {
            ClusterStep::Proposed(proposed) => self.step_proposed(proposed, applied),
            ClusterStep::AddNode(add) => self.add_node(add),
            ClusterStep::BeginLife(begin) => self.begin_life(begin, applied),
            ClusterStep::ForgetNode(forget) => self.forget_node(forget, applied),
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
        Stepped::LifeBegun(begin.node, life)
    }

    fn forget_node(&mut self, forget: &ForgetNode, applied: &mut Applied) -> Stepped {
        let nodes = self.nodes.as_mut();
        if nodes.and_then(|nodes| nodes.rows.remove(&forget.node)).is_none() {
            return Stepped::NoSuchNode;
        }
        self.remove_queues(applied, |queue| queue.home == forget.node);
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
