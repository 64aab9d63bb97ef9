//! Where clients of the stream protocol reach a node. Nodes ask each other, so that each can send clients to the node that has a stream. Knows nothing
//! of the protocol.

use bytes::{BufMut, Bytes, BytesMut};

use super::frames::Fields;

/// The question for them; questions of tools begin otherwise.
pub(super) const QUESTION: &[u8] = b"\x01stream doors";

/// Host and port.
pub type StreamDoor = (Box<str>, u16);

/// Where clients are told to connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamDoors {
    /// Without encryption; `None`: the node has no such listener.
    pub plain: Option<StreamDoor>,
    /// Over TLS.
    pub tls: Option<StreamDoor>,
}

impl StreamDoors {
    /// Each door as `port u16 | bytes of the host u16 | host`; port 0 is none.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        for door in [&self.plain, &self.tls] {
            let (host, port) = door.as_ref().map_or(("", 0), |(host, port)| (host, *port));
            let len = u16::try_from(host.len()).unwrap_or(0);
            out.put_u16(port);
            out.put_u16(len);
            out.extend_from_slice(&host.as_bytes()[..usize::from(len)]);
        }
        out.freeze()
    }

    pub(super) fn decode(bytes: Vec<u8>) -> Option<StreamDoors> {
        let mut fields = Fields(bytes.into());
        let mut next = || {
            let (port, len) = (fields.u16()?, fields.u16()?);
            let host = fields.take(usize::from(len))?;
            let host = std::str::from_utf8(&host).ok()?;
            Some((port > 0).then(|| (host.into(), port)))
        };
        Some(StreamDoors { plain: next()?, tls: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_come_out_as_they_went_in() {
        let one = StreamDoors { plain: Some(("a.example.com".into(), 5552)), tls: None };
        let both = StreamDoors { tls: Some(("b".into(), 5551)), ..one.clone() };
        for doors in [StreamDoors::default(), one, both] {
            assert_eq!(StreamDoors::decode(doors.encode().to_vec()), Some(doors));
        }
        assert_eq!(StreamDoors::decode(vec![0, 0, 0, 9, 1]), None);
    }
}
