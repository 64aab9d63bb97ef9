//! The way of a change of metadata. It is proposed as an entry and committed; then the state machine applies it, the tables follow, and its
//! proposer is told. The proposer reads the result then, and not before.
//!
//! A node alone commits where it proposes, at once. A driven broker may commit later, several entries at a time, as with other nodes. Knows nothing of
//! what is asked for.

use std::ops::Range;

use metadata::{Change, ClusterStep, Entry, Outcome, State};
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::durable::{adds_durable, may_come_in_numbers};
use super::proposals::Followed;
use super::writer::Writer;
use crate::alarms::Raised;
use crate::announcements::before::Before;
use crate::announcements::changes::Done;
use crate::announcements::lines;
use crate::broker::{Broker, Inner, Told};
use crate::call::Call;
use crate::refused::Refused;

/// An entry that the machine has applied and the tables have not followed.
struct Applied {
    entry: Entry,
    /// It was proposed here: another node tells of what it has proposed itself.
    is_own: bool,
    /// Which of all changes are its own.
    changes: Range<usize>,
    before: Before,
}

/// A committed step of the cluster.
pub(crate) struct Committed {
    /// Of its entry: the step is answered when all nodes have that.
    pub(crate) index: u64,
    pub(crate) step: ClusterStep,
    /// Told, if it was proposed here.
    pub(crate) told: Option<Told>,
}

/// Entries that are applied together.
#[derive(Default)]
struct Turn {
    applied: SmallVec<[Applied; 1]>,
    changes: Vec<Change>,
    /// Log position that makes all of them durable.
    position: u64,
}

impl Turn {
    fn apply(
        &mut self,
        inner: &Inner,
        writer: &mut Writer,
        entry: Entry,
        is_own: bool,
    ) -> Result<Followed, Refused> {
        let before = inner.services.announcer.look(&writer.state, &entry.command);
        let (outcome, changes, position) = writer.apply(&entry)?;
        self.position = self.position.max(position);
        let first = self.changes.len();
        if first == 0 {
            self.changes = changes;
        } else {
            self.changes.extend(changes);
        }
        self.applied.push(Applied { entry, is_own, changes: first..self.changes.len(), before });
        Ok(Followed { outcome, position })
    }

    /// The entry that has changed policies last.
    fn ruler(&self) -> Option<&Entry> {
        let rules = |applied: &&Applied| {
            let mut changes = self.changes[applied.changes.clone()].iter();
            changes.any(|change| matches!(change, Change::PolicyChanged { .. }))
        };
        self.applied.iter().rev().find(rules).map(|applied| &applied.entry)
    }
}

fn name_of(user: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(user)
}

impl Inner {
    /// Proposes an entry. `told` is called when the tables have followed it, or it is refused: before this returns, or later on another thread.
    pub(crate) fn propose(
        &self,
        entry: Entry,
        told: impl FnOnce(&Inner, Result<Followed, Refused>) + Send + 'static,
    ) {
        let mut writer = self.writer.lock();
        if let Err(refused) = self.check_durable(&writer, &entry) {
            drop(writer);
            return told(self, Err(refused));
        }
        if let Some(cluster) = &self.cluster {
            return cluster.propose(Some(entry), Box::new(told));
        }
        if self.proposals.wait() {
            // Under the lock: entries wait in the order in which they were looked at.
            return self.proposals.add(&entry, Box::new(told));
        }
        let mut turn = Turn::default();
        let came = turn.apply(self, &mut writer, entry, true);
        self.follow_turn(writer, turn);
        told(self, came);
    }

    /// Commits the entries that were proposed first, at most `count_max`, and follows all of them at once; false when there are none.
    pub(crate) fn commit_waiting(&self, count_max: usize) -> bool {
        let proposals = self.proposals.take(count_max);
        if proposals.is_empty() {
            return false;
        }
        let mut writer = self.writer.lock();
        let (mut turn, mut told) = (Turn::default(), Vec::with_capacity(proposals.len()));
        for proposal in proposals {
            let entry = proposal.entry();
            told.push((proposal.told, turn.apply(self, &mut writer, entry, true)));
        }
        self.follow_turn(writer, turn);
        told.into_iter().for_each(|(told, came)| told(self, came));
        true
    }

    /// Follows committed steps of the cluster, all at once; proposers on this node are told.
    pub(crate) fn follow_steps(&self, steps: Vec<Committed>, own: u16) {
        let mut writer = self.writer.lock();
        let (mut turn, mut told) = (Turn::default(), Vec::with_capacity(steps.len()));
        for Committed { index, step, told: tell } in steps {
            let proposed = match step {
                ClusterStep::Proposed(proposed) => proposed,
                other => {
                    turn.changes.extend(writer.step(&other));
                    continue;
                }
            };
            if !writer.state.take_proposed(&proposed) {
                continue;
            }
            let is_own = proposed.node == own;
            let came = match proposed.entry {
                Some(entry) => turn
                    .apply(self, &mut writer, entry, is_own)
                    .map(|followed| Followed { position: index, ..followed }),
                None => Ok(Followed { outcome: Outcome::Unchanged, position: 0 }),
            };
            told.extend(tell.map(|tell| (tell, came)));
        }
        self.follow_turn(writer, turn);
        told.into_iter().for_each(|(told, came)| told(self, came));
    }

    /// Another state of the cluster takes the place of this node's.
    pub(crate) fn replace_state(&self, state: State) {
        let mut writer = self.writer.lock();
        let turn = Turn { changes: writer.replace(state), ..Turn::default() };
        self.follow_turn(writer, turn);
    }

    /// An entry that adds something durable is refused while nothing durable can be promised.
    fn check_durable(&self, writer: &Writer, entry: &Entry) -> Result<(), Refused> {
        let Err(refused) = self.services.alarms.check_durable() else { return Ok(()) };
        let is_held =
            may_come_in_numbers(&entry.command) || self.services.alarms.raised().has(Raised::STORAGE_FAILED);
        if is_held && adds_durable(&writer.state, &entry.command) { Err(refused) } else { Ok(()) }
    }

    /// The tables follow what was applied, then it is announced.
    fn follow_turn(&self, writer: MutexGuard<'_, Writer>, turn: Turn) {
        let ruled = self.follow(&writer.state, &turn.changes);
        for Applied { entry, changes, before, .. } in turn.applied.iter().filter(|applied| applied.is_own) {
            let (command, changes) = (&entry.command, &turn.changes[changes.clone()]);
            let done = Done { command, changes, before, by: &name_of(&entry.by) };
            self.services.announcer.changed(&writer.state, &done);
            let by = &name_of(&entry.by);
            let had_user = |name: &metadata::Name| before.had_user(name);
            lines::log(&writer.state, &lines::Told { command, changes, by, had_user });
        }
        let deleted = self.services.take_unregistered();
        drop(writer);
        if let Some(ruler) = turn.ruler().filter(|_| !ruled.is_empty()) {
            self.settle_policies(&ruled, &ruler.command, &name_of(&ruler.by));
        }
        // Nobody waits for the writer while a hundred thousand bindings are freed.
        let unread = self.retired.lock().take_unread();
        let position = turn.position;
        drop((unread, turn));
        if !deleted.is_empty() {
            let services = std::sync::Arc::downgrade(&self.services);
            let delete = move |done: Result<(), Refused>| {
                let Some(services) = services.upgrade() else { return };
                if done.is_ok() {
                    deleted.into_iter().for_each(|queue| services.departed(queue));
                }
            };
            self.committing.when_durable(position, Box::new(delete));
        }
    }
}

impl Broker {
    /// Proposes an entry; the call is answered with what came of it when that is followed and durable.
    ///
    /// # Errors
    /// The refusal, when it is known already.
    pub(crate) fn commit(&self, entry: Entry) -> Result<Call<Result<Outcome, Refused>>, Refused> {
        self.commit_then(entry, |_, outcome| outcome)
    }

    /// As [`Broker::commit`]; `then` is called when the tables have followed, and makes the answer.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn commit_then<T: Send + 'static>(
        &self,
        entry: Entry,
        then: impl FnOnce(&Inner, Outcome) -> T + Send + 'static,
    ) -> Result<Call<Result<T, Refused>>, Refused> {
        let (reply, call) = Call::pair();
        self.0.propose(entry, move |inner, came| match came {
            Ok(Followed { outcome, position }) => {
                let answer = then(inner, outcome);
                reply.followed();
                let done = move |done: Result<(), Refused>| reply.send(done.map(|()| answer));
                inner.committing.when_durable(position, Box::new(done));
            }
            Err(refused) => reply.send(Err(refused)),
        });
        call.or_refused()
    }
}

#[cfg(test)]
mod tests;
