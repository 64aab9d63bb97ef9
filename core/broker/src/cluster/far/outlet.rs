//! The output for a link's live lane. Threads add whole messages; their pieces stay together and in order.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::cluster::frames::pieces;
use crate::cluster::name::NodeName;
use crate::cluster::peers::{Lane, SendRefused, SharedPeers};

/// With so many bytes waiting what may be lost is dropped.
const OFFERED_BYTES_MAX: usize = 16 << 20;

/// See the module.
pub(super) struct Outlet {
    to: NodeName,
    peers: SharedPeers,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<(u8, Bytes)>,
    is_closed: bool,
}

impl Outlet {
    pub(super) fn new(to: NodeName, peers: SharedPeers) -> Outlet {
        Outlet { to, peers, waiting: Mutex::default() }
    }

    /// The node at the other end.
    pub(super) fn to(&self) -> &NodeName {
        &self.to
    }

    /// Sends a message, or keeps it until the lane has room.
    pub(super) fn send(&self, kind: u8, message: Bytes) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return;
        }
        waiting.frames.extend(pieces(message).map(|piece| (kind, piece)));
        self.send_waiting(&mut waiting);
    }

    /// Sends a message that may be lost: it is dropped where much waits already.
    pub(super) fn offer(&self, kind: u8, message: Bytes) {
        let waits = self.waiting.lock().frames.iter().map(|(_, piece)| piece.len()).sum::<usize>();
        if waits < OFFERED_BYTES_MAX {
            self.send(kind, message);
        }
    }

    /// The lane has room again.
    pub(super) fn pump(&self) {
        self.send_waiting(&mut self.waiting.lock());
    }

    fn send_waiting(&self, waiting: &mut Waiting) {
        while let Some((kind, piece)) = waiting.frames.front() {
            match self.peers.send(&self.to, Lane::Live, *kind, piece.clone()) {
                Ok(()) => drop(waiting.frames.pop_front()),
                Err(SendRefused::Full) => return,
                // The end of the link is about to be told.
                Err(_) => return waiting.frames.clear(),
            }
        }
    }

    /// Whether the link has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.waiting.lock().is_closed
    }

    /// The link has ended.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        waiting.frames.clear();
    }
}
