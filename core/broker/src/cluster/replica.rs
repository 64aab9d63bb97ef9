//! A node's replica of the metadata group with its log: begun, read back, kept short.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use commitlog::{Log, LogError, LogOptions, Position};
use metadata::{Applied, ClusterStep, State};
use multiraft::{Apply, Group, Members, RaftRs, Recovery, ReplicaId, Role, Settings, Timing};

use super::driver::{Driver, LogNews, first_members};
use super::frames::Welcome;
use super::member;
use crate::control::writer;
use crate::open_errors::StartError;

/// The group's stream in its log.
const GROUP: u64 = 1;
/// Bodies that stay in memory for replicas which are a little behind.
const CACHE_BYTES_MAX: u64 = 16 << 20;
/// Entries that may wait for a majority, bytes.
const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;

/// See the module.
pub(super) struct Replica {
    pub(super) group: Group<RaftRs>,
    pub(super) log: Log,
    own: ReplicaId,
    checkpoint_at: Position,
    checkpoint_every_bytes: u64,
    dropped: Position,
}

fn settings(number: u16) -> Settings {
    let replica = ReplicaId(number.into());
    let timing = Timing { seed: u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15), ..Timing::default() };
    let bounds = Settings::new(GROUP, replica);
    Settings {
        timing,
        cache_bytes_max: CACHE_BYTES_MAX,
        uncommitted_bytes_max: UNCOMMITTED_BYTES_MAX,
        ..bounds
    }
}

fn options(driver: &Driver) -> LogOptions {
    driver.foundation.sizes.log_options()
}

/// A log of a node that was no member before: the remains of an earlier attempt are removed.
fn new_log(driver: &Driver) -> Result<Log, StartError> {
    let (disk, dir) = (&driver.foundation.disk, member::log_dir_in(&driver.data_dir));
    member::remove_log(&**disk, &driver.data_dir)?;
    let (log, _) = Log::open(disk.clone(), &dir, options(driver)).map_err(StartError::storage)?;
    log.set_listener(Arc::new(LogNews(driver.shared.clone())));
    Ok(log)
}

fn begun(driver: &Driver, log: Log, number: u16, group: Group<RaftRs>) -> Result<Replica, StartError> {
    log.sync_barrier().map_err(StartError::storage)?;
    let checkpoint_every_bytes = driver.foundation.sizes.snapshot_every_bytes;
    let (own, checkpoint_at, dropped) = (ReplicaId(number.into()), log.end(), Position(0));
    Ok(Replica { group, log, own, checkpoint_at, checkpoint_every_bytes, dropped })
}

/// The first replica of a new cluster. The state that the node has had alone goes along.
pub(super) fn form(driver: &Driver, welcome: &Welcome) -> Result<(Replica, State), StartError> {
    let mut state = writer::read_alone(&driver.foundation, &driver.data_dir)?;
    let own = driver.peers.own();
    state.form_cluster(own.name.as_str(), own.data_id.0);
    let mut bytes = Vec::new();
    state.encode_snapshot(&mut bytes);
    let log = new_log(driver)?;
    let group = Group::create(settings(welcome.number), first_members(), &Bytes::from(bytes), &log)
        .map_err(StartError::storage)?;
    Ok((begun(driver, log, welcome.number, group)?, state))
}

/// The only replica of a cluster that goes on with this state.
pub(super) fn alone(driver: &Driver, welcome: &Welcome, state: &State) -> Result<Replica, StartError> {
    let mut bytes = Vec::new();
    state.encode_snapshot(&mut bytes);
    let log = new_log(driver)?;
    let members = Members::of(&[ReplicaId(welcome.number.into())]);
    let group = Group::create(settings(welcome.number), members, &Bytes::from(bytes), &log)
        .map_err(StartError::storage)?;
    begun(driver, log, welcome.number, group)
}

/// A replica that the leader will fill.
pub(super) fn begin_empty(driver: &Driver, welcome: &Welcome) -> Result<Replica, StartError> {
    let state = writer::read_alone(&driver.foundation, &driver.data_dir)?;
    if state.vhosts().any(|vhost| vhost.queue_count() > 0) {
        return Err(StartError::Metadata(
            "this node has queues of its own and cannot join a cluster; run `reset` on it first, which deletes all it has".into(),
        ));
    }
    let log = new_log(driver)?;
    let group = Group::create_empty(settings(welcome.number), &log).map_err(StartError::storage)?;
    begun(driver, log, welcome.number, group)
}

/// The replica as it was when the node stopped, and the state it had.
pub(super) fn recover(driver: &Driver, member: &Welcome) -> Result<(Replica, State), StartError> {
    let (disk, dir) = (driver.foundation.disk.clone(), member::log_dir_in(&driver.data_dir));
    let (log, mut recovered) = Log::open(disk, &dir, options(driver)).map_err(StartError::storage)?;
    let mut recovery = Recovery::<RaftRs>::new(settings(member.number));
    let mut state = State::new();
    while let Some(record) = recovered.next_record().map_err(StartError::storage)? {
        let payload = Bytes::copy_from_slice(record.payload);
        recovery.record(record.position, record.kind, &payload).map_err(damaged)?;
        for apply in recovery.take_apply() {
            replay(&mut state, apply)?;
        }
    }
    let group = recovery.finish().map_err(damaged)?;
    log.set_listener(Arc::new(LogNews(driver.shared.clone())));
    Ok((begun(driver, log, member.number, group)?, state))
}

fn damaged(error: impl std::fmt::Display) -> StartError {
    StartError::Metadata(format!(
        "the node's replica of the cluster's metadata cannot be used: {error}. Run `forget_cluster_node` for this node on another one, and start \
         this one with an empty data directory"
    ))
}

fn replay(state: &mut State, apply: Apply) -> Result<(), StartError> {
    match apply {
        Apply::State { state: bytes, .. } if bytes.is_empty() => *state = State::new(),
        Apply::State { state: bytes, .. } => *state = State::decode_snapshot(&bytes).map_err(damaged)?,
        Apply::Entry { body, .. } => {
            let mut ignored = Applied::default();
            for step in ClusterStep::decode_all(&body).map_err(damaged)? {
                state.step(&step, &mut ignored);
                ignored.clear();
            }
        }
    }
    Ok(())
}

impl Replica {
    pub(super) fn leads(&self) -> bool {
        self.group.status().role == Role::Leader
    }

    /// The leader, as far as it knows.
    pub(super) fn leader(&self) -> ReplicaId {
        self.group.status().leader
    }

    /// Whether it leads and has applied all that earlier leaders have committed.
    pub(super) fn knows_all(&self) -> bool {
        self.leads() && self.group.applied().1 == self.group.status().term
    }

    pub(super) fn is_voter(&self) -> bool {
        let Members { voters, .. } = self.group.members();
        voters.contains(&self.own)
    }

    /// Whether enough was logged since the last checkpoint.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        self.log.end().0 >= self.checkpoint_at.0.saturating_add(self.checkpoint_every_bytes)
    }

    /// Writes the state, so that older entries can go.
    pub(super) fn checkpoint(&mut self, state: &Bytes) {
        self.group.checkpoint(state, &self.log);
        self.checkpoint_at = self.log.end();
        self.log.seal_soon();
    }

    /// Drops files that nobody needs.
    pub(super) fn keep_short(&mut self) {
        let needs = self.group.needs();
        if needs > self.dropped {
            self.dropped = needs;
            match self.log.drop_files_below(needs) {
                Ok(_) | Err(LogError::Closed) => {}
                Err(error) => {
                    tracing::warn!(%error, "old files of the metadata group's log could not be removed");
                }
            }
        }
    }
}

/// Whether a data directory is that of a member.
pub(crate) fn is_member(disk: &dyn platform::Disk, data_dir: &Path) -> Result<bool, StartError> {
    member::read(disk, data_dir).map(|member| member.is_some())
}
