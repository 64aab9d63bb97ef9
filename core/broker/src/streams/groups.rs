//! Groups of consumers of which one is active: by stream and name.
//!
//! Soft state of the node: a connection that ends leaves its groups in the same turn, and after a start all groups are made anew. An active
//! consumer steps down by its own word, so two are never active at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use stdx::ConnectionId;

/// A connection with consumers in groups.
pub trait GroupMember: Send + Sync {
    /// The wanted state of one of its subscriptions. Called under the lock of all groups: it puts that down, and wakes somebody.
    fn told(&self, subscription: u8, news: GroupNews);
}

/// The wanted state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupNews {
    /// The active one.
    Activate,
    /// No longer the active one; the others wait until it says that it is not: [`Groups::stepped_down`].
    StepDown,
}

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStanding {
    /// It may become active.
    Waiting,
    /// It gets what the stream has.
    Active,
    /// It was told to stop.
    SteppingDown,
}

/// A member that joins.
pub struct GroupJoin<'a> {
    /// The stream's number.
    pub stream: u64,
    /// Its vhost and its name, for listings.
    pub named: (&'a str, &'a [u8]),
    /// Name of the group.
    pub name: &'a str,
    /// The stream's place in its super stream: groups of several partitions spread their active members by it.
    pub partition: Option<u32>,
    /// The member's connection.
    pub connection: ConnectionId,
    /// Name of the connection, for listings.
    pub connection_name: Arc<str>,
    /// Its subscription.
    pub subscription: u8,
    /// The receiver of the answer.
    pub member: Arc<dyn GroupMember>,
}

/// The group has another place in its super stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMismatch;

/// A member's place in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSeat {
    key: Key,
    connection: ConnectionId,
    subscription: u8,
}

/// A group as listings show it.
#[derive(Clone, Debug)]
pub struct GroupInfo {
    /// The vhost of its stream.
    pub vhost: Arc<str>,
    /// Its stream.
    pub stream: Box<[u8]>,
    /// Its name.
    pub name: Box<str>,
    /// The stream's place in its super stream.
    pub partition: Option<u32>,
    /// Its members, in the order in which they came.
    pub members: Vec<GroupMemberInfo>,
}

/// A member as listings show it.
#[derive(Clone, Debug)]
pub struct GroupMemberInfo {
    /// Its connection.
    pub connection: ConnectionId,
    /// Name of its connection.
    pub connection_name: Arc<str>,
    /// Its subscription.
    pub subscription: u8,
    /// Where it stands.
    pub standing: GroupStanding,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    stream: u64,
    name: Box<str>,
}

struct Member {
    info: GroupMemberInfo,
    told: Arc<dyn GroupMember>,
}

struct Group {
    vhost: Arc<str>,
    stream: Box<[u8]>,
    partition: Option<u32>,
    members: Vec<Member>,
}

/// All groups of the node.
#[derive(Default)]
pub struct Groups {
    by_key: Mutex<HashMap<Key, Group>>,
}

impl Groups {
    /// Adds a member, which waits until it is told to be active.
    ///
    /// # Errors
    /// [`PartitionMismatch`].
    pub fn join(&self, join: GroupJoin<'_>) -> Result<GroupSeat, PartitionMismatch> {
        let key = Key { stream: join.stream, name: join.name.into() };
        let mut groups = self.by_key.lock();
        let group = groups.entry(key.clone()).or_insert_with(|| Group {
            vhost: join.named.0.into(),
            stream: join.named.1.into(),
            partition: join.partition,
            members: Vec::new(),
        });
        if group.partition != join.partition {
            return Err(PartitionMismatch);
        }
        let info = GroupMemberInfo {
            connection: join.connection,
            connection_name: join.connection_name,
            subscription: join.subscription,
            standing: GroupStanding::Waiting,
        };
        group.members.push(Member { info, told: join.member });
        group.settle();
        Ok(GroupSeat { key, connection: join.connection, subscription: join.subscription })
    }

    /// A member leaves. If it was active, or about to step down, another one becomes active.
    pub fn leave(&self, seat: &GroupSeat) {
        let mut groups = self.by_key.lock();
        let Some(group) = groups.get_mut(&seat.key) else { return };
        group.members.retain(|member| !member.is_of(seat));
        if group.members.is_empty() {
            groups.remove(&seat.key);
        } else {
            group.settle();
        }
    }

    /// A member is not active any more, as it was told.
    pub fn stepped_down(&self, seat: &GroupSeat) {
        let mut groups = self.by_key.lock();
        let Some(group) = groups.get_mut(&seat.key) else { return };
        let of_seat =
            |member: &&mut Member| member.is_of(seat) && member.info.standing == GroupStanding::SteppingDown;
        if let Some(member) = group.members.iter_mut().find(of_seat) {
            member.info.standing = GroupStanding::Waiting;
            group.settle();
        }
    }

    /// All groups, in order of vhost, stream and name.
    #[must_use]
    pub fn all(&self) -> Vec<GroupInfo> {
        let groups = self.by_key.lock();
        let mut all: Vec<GroupInfo> = groups
            .iter()
            .map(|(key, group)| GroupInfo {
                vhost: group.vhost.clone(),
                stream: group.stream.clone(),
                name: key.name.clone(),
                partition: group.partition,
                members: group.members.iter().map(|member| member.info.clone()).collect(),
            })
            .collect();
        drop(groups);
        all.sort_by(|a, b| (&a.vhost, &a.stream, &a.name).cmp(&(&b.vhost, &b.stream, &b.name)));
        all
    }
}

impl Member {
    fn is_of(&self, seat: &GroupSeat) -> bool {
        (self.info.connection, self.info.subscription) == (seat.connection, seat.subscription)
    }

    fn become_standing(&mut self, standing: GroupStanding, news: GroupNews) {
        self.info.standing = standing;
        self.told.told(self.info.subscription, news);
    }
}

impl Group {
    fn with(&self, standing: GroupStanding) -> Option<usize> {
        self.members.iter().position(|member| member.info.standing == standing)
    }

    /// Sees to it that the right member is active, or is going to be. A group without a partition leaves the active one as it is.
    fn settle(&mut self) {
        let wanted = self.partition.map_or(0, |partition| partition as usize % self.members.len());
        match self.with(GroupStanding::Active) {
            Some(active) if self.partition.is_some() && active != wanted => {
                self.members[active].become_standing(GroupStanding::SteppingDown, GroupNews::StepDown);
            }
            Some(_) => {}
            None if self.with(GroupStanding::SteppingDown).is_some() => {}
            None => self.members[wanted].become_standing(GroupStanding::Active, GroupNews::Activate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(u8, GroupNews)>>);

    impl GroupMember for Heard {
        fn told(&self, subscription: u8, news: GroupNews) {
            self.0.lock().push((subscription, news));
        }
    }

    /// A group of one stream, and the news that its members hear.
    struct Case {
        group: Group,
        heard: Arc<Heard>,
    }

    impl Case {
        fn new(partition: Option<u32>) -> Case {
            let group = Group { vhost: "/".into(), stream: b"s"[..].into(), partition, members: Vec::new() };
            Case { group, heard: Arc::default() }
        }

        fn join(&mut self, subscription: u8) {
            let info = GroupMemberInfo {
                connection: ConnectionId { node: 1, life: 1, count: 1 },
                connection_name: "c".into(),
                subscription,
                standing: GroupStanding::Waiting,
            };
            self.group.members.push(Member { info, told: self.heard.clone() });
            self.group.settle();
        }

        fn leave(&mut self, subscription: u8) {
            self.group.members.retain(|member| member.info.subscription != subscription);
            self.group.settle();
        }

        fn step_down(&mut self) {
            let at = self.group.with(GroupStanding::SteppingDown).expect("somebody was told to");
            self.group.members[at].info.standing = GroupStanding::Waiting;
            self.group.settle();
        }

        fn heard(&self) -> Vec<(u8, GroupNews)> {
            std::mem::take(&mut *self.heard.0.lock())
        }
    }

    use GroupNews::{Activate, StepDown};

    #[test]
    fn the_first_is_active_until_it_leaves() {
        let mut case = Case::new(None);
        (1..=3).for_each(|member| case.join(member));
        assert_eq!(case.heard(), [(1, Activate)]);
        case.leave(2);
        assert_eq!(case.heard(), []);
        case.leave(1);
        assert_eq!(case.heard(), [(3, Activate)]);
    }

    #[test]
    fn partitions_spread_their_active_members_one_after_the_other() {
        let mut case = Case::new(Some(1));
        case.join(1);
        case.join(2);
        assert_eq!(case.heard(), [(1, Activate), (1, StepDown)]);
        // A third one comes before the first has stepped down.
        case.join(3);
        assert_eq!(case.heard(), []);
        case.step_down();
        assert_eq!(case.heard(), [(2, Activate)]);
        case.leave(1);
        assert_eq!(case.heard(), [(2, StepDown)]);
        // It goes instead of stepping down.
        case.leave(2);
        assert_eq!(case.heard(), [(3, Activate)]);
    }
}
