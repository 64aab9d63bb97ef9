//! Requirements of this crate on a protocol, shown with one that it does not know: a toy served over plain sockets, behind PROXY headers
//! and over TLS.
#![expect(clippy::unwrap_used, reason = "a test")]

mod clients;
mod toy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use net::{Endpoint, Listener, ListenerOptions};
use platform::{RealClock, RealRandom};
use tls::{CertificateLogin, ServerOptions, TlsSlot, Verify, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use clients::{Certificates, asked, line, takes};
use toy::{LINE_BYTES_MAX, ToyDoor};

/// Longer than anything here takes, unless it never ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that do not fit into the buffers of a socket.
const MUCH: usize = 8_000_000;

struct Server {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    accepts: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl Server {
    fn start(endpoint: Endpoint) -> Server {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(&[any], ListenerOptions::default()).unwrap();
        let address = listener.local_address().unwrap();
        let door = ToyDoor::default();
        let open = door.open.clone();
        let accepting = listener.accept(endpoint, door, Arc::new(RealClock::new()), Arc::new(RealRandom));
        Server { address, open, accepts: tokio::spawn(accepting) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits until every session has given back what it held.
    async fn is_empty(&self) {
        let began = Instant::now();
        while self.open.load(Ordering::SeqCst) > 0 {
            assert!(began.elapsed() < PATIENCE, "a session is never released");
            tokio::task::yield_now().await;
        }
    }
}

fn encrypted(options: ServerOptions) -> (Arc<TlsSlot>, Endpoint) {
    let slot = TlsSlot::new(options, CertificateLogin::CommonName).unwrap();
    (slot.clone(), Endpoint { tls: Some(slot), ..Endpoint::default() })
}

fn proxied() -> Endpoint {
    Endpoint { proxy: true, ..Endpoint::default() }
}

/// The bytes that come until the server ends the connection. A reset is an end, too.
async fn to_the_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut got)).await;
    let _end_or_reset = ended.expect("the server ends the connection");
    got
}

/// A header of version 2 of a client at 192.0.2.7:4711.
fn binary_header() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C".to_vec();
    header.extend_from_slice(&[192, 0, 2, 7, 10, 0, 0, 1]);
    header.extend_from_slice(&4711_u16.to_be_bytes());
    header.extend_from_slice(&5672_u16.to_be_bytes());
    header
}

const TEXT_HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 5672\r\n";

#[tokio::test]
async fn a_protocol_of_another_kind_is_served() {
    let server = Server::start(Endpoint::default());
    let mut client = server.connect().await;
    let own = client.local_addr().unwrap();
    assert_eq!(asked(&mut client, "hello").await, "hello");
    assert_eq!(asked(&mut client, "who").await, format!("{own} none nobody"));
    client.write_all(b"in two pie").await.unwrap();
    client.write_all(b"ces\nand\nmore\n").await.unwrap();
    for expected in ["in two pieces", "and", "more"] {
        assert_eq!(line(&mut client).await, expected);
    }
    // A line behind a line that waits is not lost, and keeps its place.
    client.write_all(b"later first\nsecond\n").await.unwrap();
    assert_eq!((line(&mut client).await, line(&mut client).await), ("first".into(), "second".into()));
    takes(&mut client, MUCH).await;
    client.write_all(b"bye\nnot read any more\n").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(to_the_end(&mut client).await, b"bye\n");
    server.is_empty().await;
}

#[tokio::test]
async fn a_session_may_end_its_connection() {
    let server = Server::start(Endpoint::default());
    let mut client = server.connect().await;
    client.write_all(&vec![b'x'; LINE_BYTES_MAX + 1]).await.unwrap();
    assert_eq!(to_the_end(&mut client).await, b"");
    let mut silent = server.connect().await;
    assert_eq!(asked(&mut silent, "quiet 20").await, "quiet 20");
    assert_eq!(line(&mut silent).await, "silent");
    drop(silent);
    server.is_empty().await;
}

#[tokio::test]
async fn a_proxy_says_whose_connection_it_is() {
    let server = Server::start(proxied());
    for header in [TEXT_HEADER.to_vec(), binary_header()] {
        let mut client = server.connect().await;
        // The first line of the protocol comes in the same packet.
        client.write_all(&[&header[..], b"who\n"].concat()).await.unwrap();
        assert_eq!(line(&mut client).await, "192.0.2.7:4711 none nobody");
        let mut slow = server.connect().await;
        for byte in &header {
            slow.write_all(&[*byte]).await.unwrap();
        }
        assert_eq!(asked(&mut slow, "who").await, "192.0.2.7:4711 none nobody");
    }
    let mut health_check = server.connect().await;
    let own = health_check.local_addr().unwrap();
    health_check.write_all(b"PROXY UNKNOWN\r\n").await.unwrap();
    assert_eq!(asked(&mut health_check, "who").await, format!("{own} none nobody"));
}

#[tokio::test]
async fn connections_without_a_good_header_are_ended() {
    let server = Server::start(proxied());
    let endless = [&b"PROXY TCP4 "[..], &[b'1'; 300]].concat();
    let too_long = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xFF\xFF".to_vec();
    let no_address = b"PROXY TCP4 somewhere 10.0.0.1 4711 5672\r\n".to_vec();
    for bytes in [b"AMQP\0\0\x09\x01who\nwho\n".to_vec(), endless, too_long, no_address] {
        let mut client = server.connect().await;
        client.write_all(&bytes).await.unwrap();
        assert_eq!(to_the_end(&mut client).await, b"", "{}", bytes.escape_ascii());
    }
    assert_eq!(server.open.load(Ordering::SeqCst), 0, "no session was made for any of them");
}

#[tokio::test]
async fn clients_are_known_by_their_certificates() {
    let files = Certificates::new();
    let (_, endpoint) = encrypted(ServerOptions { verify: Verify::Peer, ..files.server("server") });
    let server = Server::start(endpoint);
    for (version, name) in [(Version::V1_2, "tlsv1.2"), (Version::V1_3, "tlsv1.3")] {
        let mut client = files.connect(server.connect().await, version, Some("orders")).await.unwrap();
        assert!(asked(&mut client, "who").await.ends_with(&format!(" {name} orders")));
        takes(&mut client, MUCH).await;
        assert_eq!(asked(&mut client, "later on").await, "on");
        assert_eq!(asked(&mut client, "bye").await, "bye");
        let mut client = files.connect(server.connect().await, version, None).await.unwrap();
        assert!(asked(&mut client, "who").await.ends_with(&format!(" {name} nobody")));
    }
    server.is_empty().await;
}

#[tokio::test]
async fn a_header_comes_before_tls() {
    let files = Certificates::new();
    let (_, endpoint) = encrypted(files.server("server"));
    let server = Server::start(Endpoint { proxy: true, ..endpoint });
    let mut stream = server.connect().await;
    stream.write_all(TEXT_HEADER).await.unwrap();
    let mut client = files.connect(stream, Version::V1_3, None).await.unwrap();
    assert_eq!(asked(&mut client, "who").await, "192.0.2.7:4711 tlsv1.3 nobody");
    let bare = files.connect(server.connect().await, Version::V1_3, None).await;
    assert!(bare.is_err(), "a handshake without the header in front of it");
}

#[tokio::test]
async fn garbage_on_an_encrypted_port_ends_only_its_own_connection() {
    let files = Certificates::new();
    let (_, endpoint) = encrypted(ServerOptions {
        verify: Verify::Peer,
        fail_if_no_peer_cert: true,
        ..files.server("server")
    });
    let server = Server::start(endpoint);
    let oversized_record = [&b"\x16\x03\x01\xFF\xFF"[..], &[0; 4096]].concat();
    let requests = [&b"AMQP\0\0\x09\x01"[..], b"GET / HTTP/1.1\r\n\r\n", &oversized_record, &[0x80; 64]];
    for bytes in requests {
        let mut client = server.connect().await;
        client.write_all(bytes).await.unwrap();
        let told = to_the_end(&mut client).await;
        assert!(told.is_empty() || told.starts_with(&[0x15]), "an alert at most: {told:?}");
    }
    // TLS 1.3 tells a client without certificate after the client's side of the handshake is over.
    let mut nameless = files.connect(server.connect().await, Version::V1_3, None).await.unwrap();
    let _refused = nameless.write_all(b"who\n").await;
    assert!(nameless.read_u8().await.is_err(), "nothing is answered to a client without certificate");
    assert_eq!(server.open.load(Ordering::SeqCst), 0, "no session was made for any of them");
    let mut client = files.connect(server.connect().await, Version::V1_3, Some("orders")).await.unwrap();
    assert!(asked(&mut client, "who").await.ends_with("tlsv1.3 orders"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_stand_still_end_in_time_and_hold_up_nobody() {
    let files = Certificates::new();
    let (_, endpoint) = encrypted(files.server("server"));
    let timeout = Duration::from_secs(2);
    let server = Server::start(Endpoint { proxy: true, timeout, ..endpoint });
    let mut stream = server.connect().await;
    stream.write_all(TEXT_HEADER).await.unwrap();
    let mut established = files.connect(stream, Version::V1_3, None).await.unwrap();
    let hello = files.hello();
    let mut standing = Vec::new();
    for number in 0..64 {
        let mut client = server.connect().await;
        let begun = match number % 4 {
            0 => Vec::new(),
            1 => TEXT_HEADER[..9].to_vec(),
            // Half of what a client says first, and all of it: the server has answered and waits.
            2 => [TEXT_HEADER, &hello[..hello.len() / 2]].concat(),
            _ => [TEXT_HEADER, &hello].concat(),
        };
        client.write_all(&begun).await.unwrap();
        standing.push(client);
    }
    assert_eq!(asked(&mut established, "still here").await, "still here");
    for client in &mut standing {
        to_the_end(client).await;
    }
    drop(established);
    server.is_empty().await;
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let files = Certificates::new();
    files.copy("server", "current");
    let (slot, endpoint) = encrypted(files.server("current"));
    let server = Server::start(endpoint);
    let mut open = files.connect(server.connect().await, Version::V1_3, None).await.unwrap();
    let shown = open.get_ref().1.peer_certificates().unwrap()[0].clone();
    files.copy("next", "current");
    slot.reload().unwrap();
    assert_eq!(asked(&mut open, "still here").await, "still here");
    let next = files.connect(server.connect().await, Version::V1_3, None).await.unwrap();
    assert_ne!(next.get_ref().1.peer_certificates().unwrap()[0], shown);
    // A certificate and a key that do not belong together.
    files.write("current.key", "no key");
    assert!(slot.reload().is_err());
    let again = files.connect(server.connect().await, Version::V1_3, None).await.unwrap();
    assert_eq!(again.get_ref().1.peer_certificates(), next.get_ref().1.peer_certificates());
}
