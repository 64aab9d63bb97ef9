//! Connections that other nodes make to this one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use wire::peer::Verdict;

use super::handshake::{Greeted, Refusal};
use super::links::{HANDSHAKE_TIMEOUT, Inner};
use super::transport::Transport;

/// Connections at once that have not proven who they are; further ones are closed.
const UNPROVEN_MAX: usize = 256;
/// Links at once of which some connections are there and others not.
const PENDING_MAX: usize = 64;

/// Connections of a link that is not whole, in the order of lanes.
pub(super) struct Pending {
    lanes: [Option<Greeted>; 3],
    since: Instant,
}

/// Accepts for ever.
pub(super) async fn accept_all(inner: Arc<Inner>, listener: TcpListener) {
    let unproven = Arc::new(Semaphore::new(UNPROVEN_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(permit) = unproven.clone().try_acquire_owned() else { continue };
                let inner = inner.clone();
                tokio::spawn(async move {
                    let greeted = greet(&inner, stream).await;
                    drop(permit);
                    if let Some(greeted) = greeted {
                        assemble(&inner, greeted).await;
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection of another node could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn greet(inner: &Inner, stream: TcpStream) -> Option<Greeted> {
    let remote = stream.peer_addr().map_or_else(|_| "?".to_owned(), |remote| remote.to_string());
    let greeting = async {
        let transport = Transport::accepted(stream, inner.tls.as_ref()).await?;
        inner.own.accept(transport, inner.nonce()).await
    };
    match timeout(HANDSHAKE_TIMEOUT, greeting).await {
        Ok(Ok(greeted)) => return Some(greeted),
        // Each node dials all seeds, and itself may be one of them.
        Ok(Err(Refusal::Ours(Verdict::Itself))) => {}
        // Scanners and checks of health: they connect and close.
        Ok(Err(Refusal::Io(error))) if error.kind() != io::ErrorKind::InvalidData => {
            tracing::debug!(%remote, %error, "a connection ended before it was a node's");
        }
        Ok(Err(refusal)) => tracing::warn!(%remote, "a connection of another node is refused: {refusal}"),
        Err(_) => tracing::warn!(%remote, "a connection did not prove in time that it is a node's"),
    }
    None
}

/// Keeps a connection until all of its link are there.
async fn assemble(inner: &Arc<Inner>, greeted: Greeted) {
    let Some(lanes) = add(inner, greeted) else { return };
    let (name, address) = (lanes[0].peer.name.clone(), lanes[0].address.clone());
    match inner.bring_up(lanes, None).await {
        // The node that lost the other dials: after a restart without seeds it may be this node.
        Ok(_) => inner.learn(&name, &address),
        Err(refusal) => tracing::debug!(node = %name, "a connection does not count: {refusal}"),
    }
}

fn add(inner: &Inner, greeted: Greeted) -> Option<[Greeted; 3]> {
    let mut pending = inner.pending.lock();
    pending.retain(|_, link| link.since.elapsed() < HANDSHAKE_TIMEOUT);
    let key = (greeted.instance, greeted.link);
    if pending.len() >= PENDING_MAX && !pending.contains_key(&key) {
        return None;
    }
    let link =
        pending.entry(key).or_insert_with(|| Pending { lanes: [None, None, None], since: Instant::now() });
    let lane = greeted.lane as usize;
    link.lanes[lane] = Some(greeted);
    if link.lanes.iter().any(Option::is_none) {
        return None;
    }
    let [Some(control), Some(live), Some(recovery)] = pending.remove(&key)?.lanes else { return None };
    Some([control, live, recovery])
}
