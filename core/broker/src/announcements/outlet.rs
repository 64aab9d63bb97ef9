//! The one way out for what the broker publishes by itself: a bounded list and a thread that routes what is on it.
//!
//! Whoever has something to say copies it in and goes on, whatever locks it holds; nobody waits. When the thread does
//! not keep up, or a queue behind it does not, what is new is dropped and counted. Refuses to know what is said.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use message::{Facts, MessageView, Properties, delivery_mode_of};

use crate::data::batch::Batch;
use crate::data::handovers::Handovers;
use crate::vhost::Vhost;

/// Name of the thread; what it logs itself is not published.
pub(crate) const THREAD_NAME: &str = "outlet";

/// Bytes of announcements that wait for the thread; beyond, new ones are dropped.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Bytes handed to queues at once.
const BATCH_BYTES_MAX: usize = 256 << 10;

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
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.properties.len() + self.body.len()
    }
}

#[derive(Default)]
struct Waiting {
    announcements: VecDeque<Announcement>,
    bytes: usize,
    stopping: bool,
}

/// What waits to be said.
#[derive(Default)]
pub(crate) struct Outlet {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    dropped: AtomicU64,
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
    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The thread says what waits, then ends.
    pub(crate) fn stop(&self) {
        self.waiting.lock().stopping = true;
        self.wake.notify_one();
    }

    /// Says what waits, once; whether there was anything. For a broker without threads.
    pub(crate) fn step(&self, vhost: impl Fn(&str) -> Option<Arc<Vhost>>) -> bool {
        let said = take(&mut self.waiting.lock());
        let missed = Speaker::new().say(&said, vhost);
        self.dropped.fetch_add(missed, Ordering::Relaxed);
        !said.is_empty()
    }

    /// The thread's life: until [`Outlet::stop`].
    pub(crate) fn run(&self, vhost: impl Fn(&str) -> Option<Arc<Vhost>>) {
        let (mut speaker, mut told) = (Speaker::new(), 0);
        loop {
            let said = {
                let mut waiting = self.waiting.lock();
                while waiting.announcements.is_empty() {
                    if waiting.stopping {
                        return;
                    }
                    self.wake.wait(&mut waiting);
                }
                take(&mut waiting)
            };
            let missed = speaker.say(&said, &vhost);
            self.dropped.fetch_add(missed, Ordering::Relaxed);
            // Told when it has doubled: a few lines, however long it goes on.
            let dropped = self.dropped();
            if dropped > told * 2 {
                told = dropped;
                tracing::warn!(
                    dropped,
                    "copies of traced messages, events or log lines come faster than they are taken; some were dropped"
                );
            }
        }
    }
}

fn take(waiting: &mut Waiting) -> VecDeque<Announcement> {
    waiting.bytes = 0;
    std::mem::take(&mut waiting.announcements)
}

/// What routing needs, kept between rounds.
struct Speaker {
    scratch: routing::Scratch<crate::cell::QueueRef>,
    batch: Batch,
    handovers: Handovers,
}

impl Speaker {
    fn new() -> Speaker {
        Speaker { scratch: Vhost::scratch(), batch: Batch::default(), handovers: Handovers::default() }
    }

    /// Routes and hands over; returns how many messages did not fit into a queue's inbox.
    fn say(&mut self, said: &VecDeque<Announcement>, vhost: impl Fn(&str) -> Option<Arc<Vhost>>) -> u64 {
        let mut missed = 0;
        for announcement in said {
            let Some(vhost) = vhost(&announcement.vhost) else { continue };
            missed += self.route(announcement, &vhost);
            if self.batch.bytes() > BATCH_BYTES_MAX {
                self.flush();
            }
        }
        self.flush();
        missed
    }

    fn route(&mut self, announcement: &Announcement, vhost: &Vhost) -> u64 {
        let Some(exchange) = vhost.exchange(announcement.exchange) else { return 0 };
        let key = &announcement.key[..announcement.key.len().min(255)];
        let properties = Properties::new(&announcement.properties);
        let mut queues = Vec::new();
        vhost.route(&exchange, &[key], properties, &mut self.scratch, &mut queues);
        let reached = queues.len();
        queues.retain(|queue| !queue.0.is_inbox_full());
        let missed = (reached - queues.len()) as u64;
        if queues.is_empty() {
            return missed;
        }
        let message = MessageView {
            exchange: announcement.exchange,
            routing_key: key,
            properties: &announcement.properties,
            body: &announcement.body,
        };
        let facts =
            Facts { persistent: delivery_mode_of(&announcement.properties) == Some(2), ..Facts::default() };
        let index = self.batch.push(message, facts, &[]);
        self.handovers.add(&Arc::from(queues), index);
        missed
    }

    fn flush(&mut self) {
        if self.batch.len() > 0 {
            self.handovers.send(&Arc::new(std::mem::take(&mut self.batch)), None, |_| {});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
