//! An AMQP 0-9-1 client without a socket: bytes go into a real session and come out of it. Knows frames; nothing of what is sent
//! in them, and does not wait.

use std::sync::Arc;

use broker::Broker;
use protocols::Peer;
use protocols::amqp091::{Session, Settings};
use wire::amqp091::methods::{channel, connection};
use wire::amqp091::sasl::{Credentials, encode_plain};
use wire::amqp091::{FRAME_METHOD, Method, PROTOCOL_HEADER, Parsed, ShortStr, Table, parse_frame};

use super::line::{Line, NOW};

/// A frame from the broker.
pub(super) struct Got {
    pub(super) kind: u8,
    pub(super) payload: Vec<u8>,
}

impl Got {
    /// The method in it, if it is one.
    pub(super) fn method(&self) -> Option<Method<'_>> {
        if self.kind == FRAME_METHOD { Method::decode(&self.payload).ok() } else { None }
    }
}

/// An open connection with channel 1.
pub(super) struct Client(Line<Session>);

impl Client {
    /// Connects; `idle` has the broker do what it can.
    pub(super) fn open(broker: &Broker, mut idle: impl FnMut()) -> Result<Client, String> {
        let address = "127.0.0.1:5672".parse().map_err(|error| format!("{error}"))?;
        let peer = Peer::plain(address, address, 7);
        let session = Session::new(broker.clone(), Arc::new(Settings::default()), peer, NOW);
        let mut client = Client(Line::new(session));
        let mut step = |client: &mut Client, answer: &str| {
            idle();
            client.expect(answer).map(drop)
        };
        client.0.send(&PROTOCOL_HEADER);
        step(&mut client, "connection.start")?;
        let response = encode_plain(Credentials { user: b"guest", password: b"guest" });
        client.method(
            0,
            connection::StartOk {
                client_properties: Table::from_raw(&[]),
                mechanism: ShortStr::bounded(b"PLAIN"),
                response: &response,
                locale: ShortStr::bounded(b"en_US"),
            },
        );
        step(&mut client, "connection.tune")?;
        client.method(0, connection::TuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 0 });
        let virtual_host = ShortStr::bounded(b"/");
        client.method(0, connection::Open { virtual_host, ..connection::Open::default() });
        step(&mut client, "connection.open-ok")?;
        client.method(1, channel::Open::default());
        step(&mut client, "channel.open-ok")?;
        Ok(client)
    }

    /// Bytes arrive; those that cannot be taken yet are kept.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.0.send(bytes);
    }

    pub(super) fn method<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) {
        let mut bytes = Vec::new();
        method.into().encode_frame(channel, &mut bytes);
        self.0.send(&bytes);
    }

    /// The next frame, if there is one.
    pub(super) fn next(&mut self) -> Option<Got> {
        self.0.next(|bytes| match parse_frame(bytes, usize::MAX) {
            Ok(Parsed::Complete { frame, consumed }) => {
                Some((Got { kind: frame.kind, payload: frame.payload.to_vec() }, consumed))
            }
            _ => None,
        })
    }

    /// The next frame, which must be this method.
    pub(super) fn expect(&mut self, name: &str) -> Result<Got, String> {
        let got = self.next().ok_or_else(|| format!("no {name} comes"))?;
        match got.method().map(|method| method.name()) {
            Some(found) if found == name => Ok(got),
            found => Err(format!("{found:?} comes, not {name}: {:?}", got.method())),
        }
    }
}
