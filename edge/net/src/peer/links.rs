//! The links of one node. The broker and the server hold them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker::cluster::NodeName;
use broker::cluster::peers::{
    DownReason, Epoch, Lane, PeerEvents, PeerIdentity, PeerStatus, Peers, SendRefused, check_frame,
};
use bytes::Bytes;
use parking_lot::Mutex;
use platform::{Clock, Random};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use wire::peer::{NEIGHBOURS_MAX, NONCE_BYTES, Neighbour, Neighbours, Verdict};

use super::acceptor::{Pending, accept_all};
use super::dialer::{Dials, look_up};
use super::frames::invalid;
use super::handshake::{Greeted, Own, Refusal, await_verdict, send_verdict};
use super::link::{Link, Surroundings};
use super::registry::Registry;
use super::secret::LinkSecret;
use super::transport::LinkTls;
use crate::listener::{ListenerOptions, bind_one};

/// Time for a connection to be made, and for each side to prove who it is.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long links may take to end when the node stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// How a node is linked.
#[derive(Clone, Debug)]
pub struct LinksOptions {
    /// The node's identity.
    pub own: PeerIdentity,
    /// The state that all nodes share.
    pub secret: LinkSecret,
    /// Where it listens: the first address that can be bound.
    pub listen: Vec<SocketAddr>,
    /// `HOST:PORT` where others reach it. A port of 0 stands for the one that was bound.
    pub address: String,
    /// `HOST:PORT` of nodes to dial. Itself may be among them.
    pub seeds: Vec<String>,
    /// A host whose addresses are all dialled, and the port.
    pub seeds_by_dns: Option<(String, u16)>,
    /// Encrypts links.
    pub tls: Option<LinkTls>,
}

/// The links of one node to all others. Ends them when dropped.
pub struct Links {
    inner: Arc<Inner>,
    local: SocketAddr,
}

pub(super) struct Inner {
    pub(super) own: Own,
    pub(super) registry: Registry,
    pub(super) dials: Dials,
    pub(super) pending: Mutex<HashMap<(u64, u64), Pending>>,
    pub(super) tls: Option<LinkTls>,
    pub(super) random: Arc<dyn Random>,
    pub(super) runtime: Handle,
    around: Arc<Surroundings>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Links {
    /// Listens and dials. Must be called within the runtime that is to run the links.
    ///
    /// # Errors
    /// No address can be bound.
    pub fn start(
        options: LinksOptions,
        events: Arc<dyn PeerEvents>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> io::Result<Arc<Links>> {
        let listener = bind_first(&options.listen)?;
        let local = listener.local_addr()?;
        let address = match options.address.strip_suffix(":0") {
            Some(host) => format!("{host}:{}", local.port()),
            None => options.address,
        };
        let own = Own { identity: options.own, address, instance: random.next_u64(), secret: options.secret };
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| Inner {
            own,
            registry: Registry::default(),
            dials: Dials::default(),
            pending: Mutex::default(),
            tls: options.tls,
            random,
            runtime: Handle::current(),
            around: Arc::new(surroundings(inner, events, clock)),
            tasks: Mutex::default(),
        });
        let accepting = tokio::spawn(accept_all(inner.clone(), listener)).abort_handle();
        inner.tasks.lock().push(accepting);
        for seed in &options.seeds {
            inner.dial(seed, true);
        }
        if let Some((host, port)) = options.seeds_by_dns {
            let looking = tokio::spawn(look_up(inner.clone(), host, port)).abort_handle();
            inner.tasks.lock().push(looking);
        }
        Ok(Arc::new(Links { inner, local }))
    }

    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Ends all links, and dials and accepts no more. Returns when the broker has been told of all ends, or after a second.
    pub async fn stop(&self) {
        self.inner.end();
        let links = self.inner.registry.links();
        links.iter().for_each(|link| link.close(DownReason::Ended));
        let ended = async {
            for link in links {
                link.ended().await;
            }
        };
        let _in_time = tokio::time::timeout(STOP_TIMEOUT, ended).await;
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.inner.end();
        self.inner.registry.links().iter().for_each(|link| link.close(DownReason::Ended));
    }
}

fn bind_first(candidates: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut last = io::Error::other("no address to listen on");
    for address in candidates {
        match bind_one(*address, &ListenerOptions::default()) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn surroundings(inner: &Weak<Inner>, events: Arc<dyn PeerEvents>, clock: Arc<dyn Clock>) -> Surroundings {
    let (listing, learning) = (inner.clone(), inner.clone());
    Surroundings {
        events,
        clock,
        list: Box::new(move || listing.upgrade().map_or_else(Vec::new, |inner| inner.list())),
        listed: Box::new(move |list| learning.upgrade().map_or(Ok(()), |inner| inner.take_list(list))),
    }
}

impl Inner {
    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.around.clock
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock().now().as_ms()
    }

    pub(super) fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        self.random.fill(&mut nonce);
        nonce
    }

    /// The nodes that are connected, as a message.
    fn list(&self) -> Vec<u8> {
        let known = self.registry.addresses();
        let list = known.iter().take(NEIGHBOURS_MAX);
        let list = list.map(|(name, address)| Neighbour { name: name.as_str(), address }).collect();
        let mut payload = Vec::new();
        Neighbours(list).encode(&mut payload);
        payload
    }

    /// Dials nodes that a peer knows and this one does not.
    fn take_list(self: &Arc<Self>, payload: &[u8]) -> io::Result<()> {
        for neighbour in Neighbours::decode(payload).map_err(invalid)?.0 {
            let name = NodeName::new(neighbour.name).map_err(invalid)?;
            self.learn(&name, neighbour.address);
        }
        Ok(())
    }

    /// Makes a link of three connections, if the node that decides says so, and runs it.
    pub(super) async fn bring_up(
        self: &Arc<Self>,
        lanes: [Greeted; 3],
        dialled: Option<&str>,
    ) -> Result<Arc<Link>, Refusal> {
        let (peer, instance) = (lanes[0].peer.clone(), lanes[0].instance);
        let address = dialled.map_or_else(|| lanes[0].address.clone(), str::to_owned);
        let mut transports = lanes.map(|lane| lane.transport);
        let decided = tokio::time::timeout(HANDSHAKE_TIMEOUT, async {
            if self.own.identity.name > peer.name {
                return await_verdict(&mut transports[0]).await;
            }
            let verdict = self.registry.admit(&peer, instance, self.now_ms());
            let told = send_verdict(&mut transports[0], verdict).await;
            match verdict {
                Verdict::Welcome => told.map_err(|error| {
                    self.registry.abandon(&peer.name);
                    Refusal::Io(error)
                }),
                refused => Err(Refusal::Ours(refused)),
            }
        });
        decided.await.map_err(|_| Refusal::Late)??;
        let link = Arc::new(Link::new(peer, instance, self.registry.next_epoch(), self.clock()));
        self.registry.enter(&link, &address).await;
        tracing::info!(node = %link.peer.name, %address, "node up");
        self.around.events.up(&link.peer, link.epoch);
        let (inner, running) = (self.clone(), link.clone());
        tokio::spawn(async move {
            let why = running.run(transports, &inner.around).await;
            inner.registry.leave(&running);
            tracing::warn!(node = %running.peer.name, "node down: {why}");
            inner.around.events.down(&running.peer.name, running.epoch, why);
            running.bury();
        });
        Ok(link)
    }

    fn end(&self) {
        self.tasks.lock().drain(..).for_each(|task| task.abort());
        self.dials.end();
    }
}

impl Peers for Links {
    fn own(&self) -> &PeerIdentity {
        &self.inner.own.identity
    }

    fn send(&self, to: &NodeName, lane: Lane, kind: u8, payload: Bytes) -> Result<(), SendRefused> {
        check_frame(kind, &payload)?;
        let link = self.inner.registry.link(to).ok_or(SendRefused::Down)?;
        link.outbox(lane).push(kind, payload, self.inner.now_ms())
    }

    fn connected(&self) -> Vec<PeerStatus> {
        let known = self.known().into_iter();
        known.filter(|peer| peer.link.is_some()).collect()
    }

    fn known(&self) -> Vec<PeerStatus> {
        self.inner.registry.statuses(self.inner.clock())
    }

    fn dial(&self, address: &str) {
        self.inner.dial(address, true);
    }

    fn forget(&self, name: &NodeName) {
        self.inner.dials.forget(name);
        if let Some(link) = self.inner.registry.forget(name) {
            link.close(DownReason::Ended);
        }
    }

    fn hang_up(&self, name: &NodeName, epoch: Epoch) {
        if let Some(link) = self.inner.registry.link(name).filter(|link| link.epoch == epoch) {
            link.close(DownReason::Ended);
        }
    }
}
