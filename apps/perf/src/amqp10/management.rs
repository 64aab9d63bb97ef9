//! Queues are declared and deleted over the management node.

use anyhow::{Result, bail};
use wire::amqp10::{MessageId, Properties, Role, Sections, Str, Transfer, Writer, encode_delivery};

use super::client::{CHANNEL, Client, Incoming, Wish};
use super::options::queue_address;

const NODE: &str = "/management";
const REQUESTS: u32 = 0;
const ANSWERS: u32 = 1;

/// A connection that manages.
pub(super) struct Manager {
    client: Client,
    requests: u32,
}

impl Manager {
    /// Connects, and attaches to the management node.
    ///
    /// # Errors
    /// The broker refuses, or has no such node.
    pub(super) fn open(uri: &str) -> Result<Self> {
        let mut client = Client::open(uri)?;
        for (handle, role) in [(REQUESTS, Role::Sender), (ANSWERS, Role::Receiver)] {
            let name = "management-link-pair";
            client.attach(&Wish { name, handle, role, address: NODE, settled: true, is_management: true })?;
        }
        Ok(Self { client, requests: 0 })
    }

    /// Declares a durable queue of this type.
    ///
    /// # Errors
    /// The broker refuses.
    pub(super) fn declare(&mut self, name: &str, queue_type: &str) -> Result<()> {
        self.request("PUT", name, |writer| {
            writer.map(|writer| {
                writer.string(b"durable");
                writer.bool(true);
                writer.string(b"arguments");
                writer.map(|writer| {
                    writer.string(b"x-queue-type");
                    writer.string(queue_type.as_bytes());
                });
            });
        })
    }

    /// Deletes a queue; one that is not there is no error.
    ///
    /// # Errors
    /// The broker refuses.
    pub(super) fn delete(&mut self, name: &str) -> Result<()> {
        self.request("DELETE", name, |writer| writer.null())
    }

    fn request(&mut self, method: &str, queue: &str, body: impl FnOnce(&mut Writer<'_>)) -> Result<()> {
        let (mut message, to) = (Vec::new(), queue_address(queue));
        let properties = Properties {
            message_id: Some(MessageId::Ulong(self.requests.into())),
            to: Some(Str(to.as_bytes())),
            subject: Some(Str(method.as_bytes())),
            reply_to: Some(Str(b"$me")),
            ..Properties::EMPTY
        };
        properties.encode(&mut message);
        Writer::new(&mut message).described(0x77, body);
        let tag = self.requests.to_be_bytes();
        let transfer = Transfer {
            delivery_id: Some(self.requests),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(true),
            ..Transfer::of(REQUESTS)
        };
        let mut flow = self.client.flow(self.requests);
        (flow.handle, flow.delivery_count, flow.link_credit) = (Some(ANSWERS), Some(self.requests), Some(1));
        let frame_bytes_max = self.client.frame_bytes_max;
        self.client.send(|out| {
            flow.encode_frame(CHANNEL, out);
            encode_delivery(CHANNEL, &transfer, &[&message], frame_bytes_max, out);
        })?;
        self.requests += 1;
        let (status, text) = self.client.until(|incoming| match incoming {
            Incoming::Transfer(_, payload) => Some(answer(payload)),
            Incoming::Other(_) => None,
        })?;
        if status.starts_with('2') || status == "404" {
            return Ok(());
        }
        bail!("{method} {to}: {status} {text}")
    }
}

/// The status of an answer, and its text if it has one.
fn answer(message: &[u8]) -> (String, String) {
    let Ok(sections) = Sections::scan(message) else { return (String::new(), "no message".to_owned()) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = sections.properties().subject().map_or_else(String::new, |status| text(status.0));
    (status, sections.amqp_value().and_then(|body| body.as_text().map(text)).unwrap_or_default())
}
