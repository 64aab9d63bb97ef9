//! Many Raft groups on one log: replicas that agree on a list of entries.
//!
//! A [`Group`] is one replica. It takes messages, ticks and durable positions, and returns [`Effects`]: messages to send and entries to
//! apply. A [`Recovery`] makes one from its records. Entries are opaque bytes. Knows no messages of clients, queues, sockets, threads or
//! clocks. Consensus itself is a [`Kernel`], which sees heads of entries only; [`RaftRs`] is the one there is. Records are drawn in
//! `docs/formats/groups.md`.
//!
//! # How a group is driven
//!
//! Its user owns three things: the log, the net and the *machine*, which is whatever the entries mean. The user's work is turns. A turn is
//! any number of calls that bring something, and then one [`Group::run`]:
//!
//! | what happened | call before `run` |
//! |---|---|
//! | a tick of the clock, 100 ms by default | [`Group::tick`] |
//! | a message came from another replica | [`Group::step`] |
//! | the log is durable up to a position | [`Group::durable`] |
//! | there is something to agree on | [`Group::propose`], [`Group::change_members`] |
//! | a link was reset, a node is known to be dead | [`Group::unreachable`], [`Group::forget_leader`] and [`Group::campaign`] |
//!
//! `run` appends to the log what has to be stored and returns [`Effects`]. The user does all of it before the next call to the group:
//!
//! 1. [`Effects::apply`], in order. [`Apply::Entry`] is one committed entry, each exactly once. [`Apply::State`] replaces the machine.
//! 2. [`Effects::wants_state`]: capture the machine *now* and give it to [`Group::install_message`]. The envelope is sent like the others.
//! 3. [`Effects::send`]. A body is in the envelope, or in the log at a [`Place`]: read the record there and give it to [`entry_body`].
//!    A message may be lost, repeated or late. One that cannot be sent needs no word, but for [`Group::install_failed`].
//!
//! **Storing.** Records become durable in the order of the log. [`Group::waits_for`] says up to where a group waits. When the log is
//! durable so far, call [`Group::durable`], then `run`. Promises of a replica to others go out only then: the group sees to that.
//!
//! **Proposals.** [`Group::propose`] returns index and term. The proposal is safe when [`Apply::Entry`] comes with both. It is lost, or its
//! fate is unknown, when that index comes with another term, when a state passes it, or when the replica starts again. Put what one
//! turn brings into one entry: the cost is per entry.
//!
//! **Checkpoints.** The log keeps what [`Group::needs`] and all behind. After some megabytes of entries, call [`Group::checkpoint`] with the
//! machine's state. Entries that are not applied and hold an old file back are written again by [`Group::move_up`].
//!
//! **Starts.** Give all records of the group's stream to [`Recovery::record`], apply what [`Recovery::take_apply`] returns, and call
//! [`Recovery::finish`]. A refused start means that the records are not those of a replica: make it anew under another [`ReplicaId`].
//!
//! **Members.** A new replica begins with [`Group::create_empty`], is added as a learner, and becomes a voter when [`Group::peers`] shows
//! that it has caught up. One that is removed stays until [`Group::is_settled`]. An id is never used again.
//!
//! **Failure.** [`Group::failure`] says why a replica has stopped. It is silent from then on. The others go on without it.
//!
//! # Three replicas
//!
//! ```
//! use std::{cell::RefCell, collections::VecDeque};
//!
//! use bytes::Bytes;
//! use commitlog::{Position, RECORD_HEADER_BYTES};
//! use multiraft::{
//!     Apply, Body, Effects, EntryLog, Envelope, Group, Members, Place, RaftRs, Recovery, ReplicaId, Role, Settings, entry_body,
//! };
//!
//! /// A log in memory: where each record ends, its kind, its payload. The real one is `commitlog::Log`.
//! #[derive(Default)]
//! struct Memory(RefCell<Vec<(Position, u8, Bytes)>>);
//!
//! impl Memory {
//!     fn end(&self) -> Position {
//!         self.0.borrow().last().map_or(Position(0), |record| record.0)
//!     }
//!
//!     fn read(&self, place: Place) -> Bytes {
//!         let end = Position(place.first.0 + u64::from(place.bytes));
//!         self.0.borrow().iter().find(|record| record.0 == end).expect("it is there").2.clone()
//!     }
//! }
//!
//! impl EntryLog for Memory {
//!     fn append(&self, _group: u64, kind: u8, head: &[u8], body: &Bytes) -> Position {
//!         let payload = Bytes::from([head, body].concat());
//!         let end = Position(self.end().0 + (RECORD_HEADER_BYTES + payload.len()) as u64);
//!         self.0.borrow_mut().push((end, kind, payload));
//!         end
//!     }
//! }
//!
//! /// A replica with its log and its machine: a list of words.
//! struct Replica {
//!     group: Group<RaftRs>,
//!     log: Memory,
//!     words: Vec<String>,
//! }
//!
//! fn words_of(state: &Bytes) -> Vec<String> {
//!     String::from_utf8_lossy(state).split_whitespace().map(str::to_owned).collect()
//! }
//!
//! impl Replica {
//!     /// The end of a turn. Returns what goes to others.
//!     fn turn(&mut self) -> Vec<Envelope> {
//!         let Effects { mut send, apply, wants_state } = self.group.run(&self.log);
//!         for step in apply {
//!             match step {
//!                 Apply::Entry { body, .. } => self.words.push(String::from_utf8_lossy(&body).into_owned()),
//!                 Apply::State { state, .. } => self.words = words_of(&state),
//!             }
//!         }
//!         for to in wants_state {
//!             send.extend(self.group.install_message(to, self.words.join(" ").into()));
//!         }
//!         send
//!     }
//!
//! /// The disk has synced: here it always has.
//!     fn sync(&mut self) -> Vec<Envelope> {
//!         self.group.durable(self.log.end());
//!         self.turn()
//!     }
//! }
//!
//! /// Passes messages on until there are none.
//! fn settle(replicas: &mut [Replica], mut waiting: VecDeque<Envelope>) {
//!     while let Some(Envelope { message, bodies, .. }) = waiting.pop_front() {
//!         let sender = &replicas[message.from.0 as usize - 1];
//!         let whole = bodies.into_iter().zip(0..).map(|(body, at): (Body, usize)| match body {
//!             Body::Here(bytes) => bytes,
//!             Body::InLog(place) => entry_body(&sender.log.read(place), message.heads[at]).expect("a whole record"),
//!         });
//!         let whole = whole.collect();
//!         let receiver = &mut replicas[message.to.0 as usize - 1];
//!         receiver.group.step(message, whole).expect("a message that can be true");
//!         waiting.extend(receiver.turn());
//!         waiting.extend(receiver.sync());
//!     }
//! }
//!
//! let ids = [1, 2, 3].map(ReplicaId);
//! let settings = |id| Settings::new(7, id);
//! let mut replicas: Vec<Replica> = (ids.iter())
//!     .map(|id| {
//!         let log = Memory::default();
//!         let group = Group::create(settings(*id), Members::of(&ids), &Bytes::new(), &log).expect("a log that works");
//!         Replica { group, log, words: Vec::new() }
//!     })
//!     .collect();
//! for replica in &mut replicas {
//!     // Nothing goes out before the first record is durable.
//!     assert!(replica.sync().is_empty());
//! }
//!
//! // Time passes until one of them leads.
//! let leads = |replica: &Replica| replica.group.status().role == Role::Leader;
//! while !replicas.iter().any(leads) {
//!     for at in 0..3 {
//!         replicas[at].group.tick();
//!         let sent = replicas[at].turn();
//!         settle(&mut replicas, sent.into());
//!     }
//! }
//!
//! // The leader proposes. Everybody applies it once a majority has stored it.
//! let leader = replicas.iter().position(leads).expect("one leads");
//! replicas[leader].group.propose(Bytes::from("hello")).expect("it leads");
//! let mut sent = replicas[leader].turn();
//! sent.extend(replicas[leader].sync());
//! settle(&mut replicas, sent.into());
//! assert!(replicas.iter().all(|replica| replica.words == ["hello"]));
//!
//! // A checkpoint stands for the entries before it. A start reads it, and the records behind.
//! let Replica { group, log, words } = &mut replicas[0];
//! group.checkpoint(&words.join(" ").into(), log);
//! group.durable(log.end());
//! let needed = group.needs();
//! let mut recovery = Recovery::<RaftRs>::new(settings(ids[0]));
//! let mut found = Vec::new();
//! for (end, kind, payload) in log.0.borrow().iter().filter(|record| record.0 > needed) {
//!     recovery.record(*end, *kind, payload).expect("a whole record");
//!     for step in recovery.take_apply() {
//!         match step {
//!             Apply::Entry { body, .. } => found.push(String::from_utf8_lossy(&body).into_owned()),
//!             Apply::State { state, .. } => found = words_of(&state),
//!         }
//!     }
//! }
//! let again = recovery.finish().expect("records of this replica");
//! assert_eq!((again.applied(), found), (group.applied(), words.clone()));
//! ```

mod entries;
mod group;
mod heads;
mod kernel;
mod log;
mod members;
mod raft_messages;
mod raft_rs;
mod reading;
mod records;
mod recovery;

pub use group::{Apply, Body, Effects, Envelope, Group, Settings};
pub use heads::Heads;
pub use kernel::{
    EntryKind, Head, Installed, Kernel, Message, MessageKind, Peer, Ready, Refused, ReplicaId, Role, Start,
    Status, Timing,
};
pub use log::{EntryLog, Place};
pub use members::{Change, MEMBERS_MAX, Members};
pub use raft_rs::RaftRs;
pub use records::{CHECKPOINT, ENTRY, INSTALLED, RecordError, VOTE, entry_body};
pub use recovery::{Recovery, RecoveryError};
