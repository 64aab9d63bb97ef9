//! Messages between the metadata of several nodes, as bytes, and messages longer than a frame in pieces. Integers are big-endian.
//! Bytes come from nodes that have proven the secret; unreadable frames are refused all the same.

use std::collections::HashMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use multiraft::{EntryKind, Head, Installed, MEMBERS_MAX, Members, Message, MessageKind, ReplicaId};

use super::name::NodeName;
use super::peers::{DataId, FIRST_KIND, Lane};

/// A piece of a message of the metadata group.
pub(crate) const GROUP: u8 = FIRST_KIND;
/// A piece of steps of the metadata for the leader to propose.
pub(crate) const FORWARD: u8 = FIRST_KIND + 1;
/// The state of the sender: [`Standing`].
pub(crate) const STANDING: u8 = FIRST_KIND + 2;
/// A node asks to become a member.
pub(crate) const JOIN: u8 = FIRST_KIND + 3;
/// The answer to [`JOIN`]: [`Welcome`].
pub(crate) const WELCOME: u8 = FIRST_KIND + 4;
/// The receiver is no member: why, as text.
pub(crate) const REFUSED: u8 = FIRST_KIND + 5;
/// A member asks to be let go.
pub(crate) const LEAVE: u8 = FIRST_KIND + 6;
/// The answer to [`LEAVE`]: the receiver is no member any more.
pub(crate) const LEFT: u8 = FIRST_KIND + 7;
/// A piece of a question of a tool: its number, and bytes that tools understand.
pub(crate) const INQUIRY: u8 = FIRST_KIND + 8;
/// A piece of the answer to [`INQUIRY`], with its number.
pub(crate) const INQUIRED: u8 = FIRST_KIND + 9;
/// The sender's tables have followed all entries up to this one: its index. Since version [`APPLIED_SINCE`] of what nodes say to each other.
pub(crate) const APPLIED: u8 = FIRST_KIND + 10;
/// How many connections and channels the sender has of what has limits. Since version [`COUNTED_SINCE`].
pub(crate) const COUNTED: u8 = FIRST_KIND + 11;

/// The first version with [`APPLIED`].
pub(super) const APPLIED_SINCE: u16 = 2;
/// The first version with [`COUNTED`].
pub(super) const COUNTED_SINCE: u16 = 3;

/// Bytes of a piece: below what a frame may have.
pub(super) const PIECE_BYTES: usize = 512 << 10;
/// A message has no more bytes: a state of a million queues has a tenth.
const MESSAGE_BYTES_MAX: usize = 2 << 30;
/// Set in the first byte of a piece.
const IS_FIRST: u8 = 1;
const IS_LAST: u8 = 2;

/// Names one cluster for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClusterId(pub [u8; 16]);

/// A node's description of itself, sent when a link comes up and when it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The cluster it is a member of, and its number there.
    pub(crate) member: Option<(ClusterId, u16)>,
    /// It waits to form or to join a cluster.
    pub(crate) is_waiting: bool,
}

/// The number of a new member, and all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) cluster: ClusterId,
    pub(crate) number: u16,
    pub(crate) members: Vec<(u16, NodeName, DataId)>,
}

/// Reads from the front of bytes.
pub(crate) struct Fields(pub(crate) Bytes);

impl Fields {
    pub(crate) fn take(&mut self, count: usize) -> Option<Bytes> {
        (self.0.len() >= count).then(|| self.0.split_to(count))
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        // Nothing is shared with the frame: that would cost two atomic operations for each number.
        let array = *self.0.first_chunk::<N>()?;
        self.0.advance(N);
        Some(array)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes with their length in front.
    pub(crate) fn run(&mut self) -> Option<Bytes> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    /// The value, if nothing is left over.
    pub(crate) fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Adds bytes with their length in front.
pub(crate) fn put_run(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).expect("a message is smaller than 4 GiB"));
    out.extend_from_slice(bytes);
}

const KINDS: [MessageKind; 10] = [
    MessageKind::Append,
    MessageKind::Appended,
    MessageKind::Vote,
    MessageKind::Voted,
    MessageKind::PreVote,
    MessageKind::PreVoted,
    MessageKind::Heartbeat,
    MessageKind::HeartbeatAnswer,
    MessageKind::Install,
    MessageKind::CampaignNow,
];

const ENTRY_KINDS: [EntryKind; 3] = [EntryKind::Parts, EntryKind::Empty, EntryKind::Members];

fn code<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|it| it == one).map_or(u8::MAX, |at| at as u8)
}

/// A message of a group with the bodies of its entries, or its state.
pub(crate) fn encode_message(message: &Message, bodies: &[Bytes]) -> Bytes {
    let mut out = BytesMut::with_capacity(128 + bodies.iter().map(|body| body.len() + 32).sum::<usize>());
    out.put_u8(code(&KINDS, &message.kind));
    out.put_u8(u8::from(message.reject) | u8::from(message.transfer) << 1);
    let (from, to) = (message.from.0, message.to.0);
    let numbers = [from, to, message.term, message.index, message.index_term, message.commit];
    numbers.into_iter().chain([message.commit_term, message.reject_hint]).for_each(|it| out.put_u64(it));
    out.put_u32(message.heads.len() as u32);
    for head in &message.heads {
        out.put_u64(head.index);
        out.put_u64(head.term);
        out.put_u8(code(&ENTRY_KINDS, &head.kind));
    }
    out.put_u8(u8::from(message.installed.is_some()));
    if let Some(installed) = &message.installed {
        out.put_u64(installed.index);
        out.put_u64(installed.term);
        let members = &installed.members;
        for list in [&members.voters, &members.outgoing, &members.learners, &members.next_learners] {
            out.put_u16(list.len() as u16);
            list.iter().for_each(|replica| out.put_u64(replica.0));
        }
    }
    out.put_u32(bodies.len() as u32);
    bodies.iter().for_each(|body| put_run(&mut out, body));
    out.freeze()
}

/// Reads what [`encode_message`] wrote.
pub(crate) fn decode_message(bytes: Bytes) -> Option<(Message, Vec<Bytes>)> {
    let mut fields = Fields(bytes);
    let kind = *KINDS.get(usize::from(fields.u8()?))?;
    let flags = fields.u8()?;
    let mut numbers = [0; 8];
    for number in &mut numbers {
        *number = fields.u64()?;
    }
    let [from, to, term, index, index_term, commit, commit_term, reject_hint] = numbers;
    let mut heads = Vec::new();
    for _ in 0..fields.u32()? {
        let (index, term) = (fields.u64()?, fields.u64()?);
        heads.push(Head { index, term, kind: *ENTRY_KINDS.get(usize::from(fields.u8()?))? });
    }
    let installed = if fields.u8()? == 1 { Some(Box::new(installed(&mut fields)?)) } else { None };
    let mut bodies = Vec::new();
    for _ in 0..fields.u32()? {
        bodies.push(fields.run()?);
    }
    let message = Message {
        kind,
        from: ReplicaId(from),
        to: ReplicaId(to),
        term,
        index,
        index_term,
        commit,
        commit_term,
        reject: flags & 1 != 0,
        reject_hint,
        transfer: flags & 2 != 0,
        heads,
        installed,
    };
    fields.end((message, bodies))
}

fn installed(fields: &mut Fields) -> Option<Installed> {
    let (index, term) = (fields.u64()?, fields.u64()?);
    let mut lists: [Vec<ReplicaId>; 4] = Default::default();
    for list in &mut lists {
        let count = usize::from(fields.u16()?);
        if count > MEMBERS_MAX {
            return None;
        }
        for _ in 0..count {
            list.push(ReplicaId(fields.u64()?));
        }
    }
    let [voters, outgoing, learners, next_learners] = lists;
    Some(Installed { index, term, members: Members { voters, outgoing, learners, next_learners } })
}

impl Standing {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(u8::from(self.member.is_some()) | u8::from(self.is_waiting) << 1);
        if let Some((cluster, number)) = self.member {
            out.extend_from_slice(&cluster.0);
            out.put_u16(number);
        }
        out.freeze()
    }

    pub(crate) fn decode(bytes: Bytes) -> Option<Standing> {
        let mut fields = Fields(bytes);
        let flags = fields.u8()?;
        let member = match flags & 1 {
            0 => None,
            _ => Some((ClusterId(fields.array()?), fields.u16()?)),
        };
        fields.end(Standing { member, is_waiting: flags & 2 != 0 })
    }
}

impl Welcome {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.extend_from_slice(&self.cluster.0);
        out.put_u16(self.number);
        out.put_u16(self.members.len() as u16);
        for (number, name, data) in &self.members {
            out.put_u16(*number);
            out.extend_from_slice(&data.0);
            put_run(&mut out, name.as_str().as_bytes());
        }
        out.freeze()
    }

    pub(crate) fn decode(bytes: Bytes) -> Option<Welcome> {
        let mut fields = Fields(bytes);
        let (cluster, number) = (ClusterId(fields.array()?), fields.u16()?);
        let mut members = Vec::new();
        for _ in 0..fields.u16()? {
            let (number, data) = (fields.u16()?, DataId(fields.array()?));
            let name = fields.run()?;
            members.push((number, NodeName::new(std::str::from_utf8(&name).ok()?).ok()?, data));
        }
        fields.end(Welcome { cluster, number, members })
    }
}

/// A message in as many payloads as it needs.
pub(crate) fn pieces(message: Bytes) -> impl Iterator<Item = Bytes> {
    let count = message.len().div_ceil(PIECE_BYTES).max(1);
    (0..count).map(move |nth| {
        let at = nth * PIECE_BYTES;
        let piece = &message[at..message.len().min(at + PIECE_BYTES)];
        let first = if nth == 0 { IS_FIRST } else { 0 };
        let last = if nth + 1 == count { IS_LAST } else { 0 };
        let mut out = BytesMut::with_capacity(piece.len() + 1);
        out.put_u8(first | last);
        out.extend_from_slice(piece);
        out.freeze()
    })
}

/// Messages that have come in part, by sender, lane and kind.
#[derive(Default)]
pub(crate) struct Arriving(HashMap<(NodeName, Lane, u8), BytesMut>);

impl Arriving {
    /// Adds a piece; gives the message when it is whole. A piece whose beginning is missing is passed over: the sender had no room.
    pub(crate) fn add(&mut self, from: &NodeName, lane: Lane, kind: u8, mut payload: Bytes) -> Option<Bytes> {
        if payload.is_empty() {
            return None;
        }
        let flags = payload.split_to(1)[0];
        let key = (from.clone(), lane, kind);
        if flags & IS_FIRST != 0 {
            self.0.remove(&key);
            if flags & IS_LAST != 0 {
                return Some(payload);
            }
            self.0.insert(key, BytesMut::from(&payload[..]));
            return None;
        }
        let gathered = self.0.get_mut(&key)?;
        if gathered.len() + payload.len() > MESSAGE_BYTES_MAX {
            self.0.remove(&key);
            return None;
        }
        gathered.extend_from_slice(&payload);
        if flags & IS_LAST == 0 {
            return None;
        }
        self.0.remove(&key).map(BytesMut::freeze)
    }

    /// Forgets what has come from a node.
    pub(crate) fn forget(&mut self, from: &NodeName) {
        self.0.retain(|(name, ..), _| name != from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> (Message, Vec<Bytes>) {
        let members = Members { learners: vec![ReplicaId(9)], ..Members::of(&[ReplicaId(1), ReplicaId(2)]) };
        let message = Message {
            kind: MessageKind::Append,
            from: ReplicaId(1),
            to: ReplicaId(2),
            term: 3,
            index: 4,
            index_term: 5,
            commit: 6,
            commit_term: 7,
            reject: true,
            reject_hint: 8,
            transfer: true,
            heads: vec![Head { index: 5, term: 3, kind: EntryKind::Members }],
            installed: Some(Box::new(Installed { index: 1, term: 1, members })),
        };
        (message, vec![Bytes::from_static(b"body")])
    }

    #[test]
    fn messages_come_back_and_shorter_or_longer_ones_are_refused() {
        let (sent, bodies) = message();
        let bytes = encode_message(&sent, &bodies);
        assert_eq!(decode_message(bytes.clone()), Some((sent, bodies)));
        for len in 0..bytes.len() {
            assert_eq!(decode_message(bytes.slice(..len)), None, "{len}");
        }
        assert_eq!(decode_message([&bytes[..], &[0]].concat().into()), None);
        let name = |text| NodeName::new(text).unwrap();
        let members = vec![(1, name("a@x"), DataId([1; 16])), (2, name("b@x"), DataId([2; 16]))];
        let welcome = Welcome { cluster: ClusterId([7; 16]), number: 2, members };
        assert_eq!(Welcome::decode(welcome.encode()), Some(welcome));
        let member = Standing { member: Some((ClusterId([1; 16]), 3)), is_waiting: true };
        for standing in [Standing::default(), member] {
            assert_eq!(Standing::decode(standing.encode()), Some(standing));
        }
    }

    #[test]
    fn a_long_message_comes_back_from_its_pieces_and_half_a_one_never() {
        let from = NodeName::new("a@x").unwrap();
        let long: Bytes = (0..PIECE_BYTES * 2 + 5).map(|at| at as u8).collect::<Vec<_>>().into();
        let mut arriving = Arriving::default();
        let mut add = |lane, piece: Bytes| arriving.add(&from, lane, GROUP, piece);
        let sent: Vec<_> = pieces(long.clone()).collect();
        assert_eq!(sent.len(), 3);
        assert_eq!(add(Lane::Control, sent[0].clone()), None);
        let short = pieces(Bytes::from_static(b"short")).next().unwrap();
        assert_eq!(add(Lane::Control, short), Some(Bytes::from_static(b"short")));
        assert_eq!(add(Lane::Control, sent[2].clone()), None, "its beginning was given up");
        let whole: Vec<_> = sent.into_iter().filter_map(|piece| add(Lane::Recovery, piece)).collect();
        assert_eq!(whole, [long]);
    }
}
