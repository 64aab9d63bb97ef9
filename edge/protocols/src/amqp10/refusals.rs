//! From what the broker refuses to conditions and texts of AMQP 1.0.

use broker::{CloseReason, Refused, Resource, ResourceKind};
use wire::amqp10::conditions;

use super::errors::{Failure, Trouble};
use crate::refusals::refusal;
use crate::reply_code::ReplyCode;

/// The condition that says the same as a reply code.
const fn condition_of(code: ReplyCode) -> &'static str {
    match code {
        ReplyCode::AccessRefused => conditions::UNAUTHORIZED_ACCESS,
        ReplyCode::NotFound => conditions::NOT_FOUND,
        ReplyCode::ResourceLocked => conditions::RESOURCE_LOCKED,
        ReplyCode::PreconditionFailed => conditions::PRECONDITION_FAILED,
        ReplyCode::NotAllowed => conditions::NOT_ALLOWED,
        ReplyCode::NotImplemented => conditions::NOT_IMPLEMENTED,
        ReplyCode::ResourceError => conditions::RESOURCE_LIMIT_EXCEEDED,
        _ => conditions::INTERNAL_ERROR,
    }
}

/// `queue 'q' in vhost '/'`
pub(crate) fn render(resource: &Resource) -> String {
    let kind = match resource.kind {
        ResourceKind::Queue => "queue",
        ResourceKind::Exchange => "exchange",
    };
    format!("{kind} '{}' in vhost '{}'", String::from_utf8_lossy(&resource.name), resource.vhost)
}

/// A refusal of a link or of one of its messages. Missing permissions and messages that are too large end the session, as in RabbitMQ.
impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match &refused {
            Refused::InternalExchange(resource) => {
                let text = format!("forbidden to publish to internal {}", render(resource));
                return Failure::link(conditions::UNAUTHORIZED_ACCESS, text);
            }
            Refused::Locked(resource) => {
                let text = format!("cannot obtain exclusive access to locked {}", render(resource));
                return Failure::link(conditions::RESOURCE_LOCKED, text);
            }
            Refused::MessageTooLarge { size, max } => return too_large(*size, *max),
            _ => {}
        }
        let ends_session = matches!(refused, Refused::Access { .. } | Refused::TopicAccess { .. });
        let (code, text) = refusal(refused);
        let trouble = Trouble::new(condition_of(code), text);
        if ends_session { Failure::Session(trouble) } else { Failure::Link(trouble) }
    }
}

/// A message that is larger than it may be.
pub(crate) fn too_large(size: u64, max: u64) -> Failure {
    let text = format!("message size ({size} bytes) > maximum message size ({max} bytes)");
    Failure::session(conditions::MESSAGE_SIZE_EXCEEDED, text)
}

/// The error that the client gets when the broker closes its connection.
pub(crate) fn forced(reason: CloseReason) -> Trouble {
    let text = match reason {
        CloseReason::Shutdown => {
            "Connection forced: broker forced connection closure with reason 'shutdown'".into()
        }
        CloseReason::Operator(reason) => format!("Connection forced: {reason:?}"),
        CloseReason::VhostDeleted(vhost) => format!("Connection forced: vhost '{vhost}' is deleted"),
        CloseReason::UserDeleted(user) => format!("Connection forced: user '{user}' is deleted"),
        CloseReason::TakenOver => "Connection forced: another connection has taken its name".into(),
    };
    Trouble::new(conditions::INTERNAL_ERROR, text)
}
