//! A stream, in small files, with and without retention. Publishers come by exchanges and, with names and publishing ids, as those of the
//! stream protocol do. Readers and a consumer go through it from anywhere, and one stores how far it is.
//!
//! A committed entry stays at its offset until retention takes it. No offset names two messages. The committed offset never becomes less; nor
//! do publishing ids and offsets that are safe.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::streams::{Appended, Entry as StreamEntry, PublisherSlot, Reader, Seek, StreamLog};
use broker::{ConsumeRequest, ConsumerSpec, Queue, SettleHow, SettleRun};
use platform::SeededRandom;
use wire::amqp091::{TableBuf, Value};

use super::ending::Ended;
use super::ledger::{Entry, Ledger};
use super::life::play_brook;
use super::site::{Site, Weather, durable, properties};
use super::tenant::Tenant;
use crate::history::Summary;
use crate::life::World;
use crate::model;
use crate::streams::read_on;

const NAME: &str = "brook";
const WRITER: &[u8] = b"writer";
const READER: &[u8] = b"reader";

/// Bytes around a body, at most.
const AROUND_BYTES: u64 = 200;

/// A message at its offset.
#[derive(Clone, Copy, Debug)]
struct Placed {
    message: u64,
    /// It was appended then or later, milliseconds since the epoch.
    at_ms: u64,
    body_bytes: u64,
    publishing_id: Option<u64>,
}

/// The entries that retention may take.
#[derive(Clone, Copy, Debug)]
enum Retention {
    Nothing,
    Bytes(u64),
    AgeSeconds(u64),
}

/// An offset that was stored under the reader's name.
#[derive(Clone, Copy, Debug)]
struct Stored {
    value: u64,
    /// Once what has this offset is committed, it is safe.
    before: u64,
}

/// The stream, and its users.
pub(super) struct Brook {
    retention: Retention,
    segment_bytes: u64,
    is_there: bool,
    placed: BTreeMap<u64, Placed>,
    /// Messages that came by exchanges and whose confirm is awaited, with their offsets.
    awaited: Vec<(u64, u64)>,
    /// Entries before this offset are committed.
    committed: u64,
    first: u64,
    /// Most that waited to be written at once: as large may a file become.
    waiting_bytes_max: u64,
    /// Reads on through a life, with the offset that comes next.
    reader: Option<(Reader, Option<u64>)>,
    /// Its token, and the offset that comes next.
    consumer: Option<(u32, Option<u64>)>,
    stored: Vec<Stored>,
    stored_safely: Option<u64>,
    ledger: Ledger,
}

/// Plays a history of a stream; `tell` hears what happens, line by line.
///
/// # Errors
/// A fault of the broker.
pub fn run(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    let world = World::new(seed ^ 0x57_4e_41_31, tell);
    let brook = Brook::new(&world.random);
    play_brook(world, Box::new(brook))
}

impl Brook {
    fn new(random: &SeededRandom) -> Brook {
        let retention = match random.below(3) {
            0 => Retention::Nothing,
            1 => Retention::Bytes(40_000 + random.below(40_000)),
            _ => Retention::AgeSeconds(1 + random.below(60)),
        };
        Brook {
            retention,
            segment_bytes: 600 + random.below(6000),
            is_there: false,
            placed: BTreeMap::new(),
            awaited: Vec::new(),
            committed: 0,
            first: 0,
            waiting_bytes_max: 0,
            reader: None,
            consumer: None,
            stored: Vec::new(),
            stored_safely: None,
            ledger: Ledger::default(),
        }
    }

    fn declare(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let mut arguments = TableBuf::new();
        arguments.push("x-queue-type", Value::LongStr(b"stream"));
        arguments.push_i64("x-stream-max-segment-size-bytes", self.segment_bytes.cast_signed());
        let age;
        match self.retention {
            Retention::Nothing => {}
            Retention::Bytes(bytes) => {
                arguments.push_i64("x-max-length-bytes", bytes.cast_signed());
            }
            Retention::AgeSeconds(seconds) => {
                age = format!("{seconds}s");
                arguments.push("x-max-age", Value::LongStr(age.as_bytes()));
            }
        }
        site.declare(durable(NAME, &arguments))?;
        site.tell(&|| format!("a stream with {:?}, files of {} bytes", self.retention, self.segment_bytes));
        self.is_there = true;
        Ok(())
    }

    /// Nothing of it is there any more.
    fn forget(&mut self) {
        self.leave();
        (self.is_there, self.committed, self.first) = (false, 0, 0);
        self.placed.clear();
        self.awaited.clear();
        self.stored.clear();
        self.stored_safely = None;
    }

    /// Nobody reads.
    fn leave(&mut self) {
        (self.reader, self.consumer) = (None, None);
    }

    fn queue(site: &Site<'_>) -> Result<Arc<Queue>, String> {
        site.queue(NAME).ok_or_else(|| "the stream is lost".into())
    }

    fn log(site: &Site<'_>) -> Result<Arc<StreamLog>, String> {
        Self::queue(site)?.stream_log().ok_or_else(|| "the stream cannot be opened".into())
    }

    fn end(&self) -> u64 {
        self.placed.last_key_value().map_or(0, |(offset, _)| offset + 1)
    }

    /// Compares with what a start has found.
    fn check_start(&mut self, site: &Site<'_>) -> Result<(), String> {
        let log = Self::log(site)?;
        let next = log.committed_next();
        if next < self.committed || next > self.end() {
            return Err(format!("{next} comes next, {} was committed of {}", self.committed, self.end()));
        }
        self.placed.split_off(&next);
        self.committed = next;
        self.look(site)?;
        let publishing_id = self.placed.values().rev().find_map(|placed| placed.publishing_id);
        let found = log.publishing_id(WRITER);
        if found != publishing_id {
            return Err(format!("the publishing id is {found:?}, not {publishing_id:?}"));
        }
        let stored = log.stored_offset(READER);
        let is_known = |value: u64| self.stored.iter().any(|one| one.value == value);
        if stored != self.stored_safely && !stored.is_some_and(is_known) {
            let safe = self.stored_safely;
            return Err(format!("the stored offset is {stored:?}, not {safe:?} or one of {:?}", self.stored));
        }
        (self.stored_safely, self.stored) = (stored, Vec::new());
        Ok(())
    }

    /// Takes in committed and confirmed entries, and the entries that retention took.
    fn look(&mut self, site: &Site<'_>) -> Result<(), String> {
        let log = Self::log(site)?;
        self.note_confirmed();
        let next = log.committed_next();
        if next < self.committed || next > self.end() {
            return Err(format!("{next} comes next, and {} is committed of {}", self.committed, self.end()));
        }
        self.committed = next;
        while let Some(stored) = self.stored.first().copied().filter(|stored| stored.before < next) {
            self.stored_safely = Some(stored.value);
            self.stored.remove(0);
        }
        self.check_retention(site, &log)
    }

    /// A confirmed entry is committed.
    fn note_confirmed(&mut self) {
        let is_confirmed = |message: u64| self.ledger.is_confirmed(message);
        for (_, offset) in self.awaited.extract_if(.., |(message, _)| is_confirmed(*message)) {
            self.committed = self.committed.max(offset + 1);
        }
    }

    /// Only what is too old, or too much, is gone.
    fn check_retention(&mut self, site: &Site<'_>, log: &Arc<StreamLog>) -> Result<(), String> {
        let info = log.info();
        let first = info.first_offset;
        if first < self.first {
            return Err(format!("the first offset is {first}, it was {}", self.first));
        }
        let mut gone = self.placed.range(self.first..first);
        let is_right = match self.retention {
            Retention::Nothing => first == 0,
            Retention::Bytes(bytes) => first == self.first || info.disk_bytes + self.slack_bytes() >= bytes,
            Retention::AgeSeconds(s) => gone.all(|(_, placed)| placed.at_ms + 1000 * s < site.now_ms()),
        };
        if !is_right {
            return Err(format!("{:?} took all from {} to {first} of {info:?}", self.retention, self.first));
        }
        self.first = first;
        Ok(())
    }

    /// The disk may be in such a state that the stream takes nothing more.
    fn may_fail(site: &Site<'_>) -> bool {
        site.weather == Weather::Broken
    }

    /// Publishes by the default exchange.
    fn publish(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let log = Self::log(site)?;
        for _ in 0..=site.below(5) {
            let filler_bytes = if site.chance(1, 12) { site.below(9000) } else { site.below(500) };
            let (offset, at_ms) = (log.append().map(|it| it.next_offset()), site.now_ms());
            let Some(message) = site.publish("", NAME, &properties(true, None), filler_bytes)? else { break };
            self.ledger.entries.insert(message, Entry::new(1, false));
            match (offset, log.append().map(|it| it.next_offset())) {
                (Ok(offset), Ok(next)) if next == offset + 1 => {
                    self.place(
                        offset,
                        Placed { message, at_ms, body_bytes: filler_bytes, publishing_id: None },
                    )?;
                    self.awaited.push((message, offset));
                }
                _ if Self::may_fail(site) => break,
                other => return Err(format!("a publish moved the end of the stream so: {other:?}")),
            }
        }
        Ok(())
    }

    fn place(&mut self, offset: u64, placed: Placed) -> Result<(), String> {
        if offset != self.end().max(self.committed) {
            return Err(format!("{placed:?} is at {offset}, and {} comes next", self.end()));
        }
        self.placed.insert(offset, placed);
        let waiting = self.placed.range(self.committed..);
        let waiting_bytes = waiting.map(|(_, placed)| placed.body_bytes + AROUND_BYTES).sum();
        self.waiting_bytes_max = self.waiting_bytes_max.max(waiting_bytes);
        Ok(())
    }

    /// By how much a stream may have more or less than its limit, bytes: files are removed as a whole, and each has a head and a footer.
    fn slack_bytes(&self) -> u64 {
        2 * self.segment_bytes + self.waiting_bytes_max + 4000
    }

    /// Publishes with a name; some of what it published comes again.
    fn publish_named(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let log = Self::log(site)?;
        let publisher = PublisherSlot(WRITER.into());
        let known = self.placed.values().rev().find_map(|placed| placed.publishing_id);
        let first_id = known.map_or(0, |id| id + 1).saturating_sub(site.below(3));
        let at_ms = site.now_ms();
        let Ok(mut appender) = log.append() else {
            return if Self::may_fail(site) { Ok(()) } else { Err("the stream takes nothing".into()) };
        };
        for publishing_id in first_id..=first_id + site.below(5) {
            let message = *site.next_id;
            *site.next_id += 1;
            let body = model::body(message, usize::try_from(site.below(300)).expect("small"));
            let section = data_section(&body);
            let offset = appender.next_offset();
            let appended =
                appender.entry_once(&publisher, publishing_id, &StreamEntry::Message(&section), None);
            let is_again = known.is_some_and(|known| publishing_id <= known);
            match appended {
                Appended::Duplicate(_) if is_again => {}
                Appended::New(next) if !is_again && next == offset + 1 => {
                    let publishing_id = Some(publishing_id);
                    let body_bytes = body.len() as u64;
                    self.place(offset, Placed { message, at_ms, body_bytes, publishing_id })?;
                }
                other => return Err(format!("id {publishing_id} after {known:?} comes to {other:?}")),
            }
            site.tell(&|| format!("{message} with id {publishing_id} at {offset}: {appended:?}"));
        }
        appender.finish();
        Ok(())
    }

    fn store_offset(&mut self, site: &Site<'_>) -> Result<(), String> {
        let log = Self::log(site)?;
        let value = self.stored.last().map(|stored| stored.value).max(self.stored_safely).unwrap_or(0) + 1;
        let before = self.end().max(self.committed);
        site.tell(&|| format!("{value} is stored before {before}"));
        log.store_offset(READER, value);
        self.stored.push(Stored { value, before });
        if log.stored_offset(READER) == Some(value) { Ok(()) } else { Err("no offset is stored".into()) }
    }

    /// A run of messages that somebody got after `next`: each is the one of its offset, none is left out but by retention.
    fn check_run(&self, next: &mut Option<u64>, run: &[(u64, u64)], first: u64) -> Result<(), String> {
        for (offset, message) in run {
            let wanted = self.placed.get(offset).map(|placed| placed.message);
            if wanted != Some(*message) || *offset >= self.committed {
                return Err(format!("{message} is at {offset}, not {wanted:?}; {} is next", self.committed));
            }
            let is_next = next.is_none_or(|next| next == *offset || (next < *offset && *offset <= first));
            if !is_next {
                return Err(format!("{offset} comes, not {next:?}; the first is {first}"));
            }
            *next = Some(offset + 1);
        }
        Ok(())
    }

    /// Somebody reads from anywhere to the end.
    fn read(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let log = Self::log(site)?;
        let at_ms = site.now_ms().saturating_sub(site.below(20_000));
        let seek = match site.below(5) {
            0 => Seek::First,
            1 => Seek::Last,
            2 => Seek::Next,
            3 => Seek::Timestamp(at_ms.cast_signed()),
            _ => Seek::Offset(site.below(self.committed + 2)),
        };
        let committed = self.committed;
        let mut reader = log.reader(seek, None);
        let read = read_on(&mut reader, || site.idle())?;
        self.look(site)?;
        let run = match read {
            Ok(run) => run,
            Err(error) if site.may_refuse() => return site.tell_ok(&|| format!("{seek:?}: {error}")),
            Err(error) => return Err(format!("{seek:?}: {error}")),
        };
        let mut next = None;
        self.check_run(&mut next, &run, self.first)?;
        if !site.is_calm() {
            return Ok(());
        }
        let begin = run.first().map_or(self.committed, |(offset, _)| *offset);
        let is_late = |(offset, placed): (&u64, &Placed)| *offset >= self.first && placed.at_ms >= at_ms;
        let wanted = match seek {
            Seek::First => self.first,
            // Behind the end it is the end, wherever that is when it is looked for.
            Seek::Offset(offset) if offset > committed => self.committed,
            Seek::Offset(offset) => offset.max(self.first),
            Seek::Timestamp(_) => {
                let mut late = self.placed.iter().filter(|one| is_late(*one));
                late.next().map_or(self.committed, |(offset, _)| *offset)
            }
            Seek::Last | Seek::Next => self.committed,
        };
        if begin > wanted || next.unwrap_or(self.committed) != self.committed {
            return Err(format!("{seek:?} reads {begin} to {next:?}, not {wanted} to {}", self.committed));
        }
        Ok(())
    }

    /// The reader of this life goes on.
    fn read_ahead(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let log = Self::log(site)?;
        let start = || (log.reader(Seek::First, None), None);
        let (mut reader, mut next) = self.reader.take().unwrap_or_else(start);
        let read = read_on(&mut reader, || site.idle())?;
        self.look(site)?;
        match read {
            Ok(run) => self.check_run(&mut next, &run, self.first)?,
            Err(_) if site.may_refuse() => return Ok(()),
            Err(error) => return Err(format!("the reader after {next:?}: {error}")),
        }
        self.reader = Some((reader, next));
        Ok(())
    }

    /// A consumer of AMQP 0-9-1 takes the messages that have come; somebody begins if nobody does.
    fn consume(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let queue = Self::queue(site)?;
        if self.consumer.is_none() && site.is_calm() {
            self.consumer = Some((self.begin_to_consume(site, &queue)?, None));
        }
        site.idle();
        self.look(site)?;
        let Some((token, mut next)) = self.consumer else { return Ok(()) };
        let delivered = std::mem::take(&mut *site.life.session.delivered.lock());
        for one in delivered.into_iter().filter(|one| one.token == token) {
            let (offset, message) = (one.seq.0, one.seen?.id);
            self.check_run(&mut next, &[(offset, message)], self.first)?;
            let consumer = Some(site.life.consumer(token));
            queue.settle(SettleHow::Ack, &[SettleRun { consumer, first: one.seq, count: 1 }]);
        }
        let is_gone = site.life.session.cancelled.lock().contains(&token);
        if is_gone && !site.may_refuse() {
            return Err(format!("the consumer after {next:?} is cancelled"));
        }
        self.consumer = (!is_gone).then_some((token, next));
        Ok(())
    }

    fn begin_to_consume(&self, site: &mut Site<'_>, queue: &Arc<Queue>) -> Result<u32, String> {
        let token = site.life.next_token;
        site.life.next_token += 1;
        let mut arguments = TableBuf::new();
        arguments.push_i64("x-stream-offset", site.below(self.committed + 2).cast_signed());
        let spec = ConsumerSpec {
            id: site.life.consumer(token),
            tag: format!("c{token}").into_bytes().into(),
            channel: 1,
            ack_required: true,
            prefetch: 1 + u32::try_from(site.below(20)).expect("small"),
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority: 0,
            exclusive: false,
            arguments: arguments.as_table().raw().into(),
        };
        let refused = |refused| format!("a consumer is refused: {refused:?}");
        let request = ConsumeRequest { queue: NAME.as_bytes(), spec };
        let session = site.life.session.clone();
        let (_, call) = site.life.broker.consume(&site.life.principal, request, session).map_err(refused)?;
        site.answer(call.into_call())?.map_err(refused)?;
        queue.resume(site.life.consumer(token));
        Ok(token)
    }

    fn delete(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.forget();
        let deleted = site.delete(NAME, false, false)?;
        deleted.map_err(|refused| format!("the deletion is refused: {refused:?}"))?;
        self.declare(site)
    }
}

/// A body as a section of AMQP 1.0.
fn data_section(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("small");
    [&[0x00, 0x53, 0x75, 0xb0][..], &len.to_be_bytes(), body].concat()
}

impl Tenant for Brook {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        if !self.is_there {
            self.declare(site)?;
        }
        self.first = 0;
        self.check_start(site)
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match site.below(60) {
            0..=19 => self.publish(site)?,
            20..=34 => self.publish_named(site)?,
            35..=39 => self.read(site)?,
            40..=45 => self.read_ahead(site)?,
            46..=53 => self.consume(site)?,
            54..=57 => self.store_offset(site)?,
            58 if site.is_calm() && site.chance(1, 8) => self.delete(site)?,
            _ => {}
        }
        self.look(site)
    }

    fn tick(&mut self, _now_ms: u64) {}

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.consume(site)?;
        if let Some((token, _)) = self.consumer.take() {
            site.cancel(NAME, token)?;
        }
        site.life.session.delivered.lock().clear();
        self.leave();
        self.look(site)
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.read(site)?;
        let log = Self::log(site)?;
        let (end, disk_bytes) = (self.end().max(self.committed), log.info().disk_bytes);
        if self.committed != end {
            return Err(format!("{} of {end} are committed", self.committed));
        }
        if let Retention::Bytes(bytes) = self.retention
            && disk_bytes > bytes + self.slack_bytes()
        {
            return Err(format!("the stream has {disk_bytes} bytes, not {bytes}"));
        }
        Ok(())
    }

    fn ended(&mut self, how: Ended) {
        self.leave();
        self.note_confirmed();
        self.awaited.clear();
        if how == Ended::Stopped {
            self.committed = self.end().max(self.committed);
            if let Some(last) = self.stored.last() {
                self.stored_safely = Some(last.value);
                self.stored.clear();
            }
        }
        self.ledger.ended(how);
    }
}
