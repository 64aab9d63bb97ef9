//! A listening socket and the tasks of the connections it accepts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use platform::{Clock, Random};
use protocols::{Door, Peer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::connection::{now_of, serve};
use crate::endpoint::{Endpoint, canonical};
use crate::gate::{Gate, Order, Wanted};

/// Connections of a listener whose PROXY header or TLS handshake is not over. Further ones wait in the kernel.
const PREPARING_MAX: usize = 4096;

/// Socket options of a listener and what it accepts.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// Connections the kernel queues. Default 128 (B193).
    pub backlog: i32,
    /// Sends small segments at once. Default true.
    pub nodelay: bool,
    /// Lets the kernel probe idle connections. Default false: heartbeats do this job.
    pub keepalive: bool,
    /// Size of the kernel's send buffer of a connection; `None` leaves it to the kernel.
    pub send_buffer_bytes: Option<usize>,
    /// Size of the kernel's receive buffer of a connection; `None` leaves it to the kernel.
    pub receive_buffer_bytes: Option<usize>,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        ListenerOptions {
            backlog: 128,
            nodelay: true,
            keepalive: false,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        }
    }
}

/// A bound socket.
pub struct Listener {
    socket: TcpListener,
    options: ListenerOptions,
    gate: Gate,
    orders: mpsc::UnboundedReceiver<Order>,
}

impl Listener {
    /// Binds the first address that can be bound. Must be called within the runtime.
    pub fn bind(candidates: &[SocketAddr], options: ListenerOptions) -> io::Result<Listener> {
        let mut last = io::Error::other("no address to listen on");
        for address in candidates {
            match bind_one(*address, &options) {
                Ok(socket) => {
                    let (gate, orders) = Gate::new();
                    return Ok(Listener { socket, options, gate, orders });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it listens; tells the port when 0 was asked for.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The gate that stops and starts accepting.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Accepts until dropped, while its gate is open. `door` makes the sessions of what comes through `endpoint`.
    pub async fn accept<D: Door>(
        mut self,
        endpoint: Endpoint,
        door: D,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) {
        let address = self.socket.local_addr();
        let mut socket = Some(self.socket);
        let bound = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        let places = endpoint.connections_max.map(bound);
        let entrance = Entrance {
            nodelay: self.options.nodelay,
            endpoint,
            door: Arc::new(door),
            clock,
            preparing: Arc::new(Semaphore::new(PREPARING_MAX)),
        };
        loop {
            let accepted = tokio::select! {
                accepted = accept(socket.as_ref(), places.as_ref()) => accepted,
                Some(order) = self.orders.recv() => {
                    let done = obey(order.wanted, &mut socket, &address, &self.options);
                    let _nobody_waits = order.done.send(done);
                    continue;
                }
            };
            match accepted {
                Ok((stream, remote, place)) => {
                    if let Err(error) = entrance.take(stream, remote, place, random.next_u64()).await {
                        tracing::debug!(%error, %remote, "a connection ended before it began");
                    }
                }
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to come back rather than spin.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// The steps that every accepted socket goes through.
struct Entrance<D> {
    nodelay: bool,
    endpoint: Endpoint,
    door: Arc<D>,
    clock: Arc<dyn Clock>,
    preparing: Arc<Semaphore>,
}

impl<D: Door> Entrance<D> {
    /// Starts the connection's task. Waits while too many others are being prepared; the kernel keeps those that come meanwhile.
    async fn take(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        place: Option<OwnedSemaphorePermit>,
        seed: u64,
    ) -> io::Result<()> {
        stream.set_nodelay(self.nodelay)?;
        let local = canonical(stream.local_addr()?);
        let peer = Peer::plain(canonical(remote), local, seed);
        if self.endpoint.is_plain() {
            let session = self.door.open(peer, now_of(&*self.clock));
            spawn(serve(stream, session, self.clock.clone()), place);
            return Ok(());
        }
        let prepares = self.preparing.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (endpoint, door, clock) = (self.endpoint.clone(), self.door.clone(), self.clock.clone());
        spawn(endpoint.welcome(stream, peer, door, clock, prepares), place);
        Ok(())
    }
}

/// Runs a connection, which has its place until it ends.
fn spawn(connection: impl Future<Output = ()> + Send + 'static, place: Option<OwnedSemaphorePermit>) {
    match place {
        None => tokio::spawn(connection),
        Some(place) => tokio::spawn(async move {
            connection.await;
            drop(place);
        }),
    };
}

/// The next connection, when there is a place for it; never, while there is no socket.
async fn accept(
    socket: Option<&TcpListener>,
    places: Option<&Arc<Semaphore>>,
) -> io::Result<(TcpStream, SocketAddr, Option<OwnedSemaphorePermit>)> {
    let Some(socket) = socket else { return std::future::pending().await };
    let place = match places {
        None => None,
        Some(places) => Some(places.clone().acquire_owned().await.map_err(io::Error::other)?),
    };
    let (stream, remote) = socket.accept().await?;
    Ok((stream, remote, place))
}

/// Closes the socket, or binds it where it was.
fn obey(
    wanted: Wanted,
    socket: &mut Option<TcpListener>,
    address: &io::Result<SocketAddr>,
    options: &ListenerOptions,
) -> io::Result<()> {
    match (wanted, socket.is_some()) {
        (Wanted::Closed, _) => *socket = None,
        (Wanted::Open, true) => {}
        (Wanted::Open, false) => {
            let address =
                address.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
            *socket = Some(bind_one(*address, options)?);
        }
    }
    Ok(())
}

pub(crate) fn bind_one(address: SocketAddr, options: &ListenerOptions) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Accepted sockets inherit these.
    socket.set_keepalive(options.keepalive)?;
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}
