//! RabbitMQ's names for what goes wrong. Every protocol begins with them: AMQP 0-9-1 sends the numbers, others find their own words.

/// Reply codes of AMQP 0-9-1 (specification section 1.2), with RabbitMQ's division into soft and hard (B33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum ReplyCode {
    NoRoute = 312,
    ConnectionForced = 320,
    AccessRefused = 403,
    NotFound = 404,
    ResourceLocked = 405,
    PreconditionFailed = 406,
    FrameError = 501,
    SyntaxError = 502,
    CommandInvalid = 503,
    ChannelError = 504,
    UnexpectedFrame = 505,
    ResourceError = 506,
    NotAllowed = 530,
    NotImplemented = 540,
    InternalError = 541,
}

impl ReplyCode {
    pub(crate) const fn number(self) -> u16 {
        self as u16
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            ReplyCode::NoRoute => "NO_ROUTE",
            ReplyCode::ConnectionForced => "CONNECTION_FORCED",
            ReplyCode::AccessRefused => "ACCESS_REFUSED",
            ReplyCode::NotFound => "NOT_FOUND",
            ReplyCode::ResourceLocked => "RESOURCE_LOCKED",
            ReplyCode::PreconditionFailed => "PRECONDITION_FAILED",
            ReplyCode::FrameError => "FRAME_ERROR",
            ReplyCode::SyntaxError => "SYNTAX_ERROR",
            ReplyCode::CommandInvalid => "COMMAND_INVALID",
            ReplyCode::ChannelError => "CHANNEL_ERROR",
            ReplyCode::UnexpectedFrame => "UNEXPECTED_FRAME",
            ReplyCode::ResourceError => "RESOURCE_ERROR",
            ReplyCode::NotAllowed => "NOT_ALLOWED",
            ReplyCode::NotImplemented => "NOT_IMPLEMENTED",
            ReplyCode::InternalError => "INTERNAL_ERROR",
        }
    }

    /// Whether it ends the connection rather than the channel (B33).
    pub(crate) const fn is_hard(self) -> bool {
        !matches!(
            self,
            ReplyCode::NoRoute
                | ReplyCode::AccessRefused
                | ReplyCode::NotFound
                | ReplyCode::ResourceLocked
                | ReplyCode::PreconditionFailed
        )
    }
}
