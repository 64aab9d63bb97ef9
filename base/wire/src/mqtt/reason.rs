//! Reason codes of MQTT 5 (section 2.4), and return codes of CONNACK in versions 3.1 and 3.1.1.

macro_rules! codes {
    ($($name:ident = $code:literal $text:literal;)+) => { $(
        #[doc = $text]
        pub const $name: u8 = $code;
    )+ };
}

codes! {
    SUCCESS = 0x00 "Success, normal disconnection, or granted QoS 0.";
    GRANTED_QOS_1 = 0x01 "Granted QoS 1.";
    GRANTED_QOS_2 = 0x02 "Granted QoS 2.";
    DISCONNECT_WITH_WILL = 0x04 "Disconnect with will message.";
    NO_MATCHING_SUBSCRIBERS = 0x10 "No matching subscribers.";
    NO_SUBSCRIPTION_EXISTED = 0x11 "No subscription existed.";
    CONTINUE_AUTHENTICATION = 0x18 "Continue authentication.";
    REAUTHENTICATE = 0x19 "Re-authenticate.";
    UNSPECIFIED_ERROR = 0x80 "Unspecified error; a failed subscription in 3.1.1.";
    MALFORMED_PACKET = 0x81 "Malformed packet.";
    PROTOCOL_ERROR = 0x82 "Protocol error.";
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83 "Implementation specific error.";
    UNSUPPORTED_PROTOCOL_VERSION = 0x84 "Unsupported protocol version.";
    CLIENT_IDENTIFIER_NOT_VALID = 0x85 "Client identifier not valid.";
    BAD_USER_NAME_OR_PASSWORD = 0x86 "Bad user name or password.";
    NOT_AUTHORIZED = 0x87 "Not authorized.";
    SERVER_UNAVAILABLE = 0x88 "Server unavailable.";
    SERVER_BUSY = 0x89 "Server busy.";
    BANNED = 0x8A "Banned.";
    SERVER_SHUTTING_DOWN = 0x8B "Server shutting down.";
    BAD_AUTHENTICATION_METHOD = 0x8C "Bad authentication method.";
    KEEP_ALIVE_TIMEOUT = 0x8D "Keep alive timeout.";
    SESSION_TAKEN_OVER = 0x8E "Session taken over.";
    TOPIC_FILTER_INVALID = 0x8F "Topic filter invalid.";
    TOPIC_NAME_INVALID = 0x90 "Topic name invalid.";
    PACKET_IDENTIFIER_IN_USE = 0x91 "Packet identifier in use.";
    PACKET_IDENTIFIER_NOT_FOUND = 0x92 "Packet identifier not found.";
    RECEIVE_MAXIMUM_EXCEEDED = 0x93 "Receive maximum exceeded.";
    TOPIC_ALIAS_INVALID = 0x94 "Topic alias invalid.";
    PACKET_TOO_LARGE = 0x95 "Packet too large.";
    MESSAGE_RATE_TOO_HIGH = 0x96 "Message rate too high.";
    QUOTA_EXCEEDED = 0x97 "Quota exceeded.";
    ADMINISTRATIVE_ACTION = 0x98 "Administrative action.";
    PAYLOAD_FORMAT_INVALID = 0x99 "Payload format invalid.";
    RETAIN_NOT_SUPPORTED = 0x9A "Retain not supported.";
    QOS_NOT_SUPPORTED = 0x9B "QoS not supported.";
    USE_ANOTHER_SERVER = 0x9C "Use another server.";
    SERVER_MOVED = 0x9D "Server moved.";
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E "Shared subscriptions not supported.";
    CONNECTION_RATE_EXCEEDED = 0x9F "Connection rate exceeded.";
    MAXIMUM_CONNECT_TIME = 0xA0 "Maximum connect time.";
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1 "Subscription identifiers not supported.";
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2 "Wildcard subscriptions not supported.";
    V3_UNACCEPTABLE_PROTOCOL_VERSION = 1 "3.1 and 3.1.1: unacceptable protocol version.";
    V3_IDENTIFIER_REJECTED = 2 "3.1 and 3.1.1: identifier rejected.";
    V3_SERVER_UNAVAILABLE = 3 "3.1 and 3.1.1: server unavailable.";
    V3_BAD_USER_NAME_OR_PASSWORD = 4 "3.1 and 3.1.1: bad user name or password.";
    V3_NOT_AUTHORIZED = 5 "3.1 and 3.1.1: not authorized.";
}
