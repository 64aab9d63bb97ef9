//! How a connection ends because of its client, and the codes of what the broker refuses.

use broker::Refused;
use wire::stream::ResponseCode;

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The text for the client.
    pub(crate) code: ResponseCode,
    /// For the log.
    pub(crate) text: String,
}

impl End {
    pub(crate) fn new(code: ResponseCode, text: impl Into<String>) -> End {
        End { code, text: text.into() }
    }

    /// A frame that is none, or not now.
    pub(crate) fn unknown(text: impl Into<String>) -> End {
        End::new(ResponseCode::UNKNOWN_FRAME, text)
    }
}

/// The code of a refusal.
pub(crate) fn code_of(refused: &Refused) -> ResponseCode {
    match refused {
        Refused::Access { .. } | Refused::TopicAccess { .. } => ResponseCode::ACCESS_REFUSED,
        Refused::NotFound(_) => ResponseCode::STREAM_DOES_NOT_EXIST,
        Refused::Crashed(_) => ResponseCode::STREAM_NOT_AVAILABLE,
        Refused::Unavailable | Refused::Storage(_) | Refused::Outdated => ResponseCode::INTERNAL_ERROR,
        _ => ResponseCode::PRECONDITION_FAILED,
    }
}
