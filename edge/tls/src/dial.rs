//! The client's part of a handshake over any transport that blocks, for tools that have no event loop.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// An encrypted connection to a server.
pub type ClientStream<S> = StreamOwned<ClientConnection, S>;

/// The name to check and to send, of a host in a URL.
///
/// # Errors
/// It is neither a DNS name nor an IP address.
pub fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{host} is no name that a certificate could have"),
        )
    })
}

/// Does the handshake with the server behind `stream`, whose name is `host`.
///
/// # Errors
/// The server ends, or its certificate is refused; the text says what to do.
pub fn connect<S: Read + Write>(
    config: Arc<ClientConfig>,
    host: &str,
    mut stream: S,
) -> io::Result<ClientStream<S>> {
    let failed = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut session = ClientConnection::new(config, server_name(host)?).map_err(failed)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).map_err(|error| explained(&error))?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// The error of a handshake with its way out.
#[must_use]
pub fn explained(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let way_out = match inner {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            "the authority that signed the server's certificate is not known here: name its file, or do not verify"
        }
        Some(rustls::Error::InvalidCertificate(
            rustls::CertificateError::NotValidForName
            | rustls::CertificateError::NotValidForNameContext { .. },
        )) => "connect with a name that stands in the server's certificate",
        Some(rustls::Error::InvalidCertificate(
            rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. },
        )) => "the server's certificate has expired: have it renewed",
        Some(rustls::Error::InvalidMessage(_)) => "the server does not speak TLS on this port",
        _ => return io::Error::new(error.kind(), error.to_string()),
    };
    io::Error::new(error.kind(), format!("{error}; {way_out}"))
}
