//! Reason codes: the one place that turns what the broker refuses into what clients of MQTT are told.

use broker::{CloseReason, Refused};
use wire::mqtt::reason;
use wire::mqtt::{FrameError, PacketError, Version};

use crate::refusals::refusal;

/// Why a connection ends, or a packet is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Reason code of version 5.
    pub(crate) code: u8,
    /// In words, for the log and for clients that can read them.
    pub(crate) text: String,
}

impl End {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> End {
        End { code, text: text.into() }
    }

    /// The client broke a rule of the protocol.
    pub(crate) fn protocol(text: impl Into<String>) -> End {
        End::new(reason::PROTOCOL_ERROR, text)
    }
}

impl From<&Refused> for End {
    fn from(refused: &Refused) -> End {
        let (_, text) = refusal(refused.clone());
        let code = match refused {
            Refused::Access { .. }
            | Refused::TopicAccess { .. }
            | Refused::InternalExchange(_)
            | Refused::DefaultExchange
            | Refused::Locked(_) => reason::NOT_AUTHORIZED,
            Refused::MessageTooLarge { .. } => reason::PACKET_TOO_LARGE,
            Refused::LimitReached { .. } | Refused::Storage(_) => reason::QUOTA_EXCEEDED,
            _ => reason::UNSPECIFIED_ERROR,
        };
        End { code, text }
    }
}

impl From<Refused> for End {
    fn from(refused: Refused) -> End {
        End::from(&refused)
    }
}

impl From<PacketError> for End {
    fn from(error: PacketError) -> End {
        End::new(error.reason_code(), error.to_string())
    }
}

impl From<FrameError> for End {
    fn from(error: FrameError) -> End {
        let code = match error {
            FrameError::TooLarge { .. } => reason::PACKET_TOO_LARGE,
            FrameError::BadLength => reason::MALFORMED_PACKET,
        };
        End::new(code, error.to_string())
    }
}

impl From<CloseReason> for End {
    fn from(close: CloseReason) -> End {
        match close {
            CloseReason::Shutdown => End::new(reason::SERVER_SHUTTING_DOWN, "the server stops"),
            CloseReason::Operator(why) => End::new(reason::ADMINISTRATIVE_ACTION, why),
            CloseReason::VhostDeleted(vhost) => {
                End::new(reason::ADMINISTRATIVE_ACTION, format!("vhost '{vhost}' is deleted"))
            }
            CloseReason::UserDeleted(user) => {
                End::new(reason::NOT_AUTHORIZED, format!("user '{user}' is deleted"))
            }
            CloseReason::TakenOver => {
                End::new(reason::SESSION_TAKEN_OVER, "another connection has the client id")
            }
        }
    }
}

/// The code of CONNACK in this version.
pub(crate) fn connack_code(version: Version, code: u8) -> u8 {
    if version == Version::V5 {
        return code;
    }
    match code {
        reason::SUCCESS => 0,
        reason::UNSUPPORTED_PROTOCOL_VERSION => reason::V3_UNACCEPTABLE_PROTOCOL_VERSION,
        reason::CLIENT_IDENTIFIER_NOT_VALID => reason::V3_IDENTIFIER_REJECTED,
        reason::BAD_USER_NAME_OR_PASSWORD => reason::V3_BAD_USER_NAME_OR_PASSWORD,
        reason::NOT_AUTHORIZED | reason::BANNED => reason::V3_NOT_AUTHORIZED,
        _ => reason::V3_SERVER_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_5_have_five_codes() {
        for (code, old) in [
            (reason::SUCCESS, 0),
            (reason::UNSUPPORTED_PROTOCOL_VERSION, 1),
            (reason::CLIENT_IDENTIFIER_NOT_VALID, 2),
            (reason::SERVER_BUSY, 3),
            (reason::BAD_USER_NAME_OR_PASSWORD, 4),
            (reason::NOT_AUTHORIZED, 5),
        ] {
            assert_eq!(connack_code(Version::V311, code), old);
            assert_eq!(connack_code(Version::V5, code), code);
        }
    }
}
