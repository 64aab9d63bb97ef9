//! A body that is sent while it is written. Refuses to know what is in it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How long a client may take to accept a piece.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes gathered into a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces on the way; more wait for the client.
const PIECES_MAX: usize = 4;

/// A body and the end that writes it from a thread that may block.
pub(crate) fn channel(handle: Handle) -> (Writer, Body) {
    let (pieces, received) = mpsc::channel(PIECES_MAX);
    (Writer { pieces, handle, gathered: Vec::with_capacity(PIECE_BYTES) }, Body::new(Pieces(received)))
}

/// Writes a body piece by piece; an error says that nobody reads any more.
pub(crate) struct Writer {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    handle: Handle,
    gathered: Vec<u8>,
}

impl Writer {
    /// Breaks the body off, so that the client sees that it is not whole.
    pub(crate) fn fail(self, error: io::Error) {
        // Nobody may be there to be told.
        let _ = self.pieces.try_send(Err(error));
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.gathered, Vec::with_capacity(PIECE_BYTES));
        let sent = async { tokio::time::timeout(WRITE_TIMEOUT, self.pieces.send(Ok(piece.into()))).await };
        match self.handle.block_on(sent) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// The reading end.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }
}
