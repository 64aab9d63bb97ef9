//! Answers of the management node as messages.

use wire::amqp10::{MessageId, Properties, SectionKind, Sections, Str, Writer};

/// The id of a request, which its answer carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyTo {
    Nothing,
    Number(u64),
    Uuid([u8; 16]),
    Binary(Vec<u8>),
    Text(Vec<u8>),
}

impl ReplyTo {
    pub(super) fn of(request: &Sections<'_>) -> ReplyTo {
        match request.properties().message_id() {
            None => ReplyTo::Nothing,
            Some(MessageId::Ulong(number)) => ReplyTo::Number(number),
            Some(MessageId::Uuid(uuid)) => ReplyTo::Uuid(uuid),
            Some(MessageId::Binary(bytes)) => ReplyTo::Binary(bytes.to_vec()),
            Some(MessageId::Str(text)) => ReplyTo::Text(text.to_vec()),
        }
    }

    fn view(&self) -> Option<MessageId<'_>> {
        Some(match self {
            ReplyTo::Nothing => return None,
            ReplyTo::Number(number) => MessageId::Ulong(*number),
            ReplyTo::Uuid(uuid) => MessageId::Uuid(*uuid),
            ReplyTo::Binary(bytes) => MessageId::Binary(bytes),
            ReplyTo::Text(text) => MessageId::Str(text),
        })
    }
}

/// A status of HTTP and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(super) status: &'static str,
    /// An encoded value.
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn with(status: &'static str, write: impl FnOnce(&mut Writer<'_>)) -> Answer {
        let mut body = Vec::new();
        write(&mut Writer::new(&mut body));
        Answer { status, body }
    }

    /// Done, and there is nothing to say.
    pub(super) fn done() -> Answer {
        Answer::with("204", |writer| writer.null())
    }

    /// Refused, and why.
    pub(super) fn refused(status: &'static str, why: &str) -> Answer {
        tracing::info!("a request to the management node was answered {status}: {why}");
        Answer::with(status, |writer| writer.string(why.as_bytes()))
    }

    /// The whole message.
    pub(super) fn message(&self, reply_to: &ReplyTo) -> Vec<u8> {
        let mut out = Vec::new();
        let properties = Properties {
            subject: Some(Str(self.status.as_bytes())),
            correlation_id: reply_to.view(),
            ..Properties::EMPTY
        };
        properties.encode(&mut out);
        Writer::new(&mut out).described(SectionKind::ApplicationProperties as u64, |writer| {
            writer.map(|writer| {
                writer.string(b"http:response");
                writer.string(b"1.1");
            });
        });
        Writer::new(&mut out).described(SectionKind::Value as u64, |writer| writer.raw(&self.body));
        out
    }
}
