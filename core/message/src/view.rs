//! A message as it is passed around: borrowed bytes.

use std::borrow::Cow;

use crate::{Format, Properties, amqp10, mqtt};

/// A message as raw bytes. Its [`Format`] tells how to read properties and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageView<'a> {
    /// Exchange it was published to.
    pub exchange: &'a [u8],
    /// Routing key it was published with.
    pub routing_key: &'a [u8],
    /// Stored properties.
    pub properties: &'a [u8],
    /// Body.
    pub body: &'a [u8],
}

/// Properties of a message in the broker's own vocabulary.
#[derive(Clone, Debug)]
pub struct Plain<'a>(Cow<'a, [u8]>);

impl Plain<'_> {
    /// The properties.
    #[inline]
    #[must_use]
    pub fn properties(&self) -> Properties<'_> {
        Properties::new(&self.0)
    }
}

/// A message as a client of AMQP 0-9-1 gets it.
#[derive(Clone, Debug)]
pub struct InAmqp091<'a> {
    /// Flags and list.
    pub properties: Cow<'a, [u8]>,
    /// Payload.
    pub body: Cow<'a, [u8]>,
}

impl<'a> MessageView<'a> {
    /// The protocol it came by.
    #[inline]
    #[must_use]
    pub const fn format(&self) -> Format {
        Format::of(self.properties)
    }

    /// Its properties as exchanges, traces and operators read them. Costs nothing for AMQP 0-9-1; other formats are converted.
    #[inline]
    #[must_use]
    pub fn plain(&self) -> Plain<'a> {
        match self.format() {
            Format::Amqp091 => Plain(Cow::Borrowed(self.properties)),
            Format::Amqp10 | Format::Mqtt => Plain(self.in_amqp091().properties),
        }
    }

    /// The message as a client of AMQP 0-9-1 gets it. Copies nothing of a message that came by AMQP 0-9-1.
    #[must_use]
    pub fn in_amqp091(&self) -> InAmqp091<'a> {
        match self.format() {
            Format::Amqp091 => {
                InAmqp091 { properties: Cow::Borrowed(self.properties), body: Cow::Borrowed(self.body) }
            }
            Format::Amqp10 => {
                let (properties, body) = amqp10::in_amqp091(self.properties, self.body);
                InAmqp091 { properties: Cow::Owned(properties), body }
            }
            Format::Mqtt => InAmqp091 {
                properties: Cow::Owned(mqtt::in_amqp091(self.properties)),
                body: Cow::Borrowed(self.body),
            },
        }
    }

    /// Whether it may have further keys (CC, BCC). For messages of other protocols than AMQP 0-9-1, whose flags tell.
    #[must_use]
    pub fn may_have_copies(&self) -> bool {
        self.format() == Format::Amqp10 && amqp10::has_annotations(self.properties)
    }

    /// The user that it says has published it.
    #[must_use]
    pub fn claimed_user(&self) -> Option<Cow<'a, [u8]>> {
        match self.format() {
            Format::Amqp091 => {
                Properties::new(self.properties).user_id().map(|user| Cow::Owned(user.to_vec()))
            }
            Format::Amqp10 => amqp10::claimed_user(self.body).map(Cow::Borrowed),
            Format::Mqtt => None,
        }
    }

    /// Whether its body may say what has to be checked (its user), so that one message does not vouch for the next.
    #[inline]
    #[must_use]
    pub const fn claims_in_body(&self) -> bool {
        matches!(self.format(), Format::Amqp10)
    }

    /// Its priority, if it has one.
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        self.plain().properties().priority()
    }

    /// Its timestamp, seconds since 1970.
    #[must_use]
    pub fn timestamp_s(&self) -> Option<u64> {
        self.plain().properties().timestamp()
    }
}
