//! Sessions of MQTT that outlive lives: a sender and a reader who keep their halves of QoS 1 and 2 as real clients do, and retained messages.
//! Knows which messages may come twice, and which value of a topic is the last one.
//!
//! QoS 1 comes at least once. QoS 2 comes once, but for what `docs/known-limits.md` names: a publish without PUBREC when its connection or
//! the node ended, and a message whose PUBCOMP came shortly before a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker::SettleHow;
use protocols::mqtt::{Door, Settings};
use wire::mqtt::{
    Ack, Packet, Properties, Publish, Qos, Subscribe, Subscription, SubscriptionOptions, Subscriptions,
};

use super::ending::Ended;
use super::ledger::{Entry, Ledger};
use super::life::play;
use super::mqtt_client::{Client, Got};
use super::site::{Site, Weather, places_of};
use super::tenant::Tenant;
use crate::history::Summary;
use crate::life::World;
use crate::model::{self, Seen};

/// The queue of the reader's session.
const QUEUE: &str = "mqtt-subscription-readerqos1";

/// Where messages go that are not retained.
const TOPIC: &str = "sim/x";

/// Retained topics.
const TOPICS: u64 = 3;

/// Publishes without an answer, at most.
const UNANSWERED_MAX: usize = 8;

/// How often two connections and the broker get a turn until a connection must be open.
const TURNS: usize = 8;

/// A publish of the sender that is not over.
#[derive(Clone, Debug)]
struct Sent {
    message: u64,
    qos: Qos,
    topic: String,
    body: Vec<u8>,
    /// PUBREC has come.
    is_received: bool,
}

/// A message that the reader has and has not answered.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    id: u16,
    message: u64,
    qos: Qos,
}

/// The sessions.
#[derive(Default)]
pub(super) struct Fleet {
    door: Option<Door>,
    sender: Option<Client>,
    reader: Option<Client>,
    /// The reader has subscribed.
    is_subscribed: bool,
    /// The clients that were connected in this life.
    connected: BTreeSet<String>,
    sent: BTreeMap<u16, Sent>,
    last_id: u16,
    /// Messages of QoS 2 that the reader has and that are not released: by packet id.
    received: BTreeMap<u16, u64>,
    unanswered: Vec<Unanswered>,
    /// How often each message of QoS 2 came.
    times: BTreeMap<u64, u64>,
    /// They may come more than once.
    again: BTreeSet<u64>,
    /// Completed in this life: a crash may forget that.
    completed: BTreeSet<u64>,
    /// The values that each retained topic may hold: from the last one that was acknowledged on. `true`: it was.
    retained: BTreeMap<u64, Vec<(u64, bool)>>,
    ledger: Ledger,
}

/// Plays a history of sessions of MQTT; `tell` hears what happens, line by line.
///
/// # Errors
/// A fault of the broker.
pub fn run(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    play(World::new(seed ^ 0x3a11_0033, tell), vec![Box::new(Fleet::default())])
}

impl Fleet {
    fn door(&mut self, site: &Site<'_>) -> Door {
        let broker = site.life.broker.clone();
        let clock = site.world.clock.clone();
        let settings = Settings { session_expiry_max_s: None, clock, ..Settings::default() };
        let made = || Door { broker, settings: Arc::new(settings) };
        self.door.get_or_insert_with(made).clone()
    }

    /// Connects; `old` holds the same client id, and lets go of it. `None` if the broker cannot take anybody now.
    fn open(
        &mut self,
        site: &mut Site<'_>,
        (client_id, is_clean): (&str, bool),
        mut old: Option<Client>,
    ) -> Result<Option<Client>, String> {
        let mut client = Client::begin(&self.door(site), client_id, is_clean);
        for _ in 0..TURNS {
            site.idle();
            old.iter_mut().for_each(Client::turn);
            match client.next() {
                Some(Got::Opened(is_present, 0)) => {
                    site.tell(&|| format!("{client_id} is connected, a session was there: {is_present}"));
                    let has_queue = client_id == "reader" && self.is_subscribed;
                    // The broker remembers a session without queues in memory.
                    let may_be_there = has_queue || !self.connected.insert(client_id.to_owned());
                    if (is_present && !may_be_there) || (has_queue && !is_present) {
                        return Err(format!("a session of {client_id} was there: {is_present}"));
                    }
                    return Ok(Some(client));
                }
                Some(other) if site.is_calm() => return Err(format!("{client_id} is answered {other:?}")),
                _ => {}
            }
            if old.as_ref().is_some_and(|old| !old.is_open()) {
                old = None;
            }
        }
        if site.is_calm() { Err(format!("{client_id} is not connected")) } else { Ok(None) }
    }

    fn connect_reader(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let old = self.reader.take();
        self.unanswered.clear();
        let Some(mut client) = self.open(site, ("reader", false), old)? else { return Ok(()) };
        if !self.is_subscribed {
            self.subscribe(site, &mut client, "sim/#")?;
            self.is_subscribed = true;
        }
        self.reader = Some(client);
        Ok(())
    }

    fn subscribe(&self, site: &mut Site<'_>, client: &mut Client, filter: &str) -> Result<(), String> {
        let options = SubscriptionOptions { qos: Qos::ExactlyOnce, ..SubscriptionOptions::default() };
        let subscriptions = [Subscription { filter, options }];
        let subscriptions = Subscriptions::of(&subscriptions);
        client.send(&Packet::Subscribe(Subscribe {
            packet_id: 1,
            properties: Properties::EMPTY,
            subscriptions,
        }));
        for _ in 0..TURNS {
            site.idle();
            match client.next() {
                Some(Got::Subscribed) => return Ok(()),
                Some(other) => return Err(format!("SUBSCRIBE is answered {other:?}")),
                None => {}
            }
        }
        Err("SUBSCRIBE is not answered".into())
    }

    /// The sender connects, and sends again what is not over.
    fn connect_sender(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let old = self.sender.take();
        self.doubt_sent();
        let Some(client) = self.open(site, ("sender", false), old)? else { return Ok(()) };
        self.sender = Some(client);
        let mut all: Vec<_> = self.sent.iter().map(|(id, sent)| (*id, sent.clone())).collect();
        all.sort_by_key(|(_, sent)| sent.message);
        for (id, sent) in all {
            if !sent.is_received && sent.topic == TOPIC {
                self.ledger.may_be_there(sent.message, 1);
            }
            site.tell(&|| {
                format!("{} is sent again as {id}, PUBREC has come: {}", sent.message, sent.is_received)
            });
            self.hand_in(id, &sent, true);
        }
        Ok(())
    }

    /// A message that has no answer when its connection ends may be there or not, and twice when it is sent again.
    fn doubt_sent(&mut self) {
        for sent in self.sent.values().filter(|sent| !sent.is_received) {
            self.again.insert(sent.message);
            self.ledger.lose(sent.message);
            self.ledger.may_repeat(sent.message);
        }
    }

    fn hand_in(&mut self, id: u16, sent: &Sent, dup: bool) {
        let Some(sender) = &mut self.sender else { return };
        if sent.is_received {
            return sender.send(&Packet::PubRel(Ack { packet_id: id, ..Ack::default() }));
        }
        sender.send(&Packet::Publish(Publish {
            dup,
            qos: sent.qos,
            retain: sent.topic.starts_with("kept/"),
            topic: &sent.topic,
            packet_id: id,
            properties: Properties::EMPTY,
            payload: &sent.body,
        }));
    }

    fn publish(&mut self, site: &mut Site<'_>) {
        if self.sent.len() >= UNANSWERED_MAX {
            return;
        }
        let message = *site.next_id;
        *site.next_id += 1;
        let filler_bytes = if site.chance(1, 8) { site.below(9000) } else { site.below(200) };
        let body = model::body(message, usize::try_from(filler_bytes).expect("small"));
        let topic_number = site.below(TOPICS);
        let is_kept = site.chance(1, 4);
        let qos = if site.chance(1, 2) && !is_kept { Qos::ExactlyOnce } else { Qos::AtLeastOnce };
        let topic = if is_kept { format!("kept/{topic_number}") } else { TOPIC.to_owned() };
        if is_kept {
            self.retained.entry(topic_number).or_default().push((message, false));
        } else {
            // It need not be there before it is answered.
            self.ledger.entries.insert(message, Entry::new(1, true));
            self.ledger.lose(message);
        }
        self.last_id = self.last_id % 1000 + 1;
        while self.sent.contains_key(&self.last_id) {
            self.last_id = self.last_id % 1000 + 1;
        }
        site.tell(&|| format!("{message} to {topic} with {qos:?} as {}", self.last_id));
        let sent = Sent { message, qos, topic, body, is_received: false };
        self.hand_in(self.last_id, &sent, false);
        self.sent.insert(self.last_id, sent);
    }

    /// The broker has taken a publish.
    fn taken(&mut self, message: u64, site: &Site<'_>) {
        site.tell(&|| format!("{message} is acknowledged"));
        for values in self.retained.values_mut() {
            if let Some(at) = values.iter().position(|(value, _)| *value == message) {
                values.drain(..at);
                values[0].1 = true;
            }
        }
        self.ledger.confirm(message, false);
        if !self.times.contains_key(&message) && !self.again.contains(&message) {
            self.ledger.must_be_there(message);
        }
    }

    /// Answers to the sender.
    fn hear_sender(&mut self, site: &Site<'_>) -> Result<(), String> {
        while let Some(got) = self.sender.as_mut().and_then(Client::next) {
            match got {
                Got::Acked(id) => {
                    let sent =
                        self.sent.remove(&id).ok_or_else(|| format!("PUBACK of {id}, which is not sent"))?;
                    self.taken(sent.message, site);
                }
                Got::Received(id) => {
                    let sent =
                        self.sent.get_mut(&id).ok_or_else(|| format!("PUBREC of {id}, which is not sent"))?;
                    let was_received = std::mem::replace(&mut sent.is_received, true);
                    let sent = sent.clone();
                    if !was_received {
                        self.taken(sent.message, site);
                    }
                    self.hand_in(id, &sent, false);
                }
                Got::Completed(id) => {
                    let _over = self.sent.remove(&id);
                }
                other => return Err(format!("the sender hears {other:?}")),
            }
        }
        self.drop_closed();
        Ok(())
    }

    /// Messages for the reader.
    fn hear_reader(&mut self, site: &Site<'_>) -> Result<(), String> {
        while let Some(got) = self.reader.as_mut().and_then(Client::next) {
            match got {
                Got::Message { id, qos, payload, .. } => self.message((id, qos), &payload, site)?,
                Got::Released(id) => self.release_one(id, site),
                other => return Err(format!("the reader hears {other:?}")),
            }
        }
        self.drop_closed();
        Ok(())
    }

    fn message(&mut self, (id, qos): (u16, Qos), payload: &[u8], site: &Site<'_>) -> Result<(), String> {
        let message = Seen::read(&[0, 0], payload)?.id;
        site.tell(&|| format!("{message} comes with {qos:?} as {id}"));
        self.ledger.delivered(message, 1)?;
        if qos == Qos::ExactlyOnce {
            match self.received.get(&id) {
                Some(known) if *known == message => {}
                Some(known) => return Err(format!("{message} comes as {id}, which is {known}")),
                None => {
                    let times = self.times.entry(message).or_default();
                    *times += 1;
                    let is_allowed = self.again.contains(&message) || site.weather == Weather::Broken;
                    if *times > 1 && !is_allowed {
                        return Err(format!("{message} of QoS 2 comes {times} times"));
                    }
                    self.received.insert(id, message);
                }
            }
        } else {
            *self.times.entry(message).or_default() += 1;
        }
        self.unanswered.push(Unanswered { id, message, qos });
        Ok(())
    }

    /// PUBREL: the message is done with.
    fn release_one(&mut self, id: u16, site: &Site<'_>) {
        if let Some(message) = self.received.remove(&id) {
            site.tell(&|| format!("{message} is completed"));
            self.ledger.settle(message);
            self.completed.insert(message);
        }
        if let Some(reader) = &mut self.reader {
            reader.send(&Packet::PubComp(Ack { packet_id: id, ..Ack::default() }));
        }
    }

    /// The reader answers some of what it has.
    fn answer(&mut self, site: &Site<'_>) {
        for _ in 0..site.below(4) {
            if self.unanswered.is_empty() {
                return;
            }
            let Unanswered { id, message, qos } = self.unanswered.remove(0);
            let Some(reader) = &mut self.reader else { return };
            let ack = Ack { packet_id: id, ..Ack::default() };
            if qos == Qos::ExactlyOnce {
                reader.send(&Packet::PubRec(ack));
            } else {
                site.tell(&|| format!("{message} is done"));
                self.ledger.settle(message);
                reader.send(&Packet::PubAck(ack));
            }
        }
    }

    /// A connection that the broker has ended.
    fn drop_closed(&mut self) {
        if self.reader.as_ref().is_some_and(|it| !it.is_open()) {
            self.leave_reader();
        }
        if self.sender.as_ref().is_some_and(|it| !it.is_open()) {
            self.leave_sender();
        }
    }

    fn leave_reader(&mut self) {
        self.reader = None;
        self.unanswered.clear();
    }

    fn leave_sender(&mut self) {
        self.sender = None;
        self.doubt_sent();
    }

    /// A client that subscribes finds of each topic the last value that was acknowledged, or a later one.
    fn check_retained(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let Some(mut client) = self.open(site, ("looker", true), None)? else { return Ok(()) };
        self.subscribe(site, &mut client, "kept/+")?;
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..TURNS {
            site.idle();
            while let Some(got) = client.next() {
                let Got::Message { id, qos, topic, payload } = got else {
                    return Err(format!("the looker hears {got:?}"));
                };
                let number =
                    topic.trim_start_matches("kept/").parse().map_err(|_| format!("topic {topic}"))?;
                let value = Seen::read(&[0, 0], &payload)?.id;
                if found.insert(number, value).is_some() {
                    return Err(format!("{topic} comes twice"));
                }
                if qos == Qos::AtLeastOnce {
                    client.send(&Packet::PubAck(Ack { packet_id: id, ..Ack::default() }));
                }
            }
        }
        site.tell(&|| format!("retained: {found:?}, possible: {:?}", self.retained));
        for (number, values) in &self.retained {
            match found.remove(number) {
                Some(value) if values.iter().any(|(known, _)| *known == value) => {}
                None if !values.iter().any(|(_, is_acknowledged)| *is_acknowledged) => {}
                other => return Err(format!("kept/{number} is {other:?}, not one of {values:?}")),
            }
        }
        if found.is_empty() { Ok(()) } else { Err(format!("retained and never published: {found:?}")) }
    }
}

impl Tenant for Fleet {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.connect_reader(site)?;
        self.connect_sender(site)
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match site.below(12) {
            0..=4 if self.sender.is_some() => self.publish(site),
            5..=7 => self.answer(site),
            8 if site.is_calm() && (self.reader.is_none() || site.chance(1, 3)) => {
                self.connect_reader(site)?;
            }
            9 if site.is_calm() && (self.sender.is_none() || site.chance(1, 3)) => {
                self.connect_sender(site)?;
            }
            _ => {}
        }
        self.hear_sender(site)?;
        self.hear_reader(site)
    }

    fn tick(&mut self, _now_ms: u64) {}

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        for _ in 0..TURNS {
            site.idle();
            self.hear_sender(site)?;
            self.hear_reader(site)?;
        }
        self.leave_reader();
        self.leave_sender();
        site.idle();
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let taken = site.take_all(0, QUEUE)?;
        self.ledger.compare(&places_of(&taken))?;
        site.check_counts(QUEUE, taken.len())?;
        taken.iter().for_each(|held| site.settle(SettleHow::Requeue, QUEUE, held));
        site.idle();
        self.check_retained(site)?;
        self.connect_reader(site)?;
        self.connect_sender(site)
    }

    fn ended(&mut self, how: Ended) {
        self.leave_reader();
        self.leave_sender();
        self.door = None;
        self.connected.clear();
        if how == Ended::Crashed {
            self.again.extend(std::mem::take(&mut self.completed));
        }
        self.completed.clear();
        self.ledger.ended(how);
    }
}
