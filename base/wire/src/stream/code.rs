//! Response codes.

use super::field::Field;
use crate::reader::Reader;

/// How a request ended. Unknown numbers are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResponseCode(pub u16);

macro_rules! codes {
    ($( $(#[$meta:meta])* $name:ident = $code:literal $text:literal; )+) => {
        impl ResponseCode {
            $( $(#[$meta])* pub const $name: Self = Self($code); )+

            /// All that are known.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// The meaning, in the words of the protocol's description; empty if it is unknown.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self.0 { $( $code => $text, )+ _ => "" }
            }
        }
    };
}

codes! {
    /// Done.
    OK = 0x01 "ok";
    /// No such stream.
    STREAM_DOES_NOT_EXIST = 0x02 "stream does not exist";
    /// The subscription id is in use.
    SUBSCRIPTION_ID_ALREADY_EXISTS = 0x03 "subscription id already exists";
    /// No such subscription.
    SUBSCRIPTION_ID_DOES_NOT_EXIST = 0x04 "subscription id does not exist";
    /// The stream is there already.
    STREAM_ALREADY_EXISTS = 0x05 "stream already exists";
    /// The stream cannot be reached now.
    STREAM_NOT_AVAILABLE = 0x06 "stream not available";
    /// The server does not speak this mechanism.
    SASL_MECHANISM_NOT_SUPPORTED = 0x07 "SASL mechanism not supported";
    /// Wrong credentials.
    AUTHENTICATION_FAILURE = 0x08 "authentication failure";
    /// The exchange of credentials broke.
    SASL_ERROR = 0x09 "SASL error";
    /// The client must answer a challenge.
    SASL_CHALLENGE = 0x0A "SASL challenge";
    /// The user may log in from the same machine only.
    SASL_AUTHENTICATION_FAILURE_LOOPBACK = 0x0B "SASL authentication failure loopback";
    /// The user may not use the virtual host.
    VIRTUAL_HOST_ACCESS_FAILURE = 0x0C "virtual host access failure";
    /// Nobody knows such a command.
    UNKNOWN_FRAME = 0x0D "unknown frame";
    /// The frame is larger than agreed.
    FRAME_TOO_LARGE = 0x0E "frame too large";
    /// The server failed.
    INTERNAL_ERROR = 0x0F "internal error";
    /// The user may not do this.
    ACCESS_REFUSED = 0x10 "access refused";
    /// Something that must hold does not.
    PRECONDITION_FAILED = 0x11 "precondition failed";
    /// No such publisher.
    PUBLISHER_DOES_NOT_EXIST = 0x12 "publisher does not exist";
    /// No offset is stored.
    NO_OFFSET = 0x13 "no offset";
    /// A new login uses another mechanism; not in the protocol's description.
    SASL_CANNOT_CHANGE_MECHANISM = 0x14 "SASL cannot change mechanism";
    /// A new login is of another user; not in the protocol's description.
    SASL_CANNOT_CHANGE_USERNAME = 0x15 "SASL cannot change username";
}

impl<'a> Field<'a> for ResponseCode {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        reader.u16().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        Self(u16::sample(samples))
    }
}
