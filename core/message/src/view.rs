//! A message as it is passed around: borrowed bytes.

use crate::Format;

/// A message as raw bytes. What properties and body are depends on its [`Format`].
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

impl MessageView<'_> {
    /// The protocol it came by.
    #[inline]
    #[must_use]
    pub const fn format(&self) -> Format {
        Format::of(self.properties)
    }
}
