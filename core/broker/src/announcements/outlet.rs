//! The one way out for what the broker publishes by itself: a bounded list and a thread that routes what is on it.
//!
//! A caller copies its message in and goes on, whatever locks it holds; nobody waits. When the thread does not keep up, or a queue behind
//! it does not, new messages are dropped and counted. Refuses to know their content.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// Name of the thread; its own log lines are not published.
pub(crate) const THREAD_NAME: &str = "outlet";

/// Bytes of announcements that wait for the thread; beyond, new ones are dropped.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Bytes handed to queues at once.
pub(super) const BATCH_BYTES_MAX: usize = 256 << 10;

/// A message that no client has published.
#[derive(Debug)]
pub(crate) struct Announcement {
    /// Where the exchange is.
    pub(crate) vhost: Arc<str>,
    pub(crate) exchange: &'static [u8],
    /// Cut to the 255 bytes that a key may have.
    pub(crate) key: Vec<u8>,
    /// Raw properties.
    pub(crate) properties: Vec<u8>,
    pub(crate) body: Box<[u8]>,
}

impl Announcement {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.properties.len() + self.body.len()
    }
}

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) announcements: VecDeque<Announcement>,
    pub(super) bytes: usize,
    pub(super) stopping: bool,
}

/// Messages that wait to be published.
#[derive(Default)]
pub(crate) struct Outlet {
    pub(super) waiting: Mutex<Waiting>,
    pub(super) wake: Condvar,
    pub(super) dropped: AtomicU64,
}

impl Outlet {
    /// Adds an announcement, or drops it when too much waits.
    pub(crate) fn say(&self, announcement: Announcement) {
        let bytes = announcement.bytes();
        {
            let mut waiting = self.waiting.lock();
            if waiting.bytes + bytes > WAITING_BYTES_MAX {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            waiting.bytes += bytes;
            waiting.announcements.push_back(announcement);
        }
        self.wake.notify_one();
    }

    /// How many were dropped since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The thread says what waits, then ends.
    pub(crate) fn stop(&self) {
        self.waiting.lock().stopping = true;
        self.wake.notify_one();
    }
}

pub(super) fn take(waiting: &mut Waiting) -> VecDeque<Announcement> {
    waiting.bytes = 0;
    std::mem::take(&mut waiting.announcements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Properties;

    fn of_body(bytes: usize) -> Announcement {
        Announcement {
            vhost: "/".into(),
            exchange: b"amq.topic",
            key: b"k".to_vec(),
            properties: Properties::EMPTY.raw().to_vec(),
            body: vec![0; bytes].into(),
        }
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted_and_there_is_room_again_when_the_rest_is_said() {
        let outlet = Outlet::default();
        (0..20).for_each(|_| outlet.say(of_body(1 << 20)));
        assert_eq!(outlet.dropped(), 5);
        outlet.stop();
        outlet.run(|_| None);
        outlet.say(of_body(1 << 20));
        assert_eq!(outlet.dropped(), 5);
    }
}
