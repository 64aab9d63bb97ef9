//! An entry, which is proposed, and applied wherever it is committed: a command, its proposer, and conditions that must still hold then.
//!
//! A proposal is decided on the state that its node has followed so far. Other entries may be committed before it. The facts that it relied
//! on are therefore in the entry, and the machine looks again. Knows nothing of how entries are committed.

use crate::changes::{Applied, Outcome};
use crate::codec::{Codec, DecodeError, Reader, coded, record};
use crate::command::{AddVhost, Command, Name, SetUserLimits};
use crate::limits::Limits;
use crate::records::Placement;
use crate::refusal::{Kind, LimitOf, Refusal};
use crate::state::{State, not_found};

record! {
    /// A queue or exchange by its names.
    pub struct Named {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Name,
    }

    /// A new queue or exchange has room below a limit. One that is there needs none.
    pub struct RoomFor {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Name,
        /// So many there may be in all vhosts; `None` is no limit. Queues are counted against the limit of their vhost, too.
        pub count_max: Option<u64>,
        /// So many of those that are there do not count.
        pub uncounted: u64,
    }

    /// Several new queues have room below a limit.
    pub struct RoomForSome {
        /// As for one of them.
        pub room: RoomFor,
        /// How many they are; none of them is there.
        pub count: u64,
    }

    /// A new vhost has room below a limit. One that is there needs none.
    pub struct VhostRoom {
        /// Name.
        pub name: Name,
        /// So many vhosts there may be.
        pub count_max: u64,
    }
}

coded! {
    /// A condition that must hold when an entry is applied. Codes of the encoding are never used again for something else.
    pub enum Condition: u8 as "condition of a metadata entry" {
        /// The queue is there: it is compared and never made. Else [`Refusal::NotFound`].
        1 => QueueIsThere(Named),
        /// The exchange is there: it is compared and never made. Else [`Refusal::NotFound`].
        2 => ExchangeIsThere(Named),
        /// Else [`Refusal::LimitReached`].
        3 => RoomForQueue(RoomFor),
        /// Else [`Refusal::LimitReached`].
        4 => RoomForExchange(RoomFor),
        /// Else [`Refusal::LimitReached`].
        5 => RoomForVhost(VhostRoom),
        /// There is no such vhost. Else [`Refusal::Outdated`].
        6 => NoVhost(Name),
        /// The vhost is there with these metadata, from which the command was made. Else [`Refusal::Outdated`].
        7 => VhostIs(AddVhost),
        /// The user is there with these limits, from which the command was made. Else [`Refusal::Outdated`].
        8 => UserLimitsAre(SetUserLimits),
        /// There is no such queue. Else [`Refusal::AlreadyExists`].
        9 => NoQueue(Named),
        /// There is no such exchange. Else [`Refusal::AlreadyExists`].
        10 => NoExchange(Named),
        /// Else [`Refusal::LimitReached`].
        11 => RoomForQueues(RoomForSome),
        /// No condition: says where a new queue is to live. A queue that is there stays where it is.
        12 => HomeOfQueue(Placement),
    }
}

record! {
    /// A command on its way. Whatever is random or timed is decided in it.
    pub struct Entry {
        /// The user who asked for it, whose name queues and exchanges keep.
        pub by: Name,
        /// Conditions that must hold when it is applied; in order, the first that does not refuses it.
        pub conditions: Vec<Condition>,
        /// The command.
        pub command: Command,
    }
}

impl Entry {
    /// A command under no condition.
    #[must_use]
    pub fn new(by: &str, command: Command) -> Self {
        Self { by: by.as_bytes().into(), conditions: Vec::new(), command }
    }

    /// With another condition.
    #[must_use]
    pub fn only_if(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads exactly one entry.
    ///
    /// # Errors
    /// [`DecodeError`] for anything but the bytes that [`Entry::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let entry = Self::get(&mut reader)?;
        reader.finish()?;
        Ok(entry)
    }
}

impl State {
    /// Does what a committed entry asks, or refuses it and changes nothing. States that were given the same entries are
    /// the same. The changes that must follow are appended to `applied`.
    ///
    /// # Errors
    /// [`Refusal`], with the state as before.
    pub fn apply_entry(&mut self, entry: &Entry, applied: &mut Applied) -> Result<Outcome, Refusal> {
        entry.conditions.iter().try_for_each(|condition| self.check(condition))?;
        let placement = entry.conditions.iter().find_map(|condition| match condition {
            Condition::HomeOfQueue(placement) => Some(*placement),
            _ => None,
        });
        self.placement = placement.unwrap_or_default();
        let came = self.apply_by(&entry.command, Some(&entry.by), applied);
        self.placement = Placement::default();
        came
    }

    fn check(&self, condition: &Condition) -> Result<(), Refusal> {
        match condition {
            Condition::QueueIsThere(named) => self.check_there(named, Kind::Queue),
            Condition::ExchangeIsThere(named) => self.check_there(named, Kind::Exchange),
            Condition::NoQueue(named) => self.check_not_there(named, Kind::Queue),
            Condition::NoExchange(named) => self.check_not_there(named, Kind::Exchange),
            Condition::RoomForQueue(room) if self.is_there(&room.vhost, &room.name, Kind::Queue)? => Ok(()),
            Condition::RoomForQueue(room) => self.check_room_for_queues(room, 1),
            Condition::RoomForQueues(some) => self.check_room_for_queues(&some.room, some.count),
            Condition::RoomForExchange(room) => self.check_room_for_exchange(room),
            Condition::RoomForVhost(room) => {
                let is_new = self.vhost(&room.name).is_none();
                let count = self.vhosts().len() as u64;
                let reached =
                    || limit_reached(Kind::Vhost, &Named::vhost(&room.name), (LimitOf::All, room.count_max));
                if is_new && count >= room.count_max { Err(reached()) } else { Ok(()) }
            }
            Condition::NoVhost(name) => self.vhost(name).map_or(Ok(()), |_| Err(Refusal::Outdated)),
            Condition::VhostIs(was) => {
                let vhost = self.vhost(&was.name).filter(|vhost| *vhost.metadata() == was.metadata);
                vhost.map(drop).ok_or(Refusal::Outdated)
            }
            Condition::UserLimitsAre(were) => {
                let user = self.user(&were.name).filter(|user| user.limits == were.limits);
                user.map(drop).ok_or(Refusal::Outdated)
            }
            Condition::HomeOfQueue(_) => Ok(()),
        }
    }

    fn is_there(&self, vhost: &[u8], name: &[u8], kind: Kind) -> Result<bool, Refusal> {
        let found = self.vhost(vhost).ok_or_else(|| not_found(Kind::Vhost, vhost))?;
        Ok(match kind {
            Kind::Queue => found.queue(name).is_some(),
            _ => found.exchange(name).is_some(),
        })
    }

    fn check_there(&self, named: &Named, kind: Kind) -> Result<(), Refusal> {
        let Named { vhost, name } = named;
        if self.is_there(vhost, name, kind)? {
            return Ok(());
        }
        Err(Refusal::NotFound { kind, name: name.clone(), vhost: Some(vhost.clone()) })
    }

    fn check_not_there(&self, Named { vhost, name }: &Named, kind: Kind) -> Result<(), Refusal> {
        match self.is_there(vhost, name, kind)? {
            true => Err(Refusal::AlreadyExists { kind, name: name.clone() }),
            false => Ok(()),
        }
    }

    fn check_room_for_queues(&self, room: &RoomFor, count: u64) -> Result<(), Refusal> {
        let vhost = self.vhost(&room.vhost).ok_or_else(|| not_found(Kind::Vhost, &room.vhost))?;
        let all = || self.vhosts().map(|vhost| vhost.queue_count() as u64).sum::<u64>();
        let reached = match (vhost.limits().bound(Limits::QUEUES_MAX), room.count_max) {
            (Some(max), _) if (vhost.queue_count() as u64).saturating_add(count) > max => {
                (LimitOf::Vhost, max)
            }
            (_, Some(max)) if all().saturating_sub(room.uncounted).saturating_add(count) > max => {
                (LimitOf::All, max)
            }
            _ => return Ok(()),
        };
        Err(limit_reached(Kind::Queue, &room.named(), reached))
    }

    fn check_room_for_exchange(&self, room: &RoomFor) -> Result<(), Refusal> {
        let Some(max) = room.count_max else { return Ok(()) };
        let count = || self.vhosts().map(|vhost| vhost.exchange_count() as u64).sum::<u64>();
        if self.is_there(&room.vhost, &room.name, Kind::Exchange)?
            || count().saturating_sub(room.uncounted) < max
        {
            return Ok(());
        }
        Err(limit_reached(Kind::Exchange, &room.named(), (LimitOf::All, max)))
    }
}

impl Named {
    /// A vhost stands in no other.
    fn vhost(name: &[u8]) -> Self {
        Self { vhost: name.into(), name: name.into() }
    }
}

impl RoomFor {
    fn named(&self) -> Named {
        Named { vhost: self.vhost.clone(), name: self.name.clone() }
    }
}

fn limit_reached(kind: Kind, named: &Named, (of, limit): (LimitOf, u64)) -> Refusal {
    Refusal::LimitReached { kind, vhost: named.vhost.clone(), name: named.name.clone(), of, limit }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::histories::commands;
    use crate::testing::{Machine, add_vhost, declare_exchange, declare_queue, metadata, name, snapshot};

    fn queue(text: &str) -> Entry {
        Entry::new("u", Command::DeclareQueue(declare_queue(text)))
    }

    fn apply(machine: &mut Machine, entry: &Entry) -> Result<Outcome, Refusal> {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(Entry::decode(&bytes).as_ref(), Ok(entry));
        machine.state.apply_entry(entry, &mut machine.applied)
    }

    fn named(text: &str) -> Named {
        Named { vhost: name("/"), name: name(text) }
    }

    fn room(text: &str, count_max: Option<u64>) -> RoomFor {
        RoomFor { vhost: name("/"), name: name(text), count_max, uncounted: 0 }
    }

    #[test]
    fn a_queue_that_must_be_there_is_compared_and_not_made() {
        let mut machine = Machine::with_vhost("/");
        let compared = queue("q").only_if(Condition::QueueIsThere(named("q")));
        assert!(matches!(apply(&mut machine, &compared), Err(Refusal::NotFound { kind: Kind::Queue, .. })));
        apply(&mut machine, &queue("q")).unwrap();
        assert!(matches!(apply(&mut machine, &compared), Ok(Outcome::QueueExists(_))));
    }

    #[test]
    fn limits_count_what_is_new_when_it_is_applied() {
        let mut machine = Machine::with_vhost("/");
        let limited = |text, max| queue(text).only_if(Condition::RoomForQueue(room(text, max)));
        assert!(apply(&mut machine, &limited("a", Some(1))).is_ok());
        assert!(apply(&mut machine, &limited("a", Some(1))).is_ok(), "it is there");
        let reached = apply(&mut machine, &limited("b", Some(1)));
        assert!(matches!(reached, Err(Refusal::LimitReached { of: LimitOf::All, limit: 1, .. })));
        let mut limits = Limits::default();
        limits.set(Limits::QUEUES_MAX, 1);
        machine.ok(&Command::SetVhostLimits(crate::SetVhostLimits { vhost: name("/"), limits }));
        let reached = apply(&mut machine, &limited("b", None));
        assert!(matches!(reached, Err(Refusal::LimitReached { of: LimitOf::Vhost, limit: 1, .. })));
        let exchange = Entry::new("u", Command::DeclareExchange(declare_exchange("x", "direct")));
        let exchange = exchange.only_if(Condition::RoomForExchange(room("x", Some(7))));
        let reached = apply(&mut machine, &exchange);
        assert!(matches!(reached, Err(Refusal::LimitReached { kind: Kind::Exchange, .. })));
        let vhost = Entry::new("u", add_vhost("v"));
        let full = VhostRoom { name: name("v"), count_max: 1 };
        let reached = apply(&mut machine, &vhost.only_if(Condition::RoomForVhost(full)));
        assert!(matches!(reached, Err(Refusal::LimitReached { kind: Kind::Vhost, .. })));
    }

    #[test]
    fn several_new_queues_come_together_or_not_at_all() {
        let mut machine = Machine::with_vhost("/");
        let both = vec![Command::DeclareQueue(declare_queue("a")), Command::DeclareQueue(declare_queue("b"))];
        let batch = Entry::new("u", Command::ImportBatch(crate::Batch { commands: both }));
        let some = |max| RoomForSome { room: room("a", Some(max)), count: 2 };
        let reached = apply(&mut machine, &batch.clone().only_if(Condition::RoomForQueues(some(1))));
        assert!(matches!(reached, Err(Refusal::LimitReached { of: LimitOf::All, limit: 1, .. })));
        let new = batch
            .only_if(Condition::NoExchange(named("a")))
            .only_if(Condition::NoQueue(named("b")))
            .only_if(Condition::RoomForQueues(some(2)));
        assert_eq!(apply(&mut machine, &new), Ok(Outcome::Imported { refused: Vec::new() }));
        let again = apply(&mut machine, &new);
        assert!(matches!(again, Err(Refusal::AlreadyExists { kind: Kind::Queue, .. })));
        let exchange = Entry::new("u", Command::DeclareExchange(declare_exchange("x", "direct")));
        let exchange = exchange.only_if(Condition::NoExchange(named("x")));
        assert!(matches!(apply(&mut machine, &exchange), Ok(Outcome::ExchangeCreated(_))));
        let again = apply(&mut machine, &exchange);
        assert!(matches!(again, Err(Refusal::AlreadyExists { kind: Kind::Exchange, .. })));
    }

    #[test]
    fn an_edit_of_what_has_changed_since_is_outdated() {
        let mut machine = Machine::with_vhost("/");
        let was = AddVhost { name: name("/"), metadata: metadata() };
        let set = crate::SetVhostMetadata { name: name("/"), metadata: metadata_of("one") };
        let edit = Entry::new("u", Command::SetVhostMetadata(set)).only_if(Condition::VhostIs(was));
        assert_eq!(apply(&mut machine, &edit), Ok(Outcome::Changed));
        assert_eq!(apply(&mut machine, &edit), Err(Refusal::Outdated));
        let new = Entry::new("u", add_vhost("/")).only_if(Condition::NoVhost(name("/")));
        assert_eq!(apply(&mut machine, &new), Err(Refusal::Outdated));
    }

    fn metadata_of(description: &str) -> crate::VhostMetadata {
        crate::VhostMetadata { description: description.into(), ..metadata() }
    }

    proptest! {
        #[test]
        fn the_same_encoded_entries_make_the_same_state(history in proptest::collection::vec(commands(), 0..60)) {
            let (mut one, mut other) = (Machine::new(), Machine::new());
            for command in history {
                let entry = Entry::new("u", command);
                let mut bytes = Vec::new();
                entry.encode(&mut bytes);
                let first = one.state.apply_entry(&entry, &mut one.applied);
                let decoded = Entry::decode(&bytes).unwrap();
                prop_assert_eq!(first, other.state.apply_entry(&decoded, &mut other.applied));
            }
            prop_assert_eq!(one.applied, other.applied);
            prop_assert_eq!(snapshot(&one.state), snapshot(&other.state));
        }
    }
}
