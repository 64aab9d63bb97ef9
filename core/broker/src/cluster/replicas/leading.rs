//! The leader keeps for each member of a queue which records it was sent and has, and which confirms wait for it.
//!
//! A confirm waits until every node that may be in sync has everything that was logged before it. Refuses to know: bytes of records, links,
//! the queue's machine. `docs/decisions/replicas-in-sync.md` has the rules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use metadata::Replicas;
use queues::Cursor;

/// A member that has been sent so many bytes and has not answered gets no more: it is filled from the store instead.
pub(super) const UNANSWERED_BYTES_MAX: usize = 16 << 20;
/// A fill sends so many bytes ahead of the answers.
pub(super) const FILL_BYTES_AHEAD: usize = 4 << 20;

/// How a member is served.
#[derive(Debug)]
pub(super) enum Reach {
    /// It is not linked.
    Away,
    /// It was told what lives, and is to say what it has.
    Asked,
    /// It gets messages from here on out of the store, and of everything new only what concerns messages that it may have.
    Filling(Cursor),
    /// It gets every record.
    Following,
}

/// A member that is another node.
#[derive(Debug)]
struct Member {
    reach: Reach,
    /// Numbers of frames: the latest that was sent.
    sent: u64,
    /// Frames that are not answered: number, the turn that the member has when it has the frame, bytes.
    unanswered: VecDeque<(u64, Option<u64>, usize)>,
    unanswered_bytes: usize,
    /// It has everything of the turns up to this one on its disk.
    has: u64,
    /// When it last answered, or had nothing to answer.
    answered_ms: u64,
    /// When it was last told what lives. Answers to other frames say nothing about that one.
    asked_ms: u64,
}

/// A frame for a member at the end of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shipment {
    pub(super) node: u16,
    pub(super) number: u64,
    /// All records; else those only that bring no messages.
    pub(super) is_whole: bool,
}

/// See the module. `C` is what waits for members.
#[derive(Debug)]
pub(super) struct Leading<C> {
    own: u16,
    known: Replicas,
    /// Turns in which something was logged, and one.
    turn: u64,
    members: BTreeMap<u16, Member>,
    /// Every other node that is in sync, or may be: it counts before it is asked for.
    in_sync: BTreeSet<u16>,
    /// Members that count and are not known to be in sync: with the turn that each must have, and whether it was asked for.
    joining: BTreeMap<u16, (u64, bool)>,
    /// The confirm waits until all have this turn.
    waiting: VecDeque<(u64, C)>,
    /// Confirms wait for this turn.
    still: Option<Still>,
}

/// Confirms that wait.
#[derive(Debug)]
struct Still {
    floor: u64,
    since_ms: u64,
    is_told: bool,
}

impl<C> Leading<C> {
    /// This node begins to lead.
    pub(super) fn new(own: u16, replicas: &Replicas, now_ms: u64) -> Leading<C> {
        let mut leading = Leading {
            own,
            known: Replicas { version: 0, ..replicas.clone() },
            turn: 1,
            members: BTreeMap::new(),
            in_sync: BTreeSet::new(),
            joining: BTreeMap::new(),
            waiting: VecDeque::new(),
            still: None,
        };
        drop(leading.update(replicas, now_ms));
        leading
    }

    /// The members are others now. Gives confirms that wait for nobody any more.
    pub(super) fn update(&mut self, replicas: &Replicas, now_ms: u64) -> Vec<C> {
        if replicas.epoch == self.known.epoch && replicas.version > self.known.version {
            self.known = replicas.clone();
            self.joining.clear();
            let others =
                |all: &[u16]| all.iter().copied().filter(|node| *node != self.own).collect::<BTreeSet<_>>();
            // A change that was asked for under an earlier version never happens.
            self.in_sync = others(&replicas.in_sync);
            let members = others(&replicas.members);
            self.members.retain(|node, _| members.contains(node));
            for node in members {
                self.members.entry(node).or_insert_with(|| Member::new(now_ms));
            }
        }
        self.take_confirmed()
    }

    /// The members, as they are known.
    pub(super) fn known(&self) -> &Replicas {
        &self.known
    }

    /// Members that are to be told what lives: those that are not linked, as far as is known, and those that have not said for so long what they have.
    pub(super) fn to_ask(&self, now_ms: u64, wait_ms: u64) -> Vec<u16> {
        let is_to_ask = |member: &Member| match member.reach {
            Reach::Away => true,
            Reach::Asked => member.asked_ms + wait_ms <= now_ms,
            Reach::Filling(_) | Reach::Following => false,
        };
        self.members.iter().filter(|(_, member)| is_to_ask(member)).map(|(node, _)| *node).collect()
    }

    /// Whether a member may not have heard what lives.
    pub(super) fn is_unheard(&self, node: u16) -> bool {
        self.members.get(&node).is_some_and(|member| matches!(member.reach, Reach::Away | Reach::Asked))
    }

    /// A member was told what lives. False when it is none.
    pub(super) fn asked(&mut self, node: u16, now_ms: u64) -> bool {
        let Some(member) = self.members.get_mut(&node) else { return false };
        // Numbers go on: late answers to earlier requests mean nothing then.
        *member = Member { reach: Reach::Asked, sent: member.sent, ..Member::new(now_ms) };
        true
    }

    /// The link to a member has ended.
    pub(super) fn left(&mut self, node: u16, now_ms: u64) {
        if let Some(member) = self.members.get_mut(&node) {
            *member = Member { sent: member.sent, ..Member::new(now_ms) };
        }
        if self.joining.get(&node).is_some_and(|(_, is_asked_for)| !is_asked_for) {
            self.joining.remove(&node);
            self.in_sync.remove(&node);
        }
    }

    /// A member said what it has.
    pub(super) fn has(&mut self, node: u16, cursor: Cursor) {
        if let Some(member) = self.members.get_mut(&node)
            && matches!(member.reach, Reach::Asked)
        {
            member.reach = Reach::Filling(cursor);
        }
    }

    /// Something was logged in this turn. Gives what goes to whom.
    pub(super) fn ship(&mut self, whole_bytes: usize, rest_bytes: usize) -> Vec<Shipment> {
        self.turn += 1;
        let turn = self.turn;
        let mut out = Vec::new();
        for (node, member) in &mut self.members {
            let is_whole = matches!(member.reach, Reach::Following);
            let bytes = if is_whole { whole_bytes } else { rest_bytes };
            if matches!(member.reach, Reach::Away) || bytes == 0 {
                continue;
            }
            let number = member.send(is_whole.then_some(turn), bytes);
            out.push(Shipment { node: *node, number, is_whole });
        }
        out
    }

    /// A confirm waits for what this turn logs.
    pub(super) fn wait(&mut self, confirm: C) {
        self.waiting.push_back((self.turn + 1, confirm));
    }

    /// A confirm waits for what turns before this one have logged.
    pub(super) fn wait_for_now(&mut self, confirm: C) {
        let at = self.waiting.partition_point(|(turn, _)| *turn <= self.turn);
        self.waiting.insert(at, (self.turn, confirm));
    }

    /// Members that have been sent too much: they go on from here on out of the store.
    pub(super) fn leave_slow(&mut self, cursor: impl Fn() -> Cursor) {
        for member in self.members.values_mut() {
            if matches!(member.reach, Reach::Following) && member.unanswered_bytes > UNANSWERED_BYTES_MAX {
                member.reach = Reach::Filling(cursor());
            }
        }
    }

    /// Members that can be sent more out of the store.
    pub(super) fn to_fill(&self) -> Vec<u16> {
        let may = |member: &Member| {
            matches!(member.reach, Reach::Filling(_)) && member.unanswered_bytes < FILL_BYTES_AHEAD
        };
        self.members.iter().filter(|(_, member)| may(member)).map(|(node, _)| *node).collect()
    }

    /// How far a member is filled.
    pub(super) fn cursor(&mut self, node: u16) -> Option<&mut Cursor> {
        match &mut self.members.get_mut(&node)?.reach {
            Reach::Filling(cursor) => Some(cursor),
            _ => None,
        }
    }

    /// So many bytes go to a member out of the store. Gives the number of the frame.
    pub(super) fn fill(&mut self, node: u16, bytes: usize) -> Option<u64> {
        Some(self.members.get_mut(&node)?.send(None, bytes))
    }

    /// A member that is filled has everything as soon as it answers this frame.
    pub(super) fn filled(&mut self, node: u16) -> Option<u64> {
        let turn = self.turn;
        let member = self.members.get_mut(&node)?;
        member.reach = Reach::Following;
        Some(member.send(Some(turn), 0))
    }

    /// A member has a frame on its disk. Gives confirms that waited for it.
    pub(super) fn answered(&mut self, node: u16, number: u64, now_ms: u64) -> Vec<C> {
        let Some(member) = self.members.get_mut(&node) else { return Vec::new() };
        while let Some((sent, turn, bytes)) = member.unanswered.front().copied()
            && sent <= number
        {
            member.unanswered.pop_front();
            member.unanswered_bytes -= bytes;
            member.has = member.has.max(turn.unwrap_or(0));
        }
        member.answered_ms = now_ms;
        self.take_confirmed()
    }

    /// Members that have everything and are to be in sync: the caller asks for that. Confirms wait for a member as soon as it gets every record,
    /// so that it lacks nothing that is confirmed when it has what was logged until then.
    pub(super) fn caught_up(&mut self) -> Vec<u16> {
        for (node, member) in &self.members {
            if matches!(member.reach, Reach::Following) && member.has > 0 && self.in_sync.insert(*node) {
                self.joining.insert(*node, (self.turn, false));
            }
        }
        let mut caught_up = Vec::new();
        for (node, (turn, is_asked_for)) in &mut self.joining {
            if self.members.get(node).is_some_and(|member| member.has >= *turn) {
                *is_asked_for = true;
                caught_up.push(*node);
            }
        }
        caught_up
    }

    /// Nodes that may be in sync, and have not answered for so long.
    pub(super) fn behind(&mut self, now_ms: u64, wait_ms: u64) -> Vec<u16> {
        let turn = self.turn;
        let in_sync = &self.in_sync;
        let is_enough = self.known.in_sync.len() > self.known.majority();
        let may_leave = |node: &u16| is_enough || self.joining.contains_key(node);
        let mut behind = Vec::new();
        for (node, member) in &mut self.members {
            let owes = member.has < turn || !matches!(member.reach, Reach::Following);
            if !owes || (matches!(member.reach, Reach::Following) && member.unanswered.is_empty()) {
                member.answered_ms = now_ms;
            } else if in_sync.contains(node) && may_leave(node) && member.answered_ms + wait_ms <= now_ms {
                behind.push(*node);
            }
        }
        behind
    }

    /// The turn that every node has which may be in sync.
    fn floor(&self) -> u64 {
        let has = |node: &u16| self.members.get(node).map_or(0, |member| member.has);
        // Alone, a turn that is not over yet counts as well.
        self.in_sync.iter().map(has).min().unwrap_or(u64::MAX)
    }

    fn take_confirmed(&mut self) -> Vec<C> {
        let floor = self.floor();
        let count = self.waiting.partition_point(|(turn, _)| *turn <= floor);
        self.waiting.drain(..count).map(|(_, confirm)| confirm).collect()
    }

    /// At the end of a turn: confirms that wait for nobody.
    pub(super) fn end_turn(&mut self) -> Vec<C> {
        self.take_confirmed()
    }

    /// Whether confirms have waited for so long while no member answered: true once when they have, false once when they go on.
    pub(super) fn note_still(&mut self, now_ms: u64, wait_ms: u64) -> Option<bool> {
        let floor = self.floor();
        match &mut self.still {
            Some(still) if !self.waiting.is_empty() && still.floor == floor => {
                let is_news = !still.is_told && still.since_ms + wait_ms <= now_ms;
                still.is_told |= is_news;
                is_news.then_some(true)
            }
            before => {
                let was_told = before.as_ref().is_some_and(|still| still.is_told);
                let now = Still { floor, since_ms: now_ms, is_told: false };
                *before = (!self.waiting.is_empty()).then_some(now);
                was_told.then_some(false)
            }
        }
    }

    /// Somebody else leads: what waits will not be confirmed here.
    pub(super) fn give_up(&mut self) -> Vec<C> {
        self.waiting.drain(..).map(|(_, confirm)| confirm).collect()
    }

    /// The lag of a member, for people: turns that it has not answered, and whether it gets every record.
    pub(super) fn lag(&self, node: u16) -> Option<(u64, bool)> {
        let member = self.members.get(&node)?;
        Some((self.turn.saturating_sub(member.has), matches!(member.reach, Reach::Following)))
    }

    /// Turns so far.
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }
}

impl Member {
    fn new(now_ms: u64) -> Member {
        Member {
            reach: Reach::Away,
            sent: 0,
            unanswered: VecDeque::new(),
            unanswered_bytes: 0,
            has: 0,
            answered_ms: now_ms,
            asked_ms: now_ms,
        }
    }

    fn send(&mut self, turn: Option<u64>, bytes: usize) -> u64 {
        self.sent += 1;
        self.unanswered.push_back((self.sent, turn, bytes));
        self.unanswered_bytes += bytes;
        self.sent
    }
}
