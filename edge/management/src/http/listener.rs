//! The listening socket of the HTTP API and its bounds. Refuses to know what is asked and answered.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::problem::Problem;
use super::router::refuse;
use super::seats::{Busy, Seat, Seats};

/// Connections of HTTP clients at once. A further one ends one that is idle; when none is, it waits in the kernel.
pub const CONNECTIONS_MAX: usize = 1024;

/// Requests that are answered at once; more wait for their turn.
pub const CALLS_MAX: usize = 16;

/// Health checks that are answered at once, beside all else.
pub(crate) const CHECKS_MAX: usize = 4;

/// Profiles that are taken and commands of `warren ctl` that run at once, beside all else: they may last for seconds.
pub(crate) const WATCHES_MAX: usize = 4;

/// Memory for all bodies above 64 KiB on their way, KiB, and again for what is made of them; more wait for their turn.
pub(crate) const BODIES_KIB_MAX: usize = 64 << 10;

/// Forms with a name and a password that are read at once, from clients that nobody knows yet; a further one is 503.
pub(crate) const FORMS_MAX: usize = 64;

/// How long a client may take to send a request's head, and be idle between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client that never sent a whole head may take for its first.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest path and query of a request, bytes: RabbitMQ's.
const TARGET_BYTES_MAX: usize = 8_000;
const TARGET_TOO_LONG: &str = "the path and the query have at most 8000 bytes";

/// Largest head of a request, and bytes buffered of a connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Connections that wait in the kernel for a place; those of clients beyond try again by themselves.
const BACKLOG: u32 = 4096;

/// Pause after a failed accept, such as out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of a request's client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote(pub(crate) SocketAddr);

/// The place of a request's connection.
#[derive(Debug, Clone)]
pub(super) struct Seated(pub(super) Arc<Seat>);

/// A bound socket for HTTP.
#[derive(Debug)]
pub struct HttpListener(TcpListener);

impl HttpListener {
    /// Binds the first address that can be bound. Inside a runtime only.
    ///
    /// # Errors
    /// That of the last address.
    pub fn bind(candidates: &[SocketAddr]) -> io::Result<Self> {
        let mut last = io::Error::other("no address to listen on");
        for address in candidates {
            match listen(*address) {
                Ok(socket) => return Ok(Self(socket)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it listens; tells the port when 0 was asked for.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until dropped; connections go on until they are idle or the runtime ends.
    pub async fn serve(self, router: Router) {
        let seats = Seats::new(CONNECTIONS_MAX);
        loop {
            match self.0.accept().await {
                Ok((stream, remote)) => {
                    let seat = Arc::new(seats.take(remote.ip().to_canonical()).await);
                    tokio::spawn(serve_one(stream, remote, router.clone(), seat));
                }
                Err(error) => {
                    tracing::warn!(%error, "an HTTP connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn serve_one(stream: TcpStream, remote: SocketAddr, router: Router, seat: Arc<Seat>) {
    // Without it only small answers are slower.
    let _ = stream.set_nodelay(true);
    let mut next = Some(stream);
    while let Some(stream) = next {
        next = serve_while_seated(stream, remote, router.clone(), &seat).await;
    }
}

/// Serves until the connection ends or has to make room. Gives it back if it may stay: a request came in just then.
async fn serve_while_seated(
    stream: TcpStream,
    remote: SocketAddr,
    router: Router,
    seat: &Arc<Seat>,
) -> Option<TcpStream> {
    let inner = TowerToHyperService::new(router);
    let service = FromRemote { remote: Remote(remote), seat: seat.clone(), inner };
    let mut served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    while !seat.is_given_up() {
        tokio::select! {
            served = &mut served => {
                log_end(remote, served);
                return None;
            }
            () = seat.ended() => {}
            () = no_head(seat) => {
                tracing::debug!(%remote, "an HTTP connection was closed: no request came");
                return None;
            }
        }
    }
    if seat.is_lingering() {
        tracing::debug!(%remote, "an HTTP connection that went on to send after its answer is closed to make room for another");
        return None;
    }
    let parts = served.into_parts();
    let has_asked = !parts.read_buf.is_empty();
    // What the kernel knows, not what the runtime has heard of: that may be late when there is much to do.
    let stream = parts.io.into_inner().into_std().ok()?;
    if !has_asked && stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0) {
        seat.stay();
        return TcpStream::from_std(stream).ok();
    }
    tracing::debug!(%remote, "an idle HTTP connection is closed to make room for another");
    turn_away(stream, has_asked);
    None
}

fn log_end(remote: SocketAddr, served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, %remote, "an HTTP connection has ended");
    }
}

/// Closes a connection that has to make room. A client whose request is on its way learns that it may ask again.
fn turn_away(mut stream: std::net::TcpStream, has_asked: bool) {
    if has_asked {
        // What stays unread makes the kernel take back the answer.
        let mut unread = [0; 4096];
        let is_more = |it: &io::Result<usize>| it.as_ref().is_ok_and(|bytes| *bytes > 0);
        (0..BUFFER_BYTES_MAX / unread.len())
            .map(|_| stream.read(&mut unread))
            .take_while(is_more)
            .for_each(drop);
        let reason = "too many connections to the HTTP API; ask again";
        let body = Problem::new(503, "service_unavailable", reason).body().to_string();
        let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1";
        let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        // It fits into the socket's buffer, or the client does not read.
        let _ = stream.write(answer.as_bytes());
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// Ends when the first head is late.
async fn no_head(seat: &Seat) {
    tokio::time::sleep(FIRST_HEAD_TIMEOUT).await;
    if seat.has_called() {
        std::future::pending::<()>().await;
    }
}

/// Tells each request where it comes from, and its place that it is busy.
struct FromRemote {
    remote: Remote,
    seat: Arc<Seat>,
    inner: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for FromRemote {
    type Response = Response<Answering>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.remote);
        request.extensions_mut().insert(Seated(self.seat.clone()));
        let busy = self.seat.begin();
        if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES_MAX) {
            let answer = refuse(&Problem::new(414, "uri_too_long", TARGET_TOO_LONG));
            return Box::pin(async move { Ok(answer.map(|body| Answering { body, _busy: busy })) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map(|answer| answer.map(|body| Answering { body, _busy: busy })) })
    }
}

/// The body of an answer; its connection is busy until it is sent.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
