//! More than consumers take: bursts of small transient messages to a queue whose one consumer takes as many as its buffers have room for.
//! So the backlog goes through the disk and publishers are held. The consumer gets the published messages, in order, without a gap; a held
//! publisher may go on; with the node its backlog is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use broker::{ConsumeRequest, ConsumerSink, ConsumerSpec, Delivery, Incoming, PublishChannel};
use parking_lot::Mutex;
use wire::amqp091::TableBuf;

use super::ending::Ended;
use super::ledger::Ledger;
use super::site::{Site, Weather, durable, properties};
use super::tenant::Tenant;
use crate::model::{self, Seen};

const NAME: &str = "flood";

/// Messages of one read of a connection.
const BATCH: u64 = 64;

/// Reads of a burst: consumers at full speed are not waited for before they are outrun by more than two thousand messages.
const BATCHES_MAX: u64 = 40;

/// Longer than publishers are held at once.
const HOLD: Duration = Duration::from_millis(11);

/// Takes deliveries while it has room.
#[derive(Default)]
struct Taker {
    room: AtomicUsize,
    taken: Mutex<Vec<Result<Seen, String>>>,
}

impl ConsumerSink for Taker {
    fn deliver(&self, _: u32, run: &[Delivery<'_>]) -> usize {
        let count = run.len().min(self.room.load(Ordering::Relaxed));
        self.room.fetch_sub(count, Ordering::Relaxed);
        let read = |one: &Delivery<'_>| Seen::read(one.message.properties, one.message.body);
        self.taken.lock().extend(run[..count].iter().map(read));
        count
    }

    fn cancelled(&self, _: u32) {}
}

/// Publishes in bursts.
#[derive(Default)]
pub(super) struct Flood {
    consumer: Option<(u32, Arc<Taker>)>,
    /// Number of the next message, and of the next to come.
    next: u64,
    expected: u64,
    /// The disk has failed calls in this life: messages on it may be gone.
    is_doubtful: bool,
    ledger: Ledger,
}

impl Flood {
    fn consume(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let token = site.life.next_token;
        site.life.next_token += 1;
        let spec = ConsumerSpec {
            id: site.life.consumer(token),
            tag: format!("c{token}").into_bytes().into(),
            channel: 1,
            ack_required: false,
            prefetch: 0,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority: 0,
            exclusive: false,
            arguments: Box::default(),
        };
        let taker = Arc::new(Taker::default());
        let request = ConsumeRequest { queue: NAME.as_bytes(), spec };
        let asked = site.life.broker.consume(&site.life.principal, request, taker.clone());
        let (_, call) = asked.map_err(|refused| format!("a consumer of {NAME} is refused: {refused:?}"))?;
        site.answer(call.into_call())?
            .map_err(|refused| format!("a consumer of {NAME} is refused: {refused:?}"))?;
        self.consumer = Some((token, taker));
        Ok(())
    }

    /// Until it is held, or has said all.
    fn publish(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        let mut publisher = site.life.publisher();
        let mut channel = PublishChannel::new();
        let properties = properties(false, None);
        for _ in 0..=site.below(BATCHES_MAX) {
            for _ in 0..BATCH {
                let body = model::body(self.next, usize::try_from(site.below(200)).expect("small"));
                let message = Incoming {
                    mandatory: false,
                    exchange: b"",
                    routing_key: NAME.as_bytes(),
                    properties: &properties,
                    body: &body,
                };
                let published = publisher.publish(&mut channel, message);
                published.map_err(|refused| format!("a publish to {NAME} is refused: {refused:?}"))?;
                self.next += 1;
            }
            publisher.flush();
            if publisher.poll_ready(&mut context).is_pending() {
                site.tell(&|| format!("who publishes to {NAME} is held after {}", self.next));
                site.world.clock.advance(HOLD);
                site.idle();
                if site.is_calm() && publisher.poll_ready(&mut context).is_pending() {
                    return Err(format!("who publishes to {NAME} is held for ever"));
                }
                break;
            }
        }
        Ok(())
    }

    /// There is room for some more at the consumer, or for all there are.
    fn take(&mut self, site: &mut Site<'_>, count: usize) -> Result<(), String> {
        let Some((token, taker)) = self.consumer.clone() else { return Ok(()) };
        taker.room.store(count, Ordering::Relaxed);
        if let Some(queue) = site.queue(NAME) {
            queue.resume(site.life.consumer(token));
        }
        site.idle();
        self.look(&taker)
    }

    fn look(&mut self, taker: &Taker) -> Result<(), String> {
        for seen in std::mem::take(&mut *taker.taken.lock()) {
            let id = seen?.id;
            let is_next = id == self.expected || (self.is_doubtful && id > self.expected);
            if !is_next || id >= self.next {
                return Err(format!("{NAME} gives {id}, not {} of {}", self.expected, self.next));
            }
            self.expected = id + 1;
        }
        Ok(())
    }

    fn ready(site: &Site<'_>) -> Result<u64, String> {
        let queue = site.queue(NAME).ok_or_else(|| format!("{NAME} is not there"))?;
        Ok(queue.stats().try_take().ok_or("statistics are not answered")?.ready)
    }
}

impl Tenant for Flood {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match site.declare(durable(NAME, &TableBuf::new()))? {
            0 => self.consume(site),
            ready => Err(format!("{ready} transient messages of {NAME} outlive their node")),
        }
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.is_doubtful |= site.weather == Weather::Broken;
        match site.below(4) {
            0 if !site.may_refuse() => self.publish(site),
            1 => self.take(site, usize::try_from(site.below(4000)).expect("small")),
            2 => self.take(site, 1),
            _ => Ok(()),
        }
    }

    fn tick(&mut self, _: u64) {}

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn release(&mut self, _: &mut Site<'_>) -> Result<(), String> {
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.take(site, 0)?;
        let left = self.next - self.expected;
        let ready = Flood::ready(site)?;
        if ready != left {
            return Err(format!("{NAME} shows {ready} messages, not {left}"));
        }
        self.take(site, usize::MAX)?;
        self.take(site, 0)?;
        match Flood::ready(site)? {
            0 if self.expected == self.next => Ok(()),
            ready => Err(format!(
                "{NAME} gives no more than {} of {}, {ready} are ready",
                self.expected, self.next
            )),
        }
    }

    fn ended(&mut self, _: Ended) {
        self.consumer = None;
        self.expected = self.next;
        self.is_doubtful = false;
    }
}
