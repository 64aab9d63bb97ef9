//! Counts refusals by their codes.

use broker::Broker;

/// Bytes of an answer before its code: size, key, version, correlation id.
const BEFORE_CODE: usize = 12;

/// Counts the code of an encoded answer. The answer to a metadata query has no code; two zeros of a length stand there.
pub(crate) fn count_answer(broker: &Broker, frame: &[u8]) {
    if let Some([high, low]) = frame.get(BEFORE_CODE..BEFORE_CODE + 2) {
        broker.count_stream_error(u16::from_be_bytes([*high, *low]));
    }
}
