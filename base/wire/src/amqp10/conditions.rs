//! Symbols of error conditions (AMQP 1.0 part 2, sections 2.8.15 to 2.8.18).

macro_rules! conditions {
    ($($name:ident = $symbol:literal;)+) => { $(
        #[doc = concat!("`", $symbol, "`")]
        pub const $name: &str = $symbol;
    )+ };
}

conditions! {
    INTERNAL_ERROR = "amqp:internal-error";
    NOT_FOUND = "amqp:not-found";
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access";
    DECODE_ERROR = "amqp:decode-error";
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded";
    NOT_ALLOWED = "amqp:not-allowed";
    INVALID_FIELD = "amqp:invalid-field";
    NOT_IMPLEMENTED = "amqp:not-implemented";
    RESOURCE_LOCKED = "amqp:resource-locked";
    PRECONDITION_FAILED = "amqp:precondition-failed";
    RESOURCE_DELETED = "amqp:resource-deleted";
    ILLEGAL_STATE = "amqp:illegal-state";
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small";
    CONNECTION_FORCED = "amqp:connection:forced";
    FRAMING_ERROR = "amqp:connection:framing-error";
    CONNECTION_REDIRECT = "amqp:connection:redirect";
    WINDOW_VIOLATION = "amqp:session:window-violation";
    ERRANT_LINK = "amqp:session:errant-link";
    HANDLE_IN_USE = "amqp:session:handle-in-use";
    UNATTACHED_HANDLE = "amqp:session:unattached-handle";
    DETACH_FORCED = "amqp:link:detach-forced";
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded";
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded";
    LINK_REDIRECT = "amqp:link:redirect";
    STOLEN = "amqp:link:stolen";
}
