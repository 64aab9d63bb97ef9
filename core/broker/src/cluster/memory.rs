//! Links in memory, for tests: nothing moves until [`MemoryNet::deliver`] is called, so that a test decides what happens when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::name::NodeName;
use super::peers::{
    DownReason, Epoch, LANE_BYTES_MAX, Lane, LaneStatus, LinkStatus, PeerEvents, PeerIdentity, PeerStatus,
    Peers, SendRefused, Vitals, check_frame,
};

/// Nodes and what is on the way between them. Every node is connected with every other one unless the pair is cut.
#[derive(Default)]
pub struct MemoryNet {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    nodes: BTreeMap<NodeName, Node>,
    /// Pairs whose link is down, and stays so until it is healed.
    cut: BTreeSet<(NodeName, NodeName)>,
    /// Directions in which nothing arrives, though the link is up.
    stalled: BTreeSet<(NodeName, NodeName)>,
    /// Frames that were sent and have not arrived: by sender, receiver and lane.
    way: BTreeMap<(NodeName, NodeName, Lane), VecDeque<(u8, Bytes)>>,
    next_epoch: u64,
}

struct Node {
    identity: PeerIdentity,
    events: Arc<dyn PeerEvents>,
    /// Links that are up, as this node counts them.
    links: BTreeMap<NodeName, Epoch>,
}

/// Answers to send when no lock is held.
enum News {
    Up(Arc<dyn PeerEvents>, PeerIdentity, Epoch),
    Down(Arc<dyn PeerEvents>, NodeName, Epoch, DownReason),
    Frame(Arc<dyn PeerEvents>, NodeName, Epoch, Lane, u8, Bytes),
}

impl News {
    fn tell(self) {
        match self {
            News::Up(events, peer, epoch) => events.up(&peer, epoch),
            News::Down(events, name, epoch, why) => events.down(&name, epoch, why),
            News::Frame(events, from, epoch, lane, kind, payload) => {
                events.frame(&from, epoch, lane, kind, payload);
            }
        }
    }
}

impl MemoryNet {
    /// Without nodes.
    #[must_use]
    pub fn new() -> Arc<MemoryNet> {
        Arc::default()
    }

    /// A node starts: links to all others come up. One of that name that is still there ends first.
    pub fn join(self: &Arc<Self>, identity: PeerIdentity, events: Arc<dyn PeerEvents>) -> Arc<dyn Peers> {
        self.leave(&identity.name);
        let name = identity.name.clone();
        let peers = MemoryPeers { own: identity.clone(), net: Arc::downgrade(self) };
        let news = {
            let mut inner = self.inner.lock();
            inner.nodes.insert(name.clone(), Node { identity, events, links: BTreeMap::new() });
            let others: Vec<NodeName> = inner.nodes.keys().filter(|&other| *other != name).cloned().collect();
            others.iter().flat_map(|other| inner.connect(&name, other)).collect::<Vec<News>>()
        };
        news.into_iter().for_each(News::tell);
        Arc::new(peers)
    }

    /// A node ends: the others see it down at once, frames on the way are lost.
    pub fn leave(&self, name: &NodeName) {
        let news = {
            let mut inner = self.inner.lock();
            let others: Vec<NodeName> = inner.nodes.keys().cloned().collect();
            let news: Vec<News> =
                others.iter().flat_map(|other| inner.disconnect(name, other, DownReason::Closed)).collect();
            inner.nodes.remove(name);
            news
        };
        news.into_iter().for_each(News::tell);
    }

    /// Ends the link of a pair and keeps it down.
    pub fn cut(&self, one: &NodeName, other: &NodeName) {
        let news = {
            let mut inner = self.inner.lock();
            inner.cut.insert(pair(one, other));
            inner.disconnect(one, other, DownReason::Silent)
        };
        news.into_iter().for_each(News::tell);
    }

    /// Brings the link of a pair up again, in a new epoch; ends its stalls.
    pub fn heal(&self, one: &NodeName, other: &NodeName) {
        let news = {
            let mut inner = self.inner.lock();
            inner.cut.remove(&pair(one, other));
            inner.stalled.remove(&(one.clone(), other.clone()));
            inner.stalled.remove(&(other.clone(), one.clone()));
            inner.connect(one, other)
        };
        news.into_iter().for_each(News::tell);
    }

    /// Lets nothing arrive in this direction, with the link up, until the pair is healed.
    pub fn stall(&self, from: &NodeName, to: &NodeName) {
        self.inner.lock().stalled.insert((from.clone(), to.clone()));
    }

    /// Delivers one frame of the ways that have some; `choice` says of which, so that a seed can decide. False when nothing can move.
    pub fn deliver_one(&self, choice: usize) -> bool {
        let Some(news) = self.inner.lock().next(choice) else { return false };
        news.tell();
        true
    }

    /// Delivers until nothing moves any more, what is sent meanwhile included; at most so many frames. Tells how many.
    pub fn deliver(&self, frames_max: usize) -> usize {
        (0..frames_max).take_while(|round| self.deliver_one(*round)).count()
    }
}

impl Inner {
    fn connect(&mut self, one: &NodeName, other: &NodeName) -> Vec<News> {
        let is_linked = self.nodes.get(one).is_none_or(|node| node.links.contains_key(other));
        if is_linked || !self.nodes.contains_key(other) || self.cut.contains(&pair(one, other)) {
            return Vec::new();
        }
        let mut news = Vec::new();
        for (name, peer) in [(one, other), (other, one)] {
            self.next_epoch += 1;
            let epoch = Epoch(self.next_epoch);
            let identity = self.nodes[peer].identity.clone();
            let Some(node) = self.nodes.get_mut(name) else { continue };
            node.links.insert(peer.clone(), epoch);
            news.push(News::Up(node.events.clone(), identity, epoch));
        }
        news
    }

    fn disconnect(&mut self, one: &NodeName, other: &NodeName, why: DownReason) -> Vec<News> {
        let mut news = Vec::new();
        for (name, peer) in [(one, other), (other, one)] {
            let Some(node) = self.nodes.get_mut(name) else { continue };
            if let Some(epoch) = node.links.remove(peer) {
                news.push(News::Down(node.events.clone(), peer.clone(), epoch, why));
            }
        }
        self.way.retain(|(from, to, _), _| pair(from, to) != pair(one, other));
        news
    }

    fn send(
        &mut self,
        from: &NodeName,
        to: &NodeName,
        lane: Lane,
        frame: (u8, Bytes),
    ) -> Result<(), SendRefused> {
        if !self.nodes.get(from).is_some_and(|node| node.links.contains_key(to)) {
            return Err(SendRefused::Down);
        }
        let way = self.way.entry((from.clone(), to.clone(), lane)).or_default();
        let waiting: usize = way.iter().map(|(_, payload)| payload.len()).sum();
        if waiting + frame.1.len() > LANE_BYTES_MAX {
            return Err(SendRefused::Full);
        }
        way.push_back(frame);
        Ok(())
    }

    fn next(&mut self, choice: usize) -> Option<News> {
        let can_move =
            |(from, to, _): &(NodeName, NodeName, Lane)| !self.stalled.contains(&(from.clone(), to.clone()));
        let ways: Vec<_> = self
            .way
            .iter()
            .filter(|(way, frames)| !frames.is_empty() && can_move(way))
            .map(|(way, _)| way)
            .collect();
        let (from, to, lane) = (*ways.get(choice % ways.len().max(1))?).clone();
        let (kind, payload) = self.way.get_mut(&(from.clone(), to.clone(), lane))?.pop_front()?;
        let node = &self.nodes[&to];
        Some(News::Frame(node.events.clone(), from.clone(), node.links[&from], lane, kind, payload))
    }

    fn status(&self, own: &NodeName, peer: &Node) -> PeerStatus {
        let name = &peer.identity.name;
        let link = self.nodes.get(own).and_then(|node| node.links.get(name)).map(|epoch| LinkStatus {
            epoch: *epoch,
            up_ms: 0,
            answered_ms: 0,
            round_trip_us: 0,
            vitals: Vitals::default(),
            lanes: [LaneStatus::default(); 3],
        });
        PeerStatus { identity: peer.identity.clone(), address: name.to_string(), link }
    }
}

fn pair(one: &NodeName, other: &NodeName) -> (NodeName, NodeName) {
    (one.min(other).clone(), one.max(other).clone())
}

/// The links of one node.
struct MemoryPeers {
    own: PeerIdentity,
    net: Weak<MemoryNet>,
}

impl Peers for MemoryPeers {
    fn own(&self) -> &PeerIdentity {
        &self.own
    }

    fn send(&self, to: &NodeName, lane: Lane, kind: u8, payload: Bytes) -> Result<(), SendRefused> {
        check_frame(kind, &payload)?;
        let net = self.net.upgrade().ok_or(SendRefused::Down)?;
        net.inner.lock().send(&self.own.name, to, lane, (kind, payload))
    }

    fn connected(&self) -> Vec<PeerStatus> {
        let known = self.known().into_iter();
        known.filter(|peer| peer.link.is_some()).collect()
    }

    fn known(&self) -> Vec<PeerStatus> {
        let Some(net) = self.net.upgrade() else { return Vec::new() };
        let inner = net.inner.lock();
        let others = inner.nodes.values().filter(|node| node.identity.name != self.own.name);
        others.map(|node| inner.status(&self.own.name, node)).collect()
    }

    fn dial(&self, _address: &str) {}

    /// Links in memory have no addresses: the other node dials at once if it is still there.
    fn forget(&self, name: &NodeName) {
        if let Some(net) = self.net.upgrade() {
            net.cut(&self.own.name, name);
            net.heal(&self.own.name, name);
        }
    }

    fn hang_up(&self, name: &NodeName, _epoch: Epoch) {
        if let Some(net) = self.net.upgrade() {
            net.cut(&self.own.name, name);
            net.heal(&self.own.name, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::peers::{DataId, VersionRange};

    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Notes {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut *self.0.lock())
        }
    }

    impl PeerEvents for Notes {
        fn up(&self, peer: &PeerIdentity, _epoch: Epoch) {
            self.0.lock().push(format!("up {}", peer.name));
        }
        fn down(&self, name: &NodeName, _epoch: Epoch, why: DownReason) {
            self.0.lock().push(format!("down {name} {why:?}"));
        }
        fn frame(&self, from: &NodeName, _epoch: Epoch, lane: Lane, kind: u8, _payload: Bytes) {
            self.0.lock().push(format!("{from} {lane:?} {kind}"));
        }
    }

    fn join(net: &Arc<MemoryNet>, name: &str) -> (NodeName, Arc<dyn Peers>, Arc<Notes>) {
        let name = NodeName::new(name).unwrap();
        let versions = VersionRange::OWN;
        let identity = PeerIdentity { name: name.clone(), data_id: DataId([0; 16]), life: 1, versions };
        let notes = Arc::new(Notes::default());
        (name, net.join(identity, notes.clone()), notes)
    }

    #[test]
    fn frames_arrive_in_order_within_a_lane_when_the_test_says_so() {
        let net = MemoryNet::new();
        let (a, from_a, _) = join(&net, "a@x");
        let (b, _from_b, at_b) = join(&net, "b@x");
        assert_eq!(at_b.take(), ["up a@x"]);
        for kind in 16..20 {
            from_a.send(&b, Lane::Live, kind, Bytes::new()).unwrap();
        }
        assert_eq!(at_b.take(), [""; 0]);
        assert_eq!(net.deliver(100), 4);
        assert_eq!(at_b.take(), ["a@x Live 16", "a@x Live 17", "a@x Live 18", "a@x Live 19"]);
        net.stall(&a, &b);
        from_a.send(&b, Lane::Control, 16, Bytes::new()).unwrap();
        assert_eq!(net.deliver(100), 0);
        net.heal(&a, &b);
        assert_eq!(net.deliver(100), 1);
    }

    #[test]
    fn a_cut_pair_is_down_and_comes_back_in_a_new_epoch() {
        let net = MemoryNet::new();
        let (a, from_a, at_a) = join(&net, "a@x");
        let (b, _from_b, at_b) = join(&net, "b@x");
        let before = from_a.connected()[0].link.as_ref().map(|link| link.epoch);
        from_a.send(&b, Lane::Live, 16, Bytes::new()).unwrap();
        net.cut(&a, &b);
        assert_eq!(from_a.send(&b, Lane::Live, 16, Bytes::new()), Err(SendRefused::Down));
        assert_eq!((from_a.connected().len(), from_a.known().len()), (0, 1));
        net.heal(&a, &b);
        assert_eq!(net.deliver(100), 0, "what was on the way is lost");
        assert_eq!(at_a.take(), ["up b@x", "down b@x Silent", "up b@x"]);
        assert!(from_a.connected()[0].link.as_ref().map(|link| link.epoch) > before);
        net.leave(&b);
        assert_eq!(at_a.take(), ["down b@x Closed"]);
        assert_eq!(at_b.take().len(), 4);
    }

    #[test]
    fn what_a_lane_cannot_hold_is_refused() {
        let net = MemoryNet::new();
        let (_, from_a, _) = join(&net, "a@x");
        let (b, ..) = join(&net, "b@x");
        let mib = || Bytes::from(vec![0; 1 << 20]);
        let sent = (0..20).take_while(|_| from_a.send(&b, Lane::Live, 16, mib()).is_ok()).count();
        assert_eq!(sent, 16);
        assert_eq!(from_a.send(&b, Lane::Live, 16, mib()), Err(SendRefused::Full));
        assert_eq!(from_a.send(&b, Lane::Control, 16, Bytes::new()), Ok(()));
        assert_eq!(from_a.send(&b, Lane::Control, 15, Bytes::new()), Err(SendRefused::WrongKind));
        let large = Bytes::from(vec![0; (1 << 20) + 1]);
        assert_eq!(from_a.send(&b, Lane::Control, 16, large), Err(SendRefused::TooLarge));
    }
}
