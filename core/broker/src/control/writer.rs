//! The one writer of metadata: machine, log, snapshots.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use commitlog::{Log, LogWriter, Names, Position, read_latest_snapshot, write_snapshot};
use metadata::{Applied, ClusterStep, Command, DeleteQueue, Entry, FIRST_NODE, Outcome, State};
use platform::Disk;

use super::committing::Committing;
use super::translate::refused;
use super::unsynced::Unsynced;
use crate::foundation::Foundation;
use crate::open_errors::StartError;
use crate::refused::Refused;

/// Kind of the only record in the metadata log: encoded facts.
const FACTS: u8 = 1;

/// The metadata machine and where its facts go.
pub(crate) struct Writer {
    pub(crate) state: State,
    log: Log,
    /// The part of the log that the message log must find on the disk before it holds messages.
    names: Arc<Names>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    snapshot_at: u64,
    snapshot_every_bytes: u64,
    applied: Applied,
    unsynced: Unsynced,
}

impl Writer {
    /// Loads snapshot and log; the flag tells whether there was anything. The log is written by whoever has its writer.
    pub(crate) fn open(
        foundation: &Foundation,
        dir: &Path,
        committing: &Arc<Committing>,
        incarnation: u32,
    ) -> Result<(Writer, LogWriter, bool), StartError> {
        let Loaded { mut state, log, log_writer, from, known } = load(foundation, dir)?;
        state.begin_incarnation(incarnation);
        let writer = Writer::of(foundation, dir, (state, log), committing, Position(from));
        Ok((writer, log_writer, known))
    }

    /// With the state of a cluster, whose group has a log of its own. The log in `dir` stays empty.
    pub(crate) fn in_cluster(
        foundation: &Foundation,
        dir: &Path,
        committing: &Arc<Committing>,
        (state, own): (State, u16),
    ) -> Result<(Writer, LogWriter, bool), StartError> {
        // The first node makes what a new cluster begins with.
        let known = own != FIRST_NODE || state.vhosts().len() + state.users().len() > 0;
        let disk = foundation.disk.clone();
        let (log, log_writer, _) = Log::open_driven(disk.clone(), dir, foundation.sizes.log_options())
            .map_err(StartError::storage)?;
        let writer = Writer::of(foundation, dir, (state, log), committing, Position(0));
        Ok((writer, log_writer, known))
    }

    fn of(
        foundation: &Foundation,
        dir: &Path,
        (state, log): (State, Log),
        committing: &Arc<Committing>,
        snapshot_at: Position,
    ) -> Writer {
        log.set_listener(committing.clone());
        commitlog::DurableListener::durable(&**committing, log.durable());
        Writer {
            names: log.names(state.durable_ids_end()),
            state,
            log,
            disk: foundation.disk.clone(),
            dir: dir.to_owned(),
            // Not where the log ends: lives of a few changes each would never see one.
            snapshot_at: snapshot_at.0,
            snapshot_every_bytes: foundation.sizes.snapshot_every_bytes,
            applied: Applied::default(),
            unsynced: Unsynced::default(),
        }
    }

    /// Which queues and exchanges have durable declarations.
    pub(crate) fn names(&self) -> Arc<Names> {
        self.names.clone()
    }

    /// Has a thread write the log.
    pub(crate) fn start(&self, log_writer: LogWriter) -> Result<(), commitlog::LogError> {
        self.log.start(log_writer)
    }

    /// Applies a committed entry; returns the outcome, the changes and the log position that makes it durable (0: nothing to log).
    /// An entry that found its object waits for all that was logged before: the object may be on its way.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<(Outcome, Vec<metadata::Change>, u64), Refused> {
        self.snapshot_if_due();
        self.applied.clear();
        let ids_end = self.state.durable_ids_end();
        let outcome = self.state.apply_entry(entry, &mut self.applied).map_err(refused)?;
        let mut position = 0;
        if self.state.is_cluster() {
            // Only what a majority and this node have synced is applied.
            if self.state.durable_ids_end() > ids_end {
                self.names.add(Position(0), self.state.durable_ids_end());
            }
            return Ok(self.outcome(outcome, position));
        }
        if self.applied.is_durable() {
            let facts = &self.applied.facts;
            let logged = self.log.append(0, FACTS, |out| facts.iter().for_each(|fact| fact.encode(out)));
            if self.state.durable_ids_end() > ids_end {
                self.names.add(logged, self.state.durable_ids_end());
            }
            position = logged.0;
            self.unsynced.note(position, &self.applied.changes, self.log.durable().0);
            if position == Position::NEVER.0 {
                // The waiter for the position tells of a failed log. A snapshot here would hide all that comes after a restart.
                return if self.log.failure().is_some() {
                    Ok(self.outcome(outcome, position))
                } else {
                    Err(Refused::Storage("the node is stopping".into()))
                };
            }
        } else if self.applied.changes.is_empty() {
            position = self.position_of_found(&entry.command, &outcome);
        }
        Ok(self.outcome(outcome, position))
    }

    /// Applies a committed step of the cluster that is no proposal; returns the changes.
    pub(crate) fn step(&mut self, step: &ClusterStep) -> Vec<metadata::Change> {
        self.applied.clear();
        self.state.step(step, &mut self.applied);
        std::mem::take(&mut self.applied.changes)
    }

    /// Another state of the cluster takes the place of this one; returns what the tables have to follow.
    pub(crate) fn replace(&mut self, state: State) -> Vec<metadata::Change> {
        let changes = self.state.changes_to(&state);
        self.names.add(Position(0), state.durable_ids_end());
        self.state = state;
        changes
    }

    /// When it is durable that there is no such queue.
    pub(crate) fn position_of_absence(&self, vhost: &[u8], name: &[u8]) -> u64 {
        let delete = DeleteQueue { vhost: vhost.into(), name: name.into(), id: None };
        self.position_of_found(&Command::DeleteQueue(delete), &Outcome::Unchanged)
    }

    /// When what a command found is durable. After a failure of the log what was on its way is lost: things that were declared before may be
    /// declared again, those whose declaration was lost must not seem to be there, nor bindings, nor deletions.
    fn position_of_found(&self, command: &Command, outcome: &Outcome) -> u64 {
        let goal = self.log.goal();
        if goal != Position::NEVER {
            return goal.0;
        }
        let is_lost = match outcome {
            Outcome::QueueExists(record) => !self.names.has(record.id.0),
            Outcome::ExchangeExists(record) => !self.names.has(record.id.0),
            _ => self.unsynced.explain(command, self.log.durable().0),
        };
        if is_lost { Position::NEVER.0 } else { self.log.end().0 }
    }

    fn outcome(&mut self, outcome: Outcome, position: u64) -> (Outcome, Vec<metadata::Change>, u64) {
        (outcome, std::mem::take(&mut self.applied.changes), position)
    }

    /// Writes a snapshot when enough was logged and all of it is durable. One of a state ahead of what is durable would, after a
    /// power cut, be ahead of the log: later records would be taken for known.
    fn snapshot_if_due(&mut self) {
        let end = self.log.end();
        let is_due = end.0 >= self.snapshot_at.saturating_add(self.snapshot_every_bytes);
        if is_due && self.log.is_synced(end).is_ok_and(|synced| synced) {
            self.snapshot(end.0);
        }
    }

    fn snapshot(&mut self, position: u64) {
        self.snapshot_at = position;
        let mut bytes = Vec::new();
        self.state.encode_snapshot(&mut bytes);
        let written = write_snapshot(&*self.disk, &self.dir, "metadata", Position(position), &bytes);
        let dropped = written
            .map_err(|error| error.to_string())
            .and_then(|below| self.log.drop_files_below(below).map_err(|error| error.to_string()));
        if let Err(error) = dropped {
            tracing::warn!(%error, "no metadata snapshot could be written; the log is kept");
        }
    }

    /// Flushes and closes the log.
    pub(crate) fn close(&self) {
        if let Err(error) = self.log.close() {
            tracing::error!(%error, "the metadata log could not be closed");
        }
    }
}

/// The contents of the folder of a node alone.
struct Loaded {
    state: State,
    log: Log,
    log_writer: LogWriter,
    /// The position of the snapshot.
    from: u64,
    /// Whether there was anything.
    known: bool,
}

fn load(foundation: &Foundation, dir: &Path) -> Result<Loaded, StartError> {
    let (disk, sizes) = (foundation.disk.clone(), &foundation.sizes);
    let snapshot = read_latest_snapshot(&*disk, dir, "metadata").map_err(StartError::storage)?;
    let (mut state, from) = match &snapshot {
        Some(snapshot) => {
            (State::decode_snapshot(&snapshot.bytes).map_err(StartError::metadata)?, snapshot.position.0)
        }
        None => (State::new(), 0),
    };
    let (log, log_writer, mut recovered) =
        Log::open_driven(disk.clone(), dir, sizes.log_options()).map_err(StartError::storage)?;
    if log.kept().0.0 > from {
        return Err(StartError::Storage(format!(
            "the metadata log {} begins at position {}, and no snapshot is there that reaches so far: a file metadata-*.snap is \
             missing",
            dir.display(),
            log.kept().0
        )));
    }
    let mut known = snapshot.is_some();
    while let Some(record) = recovered.next_record().map_err(StartError::storage)? {
        if record.position.0 > from {
            state.replay_encoded(record.payload).map_err(StartError::metadata)?;
            known = true;
        }
    }
    if recovered.bytes_cut() > 0 {
        tracing::warn!(
            bytes = recovered.bytes_cut(),
            "an unfinished write was cut off the end of the metadata log: nothing in it had been answered, unless the disk damaged it"
        );
    }
    Ok(Loaded { state, log, log_writer, from, known })
}

/// The durable metadata of a node alone, for the cluster that it forms.
///
/// # Errors
/// They cannot be read.
pub(crate) fn read_alone(foundation: &Foundation, data_dir: &Path) -> Result<State, StartError> {
    let dir = data_dir.join("meta");
    if foundation.disk.list(&dir).is_err() {
        return Ok(State::new());
    }
    load(foundation, &dir).map(|loaded| loaded.state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarms::Alarms;
    use metadata::{AddUser, Credentials};
    use platform::SimDisk;

    fn add_user(name: &str) -> Command {
        let user = AddUser {
            name: name.as_bytes().into(),
            credentials: Credentials::none(),
            tags: Default::default(),
        };
        Command::AddUser(user)
    }

    fn entry(command: Command) -> Entry {
        Entry::new("u", command)
    }

    fn open(disk: &Arc<SimDisk>) -> Writer {
        let committing = Arc::new(Committing::new(Alarms::without_sources()));
        let foundation = Foundation::real(disk.clone());
        let (writer, log, _) = Writer::open(&foundation, Path::new("/meta"), &committing, 1).unwrap();
        writer.start(log).unwrap();
        writer
    }

    #[test]
    fn after_a_failure_only_what_is_durable_is_found_again() {
        let disk = Arc::new(SimDisk::new());
        let mut writer = open(&disk);
        let declare = |name: &str| {
            Command::DeclareExchange(metadata::DeclareExchange {
                vhost: b"/".as_slice().into(),
                name: name.as_bytes().into(),
                kind: "direct".into(),
                durable: true,
                auto_delete: false,
                internal: false,
                arguments: metadata::Arguments::default(),
            })
        };
        let vhost = metadata::AddVhost {
            name: b"/".as_slice().into(),
            metadata: crate::control::users::new_vhost_metadata(),
        };
        writer.apply(&entry(Command::AddVhost(vhost))).unwrap();
        writer.apply(&entry(declare("kept"))).unwrap();
        writer.log.sync_barrier().unwrap();
        disk.fail_nth_sync(1);
        writer.apply(&entry(declare("lost"))).unwrap();
        assert!(writer.log.sync_barrier().is_err());
        let durable = writer.log.durable().0;
        assert_eq!(writer.apply(&entry(declare("kept"))).unwrap().2, durable);
        assert_eq!(writer.apply(&entry(declare("lost"))).unwrap().2, u64::MAX);
    }

    #[test]
    fn after_a_failure_only_what_is_durable_is_bound_or_deleted_again() {
        let disk = Arc::new(SimDisk::new());
        let mut writer = open(&disk);
        let (vhost, name) = (b"/".as_slice(), |name: &str| name.as_bytes().into());
        let declare = |queue: &str| {
            Command::DeclareQueue(metadata::DeclareQueue {
                vhost: vhost.into(),
                name: name(queue),
                durable: true,
                auto_delete: false,
                exclusive_owner: None,
                arguments: metadata::Arguments::default(),
                queue_type: metadata::QueueType::Classic,
            })
        };
        let destination = || metadata::DestinationName::Queue(name("q"));
        let source = || name("amq.direct");
        let bind = |key: &str| {
            let (vhost, key, arguments) = (vhost.into(), name(key), metadata::Arguments::default());
            Command::Bind(metadata::Bind {
                vhost,
                source: source(),
                destination: destination(),
                key,
                arguments,
            })
        };
        let unbind = |key: &str| {
            let (vhost, key, arguments) = (vhost.into(), name(key), metadata::Arguments::default());
            let (source, destination) = (source(), destination());
            Command::Unbind(metadata::Unbind { vhost, source, destination, key, arguments })
        };
        let delete = |queue: &str| {
            Command::DeleteQueue(DeleteQueue { vhost: vhost.into(), name: name(queue), id: None })
        };
        let made = crate::control::users::new_vhost_metadata();
        writer
            .apply(&entry(Command::AddVhost(metadata::AddVhost { name: vhost.into(), metadata: made })))
            .unwrap();
        for command in [declare("q"), declare("deleted"), bind("kept"), bind("unbound")] {
            writer.apply(&entry(command)).unwrap();
        }
        writer.log.sync_barrier().unwrap();
        assert_eq!(writer.apply(&entry(bind("kept"))).unwrap().2, writer.log.durable().0);
        disk.fail_nth_sync(1);
        for command in [bind("lost"), unbind("unbound"), delete("deleted")] {
            writer.apply(&entry(command)).unwrap();
        }
        assert!(writer.log.sync_barrier().is_err());
        let durable = writer.log.durable().0;
        let mut position = |command: &Command| writer.apply(&entry(command.clone())).unwrap().2;
        for found in [bind("kept"), unbind("never"), delete("never")] {
            assert_eq!(position(&found), durable, "{found:?}");
        }
        for lost in [bind("lost"), unbind("unbound"), delete("deleted")] {
            assert_eq!(position(&lost), u64::MAX, "{lost:?}");
        }
        let absence = |queue: &str| writer.position_of_absence(vhost, queue.as_bytes());
        assert_eq!((absence("never"), absence("deleted")), (durable, u64::MAX));
    }

    #[test]
    fn a_change_after_the_end_of_the_log_is_refused_and_hides_nothing_from_later_lives() {
        let disk = Arc::new(SimDisk::new());
        let mut writer = open(&disk);
        writer.apply(&entry(add_user("a"))).unwrap();
        writer.close();
        assert!(matches!(writer.apply(&entry(add_user("late"))), Err(Refused::Storage(_))));
        let mut writer = open(&disk);
        assert!(writer.state.user(b"late").is_none());
        writer.apply(&entry(add_user("b"))).unwrap();
        writer.close();
        let writer = open(&disk);
        assert!(writer.state.user(b"a").is_some() && writer.state.user(b"b").is_some());
    }
}
