//! How a side of a shovel is reached: a socket, or a pipe to this very node. Refuses to know what is sent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::amqp10::Port10;
use crate::client::{LinkError, Opening};
use crate::definition::Protocol;
use crate::link::Link;
use crate::port::Port;
use crate::uri::{TlsOptions, Uri};

/// Longest attempt to connect and log in when the URI says nothing, milliseconds.
const CONNECTION_TIMEOUT_MS: u64 = 30_000;

/// As whom a connection within this process is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// As this node itself: the user who set the parameter was allowed to open the vhost.
    Internal,
    /// By user and password, as a client.
    ByPassword,
}

/// Opens a connection to this node without a socket: the client's end.
pub type Local = Arc<dyn Fn(Login) -> DuplexStream + Send + Sync>;

/// Connects and opens a channel or a session; `vhost` is where the shovel's parameter is, `name` what the connection is called.
///
/// # Errors
/// Nobody answers, or refuses.
pub(crate) async fn connect(
    (uri, protocol): (&Uri, Protocol),
    vhost: &str,
    name: &str,
    local: &Local,
) -> Result<Port, LinkError> {
    let wait = Duration::from_millis(uri.connection_timeout_ms.unwrap_or(CONNECTION_TIMEOUT_MS));
    timeout(wait, open((uri, protocol), vhost, name, local)).await.unwrap_or(Err(LinkError::Timeout))
}

async fn open(
    (uri, protocol): (&Uri, Protocol),
    vhost: &str,
    name: &str,
    local: &Local,
) -> Result<Port, LinkError> {
    let login = uri.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
    let (mut link, default_vhost, default_login) = match &uri.place {
        Some((host, port)) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let link = match &uri.tls {
                None => Link::new(Box::new(stream)),
                Some(options) => Link::new(Box::new(encrypted(stream, options, host).await?)),
            };
            (link, "/", ("guest", "guest"))
        }
        None => {
            let how = if login.is_some() { Login::ByPassword } else { Login::Internal };
            (Link::new(Box::new(local(how))), vhost, ("none", ""))
        }
    };
    let (user, password) = login.unwrap_or(default_login);
    let opening = Opening {
        user,
        password,
        vhost: uri.vhost.as_deref().unwrap_or(default_vhost),
        vhost10: uri.vhost.as_deref(),
        is_anonymous: login.is_none(),
        name,
        heartbeat_s: uri.heartbeat_s,
    };
    match protocol {
        Protocol::Amqp091 => {
            link.open(&opening).await?;
            Ok(Port::Amqp091(link))
        }
        Protocol::Amqp10 => {
            let host = uri.place.as_ref().map_or("localhost", |(host, _)| host.as_str());
            Ok(Port::Amqp10(Box::new(Port10::open(link, &opening, host).await?)))
        }
    }
}

/// Reads the files anew each time: certificates that were exchanged count from the next connection on.
async fn encrypted(stream: TcpStream, options: &TlsOptions, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let config = tls::client_config(&options.files).map_err(io::Error::other)?;
    let name = tls::server_name(options.server_name.as_deref().unwrap_or(host))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| tls::explained(&error))
}
