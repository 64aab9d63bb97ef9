//! The two halves of a connection to a node, in clear text or encrypted.

use std::io;
use std::sync::Arc;

use tls::rustls::ClientConfig;
use tls::{TlsSlot, server_name};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Bytes read at once; a larger frame goes past this buffer.
const READ_BYTES: usize = 64 << 10;

/// TLS between nodes: every node is a server for those that dial it and a client of those that it dials.
#[derive(Clone, Debug)]
pub struct LinkTls {
    /// For nodes that dial this one.
    pub server: Arc<TlsSlot>,
    /// For nodes that this one dials.
    pub client: Arc<ClientConfig>,
}

/// Where frames come from.
pub(super) type Reader = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
/// Where frames go to.
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A connection.
pub(super) struct Transport {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
}

impl Transport {
    fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Transport { reader: BufReader::with_capacity(READ_BYTES, Box::new(reader)), writer: Box::new(writer) }
    }

    /// Of a socket that was accepted. Does the handshake of TLS, if there is one.
    pub(super) async fn accepted(stream: TcpStream, tls: Option<&LinkTls>) -> io::Result<Transport> {
        stream.set_nodelay(true)?;
        Ok(match tls {
            None => {
                let (reader, writer) = stream.into_split();
                Transport::new(reader, writer)
            }
            Some(tls) => {
                let (reader, writer) = tokio::io::split(tls.server.accept(stream).await?);
                Transport::new(reader, writer)
            }
        })
    }

    /// Connects to `HOST:PORT`, trying each address of the host.
    pub(super) async fn dialled(address: &str, tls: Option<&LinkTls>) -> io::Result<Transport> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(match tls {
            None => {
                let (reader, writer) = stream.into_split();
                Transport::new(reader, writer)
            }
            Some(tls) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let name = server_name(host.trim_matches(['[', ']']))?;
                let stream = TlsConnector::from(tls.client.clone()).connect(name, stream).await;
                let (reader, writer) = tokio::io::split(stream.map_err(|error| tls::explained(&error))?);
                Transport::new(reader, writer)
            }
        })
    }
}
