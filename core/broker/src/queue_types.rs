//! Queue types: from the name that the metadata have to the rules of a machine. Refuses to know what the rules say.

use message::{Table, Value};
use metadata::QueueType;
use queues::{ArgumentError, ArgumentReason, Kind, QueueConfig};

/// The argument that names a queue's type.
pub const QUEUE_TYPE_ARGUMENT: &str = "x-queue-type";

/// The type asked for; no name, `""` and `undefined` are classic (B64).
///
/// # Errors
/// When there is no such type.
pub fn queue_type(arguments: Table<'_>) -> Result<QueueType, ArgumentError> {
    let refuse = |reason| Err(ArgumentError { name: QUEUE_TYPE_ARGUMENT.into(), reason });
    let name = match arguments.get(QUEUE_TYPE_ARGUMENT) {
        None | Some(Value::LongStr(b"" | b"undefined")) => return Ok(QueueType::Classic),
        Some(Value::LongStr(name)) => name,
        Some(other) => return refuse(ArgumentReason::UnacceptableType(other.type_name())),
    };
    let text = match QueueType::from_name(name) {
        Some(kind) => return Ok(kind),
        None => format!("unsupported queue type '{}'", String::from_utf8_lossy(name)),
    };
    refuse(ArgumentReason::Text(text.into()))
}

/// The kind of machine behind a type.
pub(crate) fn kind_of(queue_type: QueueType) -> Kind {
    match queue_type {
        QueueType::Classic => Kind::Classic,
        QueueType::Quorum => Kind::Quorum,
        QueueType::Stream => Kind::Stream,
    }
}

/// The configuration of a queue of a type with these arguments.
///
/// # Errors
/// The first argument that makes no sense, or that only queues of other types know.
pub fn queue_config(queue_type: QueueType, arguments: Table<'_>) -> Result<QueueConfig, ArgumentError> {
    QueueConfig::from_arguments(kind_of(queue_type), arguments, queue_type.arguments())
}
