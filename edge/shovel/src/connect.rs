//! How a side of a shovel is reached: a socket, or a pipe to this very node. Refuses to know what is sent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{LinkError, Opening};
use crate::link::Link;
use crate::uri::{TlsOptions, Uri};

/// Longest attempt to connect and log in when the URI says nothing, milliseconds.
const CONNECTION_TIMEOUT_MS: u64 = 30_000;

/// As whom a connection within this process is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// As this node itself: whoever set the parameter was allowed to open the vhost.
    Internal,
    /// By user and password, as a client.
    ByPassword,
}

/// Opens a connection to this node without a socket: the client's end.
pub type Local = Arc<dyn Fn(Login) -> DuplexStream + Send + Sync>;

/// Connects and opens a channel; `vhost` is where the shovel's parameter is, `name` what the connection is called.
///
/// # Errors
/// Nobody answers, or refuses.
pub(crate) async fn connect(uri: &Uri, vhost: &str, name: &str, local: &Local) -> Result<Link, LinkError> {
    let wait = Duration::from_millis(uri.connection_timeout_ms.unwrap_or(CONNECTION_TIMEOUT_MS));
    timeout(wait, open(uri, vhost, name, local)).await.unwrap_or(Err(LinkError::Timeout))
}

async fn open(uri: &Uri, vhost: &str, name: &str, local: &Local) -> Result<Link, LinkError> {
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
    let vhost = uri.vhost.as_deref().unwrap_or(default_vhost);
    link.open(&Opening { user, password, vhost, name, heartbeat_s: uri.heartbeat_s }).await?;
    Ok(link)
}

/// Reads the files anew each time: certificates that were exchanged count from the next connection on.
async fn encrypted(stream: TcpStream, options: &TlsOptions, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let config = tls::client_config(&options.files).map_err(io::Error::other)?;
    let name = tls::server_name(options.server_name.as_deref().unwrap_or(host))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| tls::explained(&error))
}
