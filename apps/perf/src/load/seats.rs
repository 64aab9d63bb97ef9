//! Connections of a run: opened, with their channels ready, and the plan of each publisher and consumer on them.

use super::block::{Key, Shape};
use super::body::Bodies;
use super::consumer::ConsumerPlan;
use super::link::Link;
use super::moment::timestamp_s;
use super::options::{Consuming, Flag, Options};
use super::pairs::{self, Stamped};
use super::phases::{Cycle, Phase};
use super::publisher::{PublisherPlan, ThreadSettings};
use super::random::Random;
use super::receiver::{Answer, ReceiverSettings, Settle, Source};
use super::schedule::Schedule;
use super::sender::SenderSettings;
use super::stamp::Clock;
use super::topology::Topology;
use super::verbosity::Verbosity;
use crate::io::Socket;
use anyhow::Result;
use std::sync::Arc;
use wire::amqp091::methods::{basic, confirm, tx};
use wire::amqp091::{Method, TableBuf, Value};

/// An open connection and what is to be done on it.
#[derive(Debug)]
pub(crate) struct Seat<P> {
    /// Its number in the run, from 0, among those of its kind.
    pub(crate) number: usize,
    pub(crate) socket: Socket,
    /// The n-th is for channel n + 1.
    pub(crate) plans: Vec<P>,
}

const SECOND_NS: u64 = 1_000_000_000;

/// A method, and the name of its answer.
type Asked<'a> = (Method<'a>, &'static str);

/// The state that all connections of a run share.
#[derive(Debug)]
pub(crate) struct Seats<'a> {
    options: &'a Options,
    id: &'a str,
    topology: &'a Topology,
    clock: Clock,
    bodies: Vec<Bodies>,
    properties: Vec<u8>,
    stamped: Stamped,
    sizes: Option<Arc<Cycle<u32>>>,
    rates: Option<Arc<Cycle<u32>>>,
    work: Option<Arc<Cycle<u32>>>,
    consumer_arguments: TableBuf,
}

impl<'a> Seats<'a> {
    /// Reads bodies and makes properties, once for all.
    ///
    /// # Errors
    /// A body's file cannot be read; a property or argument cannot be sent.
    pub(crate) fn new(options: &'a Options, id: &'a str, topology: &'a Topology) -> Result<Self> {
        let (publishing, consuming) = (&options.publishing, &options.consuming);
        let bodies = Bodies::of(publishing)?;
        let in_body = bodies.iter().all(Bodies::may_be_stamped);
        let stamped = if in_body { Stamped::InBody } else { Stamped::InHeader };
        let latency = consuming.consumer_latency;
        let constant = [Phase { value: latency, seconds: 1 }];
        let work = match &consuming.variable_latency[..] {
            [] if latency == 0 => &[],
            [] => &constant[..],
            phases => phases,
        };
        let mut consumer_arguments = TableBuf::new();
        if let Some(offset) = &consuming.stream_consumer_offset {
            push_offset(&mut consumer_arguments, offset)?;
        }
        pairs::add_to(&mut consumer_arguments, &consuming.consumer_args)?;
        Ok(Self {
            options,
            id,
            topology,
            clock: if publishing.use_millis { Clock::wall() } else { Clock::Monotonic },
            properties: pairs::properties(publishing, stamped)?,
            bodies,
            stamped,
            sizes: Cycle::new(&publishing.variable_size)
                .filter(|_| in_body || publishing.json_body)
                .map(Arc::new),
            rates: Cycle::new(&publishing.variable_rate).map(Arc::new),
            work: Cycle::new(work).map(Arc::new),
            consumer_arguments,
        })
    }

    /// The work of publishing threads beside publishing.
    pub(crate) fn thread_settings(&self) -> ThreadSettings {
        let confirm_timeout_ns = self.options.publishing.confirm_timeout.saturating_mul(SECOND_NS);
        ThreadSettings { clock: self.clock, heartbeat_ns: self.heartbeat_ns(), confirm_timeout_ns }
    }

    /// How often a heartbeat is sent: twice in the time that was asked for.
    pub(crate) fn heartbeat_ns(&self) -> u64 {
        u64::from(self.options.connecting.heartbeat) * SECOND_NS / 2
    }

    /// Opens the n-th publishing connection.
    ///
    /// # Errors
    /// The broker cannot be reached or refuses.
    pub(crate) fn publisher(&self, n: usize) -> Result<Seat<PublisherPlan>> {
        let options = &self.options.publishing;
        let mut before: Vec<Asked<'_>> = Vec::new();
        if options.window().is_some() {
            before.push((confirm::Select::default().into(), "confirm.select-ok"));
        } else if options.producer_tx_size > 0 {
            before.push((tx::Select::default().into(), "tx.select-ok"));
        }
        let channels = options.producer_channel_count;
        let link = self.open(n, "publisher", channels, &before)?;
        let numbers = (1..=channels).zip(n * usize::from(channels)..);
        let plans = numbers.map(|(channel, n)| self.publisher_plan(channel, n, link.frame_size_max));
        let plans = plans.collect();
        Ok(Seat { number: n, socket: link.into_socket()?, plans })
    }

    /// Connects, and opens channels on each of which this has been asked for.
    fn open(&self, n: usize, what: &str, channels: u16, before: &[Asked<'_>]) -> Result<Link> {
        let mut link = Link::open(&self.options.connecting, n, &format!("{} {what} {n}", self.id))?;
        link.open_channels(channels)?;
        for channel in 1..=channels {
            for (method, answer) in before {
                link.send(channel, &[*method])?;
                link.expect(channel, answer)?;
            }
        }
        Ok(link)
    }

    fn publisher_plan(&self, channel: u16, n: usize, frame_size_max: usize) -> PublisherPlan {
        let options = &self.options.publishing;
        let routing_key = if options.random_routing_key {
            Key::Random(options.routing_key_cache_size)
        } else {
            Key::Fixed(self.topology.routing_key(n).to_owned())
        };
        let shape = |bodies: &Bodies| Shape {
            channel,
            exchange: self.topology.exchange.clone(),
            routing_key: routing_key.clone(),
            mandatory: options.has(Flag::Mandatory),
            properties: self.properties.clone(),
            bodies: bodies.clone(),
            frame_size_max,
        };
        let seed = n as u64 ^ crate::io::monotonic_ns();
        let delay_ns = Random::new(seed).below(options.producer_random_start_delay.saturating_mul(SECOND_NS));
        let settings = SenderSettings {
            number: n,
            sizes: self.sizes.clone(),
            window: options.window(),
            tx_size: options.producer_tx_size,
            schedule: self.schedule(n, delay_ns),
            delay_ns,
            count_max: options.count_max().unwrap_or(u64::MAX),
            latency_from: options.latency_from,
            verbosity: self.verbosity(),
        };
        PublisherPlan { shapes: self.bodies.iter().map(shape).collect(), settings }
    }

    /// When the n-th publisher sends; publishers are spread over the time between two messages.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "publishers are few, and an interval between messages is far below 2^52 ns"
    )]
    fn schedule(&self, n: usize, delay_ns: u64) -> Option<Schedule> {
        let options = &self.options.publishing;
        let share = n as f64 / options.publishers() as f64;
        if let Some(rates) = &self.rates {
            let most = rates.phases().iter().map(|phase| phase.value).max().unwrap_or(1).max(1);
            let offset_ns = (1e9 / f64::from(most) * share) as u64;
            return Some(Schedule::varying(rates.clone(), delay_ns + offset_ns));
        }
        if options.rate == Some(0.0) {
            return Some(Schedule::never());
        }
        let rate = options.rate.filter(|rate| *rate > 0.0);
        let interval_s = rate.map(|rate| 1.0 / rate).or(options.publishing_interval)?;
        let interval_ns = interval_s * 1e9;
        Some(Schedule::constant(interval_ns, delay_ns + (interval_ns * share) as u64))
    }

    /// Opens the n-th consuming connection.
    ///
    /// # Errors
    /// The broker cannot be reached or refuses.
    pub(crate) fn consumer(&self, n: usize) -> Result<Seat<ConsumerPlan>> {
        let options = &self.options.consuming;
        let mut before: Vec<Asked<'_>> = Vec::new();
        for (prefetch_count, global) in [(options.qos, false), (options.global_qos, true)] {
            if prefetch_count > 0 {
                let qos = basic::Qos { prefetch_count, global, ..Default::default() };
                before.push((qos.into(), "basic.qos-ok"));
            }
        }
        if options.consumer_tx_size > 0 {
            before.push((tx::Select::default().into(), "tx.select-ok"));
        }
        let channels = options.consumer_channel_count;
        let mut link = self.open(n, "consumer", channels, &before)?;
        let numbers = (1..=channels).zip(n * usize::from(channels)..);
        let plans = numbers.map(|(channel, n)| {
            let queues = self.topology.queues_for(&mut link, channel, n)?;
            Ok(self.consumer_plan(n, queues))
        });
        let plans = plans.collect::<Result<Vec<_>>>()?;
        Ok(Seat { number: n, socket: link.into_socket()?, plans })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an interval between messages is far below 2^52 ns and not negative"
    )]
    fn consumer_plan(&self, n: usize, queues: Vec<String>) -> ConsumerPlan {
        let options = &self.options.consuming;
        let answer = match (options.nack, options.requeue) {
            (false, _) => Answer::Ack,
            (true, true) => Answer::Requeue,
            (true, false) => Answer::Drop,
        };
        let source = match (options.polling, queues.first()) {
            (true, Some(queue)) => {
                let interval_ns = options.polling_interval.saturating_mul(1_000_000);
                Source::Poll { queue: queue.clone(), interval_ns }
            }
            _ => Source::Consume,
        };
        let rate = options.consumer_rate.filter(|rate| *rate > 0.0);
        let settings = ReceiverSettings {
            number: n,
            settle: settle_of(options),
            answer,
            tx_size: options.consumer_tx_size,
            source,
            interval_ns: rate.map_or(0, |rate| (1e9 / rate) as u64),
            work: self.work.clone(),
            count_max: options.count_max().unwrap_or(u64::MAX),
            clock: self.clock,
            stamp_in_header: self.stamped == Stamped::InHeader,
            verbosity: self.verbosity(),
        };
        let slow_s = if options.slow_start { n as u64 } else { 0 };
        let delay_ns = slow_s.saturating_add(options.consumer_start_delay).saturating_mul(SECOND_NS);
        ConsumerPlan { queues, arguments: self.consumer_arguments.clone(), delay_ns, settings }
    }

    fn verbosity(&self) -> Verbosity {
        match (self.options.running.verbose_full, self.options.running.verbose) {
            (true, _) => Verbosity::Full,
            (false, true) => Verbosity::Line,
            (false, false) => Verbosity::Silent,
        }
    }
}

/// As PerfTest settles: `--multi-ack-every 1` is each one, but as one of several.
fn settle_of(options: &Consuming) -> Settle {
    match (options.autoack, options.multi_ack_every) {
        (true, _) => Settle::Auto,
        (false, 0) => Settle::Each,
        (false, count) => Settle::Every(count),
    }
}

/// Where a stream's consumer begins: a word, a number or a time.
fn push_offset(table: &mut TableBuf, offset: &str) -> Result<()> {
    const NAME: &str = "x-stream-offset";
    if matches!(offset, "first" | "last" | "next") {
        table.push_str(NAME, offset);
    } else if let Some(number) = offset.parse::<u64>().ok().and_then(|number| i64::try_from(number).ok()) {
        table.push_i64(NAME, number);
    } else {
        table.push(NAME, Value::Timestamp(timestamp_s(offset)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn acks_of_each_one_are_single_unless_they_are_asked_for_as_several() {
        let settle = |line: &str| {
            let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
            settle_of(&options.consuming)
        };
        assert_eq!(["", "-A 0"].map(settle), [Settle::Each, Settle::Each]);
        assert_eq!(
            ["-A 1", "-A 5", "-a -A 5"].map(settle),
            [Settle::Every(1), Settle::Every(5), Settle::Auto]
        );
    }

    #[test]
    fn streams_are_read_from_a_word_a_number_or_a_time() {
        let is_taken = |offset: &str| push_offset(&mut TableBuf::new(), offset).is_ok();
        assert_eq!(["first", "5", "2022-06-03T07:45:54Z"].map(is_taken), [true; 3]);
        assert_eq!(["-1", "5m", ""].map(is_taken), [false; 3]);
    }
}
