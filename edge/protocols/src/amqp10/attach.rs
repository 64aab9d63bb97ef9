//! Attach frames: a link is made, or refused.
//!
//! Refuses to know what travels on links. A refused link is attached without its terminus and detached with the reason, as the specification
//! wants it (AMQP 1.0 part 2, figure 2.33).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use broker::{
    ConsumeRequest, ConsumerId, ConsumerSpec, DeclaredQueue, Kind, Permission, PublishChannel, Queue,
    QueueDeclare, Refused, Resource,
};
use message::{Table, Value as Value091};
use wire::amqp10::{
    Attach, AttachTarget, DeliveryState, FRAME_HEADER_BYTES, Map, Performative, ReceiverSettleMode, Released,
    Role, SenderSettleMode, Source, Symbol, Symbols, Target, Value, conditions,
};

use super::address::{Way, of_queue, parse_source, parse_target};
use super::allowance::{Allowance, LINK_CREDIT_FIRST};
use super::confirms::{LinkConfirms, Progress};
use super::deliver::{LinkFlow, NewOutlet};
use super::errors::{Failure, Outcome, Trouble};
use super::filters::{Filters, listed};
use super::link::{Inlet, Link, Receiver};
use super::listed::{Counts, End, Listed, shown};
use super::management;
use super::running::{Attached, Awaited, Made, PausedAttach, Running};

const OUTCOMES: &[&str] =
    &["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];
const TEMPORARY_QUEUE: &str = "temporary-queue";
const VOLATILE_QUEUE: &str = "rabbitmq:volatile-queue";
/// Capabilities of links that receive from streams (AMQP Filter Expressions 1.0, section 2.2).
const FILTERS: &[&str] = &["AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"];

/// Where the messages of a link that sends go.
struct Goal {
    address: Option<String>,
    /// `None` for the anonymous terminus.
    way: Option<Way>,
    /// The queue that was made for the link.
    dynamic: Option<Box<[u8]>>,
}

/// Where a link that receives gets its messages, and what its answer says of the source.
struct Spring {
    queue: Box<[u8]>,
    address: Option<String>,
    is_dynamic: bool,
    kind: Kind,
}

impl Running {
    /// An attach frame.
    pub(crate) fn attach(&mut self, channel: u16, attach: &Attach<'_>) -> Outcome {
        let handle = attach.handle;
        let session = self.session(channel);
        if handle > session.handle_max {
            let max = session.handle_max;
            let text = format!("link handle value ({handle}) exceeds maximum link handle value ({max})");
            return Err(Failure::session(conditions::FRAMING_ERROR, text));
        }
        if session.by_handle.contains_key(&handle) {
            let text = format!("handle {handle} is already associated with a link");
            return Err(Failure::session(conditions::HANDLE_IN_USE, text));
        }
        self.submit();
        self.attach_node(channel, attach, None)
    }

    /// Makes a link, to the queue that was made for it if there is one.
    fn attach_node(&mut self, channel: u16, attach: &Attach<'_>, made: Option<Made>) -> Outcome {
        let attached = check(attach).and_then(|()| match attach.role {
            _ if management::is_wanted(attach) => self.attach_management(channel, attach),
            Role::Sender => self.attach_inlet(channel, attach, made),
            Role::Receiver => self.attach_receiver(channel, attach, made),
        });
        match attached {
            Err(Failure::Link(trouble)) => {
                self.refuse(channel, attach, &trouble);
                Ok(())
            }
            other => other,
        }
    }

    /// A step of making the link's node is done, or refused: the attach goes on.
    pub(crate) fn resume_attach(&mut self, paused: PausedAttach, done: Result<(), Refused>) {
        let PausedAttach { channel, made, frame } = paused;
        let Ok((Performative::Attach(attach), _)) = Performative::decode(&frame) else { return };
        let attached = match done {
            Ok(()) => self.attach_node(channel, &attach, Some(made)),
            Err(refused) => match Failure::from(refused) {
                Failure::Link(trouble) => {
                    self.refuse(channel, &attach, &trouble);
                    Ok(())
                }
                failure => Err(failure),
            },
        };
        if let Err(Failure::Session(trouble) | Failure::Link(trouble) | Failure::Connection(trouble)) =
            attached
        {
            self.end_with(channel, &trouble);
        }
    }

    fn refuse(&mut self, channel: u16, attach: &Attach<'_>, trouble: &Trouble) {
        tracing::warn!(
            connection = %self.principal.connection,
            "refusing link '{}': {}: {}",
            attach.name,
            trouble.condition,
            trouble.text
        );
        let answer = match attach.role {
            Role::Sender => Attach { role: Role::Receiver, target: None, ..*attach },
            Role::Receiver => {
                Attach { role: Role::Sender, source: None, initial_delivery_count: Some(0), ..*attach }
            }
        };
        let answer = Attach { unsettled: Map::EMPTY, properties: Map::EMPTY, ..answer };
        let mut output = self.sink.outbox.lock();
        answer.encode_frame(channel, output.bytes());
        trouble.encode_detach(channel, attach.handle, output.bytes());
    }

    /// A link on which the client sends.
    fn attach_inlet(&mut self, channel: u16, attach: &Attach<'_>, made: Option<Made>) -> Outcome {
        let Some(AttachTarget::Target(target)) = attach.target else {
            return Err(Failure::link(conditions::INVALID_FIELD, "Attach refused: target_required"));
        };
        let Some(Goal { address, way, dynamic }) = self.goal(channel, attach, &target, made)? else {
            return Ok(());
        };
        let settle_mode = attach.snd_settle_mode;
        let queue = way.as_ref().filter(|way| way.is_queue).map(|way| way.key.clone());
        self.serial_latest += 1;
        let serial = self.serial_latest;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "neighbours have different numbers, which is enough"
        )]
        let mut publish = PublishChannel::numbered(serial as u16);
        let place = {
            let progress = Progress::new(serial, channel, queue.unwrap_or_default(), publish.counters());
            self.sink.outbox.lock().state().add_inlet(progress)
        };
        publish.enable_confirms(Arc::new(LinkConfirms { sink: self.sink.clone(), place, serial }));
        let delivery_count = attach.initial_delivery_count.unwrap_or(0);
        let listed = self.listed_inlet(attach, address.as_deref(), place);
        self.sink.outbox.lock().state().list(channel, attach.handle, listed.clone());
        let inlet = Inlet {
            place,
            way,
            latest_way: None,
            settle_mode,
            publish,
            delivery_count,
            credit: LINK_CREDIT_FIRST,
            allowance: Allowance::new(LINK_CREDIT_FIRST),
            partial: None,
            is_active: false,
            dynamic,
            listed,
        };
        self.session(channel).by_handle.insert(attach.handle, Link::Inlet(Box::new(inlet)));
        let max = self.broker.options().message_size_max;
        inlet_answer(attach, target, address.as_deref(), max)
            .encode_frame(channel, self.sink.outbox.lock().bytes());
        let credit = LINK_CREDIT_FIRST;
        let link = LinkFlow {
            handle: attach.handle,
            delivery_count,
            credit,
            available: None,
            drain: false,
            is_active: None,
        };
        self.tell_flow(channel, Some(link));
        Ok(())
    }

    /// Where the messages of a link go; `None` if its queue has to be declared first.
    fn goal(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        target: &Target<'_>,
        made: Option<Made>,
    ) -> Outcome<Option<Goal>> {
        let mut dynamic = None;
        let mut address = target.address.map(str::to_owned);
        if target.dynamic {
            if target.address.is_some() || !target.capabilities.contains(TEMPORARY_QUEUE) {
                let text = format!("Dynamic target not supported: {target:?}");
                return Err(Failure::link(conditions::NOT_IMPLEMENTED, text));
            }
            let Some(Made { queue, .. }) = made else {
                self.declare_dynamic(channel, attach)?;
                return Ok(None);
            };
            address = Some(of_queue(&queue));
            dynamic = Some(queue);
        }
        let Some(text) = &address else { return Ok(Some(Goal { address: None, way: None, dynamic })) };
        let way = match parse_target(text) {
            Some(way) => way,
            None => match self.way_v1(channel, attach, text, target.durable)? {
                Some(way) => way,
                None => return Ok(None),
            },
        };
        self.check_way(&way)?;
        Ok(Some(Goal { address, way: Some(way), dynamic }))
    }

    /// The row of a link on which the client sends.
    fn listed_inlet(&self, attach: &Attach<'_>, address: Option<&str>, place: usize) -> Arc<Listed> {
        let listed = Listed {
            name: shown(attach.name),
            address: address.map(Box::from),
            message_bytes_max: self.broker.options().message_size_max,
            settle_mode: name_of(attach.snd_settle_mode),
            end: End::Incoming { place: Some(place) },
            counts: Counts::default(),
        };
        listed.counts.note(attach.initial_delivery_count.unwrap_or(0), LINK_CREDIT_FIRST);
        Arc::new(listed)
    }

    /// Whether the client may send there, and whether there is such a node.
    fn check_way(&self, way: &Way) -> Outcome {
        self.principal.check_exchange(Permission::Write, &way.exchange)?;
        let vhost = &self.principal.vhost;
        let exchange = vhost.exchange(&way.exchange);
        let exchange =
            exchange.ok_or_else(|| Refused::NotFound(Resource::exchange(vhost.name(), &way.exchange)))?;
        if exchange.internal {
            return Err(Refused::InternalExchange(Resource::exchange(vhost.name(), &way.exchange)).into());
        }
        if way.is_queue && vhost.queue(&way.key).is_none() && !is_reply_address(&way.key) {
            return Err(Refused::NotFound(Resource::queue(vhost.name(), &way.key)).into());
        }
        Ok(())
    }

    /// A link on which the client receives.
    fn attach_receiver(&mut self, channel: u16, attach: &Attach<'_>, made: Option<Made>) -> Outcome {
        let Some(source) = attach.source else {
            return Err(Failure::link(conditions::INVALID_FIELD, "Attach refused: source_required"));
        };
        let settled = attach.snd_settle_mode == SenderSettleMode::Settled;
        if is_reply_source(&source, settled) {
            return self.attach_replies(channel, attach, &source);
        }
        let Some(spring) = self.spring(channel, attach, &source, made)? else { return Ok(()) };
        let address = spring.address.as_deref().or(source.address);
        let is_stream = spring.kind == Kind::Stream;
        let filters = Filters::of(source.filter);
        let answered = Source {
            address,
            expiry_policy: if spring.is_dynamic { Symbol(b"link-detach") } else { source.expiry_policy },
            dynamic_node_properties: Map::EMPTY,
            distribution_mode: Some(Symbol(if is_stream { b"copy" } else { b"move" })),
            filter: Map::from_raw(&filters.effective),
            default_outcome: Some(DeliveryState::Released(Released {})),
            outcomes: if source.outcomes.is_empty() { Symbols::of(OUTCOMES) } else { source.outcomes },
            capabilities: if spring.is_dynamic { Symbols::of(&[TEMPORARY_QUEUE]) } else { Symbols::EMPTY },
            ..source
        };
        let (listed_address, listed_filters) = (address.map(Box::from), listed(&filters.effective));
        let mut answer = Vec::new();
        let offered = Symbols::of(if is_stream { FILTERS } else { &[] });
        Attach { offered_capabilities: offered, ..receiver_answer(attach, answered, settled) }
            .encode_frame(channel, &mut answer);
        let (token, outlet) = self.add_outlet(channel, attach, settled, false);
        let spec = self.consumer_spec(channel, attach, token, filters);
        let spec = ConsumerSpec { ack_required: !settled, ..spec };
        let request = ConsumeRequest { queue: &spring.queue, spec };
        let consumed = self.broker.consume(&self.principal, request, self.sink.clone());
        let (queue, mut call) = match consumed {
            Ok(consumed) => consumed,
            Err(refused) => {
                self.sink.outbox.lock().state().remove_outlet(outlet, |_| ());
                return Err(refused.into());
            }
        };
        self.settlements.attach(outlet, queue.clone(), Some(self.consumer(token)));
        if queue.queue_kind() == Kind::Quorum && !settled {
            self.limit_time(attach, outlet, &queue);
        }
        let listed = Arc::new(Listed {
            name: shown(attach.name),
            address: listed_address,
            message_bytes_max: attach.max_message_size.unwrap_or(0),
            settle_mode: if settled { "settled" } else { "unsettled" },
            end: End::Outgoing { outlet: Some(outlet), queue: spring.queue.clone(), filters: listed_filters },
            counts: Counts::default(),
        });
        let dynamic = spring.is_dynamic.then_some(spring.queue);
        let receiver = Attached {
            channel,
            handle: attach.handle,
            token,
            outlet,
            dynamic,
            name: attach.name.to_owned(),
            listed,
            answer,
        };
        match std::future::Future::poll(Pin::new(&mut call), &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => self.consumed(&queue, receiver, result),
            Poll::Pending => self.awaited = Some(Awaited::Consumed { call, queue, receiver }),
        }
        Ok(())
    }

    /// Deliveries of a link may stay unsettled for as long as its properties say, or its queue, or the configuration.
    fn limit_time(&mut self, attach: &Attach<'_>, outlet: u32, queue: &Queue) {
        let timeout_ms = match attach.properties.get("rabbitmq:consumer-timeout") {
            Some(Value::Uint(own)) => u64::from(own),
            _ => queue.consumer_timeout_ms(self.settings.consumer_timeout_ms),
        };
        self.set_timeout(outlet, timeout_ms);
    }

    fn consumer_spec(&self, channel: u16, attach: &Attach<'_>, token: u32, filters: Filters) -> ConsumerSpec {
        let Filters { mut arguments, wanted, .. } = filters;
        let mut priority = 0;
        if let Some(Value::Int(wanted)) = attach.properties.get("rabbitmq:priority") {
            priority = i64::from(wanted);
            arguments.push("x-priority", Value091::I32(wanted));
        }
        ConsumerSpec {
            id: ConsumerId { connection: self.principal.connection, token },
            tag: attach.handle.to_string().into_bytes().into(),
            channel,
            ack_required: true,
            prefetch: 0,
            by_credit: true,
            delivered_before: 0,
            filter: wanted,
            priority,
            exclusive: false,
            arguments: arguments.into_raw().into(),
        }
    }

    fn add_outlet(&mut self, channel: u16, attach: &Attach<'_>, settled: bool, is_reply: bool) -> (u32, u32) {
        self.token_latest =
            self.token_latest.checked_add(1).expect("fewer than 4 billion links on a connection");
        let token = self.token_latest;
        let message_bytes_max = attach.max_message_size.unwrap_or(0);
        let (handle, new) = (attach.handle, self.sink.outbox.clone());
        let outlet = NewOutlet { token, channel, handle, settled, message_bytes_max, is_reply };
        let outlet = new.lock().state().add_outlet(outlet);
        (token, outlet)
    }

    /// The queue has taken a consumer, or refused it.
    pub(crate) fn consumed(&mut self, queue: &Arc<Queue>, receiver: Attached, result: Result<(), Refused>) {
        let Attached { channel, handle, token, outlet, dynamic, name, listed, answer } = receiver;
        if let Err(refused) = result {
            self.sink.outbox.lock().state().remove_outlet(outlet, |_| ());
            self.settlements.forget(outlet);
            let attach = Attach { name: &name, handle, ..BARE };
            match Failure::from(refused) {
                Failure::Link(trouble) => self.refuse(channel, &attach, &trouble),
                Failure::Session(trouble) | Failure::Connection(trouble) => self.end_with(channel, &trouble),
            }
            return;
        }
        {
            let mut output = self.sink.outbox.lock();
            output.bytes().extend_from_slice(&answer);
            let side = output.state();
            if let Some(outlet) = side.outlet(outlet) {
                outlet.announced = true;
            }
            if let Some(session) = side.session(channel) {
                session.consumer_count += 1;
            }
            side.list(channel, handle, listed);
        }
        let receiver = Receiver { token, outlet, reply_address: None, dynamic };
        let session = self.session(channel);
        session.by_handle.insert(handle, Link::Receiver(receiver));
        session.permit.consumers += 1;
        // The queue may have gone meanwhile.
        self.sink.has_news.store(true, Ordering::Release);
        queue.resume(self.consumer(token));
    }

    /// Where a link gets its messages; `None` if its queue has to be made first.
    fn spring(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        source: &Source<'_>,
        made: Option<Made>,
    ) -> Outcome<Option<Spring>> {
        if source.dynamic {
            if source.address.is_some() || !source.capabilities.contains(TEMPORARY_QUEUE) {
                let text = format!("Dynamic source not supported: {source:?}");
                return Err(Failure::link(conditions::NOT_IMPLEMENTED, text));
            }
            let Some(Made { queue, .. }) = made else {
                self.declare_dynamic(channel, attach)?;
                return Ok(None);
            };
            let address = Some(of_queue(&queue));
            return Ok(Some(Spring { address, queue, is_dynamic: true, kind: Kind::Classic }));
        }
        check_outcomes(source)?;
        let queue = match source.address.and_then(parse_source) {
            Some(queue) => queue,
            None => match self.queue_v1(channel, attach, source, made)? {
                Some(queue) => queue,
                None => return Ok(None),
            },
        };
        let Some(found) = self.principal.vhost.queue(&queue) else {
            return Err(Refused::NotFound(Resource::queue(self.principal.vhost.name(), &queue)).into());
        };
        Ok(Some(Spring { queue, address: None, is_dynamic: false, kind: found.queue_kind() }))
    }

    /// Direct reply-to: a link without a queue.
    fn attach_replies(&mut self, channel: u16, attach: &Attach<'_>, source: &Source<'_>) -> Outcome {
        let (token, outlet) = self.add_outlet(channel, attach, true, true);
        let address = self.broker.register_reply(&self.principal, token, self.sink.clone());
        let node = of_queue(&address);
        let answered = Source {
            address: Some(&node),
            timeout: 0,
            dynamic_node_properties: Map::EMPTY,
            distribution_mode: Some(Symbol(b"move")),
            filter: Map::EMPTY,
            capabilities: Symbols::of(&[VOLATILE_QUEUE]),
            ..*source
        };
        let mut output = self.sink.outbox.lock();
        receiver_answer(attach, answered, true).encode_frame(channel, output.bytes());
        if let Some(outlet) = output.state().outlet(outlet) {
            outlet.announced = true;
        }
        let listed = Listed {
            name: shown(attach.name),
            address: Some(node.as_str().into()),
            message_bytes_max: attach.max_message_size.unwrap_or(0),
            settle_mode: "settled",
            end: End::Outgoing { outlet: Some(outlet), queue: address.clone(), filters: Vec::new() },
            counts: Counts::default(),
        };
        output.state().list(channel, attach.handle, Arc::new(listed));
        drop(output);
        let receiver = Receiver { token, outlet, reply_address: Some(address), dynamic: None };
        self.session(channel).by_handle.insert(attach.handle, Link::Receiver(receiver));
        Ok(())
    }

    /// Declares an exclusive queue for a link, with a name of the broker's choice.
    fn declare_dynamic(&mut self, channel: u16, attach: &Attach<'_>) -> Outcome {
        let declare = QueueDeclare {
            name: b"",
            durable: true,
            exclusive: true,
            auto_delete: false,
            arguments: Table::from_raw(&[]),
        };
        self.declare_node(channel, attach, declare)
    }

    /// Declares the queue of a link's node. The attach goes on when it is there.
    pub(super) fn declare_node(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        declare: QueueDeclare<'_>,
    ) -> Outcome {
        let DeclaredQueue { name, counts } = self.broker.declare_queue(&self.principal, declare)?;
        let made = Made { queue: name, is_bound: false };
        let paused = PausedAttach { channel, made, frame: frame_of(channel, attach) };
        self.awaited = Some(Awaited::Declared { call: counts, paused });
        Ok(())
    }
}

/// The body of the frame of an attach.
pub(super) fn frame_of(channel: u16, attach: &Attach<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    attach.encode_frame(channel, &mut frame);
    frame.split_off(FRAME_HEADER_BYTES)
}

/// An attach with nothing but what must be there.
const BARE: Attach<'static> = Attach {
    name: "",
    handle: 0,
    role: Role::Receiver,
    snd_settle_mode: SenderSettleMode::Mixed,
    rcv_settle_mode: ReceiverSettleMode::First,
    source: None,
    target: None,
    unsettled: Map::EMPTY,
    incomplete_unsettled: false,
    initial_delivery_count: None,
    max_message_size: None,
    offered_capabilities: Symbols::EMPTY,
    desired_capabilities: Symbols::EMPTY,
    properties: Map::EMPTY,
};

/// The answer to a link that sends. The largest message is always told: clients have read its absence as 0.
fn inlet_answer<'a>(
    attach: &Attach<'a>,
    target: Target<'a>,
    address: Option<&'a str>,
    message_bytes_max: u64,
) -> Attach<'a> {
    let target = Target {
        address,
        expiry_policy: if target.dynamic { Symbol(b"link-detach") } else { target.expiry_policy },
        dynamic_node_properties: Map::EMPTY,
        capabilities: if target.dynamic { Symbols::of(&[TEMPORARY_QUEUE]) } else { target.capabilities },
        ..target
    };
    Attach {
        role: Role::Receiver,
        rcv_settle_mode: ReceiverSettleMode::First,
        target: Some(AttachTarget::Target(target)),
        unsettled: Map::EMPTY,
        initial_delivery_count: None,
        max_message_size: Some(message_bytes_max),
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
        ..*attach
    }
}

/// The answer to a link that receives.
fn receiver_answer<'a>(attach: &Attach<'a>, source: Source<'a>, settled: bool) -> Attach<'a> {
    Attach {
        role: Role::Sender,
        snd_settle_mode: if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
        source: Some(source),
        unsettled: Map::EMPTY,
        initial_delivery_count: Some(0),
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
        ..*attach
    }
}

/// Refuses links with features that RabbitMQ does not have.
fn check(attach: &Attach<'_>) -> Outcome {
    let missing = |text: &str| Err(Failure::link(conditions::NOT_IMPLEMENTED, text));
    if let Some(AttachTarget::Coordinator(_)) = attach.target {
        return missing("Transactions not supported");
    }
    if !attach.unsettled.is_empty() || attach.incomplete_unsettled {
        return missing("Link recovery not supported");
    }
    let is_second = attach.rcv_settle_mode == ReceiverSettleMode::Second;
    if is_second && attach.snd_settle_mode != SenderSettleMode::Settled {
        return missing("rcv-settle-mode second not supported");
    }
    Ok(())
}

fn check_outcomes(source: &Source<'_>) -> Outcome {
    let unknown: Vec<_> = source
        .outcomes
        .iter()
        .filter(|outcome| !OUTCOMES.iter().any(|known| known.as_bytes() == *outcome))
        .map(|outcome| format!("{{symbol,<<\"{}\">>}}", String::from_utf8_lossy(outcome)))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let text = format!("Outcomes not supported: [{}]", unknown.join(","));
    Err(Failure::link(conditions::NOT_IMPLEMENTED, text))
}

const fn name_of(mode: SenderSettleMode) -> &'static str {
    match mode {
        SenderSettleMode::Unsettled => "unsettled",
        SenderSettleMode::Settled => "settled",
        SenderSettleMode::Mixed => "mixed",
    }
}

pub(super) fn is_reply_address(queue: &[u8]) -> bool {
    queue.starts_with(b"amq.rabbitmq.reply-to.")
}

fn is_reply_source(source: &Source<'_>, settled: bool) -> bool {
    source.dynamic
        && source.address.is_none()
        && source.capabilities.contains(VOLATILE_QUEUE)
        && source.durable == 0
        && source.expiry_policy == Symbol(b"link-detach")
        && source.timeout == 0
        && settled
}
