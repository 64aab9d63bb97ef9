//! Our messages and heads as raft-rs has them, and back. Knows no rules of consensus.

use bytes::Bytes;
use raft::CAMPAIGN_TRANSFER;
use raft::eraftpb::{ConfState, Entry, EntryType, Message as RaftMessage, MessageType, Snapshot};

use crate::kernel::{EntryKind, Head, Installed, Message, MessageKind, ReplicaId};
use crate::members::Members;

/// The stand-in in raft-rs for the body of an entry: it takes an entry without data for an empty one.
const SOME_BODY: &[u8] = &[1];

pub(crate) fn head_of(entry: &Entry) -> Head {
    let kind = match entry.get_entry_type() {
        EntryType::EntryNormal if entry.data.is_empty() => EntryKind::Empty,
        EntryType::EntryNormal => EntryKind::Parts,
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => EntryKind::Members,
    };
    Head { index: entry.index, term: entry.term, kind }
}

/// Changes of members have no data here: raft-rs parses them only where they are proposed.
pub(crate) fn entry_of(head: Head) -> Entry {
    let mut entry = Entry { index: head.index, term: head.term, ..Entry::default() };
    match head.kind {
        EntryKind::Parts => entry.data = Bytes::from_static(SOME_BODY),
        EntryKind::Empty => {}
        EntryKind::Members => entry.set_entry_type(EntryType::EntryConfChangeV2),
    }
    entry
}

const KINDS: [(MessageKind, MessageType); 10] = [
    (MessageKind::Append, MessageType::MsgAppend),
    (MessageKind::Appended, MessageType::MsgAppendResponse),
    (MessageKind::Vote, MessageType::MsgRequestVote),
    (MessageKind::Voted, MessageType::MsgRequestVoteResponse),
    (MessageKind::PreVote, MessageType::MsgRequestPreVote),
    (MessageKind::PreVoted, MessageType::MsgRequestPreVoteResponse),
    (MessageKind::Heartbeat, MessageType::MsgHeartbeat),
    (MessageKind::HeartbeatAnswer, MessageType::MsgHeartbeatResponse),
    (MessageKind::Install, MessageType::MsgSnapshot),
    (MessageKind::CampaignNow, MessageType::MsgTimeoutNow),
];

/// `None` for messages that are not for other replicas.
pub(crate) fn from_raft(message: &RaftMessage) -> Option<Message> {
    let (kind, _) = KINDS.iter().find(|(_, raft)| *raft == message.get_msg_type())?;
    let installed = (*kind == MessageKind::Install).then(|| Box::new(installed_of(message.get_snapshot())));
    Some(Message {
        kind: *kind,
        from: ReplicaId(message.from),
        to: ReplicaId(message.to),
        term: message.term,
        index: message.index,
        index_term: message.log_term,
        commit: message.commit,
        commit_term: message.commit_term,
        reject: message.reject,
        reject_hint: message.reject_hint,
        transfer: message.context == CAMPAIGN_TRANSFER,
        heads: message.entries.iter().map(head_of).collect(),
        installed,
    })
}

/// `None` when the entries of a message do not follow each other.
pub(crate) fn to_raft(message: Message) -> Option<RaftMessage> {
    let (_, kind) = KINDS.iter().find(|(ours, _)| *ours == message.kind)?;
    let next = (message.index..u64::MAX).skip(1);
    if !message.heads.iter().map(|head| head.index).eq(next.take(message.heads.len())) {
        return None;
    }
    let mut raft = RaftMessage {
        to: message.to.0,
        from: message.from.0,
        term: message.term,
        log_term: message.index_term,
        index: message.index,
        commit: message.commit,
        commit_term: message.commit_term,
        reject: message.reject,
        reject_hint: message.reject_hint,
        ..RaftMessage::default()
    };
    raft.set_msg_type(*kind);
    if message.transfer {
        raft.context = Bytes::from_static(CAMPAIGN_TRANSFER);
    }
    raft.set_entries(message.heads.into_iter().map(entry_of).collect());
    if let Some(installed) = &message.installed {
        raft.set_snapshot(snapshot_of(installed));
    }
    Some(raft)
}

fn ids(list: &[u64]) -> Vec<ReplicaId> {
    list.iter().copied().map(ReplicaId).collect()
}

fn numbers(list: &[ReplicaId]) -> Vec<u64> {
    list.iter().map(|replica| replica.0).collect()
}

pub(crate) fn members_of(conf: &ConfState) -> Members {
    let mut members = Members {
        voters: ids(conf.get_voters()),
        outgoing: ids(conf.get_voters_outgoing()),
        learners: ids(conf.get_learners()),
        next_learners: ids(conf.get_learners_next()),
    };
    // raft-rs has them in hash sets.
    members.sort();
    members
}

pub(crate) fn conf_of(members: &Members) -> ConfState {
    let mut conf = ConfState::default();
    conf.set_voters(numbers(&members.voters));
    conf.set_voters_outgoing(numbers(&members.outgoing));
    conf.set_learners(numbers(&members.learners));
    conf.set_learners_next(numbers(&members.next_learners));
    conf
}

pub(crate) fn installed_of(snapshot: &Snapshot) -> Installed {
    let meta = snapshot.get_metadata();
    Installed { index: meta.index, term: meta.term, members: members_of(meta.get_conf_state()) }
}

pub(crate) fn snapshot_of(installed: &Installed) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let meta = snapshot.mut_metadata();
    (meta.index, meta.term) = (installed.index, installed.term);
    meta.set_conf_state(conf_of(&installed.members));
    snapshot
}
