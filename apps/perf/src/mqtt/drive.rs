//! The thread of many clients: opens them, and serves who is ready until the run is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use super::member::{Member, Role, Shared};
use crate::io::Poller;

/// Clients of a thread that have connected and are not served yet, at most as many as a listener's queue takes.
const OPENING_MAX: usize = 200;
const READ_BYTES: usize = 256 << 10;
/// How long a thread waits before it looks whether the run is over.
const PAUSE: Duration = Duration::from_millis(100);
/// The same, of publishers that have a rate.
const PAUSE_OF_RATE: Duration = Duration::from_millis(1);

/// Starts a thread for these clients; it ends when the run is over.
pub(super) fn start(members: Vec<Member>, shared: &Arc<Shared>) -> JoinHandle<Result<()>> {
    let shared = shared.clone();
    thread::spawn(move || {
        let mut party = Party { poller: Poller::new()?, members, opened: 0, opening: 0, shared };
        let driven = party.drive();
        let forgotten = party.forget();
        driven.and(forgotten)
    })
}

struct Party {
    poller: Poller,
    members: Vec<Member>,
    /// Clients that have connected, from the first on.
    opened: usize,
    /// Connected clients that do not work yet.
    opening: usize,
    shared: Arc<Shared>,
}

impl Party {
    fn drive(&mut self) -> Result<()> {
        let (mut ready, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
        let publishes = matches!(self.members.first().map(|it| &it.role), Some(Role::Publisher(_)));
        let pause = if publishes && self.shared.options.rate > 0 { PAUSE_OF_RATE } else { PAUSE };
        while !self.shared.counts.is_over() {
            self.open()?;
            let is_busy = publishes && self.publish()?;
            self.poller.wait(if is_busy { Duration::ZERO } else { pause }, &mut ready)?;
            for event in &ready {
                let member = &mut self.members[event.token];
                if event.writable
                    && let Some(client) = &mut member.client
                {
                    client.flush(&self.poller, event.token)?;
                }
                if event.readable {
                    let works = member
                        .serve(&self.shared, &self.poller, event.token, &mut buffer)
                        .with_context(|| format!("client {}", event.token))?;
                    self.opening -= usize::from(works);
                    self.shared.ready.fetch_add(usize::from(works), Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Opens those that are not, a few at a time.
    fn open(&mut self) -> Result<()> {
        while self.opened < self.members.len() && self.opening < OPENING_MAX {
            self.members[self.opened].open(&self.shared, &self.poller, self.opened)?;
            self.opened += 1;
            self.opening += 1;
        }
        Ok(())
    }

    /// All publishers say what they may; whether one of them did.
    fn publish(&mut self) -> Result<bool> {
        let mut published = false;
        for (token, member) in self.members[..self.opened].iter_mut().enumerate() {
            if let (Role::Publisher(publisher), Some(client), true) =
                (&mut member.role, &mut member.client, member.is_ready)
                && publisher.publish(client, &self.shared.counts)
            {
                published = true;
                client.flush(&self.poller, token)?;
            }
        }
        Ok(published)
    }

    fn forget(&mut self) -> Result<()> {
        self.members[..self.opened].iter_mut().try_for_each(|member| member.forget(&self.shared))
    }
}
