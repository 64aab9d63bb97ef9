//! The listening socket of the HTTP API and its bounds. Refuses to know what is asked and answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::{TowerToHyperService, TowerToHyperServiceFuture};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections of HTTP clients at once; more wait in the kernel until others close.
pub const CONNECTIONS_MAX: usize = 1024;

/// Requests that are answered at once; more wait for their turn.
pub const CALLS_MAX: usize = 16;

/// Bodies above 64 KiB received at once; more wait for their turn.
pub(crate) const BODIES_MAX: usize = 8;

/// Answers written while they are made that clients may be reading at once; a further one is 503.
pub(crate) const STREAMS_MAX: usize = 64;

/// How long a client may take to send a request's head, and be idle between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest head of a request, and bytes buffered of a connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Pause after a failed accept, such as out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of a request's client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote(pub(crate) SocketAddr);

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
            let bound = std::net::TcpListener::bind(address).and_then(|socket| {
                socket.set_nonblocking(true)?;
                TcpListener::from_std(socket)
            });
            match bound {
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
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match self.0.accept().await {
                Ok((stream, remote)) => {
                    let router = router.clone();
                    tokio::spawn(async move {
                        serve_one(stream, remote, router).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "an HTTP connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve_one(stream: TcpStream, remote: SocketAddr, router: Router) {
    // Without it only small answers are slower.
    let _ = stream.set_nodelay(true);
    let service = FromRemote { remote: Remote(remote), inner: TowerToHyperService::new(router) };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, %remote, "an HTTP connection has ended");
    }
}

/// Tells each request where it comes from.
struct FromRemote {
    remote: Remote,
    inner: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for FromRemote {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = TowerToHyperServiceFuture<Router, Request<Incoming>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.remote);
        self.inner.call(request)
    }
}
