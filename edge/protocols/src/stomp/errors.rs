//! ERROR frames: the one place that turns what goes wrong into RabbitMQ's words.

use std::borrow::Cow;

use broker::{CloseReason, Refused};
use wire::stomp::{FrameError, FrameWriter, Version};

use crate::refusals::refusal;
use crate::reply_code::ReplyCode;

/// The versions that ERROR frames name.
const VERSIONS: &str = "1.0,1.1,1.2";

/// The content of an ERROR frame for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The header `message`.
    pub(crate) message: Cow<'static, str>,
    /// The body.
    pub(crate) detail: String,
    /// The connection ends with it.
    pub(crate) ends: bool,
}

impl Trouble {
    /// The frame has no effect, and the connection goes on.
    pub(crate) fn told(message: &'static str, detail: impl Into<String>) -> Trouble {
        Trouble { message: message.into(), detail: detail.into(), ends: false }
    }

    /// The connection ends.
    pub(crate) fn ending(message: &'static str, detail: impl Into<String>) -> Trouble {
        Trouble { ends: true, ..Trouble::told(message, detail) }
    }

    /// A failure that AMQP 0-9-1 has a reply code for; the connection ends.
    pub(crate) fn coded(code: ReplyCode, text: &str) -> Trouble {
        let detail = format!("{} - {text}", code.name());
        Trouble { message: code.name().to_ascii_lowercase().into(), detail, ends: true }
    }

    /// A value that cannot be read.
    pub(crate) fn invalid_value(header: &str) -> Trouble {
        Trouble::told("Invalid header", format!("the value of '{header}' cannot be read\n"))
    }

    /// Appends the ERROR frame.
    pub(crate) fn write(&self, version: Version, out: &mut Vec<u8>) {
        FrameWriter::new("ERROR", version, out)
            .header("message", &*self.message)
            .header("content-type", "text/plain")
            .header("version", VERSIONS)
            .body(self.detail.as_bytes());
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Trouble {
        let (code, text) = refusal(refused);
        Trouble::coded(code, &text)
    }
}

impl From<FrameError> for Trouble {
    fn from(error: FrameError) -> Trouble {
        Trouble::ending("Malformed frame", error.to_string())
    }
}

impl From<CloseReason> for Trouble {
    fn from(close: CloseReason) -> Trouble {
        let text = match close {
            CloseReason::Shutdown => "broker forced connection closure with reason 'shutdown'".into(),
            CloseReason::Operator(reason) => reason,
            CloseReason::VhostDeleted(vhost) => format!("vhost '{vhost}' is deleted"),
            CloseReason::UserDeleted(user) => format!("user '{user}' is deleted"),
            CloseReason::TakenOver => "another connection has taken its name".into(),
        };
        Trouble::coded(ReplyCode::ConnectionForced, &text)
    }
}

#[cfg(test)]
mod tests {
    use broker::Resource;

    use super::*;

    #[test]
    fn errors_have_rabbitmqs_form() {
        let mut out = Vec::new();
        Trouble::from(Refused::NotFound(Resource::queue("/", b"q"))).write(Version::V12, &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "ERROR\nmessage:not_found\ncontent-type:text/plain\nversion:1.0,1.1,1.2\ncontent-length:37\n\n\
             NOT_FOUND - no queue 'q' in vhost '/'\0\n"
        );
    }
}
