//! The steps of a listener before a protocol session gets the socket: PROXY header, TLS, WebSocket, under one deadline.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use platform::Clock;
use protocols::{Door, Peer, RequestLogin};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::server::TlsStream;
use wire::proxy::{self, Proxied};

use broker::{PeerCertificate, TlsSession};
use tls::{CertificateLogin, SessionFacts, TlsSlot};

use crate::connection::{now_of, serve};
use crate::web_socket::{WebSocket, WebSocketOptions};

/// The layers before the protocol on a listener's connections.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// A PROXY header comes first, of version 1 or 2; a connection without one is closed.
    pub proxy: bool,
    /// The connections are encrypted.
    pub tls: Option<Arc<TlsSlot>>,
    /// Which part of a client's certificate is its client id; `None` is no part.
    pub client_id: Option<CertificateLogin>,
    /// The protocol comes in the messages of a WebSocket.
    pub web_socket: Option<Arc<WebSocketOptions>>,
    /// Connections at once; further ones wait in the kernel until others end. `None` is without a bound.
    pub connections_max: Option<usize>,
    /// Time for PROXY header, TLS handshake and request for a WebSocket together. Default 5 seconds, as RabbitMQ's `ssl_handshake_timeout`.
    pub timeout: Duration,
}

impl Default for Endpoint {
    fn default() -> Self {
        Endpoint {
            proxy: false,
            tls: None,
            client_id: None,
            web_socket: None,
            connections_max: None,
            timeout: Duration::from_secs(5),
        }
    }
}

impl Endpoint {
    /// Whether the protocol gets the socket as it is.
    pub(crate) fn is_plain(&self) -> bool {
        !self.proxy && self.tls.is_none() && self.web_socket.is_none()
    }

    /// Prepares the connection and serves it. The permit counts it among those that are being prepared.
    pub(crate) async fn welcome<D: Door>(
        self,
        mut stream: TcpStream,
        mut peer: Peer,
        door: Arc<D>,
        clock: Arc<dyn Clock>,
        prepares: OwnedSemaphorePermit,
    ) {
        let remote = peer.remote;
        // The state of a handshake is large: it goes before the connection is served.
        let prepared = Box::pin(tokio::time::timeout(self.timeout, async {
            if self.proxy {
                heed_proxy(&mut stream, &mut peer).await?;
            }
            let stream = match &self.tls {
                None => Ready::Plain(stream),
                Some(slot) => {
                    let stream = Box::new(slot.accept(stream).await?);
                    told(&mut peer, (slot, self.client_id), SessionFacts::of(stream.get_ref().1));
                    Ready::Encrypted(stream)
                }
            };
            match &self.web_socket {
                None => io::Result::Ok(stream),
                Some(options) => {
                    peer.is_web_socket = true;
                    stream.web_socket(options, &mut peer.request_login).await
                }
            }
        }))
        .await;
        drop(prepares);
        let stream = match prepared {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::info!(%remote, "a connection was refused before its protocol began: {error}");
                return;
            }
            Err(_) => {
                tracing::info!(
                    %remote,
                    "a connection was closed: the bytes before its protocol took more than {} s",
                    self.timeout.as_secs_f32()
                );
                return;
            }
        };
        let session = door.open(peer, now_of(&*clock));
        match stream {
            Ready::Plain(stream) => serve(stream, session, clock).await,
            Ready::Encrypted(stream) => serve(stream, session, clock).await,
            Ready::Web(stream) => serve(stream, session, clock).await,
            Ready::EncryptedWeb(stream) => serve(stream, session, clock).await,
        }
    }
}

/// Notes what the session has agreed on, and the names that its client's certificate gives it.
fn told(
    peer: &mut Peer,
    (slot, client_id): (&TlsSlot, Option<CertificateLogin>),
    facts: Option<SessionFacts>,
) {
    let Some(facts) = facts else { return };
    peer.certificate_client_id =
        client_id.zip(facts.peer.as_ref()).and_then(|(part, certificate)| part.name(certificate));
    peer.certificate_name = facts.peer.as_ref().and_then(|certificate| slot.login_name(certificate));
    peer.tls = Some(Arc::new(TlsSession {
        protocol: facts.protocol,
        key_exchange: facts.key_exchange,
        cipher: facts.cipher,
        hash: facts.hash,
        peer: facts.peer.map(|certificate| PeerCertificate {
            validity: certificate.validity(),
            subject: certificate.subject,
            issuer: certificate.issuer,
            serial: certificate.serial,
        }),
    }));
}

/// A connection that its protocol can have.
enum Ready {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
    Web(Box<WebSocket<TcpStream>>),
    EncryptedWeb(Box<WebSocket<Box<TlsStream<TcpStream>>>>),
}

impl Ready {
    /// The WebSocket that its client asks for.
    async fn web_socket(self, options: &WebSocketOptions, login: &mut RequestLogin) -> io::Result<Ready> {
        Ok(match self {
            Ready::Plain(stream) => Ready::Web(Box::new(WebSocket::accept(stream, options, login).await?)),
            Ready::Encrypted(stream) => {
                Ready::EncryptedWeb(Box::new(WebSocket::accept(stream, options, login).await?))
            }
            twice => twice,
        })
    }
}

/// Takes the addresses from the header: they are the client's for listings and for rules about loopback.
async fn heed_proxy(stream: &mut TcpStream, peer: &mut Peer) -> io::Result<()> {
    let mut header = vec![0; proxy::START_BYTES];
    stream.read_exact(&mut header).await?;
    loop {
        match proxy::needed(&header).map_err(io::Error::other)? {
            0 => break,
            more => {
                let have = header.len();
                header.resize(have + more, 0);
                stream.read_exact(&mut header[have..]).await?;
            }
        }
    }
    if let Proxied::Addresses { source, destination } = proxy::parse(&header).map_err(io::Error::other)? {
        (peer.remote, peer.local) = (canonical(source), canonical(destination));
    }
    Ok(())
}

/// The address as its client knows it: a socket for both families has those of IPv4 within IPv6.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
