//! Every text as RabbitMQ 4.3.6 words it.

use broker::{
    ArgumentError, ArgumentReason, BindingRefusal, Compared, Difference, ExchangeArgumentError, Kind,
    LimitScope, OpenError, Permission, Refused, Resource,
};

use super::{open_text, reply_of};

fn queue() -> Resource {
    Resource::queue("/", b"q")
}

fn exchange() -> Resource {
    Resource::exchange("/", b"x")
}

fn text(refused: Refused) -> String {
    let reply = reply_of(refused);
    if reply.text.is_empty() { reply.name.into() } else { format!("{} - {}", reply.name, reply.text) }
}

fn argument(name: &str, reason: ArgumentReason) -> String {
    text(Refused::Argument { resource: queue(), error: ArgumentError { name: name.into(), reason } })
}

fn inequivalent(resource: Resource, what: &str, received: Compared, current: Compared) -> String {
    text(Refused::Inequivalent { resource, difference: Difference { what: what.into(), received, current } })
}

#[test]
fn missing_things_are_named() {
    assert_eq!(text(Refused::NotFound(queue())), "NOT_FOUND - no queue 'q' in vhost '/'");
    assert_eq!(text(Refused::NotFound(exchange())), "NOT_FOUND - no exchange 'x' in vhost '/'");
}

#[test]
fn refused_access_names_permission_resource_and_user() {
    let user: Box<str> = "u".into();
    assert_eq!(
        text(Refused::Access { permission: Permission::Configure, resource: queue(), user: user.clone() }),
        "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'u'"
    );
    let topic = Refused::TopicAccess {
        permission: Permission::Write,
        routing_key: b"k"[..].into(),
        exchange: exchange(),
        user,
    };
    assert_eq!(
        text(topic),
        "ACCESS_REFUSED - write access to topic 'k' in exchange 'x' in vhost '/' refused for user 'u'"
    );
}

#[test]
fn forbidden_names_and_exchanges() {
    assert_eq!(
        text(Refused::DefaultExchange),
        "ACCESS_REFUSED - operation not permitted on the default exchange"
    );
    assert_eq!(
        text(Refused::SystemExchange(Resource::exchange("/", b"amq.direct"))),
        "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"
    );
    assert_eq!(
        text(Refused::ReservedPrefix(Resource::queue("/", b"amq.x"))),
        "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'"
    );
    assert_eq!(
        text(Refused::InternalExchange(exchange())),
        "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'"
    );
    assert_eq!(
        text(Refused::ExclusiveUse(queue())),
        "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    );
    assert_eq!(
        text(Refused::VolatileQueue),
        "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue"
    );
}

#[test]
fn locked_queues() {
    assert_eq!(
        text(Refused::Locked(queue())),
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally \
         declared on another connection or the exclusive property value does not match that of the original declaration."
    );
    assert!(text(Refused::GetOnSingleActive(queue())).starts_with(
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get operations are not supported"
    ));
}

#[test]
fn differences_show_types_only_against_none() {
    let value = |value: &str, kind| Compared::Value { value: value.into(), kind };
    assert_eq!(
        inequivalent(queue(), "durable", Compared::Flag(true), Compared::Flag(false)),
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is \
         'false'"
    );
    assert_eq!(
        inequivalent(exchange(), "type", Compared::Name("fanout".into()), Compared::Name("direct".into())),
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'fanout' but current is \
         'direct'"
    );
    assert_eq!(
        inequivalent(queue(), "x-message-ttl", value("1000", "signedint"), Compared::Absent),
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '1000' of \
         type 'signedint' but current is none"
    );
    assert_eq!(
        inequivalent(queue(), "x-message-ttl", Compared::Absent, value("1000", "signedint")),
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received none but current is \
         the value '1000' of type 'signedint'"
    );
    assert_eq!(
        inequivalent(queue(), "x-message-ttl", value("1001", "signedint"), value("1000", "long")),
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '1001' but current \
         is '1000'"
    );
}

#[test]
fn arguments_are_refused_in_erlangs_terms() {
    let prefix = "PRECONDITION_FAILED - invalid arg 'x' for queue 'q' in vhost '/'";
    for (reason, rest) in [
        (ArgumentReason::Negative(-1), ": {value_negative,-1}"),
        (ArgumentReason::Zero, ": {value_zero,0}"),
        (ArgumentReason::TooLarge(315_360_000_001), ": {value_too_large,315360000001}"),
        (ArgumentReason::MaxExceeded(256), ": {max_value_exceeded,256}"),
        (ArgumentReason::UnacceptableType("longstr"), ": {unacceptable_type,longstr}"),
        (ArgumentReason::ExpectedInteger("longstr"), ": \"expected integer, got longstr\""),
        (ArgumentReason::Atom("invalid_overflow"), ": invalid_overflow"),
        (ArgumentReason::OtherQueueType(Kind::Classic), " of queue type rabbit_classic_queue"),
    ] {
        assert_eq!(argument("x", reason), format!("{prefix}{rest}"));
    }
    assert_eq!(
        argument("x-dead-letter-exchange", ArgumentReason::UnacceptableType("signedint")),
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    );
}

#[test]
fn other_preconditions() {
    assert_eq!(text(Refused::InUse(queue())), "PRECONDITION_FAILED - queue 'q' in vhost '/' in use");
    assert_eq!(text(Refused::NotEmpty(queue())), "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty");
    assert_eq!(
        text(Refused::UnknownExchangeType(b"x-foo"[..].into())),
        "PRECONDITION_FAILED - unknown exchange type 'x-foo'"
    );
    assert_eq!(
        text(Refused::InvalidMatch { received: "foo".into() }),
        "PRECONDITION_FAILED - Invalid x-match field value <<\"foo\">>; expected all, any, all-with-x, or any-with-x"
    );
    assert_eq!(
        text(Refused::InvalidMatch { received: "type signedint (value 1)".into() }),
        "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); expected longstr"
    );
    assert_eq!(
        text(Refused::TooManyHashes(b"#.#.a.#"[..].into())),
        "PRECONDITION_FAILED - Topic binding key '#.#.a.#' uses 3 '#' wildcards, at most 2 are allowed"
    );
    assert_eq!(
        text(Refused::AlternateExchangeType { resource: exchange(), received: "signedint" }),
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"
    );
    let limit = |resource, scope| text(Refused::LimitReached { resource, scope, limit: 3 });
    assert_eq!(
        limit(queue(), LimitScope::Vhost),
        "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost '/' (3) is reached"
    );
    assert_eq!(
        limit(exchange(), LimitScope::Cluster),
        "PRECONDITION_FAILED - cannot declare exchange 'x' in vhost '/': exchange limit of 3 is reached"
    );
}

#[test]
fn bindings_that_exchange_types_do_not_take() {
    for (refusal, expected) in [
        (
            BindingRefusal::WeightText(b"k'\""[..].into()),
            "The binding key must be an integer: <<\"k'\\\"\">>",
        ),
        (BindingRefusal::WeightText(Box::default()), "The binding key must be an integer: <<>>"),
        (BindingRefusal::WeightZero, "The binding key must be greater than 0"),
        (BindingRefusal::WeightTooLarge { max: 10_000 }, "The binding key must not exceed 10000"),
        (BindingRefusal::KeyNotEmpty(b"k"[..].into()), "Non empty binding 'k' key not permitted"),
        (
            BindingRefusal::QueueType("rabbit_quorum_queue".into()),
            "Queue type rabbit_quorum_queue not valid for this exchange type",
        ),
        (BindingRefusal::NoQueue, "Destination not found"),
    ] {
        assert_eq!(text(Refused::Binding(refusal)), format!("PRECONDITION_FAILED - {expected}"));
    }
    assert_eq!(
        text(Refused::ExchangeArgument(ExchangeArgumentError::UnknownProperty(b"app_id"[..].into()))),
        "PRECONDITION_FAILED - Unsupported property: app_id"
    );
}

#[test]
fn refused_messages() {
    assert_eq!(
        text(Refused::MessageTooLarge { size: 17_000_000, max: 16_777_216 }),
        "PRECONDITION_FAILED - message size 17000000 is larger than configured max size 16777216"
    );
    assert_eq!(
        text(Refused::MessageTooLarge { size: 600_000_000, max: 536_870_912 }),
        "PRECONDITION_FAILED - message size 600000000 is larger than max size 536870912"
    );
    for (expiration, reason) in [
        ("abc", "no_integer"),
        ("", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("5x", "{leftover_string,\"x\"}"),
        ("1.5", "{leftover_string,\".5\"}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ] {
        assert_eq!(
            text(Refused::InvalidExpiration(expiration.as_bytes().into())),
            format!("PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}")
        );
    }
    assert_eq!(
        text(Refused::UserId { claimed: b"bob"[..].into(), user: "guest".into() }),
        "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'"
    );
    assert_eq!(text(Refused::NoReplyConsumer), "PRECONDITION_FAILED - fast reply consumer does not exist");
    assert_eq!(
        text(Refused::InvalidCarbonCopy { header: "CC", received: "longstr".into() }),
        "PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,\"CC\",longstr}"
    );
    assert_eq!(text(Refused::MalformedProperties), "FRAME_ERROR - cannot decode the properties of a message");
}

#[test]
fn vhosts_that_do_not_open() {
    for (error, expected) in [
        (OpenError::VhostNotFound("v".into()), "vhost v not found"),
        (OpenError::AccessRefused, "access to vhost 'v' refused for user 'u'"),
        (OpenError::NodeLimit(5), "connection refused: node connection limit (5) is reached"),
        (
            OpenError::VhostLimit(5),
            "access to vhost 'v' refused for user 'u': connection limit (5) is reached",
        ),
        (OpenError::UserLimit(5), "connection refused for user 'u': user connection limit (5) is reached"),
    ] {
        assert_eq!(open_text(&error, "u", "v"), expected);
    }
}
