//! Reads bodies where the message log has them: those that were found there at the start. Knows nothing of who asks.

use std::sync::Weak;

use commitlog::{BlockSource, LogError, Position, RangeBytes, RecordAt, SegmentError};
use queues::LogRange;

use super::found::LoggedBody;
use super::node::BodyNode;
use super::record::{BODY, read_body};
use super::store::STREAM;

/// A body in the log, for the threads that read blocks.
pub(super) struct FromLog {
    /// The owner of the log; nothing before that is known.
    pub(super) node: Option<Weak<dyn BodyNode>>,
    pub(super) id: u64,
    pub(super) body: LoggedBody,
}

impl BlockSource for FromLog {
    fn read_bytes(&self) -> u64 {
        self.body.range.bytes.into()
    }

    fn read(&self) -> Result<Vec<u8>, SegmentError> {
        let closed = SegmentError::Log(LogError::Closed);
        let node = self.node.as_ref().and_then(Weak::upgrade).ok_or(closed)?;
        let LogRange { position, bytes } = self.body.range;
        body_of(node.read_log(Position(position), bytes)?, self.id, &self.body)
    }
}

/// The bytes of a body out of its record.
pub(crate) fn body_of(read: RangeBytes, id: u64, body: &LoggedBody) -> Result<Vec<u8>, SegmentError> {
    let RangeBytes { mut bytes, records } = read;
    let not_there = SegmentError::NotInLog { position: body.range.position };
    let [RecordAt { stream: STREAM, kind: BODY, payload }] = &records[..] else { return Err(not_there) };
    match read_body(&bytes[payload.clone()]) {
        Some((found, whole)) if found == id && whole.len() == body.bytes as usize => {}
        _ => return Err(not_there),
    }
    bytes.truncate(payload.end);
    bytes.drain(..payload.end - body.bytes as usize);
    Ok(bytes)
}
