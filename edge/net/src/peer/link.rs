//! A link that is up: three connections, their tasks, and the one that watches them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use broker::cluster::peers::{DownReason, Epoch, Lane, LinkStatus, PeerEvents, PeerIdentity, Vitals};
use bytes::Bytes;
use parking_lot::Mutex;
use platform::Clock;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::peer::{Kind, Liveness, PAYLOAD_BYTES_MAX};

use super::frames::{invalid, read_frame};
use super::outbox::Outbox;
use super::transport::{Reader, Transport};

/// How often a sign of life goes out.
const SIGN_INTERVAL: Duration = Duration::from_millis(250);
/// A peer that is silent for so long is down.
const SILENCE_MS: u64 = 1_000;
/// A connection that takes nothing for so long is down.
const STUCK_MS: u64 = 5_000;
/// A look that comes so late says that this process has stood: frames that came meanwhile are read before any node is judged.
const LATE: Duration = Duration::from_millis(400);
/// How many signs of life lie between two lists of nodes.
const SIGNS_PER_LIST: u32 = 20;

/// The surroundings of a link's tasks.
pub(super) struct Surroundings {
    pub(super) events: Arc<dyn PeerEvents>,
    pub(super) clock: Arc<dyn Clock>,
    /// The nodes that are known here, as a message.
    pub(super) list: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
    /// Takes the list of a peer.
    pub(super) listed: Box<dyn Fn(&[u8]) -> io::Result<()> + Send + Sync>,
}

/// A pair's connections, from up to down.
pub(super) struct Link {
    pub(super) peer: PeerIdentity,
    pub(super) instance: u64,
    pub(super) epoch: Epoch,
    pub(super) since_ms: u64,
    outboxes: [Outbox; 3],
    /// When something was heard last, milliseconds.
    heard_ms: AtomicU64,
    pulse: Mutex<Pulse>,
    /// Why it is to end: a number of [`DownReason`], or 0.
    closing: AtomicU8,
    close: Notify,
    gone: watch::Sender<bool>,
}

/// The news from signs of life.
#[derive(Clone, Copy, Default)]
struct Pulse {
    /// The peer's clock in its last sign, microseconds, and when that came by ours.
    theirs_us: u64,
    came_us: u64,
    /// When that was sent which was answered last, microseconds.
    answered_us: u64,
    round_trip_us: u64,
    vitals: Vitals,
}

impl Link {
    pub(super) fn new(peer: PeerIdentity, instance: u64, epoch: Epoch, clock: &dyn Clock) -> Link {
        let now = clock.now();
        Link {
            peer,
            instance,
            epoch,
            since_ms: now.as_ms(),
            outboxes: [Outbox::new(), Outbox::new(), Outbox::new()],
            heard_ms: AtomicU64::new(now.as_ms()),
            pulse: Mutex::new(Pulse { answered_us: micros(clock), ..Pulse::default() }),
            closing: AtomicU8::new(0),
            close: Notify::new(),
            gone: watch::Sender::new(false),
        }
    }

    pub(super) fn outbox(&self, lane: Lane) -> &Outbox {
        &self.outboxes[lane as usize]
    }

    /// Ends it; the first reason counts.
    pub(super) fn close(&self, why: DownReason) {
        let _is_first = self.closing.compare_exchange(0, why as u8 + 1, Ordering::Relaxed, Ordering::Relaxed);
        self.outboxes.iter().for_each(Outbox::close);
        self.close.notify_one();
    }

    /// Waits until it has ended and the broker knows.
    pub(super) async fn ended(&self) {
        let mut gone = self.gone.subscribe();
        let _never_dropped = gone.wait_for(|gone| *gone).await;
    }

    pub(super) fn status(&self, clock: &dyn Clock) -> LinkStatus {
        let pulse = *self.pulse.lock();
        LinkStatus {
            epoch: self.epoch,
            up_ms: clock.now().as_ms().saturating_sub(self.since_ms),
            answered_ms: micros(clock).saturating_sub(pulse.answered_us) / 1_000,
            round_trip_us: pulse.round_trip_us,
            vitals: pulse.vitals,
            lanes: [0, 1, 2].map(|lane| self.outboxes[lane].status()),
        }
    }

    /// Runs it to its end, and tells why it came. When it returns, none of its tasks runs any more.
    pub(super) async fn run(
        self: &Arc<Self>,
        transports: [Transport; 3],
        around: &Arc<Surroundings>,
    ) -> DownReason {
        let mut tasks = JoinSet::new();
        for (lane, transport) in Lane::ALL.into_iter().zip(transports) {
            let (link, surroundings) = (self.clone(), around.clone());
            tasks.spawn(async move { link.read_all(lane, transport.reader, &surroundings).await });
            let (link, surroundings) = (self.clone(), around.clone());
            tasks.spawn(async move {
                let now_ms = || surroundings.clock.now().as_ms();
                let drained = || surroundings.events.drained(&link.peer.name, lane);
                link.outbox(lane).send_all(transport.writer, now_ms, drained).await
            });
        }
        let why = self.watch(&mut tasks, around).await;
        self.outboxes.iter().for_each(Outbox::close);
        tasks.shutdown().await;
        why
    }

    /// The broker knows that it has ended.
    pub(super) fn bury(&self) {
        self.gone.send_replace(true);
    }

    async fn read_all(&self, lane: Lane, mut reader: Reader, around: &Surroundings) -> io::Result<()> {
        loop {
            let (kind, payload) = read_frame(&mut reader, PAYLOAD_BYTES_MAX).await?;
            self.heard_ms.store(around.clock.now().as_ms(), Ordering::Relaxed);
            self.outbox(lane).count_received(payload.len());
            if kind >= wire::peer::FIRST_FOREIGN_KIND {
                around.events.frame(&self.peer.name, self.epoch, lane, kind, Bytes::from(payload));
                // The time of handling is not the peer's silence.
                self.heard_ms.store(around.clock.now().as_ms(), Ordering::Relaxed);
            } else if kind == Kind::Liveness as u8 {
                self.take_sign(&Liveness::decode(&payload).map_err(invalid)?, around);
            } else if kind == Kind::Neighbours as u8 {
                (around.listed)(&payload)?;
            }
            // Other kinds of ours are of a newer version, which knows that this one may not read them.
        }
    }

    fn take_sign(&self, sign: &Liveness, around: &Surroundings) {
        let now_us = micros(&*around.clock);
        let vitals = Vitals {
            is_memory_short: sign.alarms & 1 != 0,
            is_disk_short: sign.alarms & 2 != 0,
            unsynced_ms: sign.unsynced_ms,
            disk_free_bytes: sign.disk_free_bytes,
            wall_ms: sign.wall_ms,
            metadata_applied: sign.metadata_applied,
        };
        let mut pulse = self.pulse.lock();
        pulse.theirs_us = sign.sent_us;
        pulse.came_us = now_us;
        // An echo of the future, or of before, is nobody's.
        if (pulse.answered_us..=now_us).contains(&sign.echo_us) {
            pulse.answered_us = sign.echo_us;
            pulse.round_trip_us = (now_us - sign.echo_us).saturating_sub(sign.held_us);
        }
        pulse.vitals = vitals;
        drop(pulse);
        around.events.heard(&self.peer.name, &vitals);
    }

    fn send_sign(&self, around: &Surroundings) {
        let vitals = around.events.vitals();
        let pulse = *self.pulse.lock();
        let sent_us = micros(&*around.clock);
        let sign = Liveness {
            sent_us,
            echo_us: pulse.theirs_us,
            held_us: sent_us.saturating_sub(pulse.came_us),
            alarms: u8::from(vitals.is_memory_short) | u8::from(vitals.is_disk_short) << 1,
            unsynced_ms: vitals.unsynced_ms,
            disk_free_bytes: vitals.disk_free_bytes,
            wall_ms: around.clock.wall_ms(),
            metadata_applied: vitals.metadata_applied,
        };
        let mut payload = Vec::new();
        sign.encode(&mut payload);
        self.outbox(Lane::Control).push_own(Kind::Liveness, payload, sent_us / 1_000);
    }

    async fn watch(&self, tasks: &mut JoinSet<io::Result<()>>, around: &Surroundings) -> DownReason {
        let mut due = Instant::now();
        let mut signs = 0_u32;
        loop {
            tokio::select! {
                ended = tasks.join_next() => return self.reason_of(ended),
                () = self.close.notified() => return self.reason_of(None),
                () = tokio::time::sleep_until(due) => {}
            }
            let now_ms = around.clock.now().as_ms();
            if due.elapsed() > LATE {
                self.heard_ms.store(now_ms, Ordering::Relaxed);
            }
            if now_ms.saturating_sub(self.heard_ms.load(Ordering::Relaxed)) > SILENCE_MS {
                return DownReason::Silent;
            }
            if self.outboxes.iter().any(|outbox| outbox.stuck_ms(now_ms) > STUCK_MS) {
                return DownReason::Stuck;
            }
            self.send_sign(around);
            if signs.is_multiple_of(SIGNS_PER_LIST) {
                self.outbox(Lane::Control).push_own(Kind::Neighbours, (around.list)(), now_ms);
            }
            signs += 1;
            due = Instant::now() + SIGN_INTERVAL;
        }
    }

    fn reason_of(&self, ended: Option<Result<io::Result<()>, tokio::task::JoinError>>) -> DownReason {
        let asked = self.closing.load(Ordering::Relaxed);
        if let Some(why) = REASONS.into_iter().find(|why| *why as u8 + 1 == asked) {
            return why;
        }
        match ended {
            Some(Ok(Err(error))) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(node = %self.peer.name, %error, "a link ends");
                DownReason::Malformed
            }
            _ => DownReason::Closed,
        }
    }
}

/// Reasons that somebody may close a link with.
const REASONS: [DownReason; 6] = [
    DownReason::Closed,
    DownReason::Silent,
    DownReason::Stuck,
    DownReason::Malformed,
    DownReason::Replaced,
    DownReason::Ended,
];

fn micros(clock: &dyn Clock) -> u64 {
    clock.now().0 / 1_000
}
