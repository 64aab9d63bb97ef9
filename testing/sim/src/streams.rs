//! Reads streams: entries with their offsets, as the numbers of the messages in them. Knows nothing of what should be there.

use std::sync::Arc;
use std::task::{Poll, Waker};

use broker::Queue;
use broker::streams::{Entry, Reader, Seek, StoredChunk, StreamError};
use message::FromStream;

use crate::life::Life;
use crate::model::Seen;

/// A look-up and a read, each of a piece that was too short at first: a reader that still waits then is at the end.
const WAITS_MAX: u32 = 4;

/// The messages of a chunk: offset and number.
pub(crate) fn messages(chunk: &StoredChunk) -> Result<Vec<(u64, u64)>, String> {
    let (mut all, mut data, mut offset) = (Vec::new(), chunk.data(), chunk.chunk_id());
    let mut converter = FromStream::default();
    while let Some((entry, rest)) = Entry::split(data) {
        let Entry::Message(sections) = entry else { return Err("a batch that nobody published".into()) };
        let message = converter.message(sections, offset);
        all.push((offset, Seen::read(message.properties, &message.body)?.id));
        (data, offset) = (rest, offset + 1);
    }
    Ok(all)
}

/// The entry that a reader gets next, if it is there: `idle` has the engines do what they can.
pub(crate) fn read_on(
    reader: &mut Reader,
    mut idle: impl FnMut(),
) -> Result<Result<Vec<(u64, u64)>, StreamError>, String> {
    let (mut all, mut waits) = (Vec::new(), 0);
    loop {
        match reader.poll_next(Waker::noop()) {
            Poll::Ready(Ok(chunk)) => {
                all.append(&mut messages(&chunk)?);
                waits = 0;
            }
            Poll::Ready(Err(error)) => return Ok(Err(error)),
            Poll::Pending if waits == WAITS_MAX => return Ok(Ok(all)),
            Poll::Pending => {
                idle();
                waits += 1;
            }
        }
    }
}

/// All that is in a stream. `None`: it cannot be read, and says so.
pub(crate) fn read_all(life: &mut Life, queue: &Arc<Queue>) -> Result<Option<Vec<(u64, u64)>>, String> {
    let Some(log) = queue.stream_log() else { return Ok(None) };
    let mut reader = log.reader(Seek::First, None);
    Ok(read_on(&mut reader, || life.driver.run_until_idle())?.ok())
}
