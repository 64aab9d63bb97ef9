//! A client may send so many bytes before it is answered: a stream that stops reading there, until it is written to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that reads so many bytes, and more once the bound is lifted.
pub(super) struct Rationed<S> {
    stream: S,
    /// Bytes that may still be read, but for those of the read that takes the last of them; `None` is without a bound.
    left: Option<usize>,
    /// The reader that waits for the bound to be lifted.
    reader: Option<Waker>,
}

impl<S> Rationed<S> {
    pub(super) fn new(stream: S, bytes: usize) -> Self {
        Self { stream, left: Some(bytes), reader: None }
    }

    /// Reads without a bound from now on.
    pub(super) fn lift(&mut self) {
        self.left = None;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rationed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == Some(0) {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(buffer.filled().len() - before);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rationed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
