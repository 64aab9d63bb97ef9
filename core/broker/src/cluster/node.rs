//! This node as a member of a cluster, as the rest of the broker and the links see it: an inbox for the thread that has the replica, and a
//! view of what it knows.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use commitlog::DataDirLock;
use metadata::{Entry, State};
use parking_lot::{Condvar, Mutex};
use stdx::ConnectionId;

use super::counted::{Counted, Elsewhere};
use super::doors::{self, StreamDoors};
use super::driver::Driver;
use super::far::Fars;
use super::inquiries::{self, Answerer, Answering};
use super::name::NodeName;
use super::peers::{DownReason, Epoch, Lane, PeerEvents, PeerIdentity, SharedPeers, VersionRange, Vitals};
use crate::alarms::Raised;
use crate::broker::{Inner, Told};
use crate::call::{Call, Reply};
use crate::cluster::far::Surroundings;
use crate::cluster::view::View;
use crate::data::reply::FarRequester;
use crate::folder_lock::lock_folder;
use crate::foundation::Foundation;
use crate::open_errors::StartError;

/// Why a node takes part in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// It opens its broker when it is ready.
    #[default]
    Serve,
    /// It becomes a member of a cluster that is there, and forms none.
    Join,
    /// It leaves its cluster: see [`Cluster::wait_left`].
    Leave,
    /// Its replica of the metadata becomes the only one: the other members are gone for good.
    ForceBoot,
}

/// How a node takes part in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How many nodes the first start waits for before one of them forms the cluster: the addresses that every node is configured with, its own
    /// included. 0: it waits to be told.
    pub seeds: usize,
    /// How long a change of metadata waits for a majority. Default 30 s, as `metadata_store.khepri.default_timeout`.
    pub change_timeout: Duration,
    /// Why it does. Default [`Purpose::Serve`].
    pub purpose: Purpose,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions { seeds: 0, change_timeout: Duration::from_secs(30), purpose: Purpose::Serve }
    }
}

/// An operator's request to the cluster.
pub(super) enum Ask {
    Forget(NodeName),
}

/// Events of the thread.
pub(super) enum Event {
    Up(PeerIdentity),
    Down(NodeName),
    Frame(NodeName, Epoch, Lane, u8, Bytes),
    Drained(NodeName),
    /// Another node says how many entries of the metadata it has applied.
    Described(NodeName, u64),
    Durable,
    Propose(Option<Entry>, Told),
    Step(metadata::ClusterStep),
    Ask(Ask, Reply<Result<(), String>>),
    TakeState(Reply<State>),
    Attach(Weak<Inner>),
    Inquire(NodeName, Vec<u8>, Duration, Reply<Option<Vec<u8>>>),
    Answered(NodeName, Bytes),
    /// The number of clients of something with a limit has changed.
    Counted(Counted),
    /// The cluster has answered the question of [`super::trust`] with this number, or has not in time.
    Heard(u64, bool),
}

#[derive(Default)]
struct Inbox {
    events: Vec<Event>,
    is_stopped: bool,
}

#[derive(Default)]
struct Standing {
    view: Arc<View>,
    life: Option<(u16, u32)>,
    failure: Option<String>,
    has_left: bool,
    leader_changes: u64,
}

/// The state that the thread shares with others.
pub(super) struct Shared {
    pub(super) timeout: Duration,
    /// Queues of other nodes.
    pub(super) fars: Fars,
    pub(super) answering: Answering,
    pub(super) elsewhere: Elsewhere,
    inbox: Mutex<Inbox>,
    come: Condvar,
    standing: Mutex<Standing>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn add(&self, event: Event) {
        let mut inbox = self.inbox.lock();
        if !inbox.is_stopped {
            inbox.events.push(event);
            self.come.notify_one();
        }
    }

    /// The events that have come, after waiting for it no longer than this; `None` when the thread is to end.
    pub(super) fn next(&self, wait: Duration) -> Option<Vec<Event>> {
        let mut inbox = self.inbox.lock();
        if inbox.events.is_empty() && !inbox.is_stopped {
            self.come.wait_for(&mut inbox, wait);
        }
        let events = std::mem::take(&mut inbox.events);
        (!inbox.is_stopped).then_some(events)
    }

    pub(super) fn life(&self) -> Option<u32> {
        self.standing.lock().life.map(|(_, life)| life)
    }

    pub(super) fn begin_life(&self, number: u16, life: u32) {
        self.standing.lock().life = Some((number, life));
        self.changed.notify_all();
    }

    pub(super) fn show(&self, view: View) {
        let mut standing = self.standing.lock();
        if *standing.view != view {
            let is_led_anew = view.leader.is_some() && view.leader != standing.view.leader;
            standing.leader_changes += u64::from(is_led_anew);
            standing.view = Arc::new(view);
            self.changed.notify_all();
        }
    }

    pub(super) fn leave(&self) {
        self.standing.lock().has_left = true;
        self.changed.notify_all();
    }

    pub(super) fn fail(&self, text: &str) {
        self.standing.lock().failure = Some(text.to_owned());
        self.changed.notify_all();
    }
}

/// This node in a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<ClusterInner>);

struct ClusterInner {
    shared: Arc<Shared>,
    foundation: Foundation,
    data_dir: Box<Path>,
    options: ClusterOptions,
    thread: Mutex<Option<JoinHandle<()>>>,
    lock: Mutex<Option<DataDirLock>>,
    /// Connections of this node that have declared exclusive queues.
    exclusive: Mutex<HashSet<ConnectionId>>,
    /// Nodes that have said that they are short of memory, or of disk.
    short: Mutex<HashMap<NodeName, (bool, bool)>>,
    peers: Mutex<Option<SharedPeers>>,
}

impl Cluster {
    /// A node that takes part in a cluster, or is to. Nothing moves before [`Cluster::start`]; the links may bring events already.
    #[must_use]
    pub fn new(foundation: Foundation, data_dir: &Path, options: ClusterOptions) -> Cluster {
        let shared = Shared {
            timeout: options.change_timeout,
            fars: Fars::default(),
            answering: Answering::default(),
            elsewhere: Elsewhere::default(),
            inbox: Mutex::default(),
            come: Condvar::new(),
            standing: Mutex::default(),
            changed: Condvar::new(),
        };
        Cluster(Arc::new(ClusterInner {
            shared: Arc::new(shared),
            foundation,
            data_dir: data_dir.into(),
            options,
            thread: Mutex::default(),
            lock: Mutex::default(),
            exclusive: Mutex::default(),
            short: Mutex::default(),
            peers: Mutex::default(),
        }))
    }

    /// Whether a data directory belongs to a member of a cluster: it has to be started as one.
    ///
    /// # Errors
    /// [`StartError::Storage`].
    pub fn is_member(disk: &dyn platform::Disk, data_dir: &Path) -> Result<bool, StartError> {
        super::replica::is_member(disk, data_dir)
    }

    /// Reads the replica and starts the thread that has it.
    ///
    /// # Errors
    /// [`StartError`] when the data directory cannot be read.
    pub fn start(&self, peers: SharedPeers) -> Result<(), StartError> {
        let inner = &self.0;
        *inner.lock.lock() = Some(lock_folder(&*inner.foundation.disk, &inner.data_dir)?);
        *inner.peers.lock() = Some(peers.clone());
        let (shared, foundation) = (inner.shared.clone(), inner.foundation.clone());
        // Before the replica is read: what other nodes ask meanwhile is answered, and nothing is served yet.
        inner.shared.fars.start(peers.clone());
        let driver = Driver::open(shared, foundation, inner.data_dir.to_path_buf(), peers, &inner.options)?;
        let thread = platform::thread::spawn_or_abort("metadata-group", move || driver.run())
            .map_err(StartError::storage)?;
        *inner.thread.lock() = Some(thread);
        Ok(())
    }

    /// Waits until the node is a member and has all that was committed before, no longer than this.
    ///
    /// # Errors
    /// The cluster refuses the node: the text says why.
    pub fn wait_ready(&self, wait: Duration) -> Result<bool, String> {
        let end = Instant::now() + wait;
        let shared = &self.0.shared;
        let mut standing = shared.standing.lock();
        loop {
            if let Some(failure) = &standing.failure {
                return Err(failure.clone());
            }
            if standing.life.is_some() {
                return Ok(true);
            }
            if shared.changed.wait_until(&mut standing, end).timed_out() {
                return Ok(false);
            }
        }
    }

    /// Waits until the others have let this node go, no longer than this; false when they have not. For [`Purpose::Leave`].
    ///
    /// # Errors
    /// Its replica has stopped: the text says why. A node that was forgotten before has left.
    pub fn wait_left(&self, wait: Duration) -> Result<bool, String> {
        let end = Instant::now() + wait;
        let shared = &self.0.shared;
        let mut standing = shared.standing.lock();
        while !standing.has_left {
            if let Some(failure) = &standing.failure {
                return Err(failure.clone());
            }
            if shared.changed.wait_until(&mut standing, end).timed_out() {
                return Ok(standing.has_left);
            }
        }
        Ok(true)
    }

    /// This node's view of the cluster.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.0.shared.standing.lock().view.clone()
    }

    /// How often this node has learned of a leader of the metadata that it did not follow before, since its start.
    #[must_use]
    pub fn leader_changes(&self) -> u64 {
        self.0.shared.standing.lock().leader_changes
    }

    /// The links to the other nodes; `None` before the start.
    #[must_use]
    pub fn peers(&self) -> Option<SharedPeers> {
        self.0.peers.lock().clone()
    }

    /// This node's number and its present life; `None` before it has them.
    #[must_use]
    pub fn own(&self) -> Option<(u16, u32)> {
        self.0.shared.standing.lock().life
    }

    /// Whether a connection is one of this start of this node.
    #[must_use]
    pub fn is_own(&self, connection: ConnectionId) -> bool {
        self.own() == Some((connection.node, connection.life))
    }

    /// Forgets a member that is down: its queues go, and it never comes back under its number. Answered when that is on its way.
    #[must_use]
    pub fn forget(&self, name: NodeName) -> Call<Result<(), String>> {
        let (reply, call) = Call::pair();
        self.0.shared.add(Event::Ask(Ask::Forget(name), reply));
        call
    }

    /// Asks another node, whose answerer understands the bytes. `None`: it is down, busy, or has not answered within five seconds.
    #[must_use]
    pub fn inquire(&self, name: NodeName, question: Vec<u8>) -> Call<Option<Vec<u8>>> {
        self.inquire_within(name, question, inquiries::TIMEOUT)
    }

    /// The same with another time to answer in.
    #[must_use]
    pub fn inquire_within(
        &self,
        name: NodeName,
        question: Vec<u8>,
        within: Duration,
    ) -> Call<Option<Vec<u8>>> {
        let (reply, call) = Call::pair();
        let refused = {
            let mut inbox = self.0.shared.inbox.lock();
            if inbox.is_stopped {
                Some(reply)
            } else {
                inbox.events.push(Event::Inquire(name, question, within, reply));
                self.0.shared.come.notify_one();
                None
            }
        };
        if let Some(reply) = refused {
            reply.send(None);
        }
        call
    }

    /// Sets where clients of the stream protocol reach this node.
    pub fn set_stream_doors(&self, doors: StreamDoors) {
        *self.0.shared.answering.stream_doors.lock() = doors;
    }

    /// Where they reach another node; `None` when it does not answer within five seconds.
    pub async fn stream_doors_of(&self, node: NodeName) -> Option<StreamDoors> {
        StreamDoors::decode(self.inquire(node, doors::QUESTION.to_vec()).await?)
    }

    /// Sets the answerer of questions of other nodes; `None` for nobody.
    pub fn answer_with(&self, answerer: Option<Answerer>) {
        *self.0.shared.answering.answerer.lock() = answerer;
    }

    /// A connection declares an exclusive queue, which has to be deleted with it.
    pub(crate) fn note_exclusive(&self, owner: ConnectionId) {
        self.0.exclusive.lock().insert(owner);
    }

    /// Whether a connection has declared exclusive queues; once.
    pub(crate) fn take_exclusive(&self, owner: ConnectionId) -> bool {
        self.0.exclusive.lock().remove(&owner)
    }

    pub(crate) fn propose(&self, entry: Option<Entry>, told: Told) {
        self.0.shared.add(Event::Propose(entry, told));
    }

    /// The state for the broker; nothing more is applied until [`Cluster::attach`].
    pub(crate) fn take_state(&self) -> State {
        let (reply, call) = Call::pair();
        self.0.shared.add(Event::TakeState(reply));
        call.wait()
    }

    pub(crate) fn attach(&self, inner: &Arc<Inner>) {
        self.0.shared.fars.attach(&inner.services);
        self.tell_short();
        self.0.shared.add(Event::Attach(Arc::downgrade(inner)));
    }

    /// Ends the thread and closes the log.
    pub fn stop(&self) {
        let rest = {
            let mut inbox = self.0.shared.inbox.lock();
            inbox.is_stopped = true;
            std::mem::take(&mut inbox.events)
        };
        for event in rest {
            if let Event::Inquire(.., reply) = event {
                reply.send(None);
            }
        }
        self.0.shared.come.notify_one();
        self.0.shared.fars.abandon();
        if let Some(thread) = self.0.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the metadata group has panicked");
        }
        drop(self.0.lock.lock().take());
    }
}

impl Cluster {
    /// A node's alarms.
    fn note_short(&self, name: &NodeName, is_short: (bool, bool)) {
        let mut short = self.0.short.lock();
        let was = short.get(name).copied().unwrap_or_default();
        if was == is_short {
            return;
        }
        match is_short {
            (false, false) => drop(short.remove(name)),
            _ => drop(short.insert(name.clone(), is_short)),
        }
        drop(short);
        self.tell_short();
    }

    fn tell_short(&self) {
        let (memory, disk) = {
            let short = self.0.short.lock();
            (short.values().any(|it| it.0), short.values().any(|it| it.1))
        };
        if let Some(services) = self.0.shared.fars.services() {
            services.alarms.others_are(memory, disk);
        }
    }
}

impl Surroundings for Cluster {
    fn view(&self) -> Arc<View> {
        Cluster::view(self)
    }

    fn fars(&self) -> &Fars {
        &self.0.shared.fars
    }

    fn requester(&self, node: u16, vhost: &str, address: &[u8]) -> Option<Box<dyn FarRequester>> {
        let view = Cluster::view(self);
        let name = &view.member(node).filter(|_| node != view.own)?.name;
        self.0.shared.fars.get(name)?.requester(vhost, address)
    }

    fn step(&self, step: metadata::ClusterStep) {
        self.0.shared.add(Event::Step(step));
    }

    fn counted(&self, counted: Counted) {
        self.0.shared.add(Event::Counted(counted));
    }

    fn counted_elsewhere(&self, counted: &Counted) -> u64 {
        self.0.shared.elsewhere.count(counted)
    }

    fn when_caught_up(&self, then: Box<dyn FnOnce() + Send>) {
        self.propose(None, Box::new(move |_, _| then()));
    }
}

impl PeerEvents for Cluster {
    fn up(&self, peer: &PeerIdentity, _epoch: Epoch) {
        let version = VersionRange::OWN.common(peer.versions).unwrap_or(VersionRange::OWN.min);
        self.0.shared.fars.up(&peer.name, peer.data_id, version);
        self.0.shared.add(Event::Up(peer.clone()));
    }

    fn down(&self, name: &NodeName, _epoch: Epoch, why: DownReason) {
        self.0.shared.fars.down(name, why != DownReason::Closed);
        self.note_short(name, (false, false));
        self.0.shared.add(Event::Down(name.clone()));
    }

    fn frame(&self, from: &NodeName, epoch: Epoch, lane: Lane, kind: u8, payload: Bytes) {
        if lane != Lane::Live {
            return self.0.shared.add(Event::Frame(from.clone(), epoch, lane, kind, payload));
        }
        if !self.0.shared.fars.frame(from, epoch, kind, payload) {
            tracing::warn!(node = %from, kind, "a frame of another node cannot be read; the link is made anew");
            if let Some(peers) = self.peers() {
                peers.hang_up(from, epoch);
            }
        }
    }

    fn vitals(&self) -> Vitals {
        let raised =
            self.0.shared.fars.services().map(|services| services.alarms.raised()).unwrap_or_default();
        Vitals {
            is_memory_short: raised.has(Raised::MEMORY),
            is_disk_short: raised.has(Raised::DISK),
            wall_ms: self.0.foundation.clock.wall_ms(),
            metadata_applied: self.view().applied,
            ..Vitals::default()
        }
    }

    fn heard(&self, from: &NodeName, vitals: &Vitals) {
        self.note_short(from, (vitals.is_memory_short, vitals.is_disk_short));
        self.0.shared.add(Event::Described(from.clone(), vitals.metadata_applied));
    }

    fn drained(&self, to: &NodeName, lane: Lane) {
        match lane {
            Lane::Live => self.0.shared.fars.drained(to),
            Lane::Recovery => self.0.shared.add(Event::Drained(to.clone())),
            Lane::Control => {}
        }
    }
}
