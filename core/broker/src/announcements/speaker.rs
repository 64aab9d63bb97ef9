//! The thread that routes what waits to be said.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use message::{Facts, MessageView, Properties, delivery_mode_of};

use crate::announcements::outlet::{Announcement, BATCH_BYTES_MAX, Outlet, take};
use crate::data::batch::Batch;
use crate::data::handovers::Handovers;
use crate::vhost::Vhost;

/// Buffers of routing, kept between rounds.
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

impl Outlet {
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
