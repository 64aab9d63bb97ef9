//! An open connection: its publishers and consumers, and what each frame asks for.
//!
//! Refuses to know the handshake, heartbeats and how the socket is driven; `session.rs` does.

use std::sync::Arc;
use std::task::Waker;

use broker::streams::StreamLog;
use broker::{Broker, Kind, Permission, Principal, Raised};
use wire::stream::commands::MetadataUpdate;
use wire::stream::requests::{self, SaslAuthenticate};
use wire::stream::{Command, Message, Request, Response, ResponseCode};

use super::consume::Consumer;
use super::control::Control;
use super::end::End;
use super::errors::count_answer;
use super::groups::Asked;
use super::publish::Publisher;
use super::session::Wait;
use super::settings::Settings;
use crate::Now;
use crate::connection::Opened;
use crate::outbox::{Outbox, OutputBytes};

/// The reaction to a frame.
pub(crate) enum Next {
    Took,
    /// Nothing more is read before this is answered.
    Waits(Wait),
    /// It publishes while an alarm is on: it is looked at again when all are off.
    Held,
    /// The client proves again who it is.
    Login(u32, LoginAgain),
    /// The client leaves.
    Close(u32),
}

/// A repeated login.
pub(crate) struct LoginAgain {
    pub(crate) mechanism: String,
    pub(crate) response: Vec<u8>,
}

impl LoginAgain {
    fn of(asked: &SaslAuthenticate<'_>) -> LoginAgain {
        let response = asked.response.unwrap_or_default().to_vec();
        LoginAgain { mechanism: asked.mechanism.to_owned(), response }
    }
}

/// A stream that publishers or consumers of the connection use. As long as it is, its end wakes the connection.
pub(crate) struct Used {
    pub(crate) name: Box<str>,
    pub(crate) log: Arc<StreamLog>,
    waker: Waker,
}

impl Drop for Used {
    fn drop(&mut self) {
        self.log.detach(&self.waker);
    }
}

/// An open connection.
pub(crate) struct Running {
    pub(crate) broker: Broker,
    pub(crate) principal: Principal,
    pub(crate) settings: Arc<Settings>,
    pub(crate) outbox: Arc<Outbox<()>>,
    /// Wakes the connection's task.
    pub(crate) waker: Waker,
    pub(crate) control: Arc<Control>,
    pub(crate) frame_max: u32,
    pub(crate) advertised: (Box<str>, u16),
    /// The client came in over TLS.
    pub(crate) is_encrypted: bool,
    /// By their ids.
    pub(crate) publishers: Vec<Option<Box<Publisher>>>,
    /// By their subscriptions.
    pub(crate) consumers: Vec<Option<Box<Consumer>>>,
    /// Consumer updates that the client has not answered.
    pub(crate) asked: Vec<Asked>,
    /// Correlation id of the next one.
    pub(crate) next_asked: u32,
    /// Deliveries have the committed chunk id.
    pub(crate) delivers_committed: bool,
    /// Entries that wait for their confirm.
    pub(crate) unconfirmed: usize,
    /// So many that no more are read.
    pub(crate) is_full: bool,
    is_held: bool,
    output_full: bool,
    /// The subscription whose turn is first when deliveries go on.
    pub(crate) turn: usize,
}

impl Running {
    pub(crate) fn new(
        broker: Broker,
        principal: Principal,
        settings: Arc<Settings>,
        (outbox, waker): (Arc<Outbox<()>>, Waker),
        control: Arc<Control>,
        (advertised, is_encrypted, frame_max): ((Box<str>, u16), bool, u32),
    ) -> Running {
        Running {
            broker,
            principal,
            settings,
            outbox,
            waker,
            control,
            frame_max,
            advertised,
            is_encrypted,
            publishers: Vec::new(),
            consumers: Vec::new(),
            asked: Vec::new(),
            next_asked: 0,
            delivers_committed: false,
            unconfirmed: 0,
            is_full: false,
            is_held: false,
            output_full: false,
            turn: 0,
        }
    }

    /// Whether it waits for the end of an alarm.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Writes an answer.
    pub(crate) fn respond<'a>(&self, correlation_id: u32, response: impl Into<Response<'a>>) {
        let mut output = self.outbox.lock();
        let out = output.bytes();
        let start = out.len();
        response.into().encode(correlation_id, out);
        count_answer(&self.broker, &out[start..]);
    }

    /// Writes what nobody answers.
    pub(crate) fn tell<'a>(&self, command: impl Into<Command<'a>>) {
        command.into().encode(self.outbox.lock().bytes());
    }

    /// Tells that a stream takes and gives nothing more.
    pub(crate) fn tell_end(&self, stream: &str) {
        let code = ResponseCode::STREAM_NOT_AVAILABLE;
        self.broker.count_stream_error(code.0);
        self.tell(MetadataUpdate { code, stream });
    }

    /// Whether an alarm stops publishers: that of the disk, as in RabbitMQ.
    pub(crate) fn is_alarmed(&self) -> bool {
        self.broker.alarms().raised().has(Raised::DISK)
    }

    /// A frame.
    pub(crate) fn take(&mut self, message: &Message<'_>) -> Result<Next, End> {
        match message {
            Message::Publish(_) if self.is_alarmed() => {
                self.is_held = true;
                return Ok(Next::Held);
            }
            Message::Publish(publish) => self.publish(publish),
            Message::Command(Command::Credit(credit)) => self.credit(*credit),
            Message::Command(Command::StoreOffset(asked)) => self.store_offset(asked),
            Message::Command(Command::Heartbeat(_)) => {}
            Message::Request { correlation_id, request } => {
                return self.request(*correlation_id, request);
            }
            Message::Response { correlation_id, response: Response::ConsumerUpdate(answer) } => {
                self.updated(*correlation_id, answer);
            }
            _ => return Err(End::unknown("a command that clients do not send now")),
        }
        Ok(Next::Took)
    }

    fn request(&mut self, id: u32, request: &Request<'_>) -> Result<Next, End> {
        match request {
            Request::DeclarePublisher(asked) => self.declare_publisher(id, asked),
            Request::QueryPublisherSequence(asked) => self.query_sequence(id, asked),
            Request::DeletePublisher(asked) => self.delete_publisher(id, *asked),
            Request::Subscribe(asked) => self.subscribe(id, asked),
            Request::Unsubscribe(asked) => self.unsubscribe(id, *asked),
            Request::QueryOffset(asked) => self.query_offset(id, asked),
            Request::Create(asked) => return Ok(self.create(id, asked)),
            Request::Delete(asked) => return Ok(self.delete(id, asked)),
            Request::Metadata(asked) => return Ok(self.metadata(id, asked)),
            Request::Route(asked) => self.route(id, asked),
            Request::Partitions(asked) => self.partitions(id, asked),
            Request::StreamStats(asked) => self.stats(id, asked),
            Request::CreateSuperStream(asked) => return Ok(self.create_super_stream(id, asked)),
            Request::DeleteSuperStream(asked) => return Ok(self.delete_super_stream(id, asked)),
            Request::ResolveOffsetSpec(asked) => return Ok(self.resolve(id, asked)),
            Request::ExchangeCommandVersions(asked) => self.exchange_versions(id, asked),
            Request::SaslAuthenticate(asked) => return Ok(Next::Login(id, LoginAgain::of(asked))),
            Request::Close(requests::Close { .. }) => return Ok(Next::Close(id)),
            Request::PeerProperties(_)
            | Request::SaslHandshake(_)
            | Request::Open(_)
            | Request::ConsumerUpdate(_) => {
                return Err(End::unknown("a request that clients do not send now"));
            }
        }
        Ok(Next::Took)
    }

    /// A stream of the vhost.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<StreamLog>, ResponseCode> {
        let queue = self.principal.vhost.queue(name.as_bytes());
        let queue = queue.filter(|queue| queue.queue_kind() == Kind::Stream);
        let queue = queue.ok_or(ResponseCode::STREAM_DOES_NOT_EXIST)?;
        let log = queue.stream_log().filter(|log| log.check().is_ok());
        log.ok_or(ResponseCode::STREAM_NOT_AVAILABLE)
    }

    /// A stream of the vhost that the connection uses from now on.
    pub(crate) fn use_stream(&self, name: &str) -> Result<Arc<Used>, ResponseCode> {
        let known = self.all_used().find(|used| &*used.name == name && used.log.check().is_ok());
        if let Some(used) = known {
            return Ok(used.clone());
        }
        let log = self.find(name)?;
        log.attach(&self.waker);
        Ok(Arc::new(Used { name: name.into(), log, waker: self.waker.clone() }))
    }

    fn all_used(&self) -> impl Iterator<Item = &Arc<Used>> {
        let publishers = self.publishers.iter().flatten().map(|publisher| &publisher.used);
        publishers.chain(self.consumers.iter().flatten().map(|consumer| &consumer.used))
    }

    /// Does what can be done without the client: confirms, deliveries, news of groups and of streams that have ended.
    pub(crate) fn go_on(&mut self, may_tell_ends: bool, now: Now) {
        self.heed_groups(now);
        self.confirm();
        if may_tell_ends {
            self.heed_ends();
        }
        self.deliver();
        self.is_held = self.is_held && self.is_alarmed();
        self.output_full = self.outbox.is_full();
    }

    /// Streams that were deleted or take nothing more: the client is told, and forgets them.
    fn heed_ends(&mut self) {
        while let Some(name) = self.ended() {
            self.forget_stream(&name);
            self.tell_end(&name);
        }
    }

    /// One of the streams that have ended.
    fn ended(&self) -> Option<Box<str>> {
        self.all_used().find(|used| used.log.check().is_err()).map(|used| used.name.clone())
    }

    /// Drops publishers and consumers that the user's permissions no longer allow, and tells the client of their streams.
    pub(crate) fn forget_forbidden(&mut self) {
        let mut told: Vec<Arc<Used>> = Vec::new();
        let mut note = |used: &Arc<Used>| {
            if !told.iter().any(|known| known.name == used.name) {
                told.push(used.clone());
            }
        };
        for id in 0..=u8::MAX {
            let published = self.publisher(id).map(|publisher| publisher.used.clone());
            if let Some(used) = published.filter(|used| self.may(Permission::Write, &used.name).is_err()) {
                self.drop_publisher(id);
                note(&used);
            }
            let consumed = self.consumer(id).map(|consumer| consumer.used.clone());
            if let Some(used) = consumed.filter(|used| self.may(Permission::Read, &used.name).is_err()) {
                self.drop_consumer(id);
                note(&used);
            }
        }
        for used in told {
            self.tell_end(&used.name);
        }
    }

    /// Drops publishers and consumers of a stream.
    pub(crate) fn forget_stream(&mut self, name: &str) {
        for id in 0..=u8::MAX {
            if self.publisher(id).is_some_and(|publisher| &*publisher.used.name == name) {
                self.drop_publisher(id);
            }
            if self.consumer(id).is_some_and(|consumer| &*consumer.used.name == name) {
                self.drop_consumer(id);
            }
        }
    }
}

impl Opened for Running {
    fn principal(&self) -> &Principal {
        &self.principal
    }

    fn is_stalled(&self) -> bool {
        self.is_full || self.is_held || self.output_full
    }

    fn release(&mut self) {
        for id in 0..=u8::MAX {
            self.drop_publisher(id);
            self.drop_consumer(id);
        }
        self.broker.close_connection(&self.principal);
    }
}

/// Puts something at its id; ids are one byte, so the list is short.
pub(crate) fn put<T>(list: &mut Vec<Option<Box<T>>>, id: u8, item: T) {
    let at = usize::from(id);
    if list.len() <= at {
        list.resize_with(at + 1, || None);
    }
    list[at] = Some(Box::new(item));
}
