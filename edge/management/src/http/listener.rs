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
use tls::TlsSlot;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::problem::Problem;
use super::response::refuse;
use super::slots::{Busy, Slot, SlotBounds, Slots};
use crate::prometheus::open_files_max;

/// Connections of HTTP clients that are served at once. A further one that asks ends one that is idle; when none is, it waits.
pub const CONNECTIONS_MAX: usize = 1024;

/// Connections of one address among them that may be idle.
const ADDRESS_IDLE_MAX: usize = 256;

/// Connections beside them that have not asked yet, or wait for a slot: a socket each, nothing is read. More wait in the kernel. Of the
/// files that this process may open they leave so many to all else, and half of the others, but some there are always.
const WAITING_MAX: usize = 16_384;
const WAITING_MIN: usize = 256;
const FILES_KEPT: u64 = 2048;

/// How long a client that asks waits for a slot before it is told to ask again.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to send a request's head, and be idle between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to begin with its first head, and then to send all of it.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest path and query of a request, bytes: RabbitMQ's.
const TARGET_BYTES_MAX: usize = 8_000;
const TARGET_TOO_LONG: &str = "the path and the query have at most 8000 bytes";

/// Largest head of a request, and bytes buffered of a connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Connections that wait in the kernel; those of clients beyond try again by themselves.
const BACKLOG: u32 = 4096;

/// Pause after a failed accept, such as out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of a request's client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote(pub(crate) SocketAddr);

/// The slot of a request's connection.
#[derive(Debug, Clone)]
pub(super) struct InSlot(pub(super) Arc<Slot>);

/// A bound socket for HTTP.
#[derive(Debug)]
pub struct HttpListener {
    socket: TcpListener,
    /// Connections are encrypted with it.
    tls: Option<Arc<TlsSlot>>,
}

impl HttpListener {
    /// Binds the first address that can be bound. Inside a runtime only.
    ///
    /// # Errors
    /// That of the last address.
    pub fn bind(candidates: &[SocketAddr]) -> io::Result<Self> {
        let mut last = io::Error::other("no address to listen on");
        for address in candidates {
            match listen(*address) {
                Ok(socket) => return Ok(Self { socket, tls: None }),
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
        self.socket.local_addr()
    }

    /// Encrypts its connections.
    #[must_use]
    pub fn encrypted(self, tls: Arc<TlsSlot>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Serves until dropped; connections go on until they are idle or the runtime ends.
    pub async fn serve(self, router: Router) {
        let waiting = Slots::new(waiting_bounds(open_files_max()));
        let served =
            Slots::new(SlotBounds { count_max: CONNECTIONS_MAX, address_idle_max: ADDRESS_IDLE_MAX });
        loop {
            match self.socket.accept().await {
                Ok((stream, remote)) => {
                    let waits = Arc::new(waiting.acquire(remote.ip().to_canonical()).await);
                    let arrived = Arrived { stream, remote, waits, tls: self.tls.clone() };
                    tokio::spawn(arrived.welcome(served.clone(), router.clone(), SLOT_TIMEOUT));
                }
                Err(error) => {
                    tracing::warn!(%error, "an HTTP connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Of any number of addresses.
fn waiting_bounds(files_max: Option<u64>) -> SlotBounds {
    let files = files_max.unwrap_or(u64::MAX).saturating_sub(FILES_KEPT) / 2;
    let count_max = usize::try_from(files).unwrap_or(usize::MAX).clamp(WAITING_MIN, WAITING_MAX);
    SlotBounds { count_max, address_idle_max: usize::MAX }
}

/// A connection that is not served yet.
struct Arrived {
    stream: TcpStream,
    remote: SocketAddr,
    /// Its slot among those that wait.
    waits: Arc<Slot>,
    tls: Option<Arc<TlsSlot>>,
}

impl Arrived {
    /// Waits until it asks, then for a slot, and serves it.
    async fn welcome(self, served: Arc<Slots>, router: Router, patience: Duration) {
        let Self { stream, remote, waits, tls } = self;
        let Some(stream) = asking(stream, remote, &waits).await else { return };
        let asks = waits.begin();
        let slot = tokio::time::timeout(patience, served.acquire(remote.ip().to_canonical())).await;
        drop((asks, waits));
        match slot {
            // A task of its own: those that wait are many, and stay small.
            Ok(slot) => match tls {
                None => drop(tokio::spawn(serve_one(stream, remote, router, Arc::new(slot)))),
                Some(tls) => drop(tokio::spawn(serve_encrypted(stream, tls, remote, router, Arc::new(slot)))),
            },
            Err(_) => {
                tracing::debug!(%remote, "an HTTP connection asked and found no slot");
                stream.into_std().into_iter().for_each(|stream| turn_away(stream, true));
            }
        }
    }
}

/// Waits for the first byte. `None` for a client that sends none: goes away, is late, or has to make room.
async fn asking(stream: TcpStream, remote: SocketAddr, waits: &Slot) -> Option<TcpStream> {
    let late = tokio::time::sleep(FIRST_HEAD_TIMEOUT);
    tokio::pin!(late);
    let mut byte = [0];
    loop {
        tokio::select! {
            bytes = stream.peek(&mut byte) => return bytes.is_ok_and(|bytes| bytes > 0).then_some(stream),
            () = waits.ended() => if !waits.is_given_up() { continue },
            () = &mut late => {}
        }
        let (unblocked, has_asked) = looked_at(stream)?;
        if has_asked {
            waits.stay();
            return Some(unblocked);
        }
        tracing::debug!(%remote, "an HTTP connection was closed: no request came");
        return None;
    }
}

/// Whether the kernel has bytes of it: the runtime may hear of them late when there is much to do.
fn looked_at(stream: TcpStream) -> Option<(TcpStream, bool)> {
    let stream = stream.into_std().ok()?;
    let has_bytes = stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
    Some((TcpStream::from_std(stream).ok()?, has_bytes))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn serve_one(stream: TcpStream, remote: SocketAddr, router: Router, slot: Arc<Slot>) {
    // Without it only small answers are slower.
    let _ = stream.set_nodelay(true);
    let mut next = Some(stream);
    while let Some(stream) = next {
        next = serve_in_slot(stream, remote, router.clone(), &slot).await;
    }
}

/// Serves until the connection ends or has to make room.
async fn serve_encrypted(
    stream: TcpStream,
    tls: Arc<TlsSlot>,
    remote: SocketAddr,
    router: Router,
    slot: Arc<Slot>,
) {
    let _ = stream.set_nodelay(true);
    let shaken = tokio::time::timeout(FIRST_HEAD_TIMEOUT, Box::pin(tls.accept(stream)));
    let shaken = tokio::select! {
        shaken = shaken => shaken,
        () = given_up(&slot) => return tracing::debug!(%remote, "a TLS handshake makes room for others"),
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::info!(%remote, "an HTTPS connection was refused: {error}");
            return;
        }
        Err(_) => {
            tracing::info!(%remote, "an HTTPS connection was closed: its TLS handshake took too long");
            return;
        }
    };
    let inner = TowerToHyperService::new(router);
    let service = FromRemote { remote: Remote(remote), slot: slot.clone(), inner };
    let mut served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(Box::new(stream)), service);
    while !slot.is_given_up() {
        tokio::select! {
            served = &mut served => return log_end(remote, served),
            () = slot.ended() => {}
            () = no_head(&slot) => break,
        }
    }
    tracing::debug!(%remote, "an idle HTTPS connection is closed");
}

/// Waits until the connection has to make room.
async fn given_up(slot: &Slot) {
    while !slot.is_given_up() {
        slot.ended().await;
    }
}

/// Serves until the connection ends or has to make room. Gives it back if it may stay: a request came in just then.
async fn serve_in_slot(
    stream: TcpStream,
    remote: SocketAddr,
    router: Router,
    slot: &Arc<Slot>,
) -> Option<TcpStream> {
    let inner = TowerToHyperService::new(router);
    let service = FromRemote { remote: Remote(remote), slot: slot.clone(), inner };
    let mut served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    while !slot.is_given_up() {
        tokio::select! {
            served = &mut served => {
                log_end(remote, served);
                return None;
            }
            () = slot.ended() => {}
            () = no_head(slot) => {
                tracing::debug!(%remote, "an HTTP connection was closed: no request came");
                return None;
            }
        }
    }
    if slot.is_lingering() {
        tracing::debug!(%remote, "an HTTP connection that went on to send after its answer is closed to make room for another");
        return None;
    }
    let parts = served.into_parts();
    let has_asked = !parts.read_buf.is_empty();
    // The kernel's knowledge, not the runtime's: that may be late when there is much to do.
    let stream = parts.io.into_inner().into_std().ok()?;
    if !has_asked && stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0) {
        slot.stay();
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
        // Unread bytes make the kernel take back the answer.
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
async fn no_head(slot: &Slot) {
    tokio::time::sleep(FIRST_HEAD_TIMEOUT).await;
    if slot.has_called() {
        std::future::pending::<()>().await;
    }
}

/// Tells each request where it comes from, and its place that it is busy.
struct FromRemote {
    remote: Remote,
    slot: Arc<Slot>,
    inner: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for FromRemote {
    type Response = Response<Answering>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.remote);
        request.extensions_mut().insert(InSlot(self.slot.clone()));
        let busy = self.slot.begin();
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const ASKS: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    fn slots(count_max: usize) -> Arc<Slots> {
        Slots::new(SlotBounds { count_max, address_idle_max: ADDRESS_IDLE_MAX })
    }

    /// A client, and its connection as it arrived.
    async fn arrived() -> (TcpStream, Arrived) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, remote) = listener.accept().await.unwrap();
        let waits = Arc::new(slots(1).acquire(remote.ip()).await);
        (client, Arrived { stream, remote, waits, tls: None })
    }

    async fn answer(mut client: TcpStream) -> String {
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn who_asks_and_finds_no_slot_is_told_so_and_who_waits_gets_the_next() {
        let served = slots(1);
        let holder = Arc::new(served.acquire([127, 0, 0, 1].into()).await);
        let busy = holder.begin();
        let (mut late, arrived_late) = arrived().await;
        late.write_all(ASKS).await.unwrap();
        arrived_late.welcome(served.clone(), Router::new(), Duration::ZERO).await;
        let said = answer(late).await;
        assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("retry-after: 1\r\n"), "{said}");
        let (mut patient, arrived_patient) = arrived().await;
        patient.write_all(ASKS).await.unwrap();
        let served_soon = tokio::spawn(arrived_patient.welcome(served, Router::new(), Duration::MAX));
        tokio::task::yield_now().await;
        drop((busy, holder));
        assert!(answer(patient).await.starts_with("HTTP/1.1 404 "));
        served_soon.await.unwrap();
    }

    #[tokio::test]
    async fn who_goes_away_without_a_byte_is_not_served() {
        for (sends, stays) in [(&b""[..], false), (b"G", true)] {
            let (mut client, arrived) = arrived().await;
            client.write_all(sends).await.unwrap();
            client.shutdown().await.unwrap();
            let kept = asking(arrived.stream, arrived.remote, &arrived.waits).await;
            assert_eq!(kept.is_some(), stays);
        }
    }

    #[test]
    fn those_that_wait_leave_files_to_others() {
        let most = |files| waiting_bounds(Some(files)).count_max;
        assert_eq!([1024, 4096, 20_000, u64::MAX].map(most), [256, 1024, 8976, 16_384]);
        assert_eq!(waiting_bounds(None).count_max, 16_384);
    }
}
