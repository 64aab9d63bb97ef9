//! Where committed steps go: the machine of a node that starts, or the broker's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Weak;

use bytes::Bytes;
use metadata::{ClusterStep, State};
use multiraft::Apply;

use super::driver::Driver;
use super::name::NodeName;
use super::peers::DataId;
use super::progress::proposers;
use super::replica::Replica;
use super::watch;
use crate::broker::Inner;
use crate::control::commits::Committed;

/// Where committed steps go.
pub(super) enum Machine {
    /// The node starts: the broker is not there yet.
    Starting(State),
    /// The state is on its way into the broker.
    Between(VecDeque<Apply>),
    /// The broker has it.
    Broker(Weak<Inner>),
}

impl Driver {
    pub(super) fn nodes_of(&mut self, rows: &[metadata::NumberedNode]) {
        let named = |row: &metadata::NumberedNode| {
            let name = NodeName::new(&row.row.name).ok()?;
            Some((row.number, (name, DataId(row.row.data_id), row.row.life, row.row.nonce)))
        };
        if !rows.is_empty() {
            self.nodes = rows.iter().filter_map(named).collect();
            self.tell_members();
        }
    }

    /// The machine's state, which has applied all that the group has handed out.
    pub(super) fn capture(&self) -> Option<Bytes> {
        let mut bytes = Vec::new();
        match &self.machine {
            Machine::Starting(state) => state.encode_snapshot(&mut bytes),
            Machine::Between(_) => return None,
            Machine::Broker(inner) => inner.upgrade()?.writer.lock().state.encode_snapshot(&mut bytes),
        }
        Some(bytes.into())
    }

    pub(super) fn checkpoint_if_due(&mut self) {
        if self.replica.as_ref().is_some_and(|replica| replica.is_checkpoint_due())
            && let Some(state) = self.capture()
            && let Some(replica) = &mut self.replica
        {
            replica.checkpoint(&state);
        }
    }

    pub(super) fn apply(&mut self, all: Vec<Apply>) {
        if let Machine::Between(waiting) = &mut self.machine {
            return waiting.extend(all);
        }
        let mut steps = Vec::new();
        for apply in all {
            match apply {
                Apply::Entry { index, body, .. } => match ClusterStep::decode_all(&body) {
                    Ok(more) => steps.extend(more.into_iter().map(|step| (index, step))),
                    Err(error) => {
                        return self.fail(format!("entry {index} of the metadata cannot be read: {error}"));
                    }
                },
                Apply::State { state, .. } => {
                    self.apply_steps(std::mem::take(&mut steps));
                    self.replace(&state);
                }
            }
        }
        self.apply_steps(steps);
    }

    /// Applies steps, each with the index of its entry.
    pub(super) fn apply_steps(&mut self, steps: Vec<(u64, ClusterStep)>) {
        let Some(last) = steps.last().map(|step| step.0) else { return };
        let own = (self.own(), self.shared.life().unwrap_or(0));
        let changes_nodes = steps.iter().any(|step| !matches!(step.1, ClusterStep::Proposed(_)));
        match &mut self.machine {
            Machine::Starting(state) => {
                let mut ignored = metadata::Applied::default();
                for (_, step) in &steps {
                    state.step(step, &mut ignored);
                    ignored.clear();
                }
                let rows = rows(state);
                self.watch.down = watch::down(state);
                self.nodes_of(&rows);
            }
            Machine::Broker(inner) => {
                let Some(inner) = inner.upgrade() else { return };
                let outgoing = &mut self.outgoing;
                let proposers = proposers(&steps);
                let steps = steps.into_iter().map(|(index, step)| {
                    let told = outgoing.answered(&step, own);
                    Committed { index, step, told }
                });
                inner.follow_steps(steps.collect(), own.0);
                if changes_nodes {
                    let (rows, down) = {
                        let writer = inner.writer.lock();
                        (rows(&writer.state), watch::down(&writer.state))
                    };
                    let before = self.nodes_there();
                    self.watch.down = down;
                    self.nodes_of(&rows);
                    self.tell_of_nodes(&inner, &before);
                }
                self.followed(last, &proposers);
            }
            Machine::Between(_) => {}
        }
        if changes_nodes {
            self.note_life();
        }
    }

    /// The members, and whether each is noted as down.
    fn nodes_there(&self) -> BTreeMap<NodeName, bool> {
        let of = |(number, node): (&u16, &(NodeName, DataId, u32, u64))| {
            (node.0.clone(), self.watch.down.contains(number))
        };
        self.nodes.iter().map(of).collect()
    }

    /// The leader publishes events of what has become of nodes.
    fn tell_of_nodes(&self, inner: &Inner, before: &BTreeMap<NodeName, bool>) {
        if !self.replica.as_ref().is_some_and(Replica::leads) {
            return;
        }
        let after = self.nodes_there();
        let tell = |key, name: &NodeName| inner.services.announcer.node_told(key, name.as_str());
        for (name, is_down) in &after {
            match before.get(name) {
                None => tell("node.added", name),
                Some(was_down) if was_down != is_down => {
                    tell(if *is_down { "node.down" } else { "node.up" }, name);
                }
                Some(_) => {}
            }
        }
        before.keys().filter(|name| !after.contains_key(name)).for_each(|name| tell("node.deleted", name));
    }

    /// The life that this process was given, once.
    pub(super) fn note_life(&mut self) {
        let own = self.own();
        let begun = self.nodes.get(&own).filter(|(.., life, nonce)| *nonce == self.nonce && *life > 0);
        if let Some((.., life, _)) = begun {
            self.shared.begin_life(own, *life);
        }
    }

    /// Another state takes the place of this one.
    pub(super) fn replace(&mut self, bytes: &Bytes) {
        if bytes.is_empty() {
            return;
        }
        let state = match State::decode_snapshot(bytes) {
            Ok(state) => state,
            Err(error) => return self.fail(format!("a state of the metadata cannot be read: {error}")),
        };
        let rows = rows(&state);
        self.watch.down = watch::down(&state);
        match &mut self.machine {
            Machine::Starting(old) => *old = state,
            Machine::Broker(inner) => {
                if let Some(inner) = inner.upgrade() {
                    let own =
                        (self.member.as_ref().map_or(0, |it| it.number), self.shared.life().unwrap_or(0));
                    let answered =
                        state.node(own.0).filter(|row| row.life == own.1).map_or(0, |row| row.answered);
                    inner.replace_state(state);
                    self.outgoing.passed(answered, &inner);
                }
                self.serves();
            }
            Machine::Between(_) => {}
        }
        self.nodes_of(&rows);
        self.note_life();
    }
}

/// The members of a state.
pub(super) fn rows(state: &State) -> Vec<metadata::NumberedNode> {
    state.nodes().map(|(number, row)| metadata::NumberedNode { number, row: row.clone() }).collect()
}
