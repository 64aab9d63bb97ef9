//! Performatives of AMQP and SASL, decoded in place.
//!
//! Refuses to know which are legal when, and in which direction (AMQP 1.0 part 2, section 2.7, and part 5, section
//! 5.3.3).

use super::compound::{Descriptor, List, Map};
use super::define::{Composite, CompositeError, composites};
use super::field::{Scalar, Symbol};
use super::frame::{FRAME_AMQP, FRAME_SASL, write_frame_with};
use super::state::{AttachTarget, DeliveryState, Error, Source};
use super::symbols::Symbols;
use super::value::Value;
use super::writer::Writer;
use crate::reader::Reader;

#[cfg(test)]
mod tests;

composites! {
    /// Begins a connection.
    Open<'a> 0x10 "amqp:open:list" {
        /// Name of the peer.
        container_id: &'a str,
        /// Host, or `vhost:NAME`.
        hostname: Option<&'a str>,
        /// Largest frame in bytes that the sender takes.
        max_frame_size: u32 = u32::MAX,
        /// Highest channel number.
        channel_max: u16 = u16::MAX,
        /// Milliseconds without a frame after which the sender ends the connection; absent or 0: never.
        idle_time_out: Option<u32>,
        /// Languages it writes.
        outgoing_locales: Symbols<'a>,
        /// Languages it reads.
        incoming_locales: Symbols<'a>,
        /// Extensions it has.
        offered_capabilities: Symbols<'a>,
        /// Extensions it may use.
        desired_capabilities: Symbols<'a>,
        /// Product, version, ...
        properties: Map<'a>,
    }

    /// Begins a session.
    Begin<'a> 0x11 "amqp:begin:list" {
        /// Channel of the begin that it answers.
        remote_channel: Option<u16>,
        /// Id of the first transfer that is sent.
        next_outgoing_id: u32,
        /// Transfer frames that the sender takes.
        incoming_window: u32,
        /// Transfer frames that it keeps unsettled at most.
        outgoing_window: u32,
        /// Highest handle.
        handle_max: u32 = u32::MAX,
        /// Extensions it has.
        offered_capabilities: Symbols<'a>,
        /// Extensions it may use.
        desired_capabilities: Symbols<'a>,
        /// More about it.
        properties: Map<'a>,
    }

    /// Attaches a link to a session.
    Attach<'a> 0x12 "amqp:attach:list" {
        /// Name of the link.
        name: &'a str,
        /// Its number in the session.
        handle: u32,
        /// The role of the sender of the frame.
        role: Role,
        /// Whether deliveries are sent settled.
        snd_settle_mode: SenderSettleMode = SenderSettleMode::Mixed,
        /// The side that settles first.
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode::First,
        /// Where messages come from.
        source: Option<Source<'a>>,
        /// Where they go to.
        target: Option<AttachTarget<'a>>,
        /// Deliveries of an earlier life of the link.
        unsettled: Map<'a>,
        /// Whether there are more of these.
        incomplete_unsettled: bool = false,
        /// First delivery count; mandatory for senders.
        initial_delivery_count: Option<u32>,
        /// Largest message in bytes; absent or 0: any.
        max_message_size: Option<u64>,
        /// Extensions it has.
        offered_capabilities: Symbols<'a>,
        /// Extensions it may use.
        desired_capabilities: Symbols<'a>,
        /// More about it.
        properties: Map<'a>,
    }

    /// Windows of a session, credit of a link.
    Flow<'a> 0x13 "amqp:flow:list" {
        /// Id of the next transfer that is expected.
        next_incoming_id: Option<u32>,
        /// Transfer frames that the sender takes.
        incoming_window: u32,
        /// Id of the next transfer that it sends.
        next_outgoing_id: u32,
        /// Transfer frames that it may send.
        outgoing_window: u32,
        /// Link; absent for the session alone.
        handle: Option<u32>,
        /// Delivery count of the link's sender.
        delivery_count: Option<u32>,
        /// Deliveries that the receiver takes, counted from the delivery count.
        link_credit: Option<u32>,
        /// Messages that wait at the sender.
        available: Option<u32>,
        /// Whether credit that cannot be used now is given back.
        drain: bool = false,
        /// Whether the other side must answer with its own.
        echo: bool = false,
        /// More about it.
        properties: Map<'a>,
    }

    /// A delivery, or a part of one. The message follows the performative.
    Transfer<'a> 0x14 "amqp:transfer:list" {
        /// Link.
        handle: u32,
        /// Number of the delivery; may be absent in parts after the first.
        delivery_id: Option<u32>,
        /// Tag of the delivery, at most 32 bytes; may be absent in parts after the first.
        delivery_tag: Option<&'a [u8]>,
        /// 0 for AMQP messages; may be absent in parts after the first.
        message_format: Option<u32>,
        /// Whether it is settled.
        settled: Option<bool>,
        /// Whether parts follow.
        more: bool = false,
        /// The side that settles first.
        rcv_settle_mode: Option<ReceiverSettleMode>,
        /// State at the sender.
        state: Option<DeliveryState<'a>>,
        /// Whether it goes on with a delivery of an earlier life of the link.
        resume: bool = false,
        /// Whether the delivery is given up.
        aborted: bool = false,
        /// Whether the answer may wait.
        batchable: bool = false,
    }

    /// State of a range of deliveries.
    Disposition<'a> 0x15 "amqp:disposition:list" {
        /// The role of the sender of the frame for these deliveries.
        role: Role,
        /// First delivery id.
        first: u32,
        /// Last one; absent: the same.
        last: Option<u32>,
        /// Whether they are settled.
        settled: bool = false,
        /// Their state.
        state: Option<DeliveryState<'a>>,
        /// Whether the answer may wait.
        batchable: bool = false,
    }

    /// Detaches a link.
    Detach<'a> 0x16 "amqp:detach:list" {
        /// Link.
        handle: u32,
        /// Whether the link is over, and not only detached.
        closed: bool = false,
        /// Why.
        error: Option<Error<'a>>,
    }

    /// Ends a session.
    End<'a> 0x17 "amqp:end:list" {
        /// Why.
        error: Option<Error<'a>>,
    }

    /// Ends a connection.
    Close<'a> 0x18 "amqp:close:list" {
        /// Why.
        error: Option<Error<'a>>,
    }

    /// Mechanisms that the server has.
    SaslMechanisms<'a> 0x40 "amqp:sasl-mechanisms:list" {
        /// Their names.
        sasl_server_mechanisms: Symbols<'a>,
    }

    /// Chooses a mechanism.
    SaslInit<'a> 0x41 "amqp:sasl-init:list" {
        /// Its name.
        mechanism: Symbol<'a>,
        /// The first response of the mechanism.
        initial_response: Option<&'a [u8]>,
        /// Host.
        hostname: Option<&'a str>,
    }

    /// The server asks for more.
    SaslChallenge<'a> 0x42 "amqp:sasl-challenge:list" {
        /// The challenge.
        challenge: &'a [u8],
    }

    /// The client's answer to a challenge.
    SaslResponse<'a> 0x43 "amqp:sasl-response:list" {
        /// The answer.
        response: &'a [u8],
    }

    /// How the login ended.
    SaslOutcome<'a> 0x44 "amqp:sasl-outcome:list" {
        /// How.
        code: SaslCode,
        /// More about it.
        additional_data: Option<&'a [u8]>,
    }
}

macro_rules! choices {
    ($(
        $(#[$meta:meta])*
        $name:ident, $value:ident { $( $(#[$choice_meta:meta])* $choice:ident = $number:expr ),+ $(,)? }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$choice_meta])* $choice, )+
        }

        impl<'a> Scalar<'a> for $name {
            #[inline]
            fn read(value: Value<'a>) -> Option<Self> {
                let Value::$value(number) = value else { return None };
                $( if number == $number { return Some(Self::$choice); } )+
                None
            }

            #[inline]
            fn write(&self, writer: &mut Writer<'_>) {
                writer.value(&Value::$value(match self { $( Self::$choice => $number, )+ }));
            }

            #[cfg(test)]
            fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
                let all = [$( Self::$choice ),+];
                all[usize::from(samples.number().to_le_bytes()[0]) % all.len()]
            }
        }
    )+ };
}

choices! {
    /// The role of an end of a link.
    Role, Bool {
        /// It sends messages.
        Sender = false,
        /// It receives messages.
        Receiver = true,
    }

    /// Whether a link's sender sends deliveries settled.
    SenderSettleMode, Ubyte {
        /// None of them.
        Unsettled = 0,
        /// All of them.
        Settled = 1,
        /// As it likes.
        Mixed = 2,
    }

    /// The side that settles first.
    ReceiverSettleMode, Ubyte {
        /// The receiver, on its own.
        First = 0,
        /// The receiver, after the sender; RabbitMQ refuses it.
        Second = 1,
    }

    /// How a login ended.
    SaslCode, Ubyte {
        /// Done.
        Ok = 0,
        /// Wrong credentials.
        Auth = 1,
        /// A failure.
        Sys = 2,
        /// A failure that will not go away by itself.
        SysPerm = 3,
        /// A failure that may go away.
        SysTemp = 4,
    }
}

macro_rules! performatives {
    ($(
        $(#[$meta:meta])*
        $name:ident, $kind:ident { $( $variant:ident ),+ $(,)? }
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum $name<'a> {
            $(
                #[doc = concat!("`", stringify!($variant), "`")]
                $variant($variant<'a>),
            )+
        }

        impl<'a> $name<'a> {
            /// Decodes the performative at the front of a frame's body: the performative, and what follows it.
            ///
            /// # Errors
            /// See [`CompositeError`]. Whether anything may follow is for the caller to know: only transfers have a
            /// payload.
            #[inline]
            pub fn decode(body: &'a [u8]) -> Result<(Self, &'a [u8]), CompositeError> {
                let mut reader = Reader::new(body);
                let (descriptor, fields) = read_head(&mut reader)?;
                let code = match descriptor {
                    Descriptor::Code(code) => code,
                    $( Descriptor::Symbol(name) if name == $variant::NAME.as_bytes() => $variant::CODE, )+
                    Descriptor::Symbol(_) => return Err(CompositeError::Unknown),
                };
                let performative = match code {
                    $( $variant::CODE => $variant::read_fields(fields).map(Self::$variant)?, )+
                    _ => return Err(CompositeError::Unknown),
                };
                Ok((performative, reader.rest()))
            }

            /// Name of its descriptor.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$variant(_) => $variant::NAME, )+ }
            }

            /// Appends the whole frame, without a payload. SASL has no channels: it must be 0.
            pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
                match self { $( Self::$variant(performative) => performative.encode_frame(channel, out), )+ }
            }

            #[cfg(test)]
            fn one_of_each(samples: &mut super::samples::Samples<'a>) -> Vec<Self> {
                vec![ $( Self::$variant(Composite::sample(samples)), )+ ]
            }
        }

        $(
            impl $variant<'_> {
                /// Appends the whole frame, without a payload.
                #[inline]
                pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
                    write_frame_with($kind, channel, out, |out| Composite::write(self, &mut Writer::new(out)));
                }
            }

            impl<'a> From<$variant<'a>> for $name<'a> {
                fn from(performative: $variant<'a>) -> Self {
                    Self::$variant(performative)
                }
            }
        )+
    )+ };
}

performatives! {
    /// Any performative of an AMQP frame.
    #[expect(clippy::large_enum_variant, reason = "borrowed views that live as long as a frame is looked at")]
    Performative, FRAME_AMQP {
        Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close,
    }

    /// Any performative of a SASL frame.
    SaslPerformative, FRAME_SASL {
        SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome,
    }
}

/// Reads a descriptor and the list that it describes.
#[inline]
fn read_head<'a>(reader: &mut Reader<'a>) -> Result<(Descriptor<'a>, List<'a>), CompositeError> {
    if reader.u8() != Some(0) {
        return Err(CompositeError::Unknown);
    }
    let descriptor = match Value::read(reader)? {
        Value::Ulong(code) => Descriptor::Code(code),
        Value::Symbol(name) => Descriptor::Symbol(name),
        _ => return Err(CompositeError::Unknown),
    };
    let Value::List(fields) = Value::read(reader)? else { return Err(CompositeError::Unknown) };
    Ok((descriptor, fields))
}

/// A transfer and its payload, which come once per message, decoded without a detour over [`Performative`].
///
/// `None` if the body is another performative's, has its descriptor in a long form, or cannot be decoded;
/// [`Performative::decode`] says which.
#[inline]
#[must_use]
pub fn decode_transfer(body: &[u8]) -> Option<(Transfer<'_>, &[u8])> {
    let mut reader = Reader::new(body);
    if reader.bytes(3)? != [0x00, 0x53, 0x14] {
        return None;
    }
    let Value::List(fields) = Value::read(&mut reader).ok()? else { return None };
    let transfer = match plain_transfer(&mut Reader::new(fields.raw())) {
        Some(transfer) => transfer,
        None => Transfer::read_fields(fields).ok()?,
    };
    Some((transfer, reader.rest()))
}

/// A transfer with no fields behind `more`, as nearly all are: read without a detour over [`Value`]. `None` if it is not
/// of that kind, or of no kind at all.
#[inline]
fn plain_transfer<'a>(fields: &mut Reader<'a>) -> Option<Transfer<'a>> {
    let mut transfer = Transfer::of(plain_uint(fields)??);
    if !fields.is_empty() {
        transfer.delivery_id = plain_uint(fields)?;
    }
    if !fields.is_empty() {
        transfer.delivery_tag = match fields.u8()? {
            0x40 => None,
            0xA0 => Some(fields.short_bytes()?),
            _ => return None,
        };
    }
    if !fields.is_empty() {
        transfer.message_format = plain_uint(fields)?;
    }
    if !fields.is_empty() {
        transfer.settled = plain_bool(fields)?;
    }
    if !fields.is_empty() {
        transfer.more = plain_bool(fields)?.unwrap_or(false);
    }
    fields.is_empty().then_some(transfer)
}

/// A number in one of its usual encodings, or null.
#[inline]
#[expect(clippy::option_option, reason = "null and another type are different absences")]
fn plain_uint(fields: &mut Reader<'_>) -> Option<Option<u32>> {
    Some(Some(match fields.u8()? {
        0x43 => 0,
        0x52 => fields.u8()?.into(),
        0x70 => fields.u32()?,
        0x40 => return Some(None),
        _ => return None,
    }))
}

/// A flag in one of its usual encodings, or null.
#[inline]
#[expect(clippy::option_option, reason = "null and another type are different absences")]
fn plain_bool(fields: &mut Reader<'_>) -> Option<Option<bool>> {
    match fields.u8()? {
        0x41 => Some(Some(true)),
        0x42 => Some(Some(false)),
        0x40 => Some(None),
        _ => None,
    }
}

/// Appends a delivery: one transfer frame, or as many as the message needs when no frame may be larger than
/// `frame_size_max` bytes. Returns how many frames there are.
///
/// `message` are its parts in order. `transfer` is that of the first frame, its `more` is set as needed; the others have
/// the handle only.
///
/// # Panics
/// If `frame_size_max` has no room for the transfer and a byte of payload; [`super::FRAME_SIZE_MAX_MIN`] always has,
/// with tags of at most 32 bytes and without a state.
pub fn encode_delivery(
    channel: u16,
    transfer: &Transfer<'_>,
    message: &[&[u8]],
    frame_size_max: usize,
    out: &mut Vec<u8>,
) -> u32 {
    let mut left: usize = message.iter().map(|part| part.len()).sum();
    if let Some(head) = PlainHead::of(channel, transfer, left, frame_size_max) {
        head.append(out);
        message.iter().for_each(|part| out.extend_from_slice(part));
        return 1;
    }
    let mut parts = message.iter().copied();
    let mut part: &[u8] = &[];
    let mut frame_count = 0;
    loop {
        let start = out.len();
        let next = if frame_count == 0 {
            Transfer { more: false, ..*transfer }
        } else {
            Transfer::of(transfer.handle)
        };
        next.encode_frame(channel, out);
        if out.len() - start + left > frame_size_max {
            out.truncate(start);
            Transfer { more: true, ..next }.encode_frame(channel, out);
        }
        let room = frame_size_max.checked_sub(out.len() - start).expect("a frame has room for its transfer");
        let mut take = left.min(room);
        assert!(take > 0 || left == 0, "a frame has room for a byte of payload");
        left -= take;
        while take > 0 {
            if part.is_empty() {
                part = parts.next().expect("the parts are as long as their sum");
                continue;
            }
            let (now, rest) = part.split_at(take.min(part.len()));
            out.extend_from_slice(now);
            take -= now.len();
            part = rest;
        }
        let size = super::writer::size(out.len() - start);
        out[start..start + 4].copy_from_slice(&size);
        frame_count += 1;
        if left == 0 {
            return frame_count;
        }
    }
}

/// The bytes before the message in a frame that holds all of it, with the fields that nearly all deliveries have: put together on the
/// stack and appended at once.
struct PlainHead {
    bytes: [u8; PLAIN_HEAD_BYTES_MAX],
    length: usize,
}

const PLAIN_HEAD_BYTES_MAX: usize = 64;

/// Longest tag of a delivery with a [`PlainHead`], bytes.
const PLAIN_TAG_BYTES_MAX: usize = 32;

impl PlainHead {
    /// `None` if the transfer has other fields, or its message of `message_bytes` does not fit into one frame.
    #[inline]
    fn of(
        channel: u16,
        transfer: &Transfer<'_>,
        message_bytes: usize,
        frame_size_max: usize,
    ) -> Option<PlainHead> {
        let Transfer { handle, delivery_id, delivery_tag, message_format, settled, .. } = *transfer;
        let tag = delivery_tag.filter(|tag| tag.len() <= PLAIN_TAG_BYTES_MAX)?;
        let Transfer {
            rcv_settle_mode: None,
            state: None,
            resume: false,
            aborted: false,
            batchable: false,
            ..
        } = *transfer
        else {
            return None;
        };
        if message_format != Some(0) {
            return None;
        }
        let mut head = PlainHead { bytes: [0; PLAIN_HEAD_BYTES_MAX], length: 0 };
        let [high, low] = channel.to_be_bytes();
        head.put(&[0, 0, 0, 0, 2, super::frame::FRAME_AMQP, high, low]);
        head.put(&[0x00, 0x53, 0x14, 0xC0, 0, 5]);
        head.put_uint(handle);
        head.put_uint(delivery_id?);
        head.put(&[0xA0, u8::try_from(tag.len()).ok()?]);
        head.put(tag);
        head.put(&[0x43, if settled? { 0x41 } else { 0x42 }]);
        head.bytes[12] = u8::try_from(head.length - 13).ok()?;
        let size = head.length + message_bytes;
        if size > frame_size_max {
            return None;
        }
        head.bytes[..4].copy_from_slice(&super::writer::size(size));
        Some(head)
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    #[inline]
    fn put_uint(&mut self, number: u32) {
        match u8::try_from(number) {
            Ok(0) => self.put(&[0x43]),
            Ok(small) => self.put(&[0x52, small]),
            Err(_) => {
                self.put(&[0x70]);
                self.put(&number.to_be_bytes());
            }
        }
    }

    #[inline]
    fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.length]);
    }
}

/// The transfer of a frame after the first one, but for its handle.
const CONTINUATION: Transfer<'static> = Transfer {
    handle: 0,
    delivery_id: None,
    delivery_tag: None,
    message_format: None,
    settled: None,
    more: false,
    rcv_settle_mode: None,
    state: None,
    resume: false,
    aborted: false,
    batchable: false,
};

impl Transfer<'_> {
    /// A transfer of this link with nothing but defaults, as parts after the first have it.
    #[must_use]
    pub const fn of(handle: u32) -> Self {
        Transfer { handle, ..CONTINUATION }
    }
}
