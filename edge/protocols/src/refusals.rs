//! From what the broker refuses to reply codes and RabbitMQ's texts: the one translation.
//!
//! Refuses to know where the request came from; the caller adds class and method.

use broker::{ChannelRefused, OpenError, Permission, Refused, Resource, ResourceKind};

use crate::erlang::erlang_string;
use crate::reply_code::ReplyCode;

mod declare;
#[cfg(test)]
mod tests;

use declare::{argument, inequivalent};

/// Code and text of a refusal.
pub(crate) fn refusal(refused: Refused) -> (ReplyCode, String) {
    match refused {
        Refused::NotFound(resource) => (ReplyCode::NotFound, format!("no {}", render(&resource))),
        Refused::Crashed(resource) => {
            (ReplyCode::NotFound, format!("{} has crashed and failed to restart", render(&resource)))
        }
        Refused::HomeDown { resource, node } => {
            let text = format!("home node '{node}' of durable {} is down or inaccessible", render(&resource));
            (ReplyCode::NotFound, text)
        }
        Refused::Access { .. } | Refused::TopicAccess { .. } => access(&refused),
        Refused::DefaultExchange
        | Refused::SystemExchange(_)
        | Refused::ReservedPrefix(_)
        | Refused::InternalExchange(_)
        | Refused::ExclusiveUse(_)
        | Refused::VolatileQueue => forbidden(&refused),
        Refused::Locked(resource) => (ReplyCode::ResourceLocked, locked(&resource)),
        Refused::GetOnSingleActive(resource) => (ReplyCode::ResourceLocked, get_on_single_active(&resource)),
        Refused::DeleteCondition { resource, flag } => {
            (ReplyCode::NotImplemented, declare::delete_condition(&resource, flag))
        }
        Refused::StreamOperation { resource, operation } => {
            let text = format!("{operation} not supported by stream queues {}", render(&resource));
            (ReplyCode::NotImplemented, text)
        }
        Refused::StreamNoAck(resource) => {
            let text = format!("automatic acknowledgement not supported by stream {}", render(&resource));
            (ReplyCode::NotImplemented, text)
        }
        Refused::MalformedProperties => {
            (ReplyCode::FrameError, "cannot decode the properties of a message".into())
        }
        Refused::TransientQueueDenied => (ReplyCode::InternalError, TRANSIENT_QUEUE_DENIED.into()),
        Refused::Storage(why) => (ReplyCode::InternalError, why.into()),
        Refused::Unavailable | Refused::Outdated => (ReplyCode::InternalError, "not available".into()),
        Refused::NoSuchVhost(name) => (ReplyCode::NotFound, format!("vhost {name} not found")),
        Refused::NoSuchUser(name) => (ReplyCode::NotFound, format!("user {name} not found")),
        Refused::ProtectedVhost(name) => (ReplyCode::AccessRefused, format!("vhost {name} is protected")),
        Refused::TooLarge { bytes, bytes_max } => {
            let text = format!(
                "{bytes} bytes of arguments or values are too many to keep, at most {bytes_max} are possible"
            );
            (ReplyCode::PreconditionFailed, text)
        }
        Refused::AlreadyExists(name) => (ReplyCode::PreconditionFailed, format!("{name} already exists")),
        other => (ReplyCode::PreconditionFailed, precondition(&other)),
    }
}

/// The error that AMQP clients would get for a refusal: for interfaces that show it to others, such as the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyParts {
    /// Number of the reply code, such as 403.
    pub code: u16,
    /// Its name, such as `ACCESS_REFUSED`.
    pub name: &'static str,
    /// The whole text, without the name.
    pub text: String,
}

/// The reply of a refusal in its parts.
#[must_use]
pub fn reply_of(refused: Refused) -> ReplyParts {
    let (code, text) = refusal(refused);
    ReplyParts { code: code.number(), name: code.name(), text }
}

/// B69, D7: RabbitMQ's deprecation warning, whose end the reply text cuts off.
const TRANSIENT_QUEUE_DENIED: &str = "Feature `transient_nonexcl_queues` is deprecated.\n\
    By default, this feature is not permitted anymore.\n\
    The feature will be removed from a future major RabbitMQ version, regardless of the configuration.\n\
    To continue using this feature when it is not permitted by default, set the following parameter in your configuration:";

/// `queue 'q' in vhost '/'`
fn render(resource: &Resource) -> String {
    format!("{} '{}' in vhost '{}'", kind_of(resource), name_of(resource), resource.vhost)
}

fn kind_of(resource: &Resource) -> &'static str {
    match resource.kind {
        ResourceKind::Queue => "queue",
        ResourceKind::Exchange => "exchange",
    }
}

fn name_of(resource: &Resource) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&resource.name)
}

fn permission_name(permission: Permission) -> &'static str {
    match permission {
        Permission::Configure => "configure",
        Permission::Write => "write",
        Permission::Read => "read",
    }
}

/// B83.
fn access(refused: &Refused) -> (ReplyCode, String) {
    let text = match refused {
        Refused::Access { permission, resource, user } => {
            let permission = permission_name(*permission);
            format!("{permission} access to {} refused for user '{user}'", render(resource))
        }
        Refused::TopicAccess { permission, routing_key, exchange, user } => {
            let (permission, key) = (permission_name(*permission), String::from_utf8_lossy(routing_key));
            format!("{permission} access to topic '{key}' in {} refused for user '{user}'", render(exchange))
        }
        _ => unreachable!("called for refused access only"),
    };
    (ReplyCode::AccessRefused, text)
}

fn forbidden(refused: &Refused) -> (ReplyCode, String) {
    let text = match refused {
        Refused::DefaultExchange => "operation not permitted on the default exchange".into(),
        Refused::SystemExchange(resource) => {
            format!("deletion of system {} not allowed", render(resource))
        }
        Refused::ReservedPrefix(resource) => {
            format!("{} name '{}' contains reserved prefix 'amq.*'", kind_of(resource), name_of(resource))
        }
        Refused::InternalExchange(resource) => format!("cannot publish to internal {}", render(resource)),
        Refused::ExclusiveUse(resource) => format!("{} in exclusive use", render(resource)),
        _ => "cannot bind or unbind to a volatile (direct reply-to) queue".into(),
    };
    (ReplyCode::AccessRefused, text)
}

/// B65.
fn locked(resource: &Resource) -> String {
    format!(
        "cannot obtain exclusive access to locked {}. It could be originally declared on another connection or the \
         exclusive property value does not match that of the original declaration.",
        render(resource)
    )
}

/// B123.
fn get_on_single_active(resource: &Resource) -> String {
    format!(
        "cannot obtain access to locked {}. basic.get operations are not supported by <<\"quorum\">> queues with \
         single active consumer",
        render(resource)
    )
}

fn precondition(refused: &Refused) -> String {
    match refused {
        Refused::Inequivalent { resource, difference } => inequivalent(resource, difference),
        Refused::Argument { resource, error } => argument(resource, error),
        Refused::AlternateExchangeType { resource, received } => {
            format!("invalid type '{received}' for arg 'alternate-exchange' in {}", render(resource))
        }
        Refused::ServerNamed(kind) => {
            format!("Cannot declare a server-named queue for type {}", kind.module())
        }
        Refused::Property { resource, property } => {
            format!("invalid property '{property}' for {}", render(resource))
        }
        Refused::StreamPrefetch(resource) => {
            format!("consumer prefetch count is not set for stream {}", render(resource))
        }
        Refused::InUse(resource) => format!("{} in use", render(resource)),
        Refused::NotEmpty(resource) => format!("{} not empty", render(resource)),
        Refused::UnknownExchangeType(kind) => declare::unknown_exchange_type(kind),
        Refused::ExchangeArgument(error) => error.to_string(),
        Refused::Binding(refusal) => declare::binding(refusal),
        Refused::InvalidMatch { received } => declare::invalid_match(received),
        Refused::TooManyHashes(key) => declare::too_many_hashes(key),
        Refused::LimitReached { resource, scope, limit } => declare::limit_reached(resource, *scope, *limit),
        Refused::MessageTooLarge { size, max } => message_too_large(*size, *max),
        Refused::InvalidExpiration(text) => {
            format!("invalid expiration '{}': {}", String::from_utf8_lossy(text), expiration_reason(text))
        }
        Refused::UserId { claimed, user } => {
            let claimed = String::from_utf8_lossy(claimed);
            format!("user_id property set to '{claimed}' but authenticated user was '{user}'")
        }
        Refused::NoReplyConsumer => "fast reply consumer does not exist".into(),
        Refused::InvalidCarbonCopy { header, received } => {
            format!("invalid message: {{unacceptable_type_in_header,\"{header}\",{received}}}")
        }
        other => format!("{other:?}"),
    }
}

/// B98: without `configured` when the bound is RabbitMQ's hard cap.
fn message_too_large(size: u64, max: u64) -> String {
    const HARD_CAP: u64 = 512 << 20;
    let configured = if max == HARD_CAP { "" } else { "configured " };
    format!("message size {size} is larger than {configured}max size {max}")
}

/// Why RabbitMQ finds an expiration invalid (B99), in its order: no digits, something behind them, the value.
fn expiration_reason(text: &[u8]) -> String {
    const TEN_YEARS_MS: i128 = 315_360_000_000;
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    let count = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
    if count == 0 {
        return "no_integer".into();
    }
    let (digits, leftover) = digits.split_at(count);
    if !leftover.is_empty() {
        return format!("{{leftover_string,{}}}", erlang_string(leftover));
    }
    // More digits than this are too large in any case.
    let value = digits
        .iter()
        .fold(0_i128, |value, digit| value.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
    match value * sign {
        value if value < 0 => format!("{{value_negative,{value}}}"),
        value if value > TEN_YEARS_MS => format!("{{value_too_large,{value}}}"),
        _ => "no_integer".into(),
    }
}

/// Why a channel may not be opened beyond what was negotiated (B38).
pub(crate) fn channel_text(refused: ChannelRefused, user: &str, node: &str) -> String {
    match refused {
        ChannelRefused::UserLimit(limit) => format!(
            "number of channels opened for user '{user}' has reached the maximum allowed user limit of {limit}"
        ),
        ChannelRefused::NodeLimit(limit) => {
            format!(
                "number of channels opened on node '{node}' has reached the maximum allowed limit of {limit}"
            )
        }
    }
}

/// Why connection.open fails (B24, B25).
pub(crate) fn open_text(error: &OpenError, user: &str, vhost: &str) -> String {
    match error {
        OpenError::VhostNotFound(name) => format!("vhost {name} not found"),
        OpenError::AccessRefused => format!("access to vhost '{vhost}' refused for user '{user}'"),
        OpenError::NodeLimit(limit) => {
            format!("connection refused: node connection limit ({limit}) is reached")
        }
        OpenError::VhostLimit(limit) => {
            format!(
                "access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
            )
        }
        OpenError::UserLimit(limit) => {
            format!("connection refused for user '{user}': user connection limit ({limit}) is reached")
        }
    }
}
