//! Clients of the toy protocol, and the certificates that they and the server show.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tls::rustls::{ClientConfig, ClientConnection};
use tls::tokio_rustls::{TlsConnector, client::TlsStream};
use tls::{ClientOptions, ServerOptions, Verify, Version, client_config, server_name};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a line and reads one.
pub(crate) async fn asked<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, text: &str) -> String {
    stream.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    line(stream).await
}

/// Asks for so many bytes and takes them.
pub(crate) async fn takes<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, count: usize) {
    stream.write_all(format!("much {count}\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut got = vec![0; count + 1];
    let read = tokio::time::timeout(crate::PATIENCE, stream.read_exact(&mut got)).await;
    read.expect("an answer").expect("all bytes");
    assert!(got.ends_with(b"m\n") && got[..count].iter().all(|byte| *byte == b'm'));
}

/// The next line, without its end.
pub(crate) async fn line<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut text = Vec::new();
    let read = async {
        loop {
            match stream.read_u8().await.expect("a line") {
                b'\n' => return String::from_utf8(text).unwrap(),
                byte => text.push(byte),
            }
        }
    };
    tokio::time::timeout(crate::PATIENCE, read).await.expect("an answer")
}

/// PEM files of an authority, of two servers and of a client, in a folder of their own.
pub(crate) struct Certificates {
    folder: tempfile::TempDir,
}

fn named(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

impl Certificates {
    pub(crate) fn new() -> Certificates {
        let files = Certificates { folder: tempfile::tempdir().unwrap() };
        let mut authority = named("ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let ca = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        files.write("ca.pem", &ca.pem());
        for name in ["server", "next", "orders"] {
            let key = KeyPair::generate().unwrap();
            files.write(&format!("{name}.pem"), &named(name).signed_by(&key, &ca).unwrap().pem());
            files.write(&format!("{name}.key"), &key.serialize_pem());
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Certificate and key under another name, over what is there.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        for kind in ["pem", "key"] {
            std::fs::copy(self.path(&format!("{from}.{kind}")), self.path(&format!("{to}.{kind}"))).unwrap();
        }
    }

    /// A server that shows this certificate and knows the authority.
    pub(crate) fn server(&self, name: &str) -> ServerOptions {
        ServerOptions {
            ca_file: Some(self.path("ca.pem")),
            certificate_file: Some(self.path(&format!("{name}.pem"))),
            key_file: Some(self.path(&format!("{name}.key"))),
            ..ServerOptions::default()
        }
    }

    fn client(&self, version: Version, certificate: Option<&str>) -> Arc<ClientConfig> {
        client_config(&ClientOptions {
            verify: Verify::Peer,
            ca_file: Some(self.path("ca.pem")),
            certificate_file: certificate.map(|name| self.path(&format!("{name}.pem"))),
            key_file: certificate.map(|name| self.path(&format!("{name}.key"))),
            versions: vec![version],
            ..ClientOptions::default()
        })
        .unwrap()
    }

    /// A handshake of a client that shows this certificate.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        version: Version,
        certificate: Option<&str>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(self.client(version, certificate));
        connector.connect(server_name("localhost").unwrap(), stream).await
    }

    /// The first bytes of a handshake.
    pub(crate) fn hello(&self) -> Vec<u8> {
        let name = server_name("localhost").unwrap();
        let mut client = ClientConnection::new(self.client(Version::V1_3, None), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }
}
