//! WebSocket under a protocol of bytes: the session reads the bytes of a client's messages, and the bytes that it writes go out in
//! messages. The library answers pings and checks frames.
//!
//! Refuses to know which protocol the bytes are of; its names in the handshake, and the ends of its frames, are all that is asked of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use protocols::RequestLogin;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Error};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

mod cutter;
mod door;
mod ration;

use cutter::Cutter;
use door::Door;
use ration::Rationed;

/// Bytes read from the socket at once; each connection keeps a buffer of so many.
const READ_BYTES: usize = 4096;

/// Largest message that is sent in one fragment, and most bytes of several that are sent together.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Messages that are sent together, at most.
const MESSAGES_MAX: usize = 1024;

/// Bytes on their way out: messages, their heads, and answers to pings.
const OUTPUT_BYTES_MAX: usize = WRITE_BYTES_MAX + 16 * 1024;

/// The end of the frame that the bytes go on with, if it is among them. The next call gets the bytes behind it.
pub type FrameEnd = Box<dyn FnMut(&[u8]) -> Option<usize> + Send>;

/// The messages that carry a protocol.
#[derive(Clone, Copy, Debug)]
pub enum WebMessages {
    /// Binary ones in both directions; a text ends the connection. Bytes that go out are cut anywhere.
    Binary,
    /// Texts and binary ones may come. Each frame of the protocol goes out in a message of its own.
    PerFrame {
        /// Finds the ends of the frames of one connection.
        frame_end: fn() -> FrameEnd,
        /// Frames go out as texts, but for those that are not UTF-8.
        is_text: bool,
    },
}

/// A protocol on WebSockets.
#[derive(Clone, Copy, Debug)]
pub struct WebProtocol {
    /// Its names in the handshake, the preferred one first: `mqtt`. The answer has the first one that the client names, too.
    pub names: &'static [&'static str],
    /// Whether a client has to name one of them.
    pub is_required: bool,
    /// The messages that carry it.
    pub messages: WebMessages,
    /// Whether the header `Authorization` of the request is the login, rather than what the protocol has for it.
    pub login_by_request: bool,
}

/// A listener's conditions for a WebSocket.
#[derive(Clone, Debug)]
pub struct WebSocketOptions {
    /// The path of their request: `/ws`.
    pub path: String,
    /// The protocol in its messages.
    pub protocol: WebProtocol,
    /// Largest frame and message that they may send, bytes.
    pub message_bytes_max: usize,
    /// Bytes that are read of a client, about, before the session has written to it: the session writes when it knows who the client is.
    pub unanswered_bytes_max: usize,
    /// Origins that browsers may come from, as they write them: `https://example.com`. Empty allows all.
    pub origins: Vec<String>,
}

/// The bytes in the messages of a WebSocket.
pub(crate) struct WebSocket<S> {
    messages: WebSocketStream<Rationed<S>>,
    /// How bytes that go out become messages; `None` if they are cut anywhere, and only binary messages may come.
    cutter: Option<Box<Cutter>>,
    /// The rest of the latest message.
    unread: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Answers the client's request, if it is one that is allowed; leaves its login in `login` if the options ask for it.
    pub(crate) async fn accept(
        stream: S,
        options: &WebSocketOptions,
        login: &mut RequestLogin,
    ) -> io::Result<WebSocket<S>> {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(WRITE_BYTES_MAX)
            .max_write_buffer_size(OUTPUT_BYTES_MAX)
            .max_message_size(Some(options.message_bytes_max))
            .max_frame_size(Some(options.message_bytes_max));
        let stream = Rationed::new(stream, options.unanswered_bytes_max);
        let messages = accept_hdr_async_with_config(stream, Door { options, login }, Some(config))
            .await
            .map_err(of_library)?;
        let cutter = match options.protocol.messages {
            WebMessages::Binary => None,
            WebMessages::PerFrame { frame_end, is_text } => Some(Box::new(Cutter::new(frame_end(), is_text))),
        };
        Ok(WebSocket { messages, cutter, unread: Bytes::new() })
    }

    /// A message, or a fragment of one, that the bytes begin with, and how many of them it has.
    fn message(&mut self, bytes: &[u8], bytes_max: usize) -> (Message, usize) {
        if let Some(cutter) = &mut self.cutter {
            let (fragment, count) = cutter.cut(bytes, bytes_max);
            return (Message::Frame(fragment), count);
        }
        let part = &bytes[..bytes.len().min(bytes_max)];
        (Message::Binary(Bytes::copy_from_slice(part)), part.len())
    }

    /// Says why the connection ends, as far as the socket takes it.
    fn refuse(&mut self, cx: &mut Context<'_>, reason: &'static str) -> io::Error {
        let close = CloseFrame { code: CloseCode::Unsupported, reason: reason.into() };
        let mut messages = Pin::new(&mut self.messages);
        if messages.as_mut().start_send(Message::Close(Some(close))).is_ok() {
            let _unheard = messages.poll_flush(cx);
        }
        io::Error::new(io::ErrorKind::InvalidData, reason)
    }
}

fn of_library(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            let message = match ready!(Pin::new(&mut self.messages).poll_next(cx)) {
                None | Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(of_library(error))),
                Some(Ok(message)) => message,
            };
            match message {
                Message::Binary(bytes) => self.unread = bytes,
                Message::Text(text) if self.cutter.is_some() => self.unread = text.into(),
                Message::Text(_) => {
                    return Poll::Ready(Err(self.refuse(cx, "a text where binary messages are spoken")));
                }
                // Answered by the library.
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {}
            }
        }
        let count = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        if self.unread.is_empty() {
            self.unread = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.messages.get_mut().lift();
        // One write at a time: bytes that the socket does not take bound the bytes that are kept.
        ready!(self.as_mut().poll_flush(cx))?;
        let (mut taken, mut sent) = (0, 0);
        while taken < bytes.len().min(WRITE_BYTES_MAX) && sent < MESSAGES_MAX {
            let (message, count) = self.message(&bytes[taken..], WRITE_BYTES_MAX - taken);
            Pin::new(&mut self.messages).start_send(message).map_err(of_library)?;
            (taken, sent) = (taken + count, sent + 1);
        }
        if let Poll::Ready(flushed) = self.poll_flush(cx) {
            flushed?;
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.messages).poll_flush(cx).map_err(of_library)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.messages).poll_close(cx)) {
            Ok(()) | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {}
            Err(error) => return Poll::Ready(Err(of_library(error))),
        }
        Pin::new(self.messages.get_mut()).poll_shutdown(cx)
    }
}
