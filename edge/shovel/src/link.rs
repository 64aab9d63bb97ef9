//! One connection to a broker as bytes: bytes that were read and not understood yet, bytes to write. Heartbeats.
//!
//! Refuses to know methods and performatives. Both sides are bounded: nobody reads while [`Link::is_crowded`], and a frame has at most the negotiated size.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use wire::amqp10;
use wire::amqp091::{FRAME_OVERHEAD, Frame, FrameError, HEARTBEAT, Parsed, parse_frame};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Bytes that may wait to be written before nothing more is produced.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Largest frame before anything is negotiated, and proposed, bytes with overhead.
pub(crate) const FRAME_SIZE_MAX: u32 = 131_072;

/// A connection's two directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection to a broker.
pub(crate) struct Link {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
    /// Bytes of `input` that are done with.
    consumed: usize,
    pub(crate) output: Vec<u8>,
    written: usize,
    scratch: Box<[u8]>,
    /// Negotiated size of frames, bytes with overhead.
    pub(crate) frame_size_max: usize,
    heartbeat: Option<Duration>,
    /// The bytes that show that the client is there.
    heartbeat_bytes: &'static [u8],
    received_at: Instant,
    sent_at: Instant,
}

impl Link {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Self {
        let now = Instant::now();
        Self {
            stream,
            input: Vec::new(),
            consumed: 0,
            output: Vec::new(),
            written: 0,
            scratch: vec![0; READ_BYTES].into(),
            frame_size_max: FRAME_SIZE_MAX as usize,
            heartbeat: None,
            heartbeat_bytes: &HEARTBEAT,
            received_at: now,
            sent_at: now,
        }
    }

    /// Seconds of the negotiated heartbeat; 0 is none.
    pub(crate) fn set_heartbeat(&mut self, seconds: u16) {
        self.heartbeat = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    }

    /// The next whole frame that was read.
    ///
    /// # Errors
    /// The bytes are no frames.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let payload_bytes_max = self.frame_size_max.saturating_sub(FRAME_OVERHEAD);
        match parse_frame(&self.input[self.consumed..], payload_bytes_max)? {
            Parsed::Incomplete { .. } => Ok(None),
            Parsed::Complete { frame, consumed } => {
                self.consumed += consumed;
                Ok(Some(frame))
            }
        }
    }

    /// As [`Self::next_frame`], of AMQP 1.0.
    ///
    /// # Errors
    /// The bytes are no frames.
    pub(crate) fn next_frame10(&mut self) -> Result<Option<amqp10::Frame<'_>>, amqp10::FrameError> {
        self.heartbeat_bytes = &amqp10::HEARTBEAT;
        match amqp10::parse_frame(&self.input[self.consumed..], FRAME_SIZE_MAX as usize)? {
            amqp10::Parsed::Incomplete { .. } => Ok(None),
            amqp10::Parsed::Complete { frame, consumed } => {
                self.consumed += consumed;
                Ok(Some(frame))
            }
        }
    }

    /// The next eight bytes that were read: a protocol header.
    pub(crate) fn next_bytes(&mut self) -> Option<[u8; 8]> {
        let bytes = *self.input[self.consumed..].first_chunk()?;
        self.consumed += bytes.len();
        Some(bytes)
    }

    /// Whether so much waits to be written that nothing should be added.
    pub(crate) fn is_crowded(&self) -> bool {
        self.output.len() - self.written >= OUTPUT_BYTES_MAX
    }

    /// Whether everything is written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    /// Writes what there is, and reads once if that is `wanted`. Ready when something was read or all was written.
    pub(crate) fn poll_progress(&mut self, cx: &mut Context<'_>, wanted: Wanted) -> Poll<io::Result<()>> {
        let mut progress = false;
        while !self.output.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..])? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(count) => {
                    self.written += count;
                    self.sent_at = Instant::now();
                    if self.written == self.output.len() {
                        self.output.clear();
                        self.output.shrink_to(OUTPUT_BYTES_MAX);
                        self.written = 0;
                        progress = true;
                    }
                }
                Poll::Pending => break,
            }
        }
        if self.output.is_empty() {
            // A pipe within the process, and nothing else, keeps what is not flushed.
            let _ = Pin::new(&mut self.stream).poll_flush(cx)?;
        }
        if wanted == Wanted::Input {
            let mut window = ReadBuf::new(&mut self.scratch);
            if Pin::new(&mut self.stream).poll_read(cx, &mut window)?.is_ready() {
                let read = window.filled();
                if read.is_empty() {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                self.input.drain(..self.consumed);
                self.consumed = 0;
                self.input.extend_from_slice(read);
                self.received_at = Instant::now();
                progress = true;
            }
        }
        if progress { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Sends a heartbeat when one is due.
    ///
    /// # Errors
    /// Nothing came for two intervals although somebody was reading.
    pub(crate) fn tick(&mut self, wanted: Wanted) -> io::Result<()> {
        let Some(interval) = self.heartbeat else { return Ok(()) };
        let now = Instant::now();
        if wanted == Wanted::Input && now - self.received_at > interval * 2 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "missed heartbeats from the broker"));
        }
        if wanted == Wanted::Nothing {
            self.received_at = now;
        }
        if now - self.sent_at >= interval / 2 && self.output.is_empty() {
            self.output.extend_from_slice(self.heartbeat_bytes);
        }
        Ok(())
    }
}

/// Whether input is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It is.
    Input,
    /// Not now.
    Nothing,
}
