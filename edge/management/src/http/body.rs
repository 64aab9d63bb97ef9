//! Bodies: read within bounds, and sent while a handler still writes them. Refuses to know what is in them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as _, Frame};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::problem::Problem;

/// How long a client may take to send a body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to accept a piece of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes gathered into a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces on the way; more wait for the client.
const PIECES_MAX: usize = 4;

/// All of a body.
///
/// # Errors
/// 400 for more bytes than that, 408 for a client that is too slow or goes away.
pub(crate) async fn read(body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::bad(format!("Exceeded HTTP request body size limit of {bytes_max} bytes"));
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let slow = |_| Problem::new(408, "request_timeout", "the body did not arrive in time");
    let read = tokio::time::timeout(READ_TIMEOUT, gather(body, bytes_max)).await.map_err(slow)?;
    match read {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(too_large()),
        Err(_) => Err(Problem::bad("the body could not be read")),
    }
}

/// `None` when there is more.
async fn gather(mut body: Body, bytes_max: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut all = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if all.len() + data.len() > bytes_max {
            return Ok(None);
        }
        all.extend_from_slice(&data);
    }
    Ok(Some(all))
}

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
    /// Sends what is left.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.send()
    }

    /// Breaks the answer off, so that the client sees that it is not whole.
    pub(crate) fn fail(self, error: io::Error) {
        // Nobody may be there to be told.
        let _ = self.pieces.try_send(Err(error));
    }

    fn send(&mut self) -> io::Result<()> {
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

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
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
