//! A replica of a group: a kernel, and its entries in a log. Takes messages and the passing of time; returns what to send and what to
//! apply. Knows neither what a body means, nor sockets, threads or clocks.

use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;
use commitlog::Position;

use crate::entries::{Bodies, Places};
use crate::heads::Heads;
use crate::kernel::{
    EntryKind, Head, Installed, Kernel, Message, MessageKind, Peer, Ready, Refused, ReplicaId, Role, Start,
    Status, Timing,
};
use crate::log::{EntryLog, Place};
use crate::members::{Change, Members, decode_changes, encode_changes};
use crate::records::{
    CHECKPOINT, ENTRY, ENTRY_HEAD_BYTES, INSTALLED, StateRecord, VOTE, Writing, encode_entry, encode_vote,
};

/// Indexes and terms are smaller.
const NUMBERS_END: u64 = 1 << 62;

/// Which replica of which group, and its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The group, and its stream in the log.
    pub group: u64,
    /// The replica.
    pub replica: ReplicaId,
    /// How it behaves in time.
    pub timing: Timing,
    /// As many bytes of bodies may be proposed and not applied; one entry always may. Default 4 MiB.
    pub uncommitted_bytes_max: u64,
    /// As many bytes of applied bodies stay in memory for replicas that have not stored them. Default 256 KiB.
    pub cache_bytes_max: u64,
    /// A replica that was sent a state and does not have it after so many ticks is asked again what it needs. Default 600.
    pub install_ticks_max: u32,
}

impl Settings {
    /// The defaults.
    pub fn new(group: u64, replica: ReplicaId) -> Self {
        let timing = Timing { seed: group, ..Timing::default() };
        Self {
            group,
            replica,
            timing,
            uncommitted_bytes_max: 4 << 20,
            cache_bytes_max: 256 << 10,
            install_ticks_max: 600,
        }
    }
}

/// The body of an entry in a message that goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Here it is.
    Here(Bytes),
    /// It is in the log, durable or not: read the record and give its payload to [`crate::entry_body`].
    InLog(Place),
}

/// A message with the bodies of its entries, or with the state of an [`MessageKind::Install`].
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The group.
    pub group: u64,
    /// The message.
    pub message: Message,
    /// One for each head of the message; for an installed state, the state alone.
    pub bodies: Vec<Body>,
}

/// The work of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apply {
    /// A committed entry. It is the one that [`Group::propose`] returned if index *and* term are the same.
    Entry {
        /// Its place.
        index: u64,
        /// Its term.
        term: u64,
        /// The proposed bytes.
        body: Bytes,
    },
    /// Forget everything, this is the state now. Empty for a group that begins.
    State {
        /// The last entry that the state has.
        index: u64,
        /// Its term.
        term: u64,
        /// The state that [`Group::checkpoint`] or [`Group::install_message`] got.
        state: Bytes,
    },
}

/// Outcome of a turn.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be sent. Any may be lost, repeated or late.
    pub send: Vec<Envelope>,
    /// For the machine, in order, before anything else is asked of the group.
    pub apply: Vec<Apply>,
    /// These replicas need a state: capture it and call [`Group::install_message`], or [`Group::install_failed`].
    pub wants_state: Vec<ReplicaId>,
}

/// Work that waits for the log.
struct Unstored {
    position: Position,
    number: u64,
    messages: Vec<Message>,
}

/// A replica of a group.
pub struct Group<K> {
    settings: Settings,
    kernel: K,
    members: Members,
    /// Index and term of the last entry handed out to be applied.
    applied: (u64, u64),
    vote: (u64, ReplicaId),
    places: Places,
    bodies: Bodies,
    /// Bodies that came with messages or proposals, until the kernel wants their heads stored.
    arriving: VecDeque<(u64, u64, Bytes)>,
    proposed_bytes: u64,
    arriving_state: Option<(u64, u64, Bytes)>,
    unstored: VecDeque<Unstored>,
    /// The end of the latest record.
    end: Position,
    /// How far the log was said to be durable.
    durable: Position,
    /// The commit index when the kernel last handed out heads. Records name this: it is true of the entries before them in the log.
    commit: u64,
    /// Where the record of the latest durable checkpoint begins.
    checkpoint: Position,
    /// Checkpoints on their way: their end, their begin, and the index they stand for.
    checkpoints: VecDeque<(Position, Position, u64)>,
    /// Records that replace others: until the log is durable up to the first position, the records from the second on are needed.
    moving: VecDeque<(Position, Position)>,
    /// `None` when a majority knows for ever which members count now. Else the index of the entry that will prove it, or 0.
    unsettled: Option<u64>,
    /// Replicas that want a state, and for how many ticks.
    installing: Vec<(ReplicaId, u32)>,
    effects: Effects,
    failure: Option<String>,
}

impl<K: Kernel> Group<K> {
    /// A new group's replica, the same on all of its members: the group begins behind an entry 1 that everybody has. Its records must not
    /// be in the log yet. `state` is where the machine begins.
    ///
    /// # Errors
    /// [`Refused::Stopped`] when the log has failed or the members are impossible.
    pub fn create(
        settings: Settings,
        members: Members,
        state: &Bytes,
        log: &dyn EntryLog,
    ) -> Result<Self, Refused> {
        Self::begin(settings, members, (1, 1), state, log)
    }

    /// A replica that will be filled by the leader of a group which exists, when that has added it.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_empty(settings: Settings, log: &dyn EntryLog) -> Result<Self, Refused> {
        Self::begin(settings, Members::default(), (0, 0), &Bytes::new(), log)
    }

    fn begin(
        settings: Settings,
        members: Members,
        applied: (u64, u64),
        state: &Bytes,
        log: &dyn EntryLog,
    ) -> Result<Self, Refused> {
        let start = Start {
            term: applied.1,
            vote: ReplicaId::NONE,
            commit: applied.0,
            members: members.clone(),
            heads: Heads::after(applied.0, applied.1),
        };
        let kernel = K::open(settings.replica, settings.timing, start)?;
        let mut group = Self::of_parts(settings, kernel, members, applied, (applied.1, ReplicaId::NONE));
        group.unsettled = None;
        group.write_state(INSTALLED, applied, state, log);
        // Nothing goes out before this is durable.
        group.unstored.push_back(Unstored { position: group.end, number: 0, messages: Vec::new() });
        group.failure.as_ref().map_or(Ok(()), |failure| Err(Refused::Stopped(failure.clone())))?;
        Ok(group)
    }

    pub(crate) fn of_parts(
        settings: Settings,
        kernel: K,
        members: Members,
        applied: (u64, u64),
        vote: (u64, ReplicaId),
    ) -> Self {
        Self {
            settings,
            kernel,
            members,
            applied,
            vote,
            places: Places::from(applied.0 + 1),
            bodies: Bodies::from(applied.0 + 1),
            arriving: VecDeque::new(),
            proposed_bytes: 0,
            arriving_state: None,
            unstored: VecDeque::new(),
            end: Position(0),
            durable: Position(0),
            commit: applied.0,
            checkpoint: Position(0),
            checkpoints: VecDeque::new(),
            moving: VecDeque::new(),
            unsettled: Some(0),
            installing: Vec::new(),
            effects: Effects::default(),
            failure: None,
        }
    }

    pub(crate) fn with_entries(mut self, places: Places, bodies: Bodies, checkpoint: Position) -> Self {
        (self.places, self.bodies, self.checkpoint) = (places, bodies, checkpoint);
        self
    }

    /// A tick of the clock, as [`Timing`] counts them. A group that has no other voter leads from its first tick on.
    pub fn tick(&mut self) {
        self.give_up_installing();
        if self.needs_no_vote() {
            self.campaign();
        } else {
            self.kernel.tick();
        }
    }

    /// A state may be lost with its receiver, and then nobody says so.
    fn give_up_installing(&mut self) {
        let (kernel, ticks_max) = (&mut self.kernel, self.settings.install_ticks_max);
        self.installing.retain_mut(|(peer, ticks)| {
            *ticks += 1;
            let stays = *ticks < ticks_max;
            if !stays {
                kernel.install_failed(*peer);
            }
            stays
        });
    }

    /// A replica whose own vote is enough would lead before an older entry is durable.
    fn may_campaign(&self) -> bool {
        !self.needs_no_vote() || self.unstored.is_empty()
    }

    fn needs_no_vote(&self) -> bool {
        self.members.is_sole_voter(self.settings.replica) && self.kernel.status().role != Role::Leader
    }

    /// A message came, with the bodies of its entries or its state.
    ///
    /// # Errors
    /// [`Refused::BadMessage`] for what cannot be true, [`Refused::Stopped`].
    pub fn step(&mut self, message: Message, bodies: Vec<Bytes>) -> Result<(), Refused> {
        let numbers = [message.index, message.term, message.index_term, message.commit];
        let installed = message.installed.iter().flat_map(|installed| [installed.index, installed.term]);
        let heads = message.heads.iter().map(|head| head.term);
        if numbers.into_iter().chain(installed).chain(heads).any(|number| number >= NUMBERS_END) {
            return Err(Refused::BadMessage("no group comes to such an index or term"));
        }
        if let Some(installed) = &message.installed {
            let state = bodies.into_iter().next().ok_or(Refused::BadMessage("its state is missing"))?;
            self.arriving_state = Some((installed.index, installed.term, state));
        } else if bodies.len() == message.heads.len() {
            self.arriving
                .extend(message.heads.iter().zip(bodies).map(|(head, body)| (head.index, head.term, body)));
        } else {
            return Err(Refused::BadMessage("it has not one body for each entry"));
        }
        if message.kind == MessageKind::CampaignNow && !self.may_campaign() {
            return Ok(());
        }
        self.kernel.step(message)
    }

    /// Proposes an entry. Returns its index and term: should an entry with both be applied, it is this one. If one with the same index
    /// and another term is, or a state from that index on, this one is lost or its fate unknown.
    ///
    /// # Errors
    /// [`Refused::NotLeader`], [`Refused::HandingOver`], [`Refused::Full`], [`Refused::Stopped`].
    pub fn propose(&mut self, body: Bytes) -> Result<(u64, u64), Refused> {
        let waiting = self.uncommitted_bytes();
        if waiting > 0 && waiting + body.len() as u64 > self.settings.uncommitted_bytes_max {
            return Err(Refused::Full(waiting));
        }
        let head = self.kernel.propose()?;
        self.proposed_bytes += body.len() as u64;
        self.arriving.push_back((head.index, head.term, body));
        Ok((head.index, head.term))
    }

    /// Proposes a change of members. One change is made in one step. Several count together: first the majorities of old and new members
    /// are needed, and the leader goes on from there to the new members alone by itself. Add a voter as a learner first. A replica that
    /// was removed has to stay until [`Self::is_settled`].
    ///
    /// # Errors
    /// As [`Self::propose`], [`Refused::ChangeInProgress`], [`Refused::ImpossibleChange`].
    pub fn change_members(&mut self, changes: &[Change]) -> Result<(u64, u64), Refused> {
        let own = self.settings.replica;
        if changes.contains(&Change::Remove(own)) || changes.contains(&Change::AddLearner(own)) {
            return Err(Refused::ImpossibleChange("the leader has to hand leadership over first"));
        }
        let head = self.kernel.propose_members(changes)?;
        self.arriving.push_back((head.index, head.term, encode_changes(changes).into()));
        Ok((head.index, head.term))
    }

    /// Asks for votes now.
    pub fn campaign(&mut self) {
        if self.may_campaign() {
            self.kernel.campaign();
        }
    }

    /// The leader is known to be gone: this replica votes for another one at once. A leader steps down.
    pub fn forget_leader(&mut self) {
        self.kernel.forget_leader();
    }

    /// Hands leadership to another voter. Ends by itself after an election timeout; see [`Status::transferee`].
    pub fn transfer(&mut self, to: ReplicaId) {
        self.kernel.transfer(to);
    }

    /// Messages to a replica may have been lost, a state among them: its link was reset.
    pub fn unreachable(&mut self, peer: ReplicaId) {
        self.kernel.unreachable(peer);
        if self.installing.iter().any(|(waiting, _)| *waiting == peer) {
            self.install_failed(peer);
        }
    }

    /// A state does not get to a replica that wanted it. It is asked for again.
    pub fn install_failed(&mut self, peer: ReplicaId) {
        self.installing.retain(|(waiting, _)| *waiting != peer);
        self.kernel.install_failed(peer);
    }

    /// Writes what has to be stored, and returns what is to be done. Call it after each turn of other calls, as often as one likes.
    pub fn run(&mut self, log: &dyn EntryLog) -> Effects {
        while self.failure.is_none()
            && let Some(ready) = self.kernel.ready()
        {
            self.take(ready, log);
            self.follow_up();
        }
        self.arriving.clear();
        self.arriving_state = None;
        self.proposed_bytes = 0;
        mem::take(&mut self.effects)
    }

    /// The log is durable up to here. Call [`Self::run`] afterwards.
    pub fn durable(&mut self, up_to: Position) {
        self.durable = self.durable.max(up_to);
        let mut number = None;
        while self.unstored.front().is_some_and(|unstored| unstored.position <= up_to)
            && let Some(unstored) = self.unstored.pop_front()
        {
            number = Some(unstored.number);
            for message in unstored.messages {
                self.send(message);
            }
        }
        if let Some(number) = number {
            self.kernel.stored(number);
        }
        while let Some((_, begin, index)) = self.checkpoints.front().copied().filter(|next| next.0 <= up_to) {
            self.checkpoints.pop_front();
            self.checkpoint = begin;
            self.kernel.compact(index);
            self.places.compact(index);
        }
        while self.moving.front().is_some_and(|moving| moving.0 <= up_to) {
            self.moving.pop_front();
        }
    }

    /// Whether something waits for the log to be durable, and up to where.
    pub fn waits_for(&self) -> Option<Position> {
        let stored = self.unstored.front().map(|unstored| unstored.position);
        stored
            .or_else(|| self.checkpoints.front().map(|next| next.0))
            .or_else(|| self.moving.front().map(|next| next.0))
    }

    /// Writes the machine's state, which has applied exactly what [`Self::run`] has handed out. Once it is durable, entries up to there
    /// are forgotten: a replica that still needs them gets a state.
    pub fn checkpoint(&mut self, state: &Bytes, log: &dyn EntryLog) {
        let begin = self.write_state(CHECKPOINT, self.applied, state, log);
        self.checkpoints.push_back((self.end, begin, self.applied.0));
    }

    /// Files of the log that lie wholly below this position may go, as far as this group is concerned.
    pub fn needs(&self) -> Position {
        let entries = self.places.lowest().unwrap_or(self.checkpoint);
        let moving = self.moving.iter().map(|moving| moving.1).min().unwrap_or(self.checkpoint);
        self.checkpoint.min(entries).min(moving)
    }

    /// Writes entries again that lie below a position and are not applied, so that the log can go on without its old files. Entries that
    /// are applied go with a checkpoint. [`Self::needs`] moves when the new records are durable.
    pub fn move_up(&mut self, below: Position, log: &dyn EntryLog) {
        let needed = self.needs();
        let first = self.applied.0 + 1;
        let places: Vec<Place> = (first..).map_while(|index| self.places.get(index)).collect();
        if !places.iter().any(|place| place.first < below) {
            return;
        }
        for (index, mut place) in (first..).zip(places) {
            if place.first < below
                && let Some(head) = self.kernel.heads().get(index)
                && let Some(body) = self.bodies.get(index).cloned()
            {
                place = self.write_entry(head, Writing::Again, &body, log);
            }
            self.places.push(index, place);
        }
        self.keep_until_durable(needed);
    }

    /// The message that brings the machine's state to a replica which wants it. The state has applied exactly what [`Self::run`] has
    /// handed out. `None` when this replica no longer leads.
    pub fn install_message(&mut self, to: ReplicaId, state: Bytes) -> Option<Envelope> {
        let status = self.kernel.status();
        let (index, term) = self.applied;
        let installed = Installed { index, term, members: self.members.clone() };
        let message = Message {
            kind: MessageKind::Install,
            from: self.settings.replica,
            to,
            term: status.term,
            index: 0,
            index_term: 0,
            commit: 0,
            commit_term: 0,
            reject: false,
            reject_hint: 0,
            transfer: false,
            heads: Vec::new(),
            installed: Some(Box::new(installed)),
        };
        let leads = status.role == Role::Leader;
        leads.then(|| Envelope { group: self.settings.group, message, bodies: vec![Body::Here(state)] })
    }

    /// The status of the group.
    pub fn status(&self) -> Status {
        self.kernel.status()
    }

    /// The other replicas, as a leader knows them.
    pub fn peers(&self) -> Vec<Peer> {
        self.kernel.peers()
    }

    /// The members at the last applied entry.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Whether this replica leads and a majority of the members knows for ever that they are the members. Only then may a replica that
    /// is no member be deleted: before, a member may start that still needs its vote.
    pub fn is_settled(&self) -> bool {
        self.unsettled.is_none() && self.kernel.status().role == Role::Leader
    }

    /// Index and term of the last entry that was handed out to be applied.
    pub fn applied(&self) -> (u64, u64) {
        self.applied
    }

    /// The heads of entries that no checkpoint stands for.
    pub fn heads(&self) -> &Heads {
        self.kernel.heads()
    }

    /// Where the record of an entry lies that no checkpoint stands for.
    pub fn place(&self, index: u64) -> Option<Place> {
        self.places.get(index)
    }

    /// Bytes proposed and not applied.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.bodies.unapplied_bytes() + self.proposed_bytes
    }

    /// Bytes of bodies in memory.
    pub fn cached_bytes(&self) -> u64 {
        self.bodies.bytes()
    }

    /// Keeps no more applied bodies in memory than so many bytes. Replicas that are behind get them from the log.
    pub fn trim_cache(&mut self, bytes_max: u64) {
        self.bodies.trim(0, bytes_max);
    }

    /// Why this replica has stopped: it does nothing any more. `None` while it works.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.kernel.failure())
    }

    fn take(&mut self, ready: Ready, log: &dyn EntryLog) {
        self.commit = self.kernel.status().commit;
        let vote = ready.vote.filter(|vote| *vote != self.vote);
        self.vote = vote.unwrap_or(self.vote);
        if let Some(installed) = ready.install {
            self.install(installed, log);
        } else if let Some((term, vote)) = vote {
            let end = log.append(self.settings.group, VOTE, &encode_vote(term, vote), &Bytes::new());
            self.note_end(end);
        }
        for head in ready.heads {
            match self.arrived(head) {
                Some(body) => self.store(head, body, log),
                None => self.stop(format!("the body of entry {} is missing", head.index)),
            }
        }
        for message in ready.messages {
            self.send(message);
        }
        if self.end > self.durable || !self.unstored.is_empty() {
            let (position, messages) = (self.end, ready.messages_when_stored);
            self.unstored.push_back(Unstored { position, number: ready.number, messages });
        } else {
            for message in ready.messages_when_stored {
                self.send(message);
            }
            self.kernel.stored(ready.number);
        }
        let any = !ready.committed.is_empty();
        for head in ready.committed {
            self.apply(head);
        }
        self.kernel.applied();
        if any {
            let leads = self.kernel.status().role == Role::Leader;
            let needed = if leads { self.kernel.matched_by_all() } else { u64::MAX };
            self.bodies.trim(needed, self.settings.cache_bytes_max);
        }
    }

    /// Does the work that the kernel leaves to its user.
    fn follow_up(&mut self) {
        if self.kernel.status().role != Role::Leader {
            self.unsettled = self.unsettled.map(|_| 0);
            return;
        }
        if self.unsettled == Some(0) && !self.members.is_joint() {
            // The records of an entry that is proposed now say that the members are committed.
            self.unsettled = Some(self.kernel.propose_empty().map_or(0, |head| head.index));
        }
        if self.members.is_joint() {
            // Refused while it is on its way; tried again then.
            let _on_its_way = self.change_members(&[]);
        } else if !self.members.voters.contains(&self.settings.replica) {
            self.kernel.forget_leader();
        }
    }

    fn arrived(&mut self, head: Head) -> Option<Bytes> {
        if head.kind == EntryKind::Empty {
            return Some(Bytes::new());
        }
        // They come in the order of their arrival; a skipped one was refused or has been replaced.
        while let Some((index, term, body)) = self.arriving.pop_front() {
            if (index, term) == (head.index, head.term) {
                return Some(body);
            }
        }
        None
    }

    fn store(&mut self, head: Head, body: Bytes, log: &dyn EntryLog) {
        let replaces = self.places.get(head.index).map(|_| self.needs());
        let place = self.write_entry(head, Writing::New, &body, log);
        if let Some(needed) = replaces {
            self.keep_until_durable(needed);
        }
        self.places.push(head.index, place);
        self.bodies.push(head.index, body);
    }

    fn write_entry(&mut self, head: Head, writing: Writing, body: &Bytes, log: &dyn EntryLog) -> Place {
        let front = encode_entry(head, self.commit, writing, body);
        let end = log.append(self.settings.group, ENTRY, &front, body);
        self.note_end(end);
        Place::ending_at(end, ENTRY_HEAD_BYTES + body.len())
    }

    /// Returns where the record begins.
    fn write_state(&mut self, kind: u8, applied: (u64, u64), state: &Bytes, log: &dyn EntryLog) -> Position {
        let heads = self.kernel.heads();
        let last = if kind == CHECKPOINT { (heads.last_index(), heads.last_term()) } else { applied };
        let (members, replica) = (self.members.clone(), self.settings.replica);
        let front = StateRecord { applied, last, vote: self.vote, members, replica }.encode();
        let end = log.append(self.settings.group, kind, &front, state);
        self.note_end(end);
        Place::ending_at(end, front.len() + state.len()).first
    }

    fn install(&mut self, installed: Installed, log: &dyn EntryLog) {
        let arrived = self.arriving_state.take();
        let Some((.., state)) =
            arrived.filter(|(index, term, _)| (*index, *term) == (installed.index, installed.term))
        else {
            return self.stop("the state of an installation is missing".to_owned());
        };
        let (index, term) = (installed.index, installed.term);
        self.members = installed.members;
        self.applied = (index, term);
        let old = self.needs();
        self.places = Places::from(index + 1);
        self.bodies = Bodies::from(index + 1);
        let begin = self.write_state(INSTALLED, self.applied, &state, log);
        self.keep_until_durable(old);
        self.checkpoints.clear();
        self.checkpoints.push_back((self.end, begin, index));
        self.effects.apply.push(Apply::State { index, term, state });
    }

    fn apply(&mut self, head: Head) {
        let Some(body) = self.bodies.apply(head.index) else {
            return self.stop(format!("the body of committed entry {} is missing", head.index));
        };
        let Head { index, term, kind } = head;
        self.applied = (index, term);
        self.unsettled = self.unsettled.filter(|proof| *proof != index);
        match kind {
            EntryKind::Parts => self.effects.apply.push(Apply::Entry { index, term, body }),
            EntryKind::Empty => {}
            EntryKind::Members => match decode_changes(&body) {
                Some(changes) => {
                    self.members = self.kernel.apply_members(&changes);
                    self.unsettled = Some(0);
                }
                None => self.stop(format!("entry {index} is no change of members")),
            },
        }
    }

    fn send(&mut self, message: Message) {
        if message.kind == MessageKind::Install {
            self.installing.retain(|(peer, _)| *peer != message.to);
            self.installing.push((message.to, 0));
            self.effects.wants_state.push(message.to);
            return;
        }
        let heads = self.kernel.heads();
        let bodies: Option<Vec<Body>> = message
            .heads
            .iter()
            .map(|head| {
                // A message that has waited may name entries that are no more.
                heads.get(head.index).filter(|found| found == head)?;
                let here = self.bodies.get(head.index).cloned().map(Body::Here);
                here.or_else(|| self.places.get(head.index).map(Body::InLog))
            })
            .collect();
        if let Some(bodies) = bodies {
            self.effects.send.push(Envelope { group: self.settings.group, message, bodies });
        }
    }

    /// Keeps a record that the latest record replaces until that is durable.
    fn keep_until_durable(&mut self, old: Position) {
        match self.moving.back_mut() {
            Some(last) if last.1 == old => last.0 = self.end,
            _ => self.moving.push_back((self.end, old)),
        }
    }

    fn note_end(&mut self, end: Position) {
        if end == Position::NEVER {
            self.stop("the log has failed".to_owned());
        } else {
            self.end = end;
        }
    }

    fn stop(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
    }
}
