//! A connection's bytes: as they are, or encrypted. Refuses to know what they mean.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use tls::ClientStream;
use tls::rustls::ClientConfig;

/// A connection over TCP, encrypted or not.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Bytes within TLS.
    Encrypted(Box<ClientStream<TcpStream>>),
}

impl Stream {
    /// Does a TLS handshake with the server of this name.
    ///
    /// # Errors
    /// The server ends, or its certificate is refused.
    pub(crate) fn encrypt(stream: TcpStream, host: &str, config: Arc<ClientConfig>) -> io::Result<Self> {
        Ok(Self::Encrypted(Box::new(tls::connect(config, host, stream)?)))
    }

    /// The socket itself, for options and readiness.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => stream.get_ref(),
        }
    }

    /// Whether encrypted bytes wait for room in the socket: they are out only after another [`Write::flush`].
    pub(crate) fn has_pending(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Encrypted(stream) => stream.conn.wants_write(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Encrypted(stream) => match stream.read(buffer) {
                // A peer that ends the stream without a word in TLS has ended it all the same: frames show what is cut short.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}
