//! How exchanges' types and the misses of bindings are called when a route is explained.

use broker::QueueRef;
use routing::{Duty, Exchange, Miss};

use crate::resources::values::escaped;

/// A name as a terminal may have it.
pub(crate) fn name(bytes: &[u8]) -> String {
    escaped(&String::from_utf8_lossy(bytes))
}

/// The type as it was declared, and the one whose rules its bindings follow where that is another.
pub(crate) fn type_names(exchange: &Exchange<QueueRef>) -> (&'static str, Option<&'static str>) {
    let inner = exchange.kind.name();
    match exchange.duty {
        Duty::Route => (inner, None),
        Duty::Delay => ("x-delayed-message", Some(inner)),
        Duty::KeepHistory { .. } => ("x-recent-history", None),
        Duty::Deduplicate { .. } => ("x-message-deduplication", None),
    }
}

/// Why a binding did not match, for people.
pub(crate) fn why(miss: &Miss) -> String {
    match miss {
        Miss::Key => "another key".into(),
        Miss::KeySpelling => "the keys differ only in upper and lower case or spaces".into(),
        Miss::Word { number, wanted: Some(wanted), found: Some(found) } => {
            format!("word {number} is '{}', not '{}'", name(found), name(wanted))
        }
        Miss::Word { number, wanted: Some(wanted), found: None } => {
            format!("no word '{}' at or behind place {number}", name(wanted))
        }
        Miss::Word { number, .. } => format!("the pattern ends before word {number}"),
        Miss::HeaderMissing(header) => format!("no header '{}'", name(header)),
        Miss::HeaderDiffers(header) => format!("header '{}' has another value", name(header)),
        Miss::HeaderType { header, wanted, found } => {
            format!("header '{}' has the value as {found}, not as {wanted}", name(header))
        }
        Miss::NoHeaderFits => "none of its headers fits".into(),
        Miss::Selector => "its selector does not select this".into(),
        Miss::NotChosen => "another one was chosen".into(),
        Miss::Younger => "does not count: its destination has an older binding to this ring".into(),
    }
}
