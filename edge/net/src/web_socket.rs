//! WebSocket under a protocol of bytes: the session reads the bytes of a client's binary messages, and the bytes that it writes
//! go out in binary messages. The library answers pings and checks frames.
//!
//! Refuses to know which protocol the bytes are of; a name in the handshake is all that is asked of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Error};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

mod ration;

use ration::Rationed;

/// Bytes read from the socket at once; each connection keeps a buffer of so many.
const READ_BYTES: usize = 4096;

/// Largest message that is sent.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// A message on its way out, its header, and answers to pings.
const OUTPUT_BYTES_MAX: usize = WRITE_BYTES_MAX + 16 * 1024;

/// A listener's conditions for a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketOptions {
    /// The path of their request: `/ws`.
    pub path: String,
    /// The protocol that they have to name: `mqtt`.
    pub protocol: &'static str,
    /// Largest frame and message that they may send, bytes.
    pub message_bytes_max: usize,
    /// Bytes that are read of a client, about, before the session has written to it: the session writes when it knows who the client is.
    pub unanswered_bytes_max: usize,
    /// Origins that browsers may come from, as they write them: `https://example.com`. Empty allows all.
    pub origins: Vec<String>,
}

/// The bytes in the binary messages of a WebSocket.
pub(crate) struct WebSocket<S> {
    messages: WebSocketStream<Rationed<S>>,
    /// The rest of the latest message.
    unread: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Answers the client's request, if it is one that is allowed.
    pub(crate) async fn accept(stream: S, options: &WebSocketOptions) -> io::Result<WebSocket<S>> {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(OUTPUT_BYTES_MAX)
            .max_message_size(Some(options.message_bytes_max))
            .max_frame_size(Some(options.message_bytes_max));
        let stream = Rationed::new(stream, options.unanswered_bytes_max);
        let messages =
            accept_hdr_async_with_config(stream, Door(options), Some(config)).await.map_err(of_library)?;
        Ok(WebSocket { messages, unread: Bytes::new() })
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

/// Lets requests in.
struct Door<'a>(&'a WebSocketOptions);

impl Callback for Door<'_> {
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        self.check(request).map_err(refusal)?;
        let protocol = HeaderValue::from_static(self.0.protocol);
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        Ok(response)
    }
}

impl Door<'_> {
    fn check(&self, request: &Request) -> Result<(), (StatusCode, &'static str)> {
        if request.uri().path() != self.0.path {
            return Err((StatusCode::NOT_FOUND, "no WebSocket is here"));
        }
        if !self.may_come_from(request) {
            return Err((StatusCode::FORBIDDEN, "pages of this origin may not connect"));
        }
        let named = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let mut names = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        if !names.any(|name| name.trim() == self.0.protocol) {
            return Err((StatusCode::BAD_REQUEST, "the protocol is not among those that are asked for"));
        }
        Ok(())
    }

    /// Programs that are no browsers send no origin.
    fn may_come_from(&self, request: &Request) -> bool {
        let origin = request.headers().get(header::ORIGIN).map(HeaderValue::as_bytes);
        let allowed = &self.0.origins;
        allowed.is_empty() || origin.is_none_or(|origin| allowed.iter().any(|it| it.as_bytes() == origin))
    }
}

fn refusal((status, text): (StatusCode, &'static str)) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(text.to_owned()));
    *response.status_mut() = status;
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
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
        // One message at a time: bytes that the socket does not take bound the bytes that are kept.
        ready!(self.as_mut().poll_flush(cx))?;
        let part = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        let message = Message::Binary(Bytes::copy_from_slice(part));
        Pin::new(&mut self.messages).start_send(message).map_err(of_library)?;
        if let Poll::Ready(flushed) = self.poll_flush(cx) {
            flushed?;
        }
        Poll::Ready(Ok(part.len()))
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
