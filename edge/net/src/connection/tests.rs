//! Connections over a pipe in memory: a client that stops half way, one that does not read, one that says nothing, one
//! that does not hang up. Where time matters it is tokio's, which stands still until everybody waits for it.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use broker::{Broker, BrokerOptions};
use platform::{Clock, Monotonic};
use protocols::amqp091::{Session, Settings};
use protocols::{OUTPUT_BYTES_LOW, OUTPUT_BYTES_MAX, OutputBytes, Peer, Session as _};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::amqp091::methods::{basic, channel, connection, queue};
use wire::amqp091::{
    FRAME_BODY, FRAME_HEARTBEAT, FRAME_METHOD, Method, PROTOCOL_HEADER, ShortStr, encode_publish,
};

use super::{now_of, serve};

mod gathering;

/// Bytes that the pipe holds in each direction, as a socket's buffers do.
const PIPE_BYTES: usize = 64 * 1024;

/// tokio's time as the session's clock.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Monotonic {
        Monotonic(self.0.elapsed().as_nanos() as u64)
    }
    fn wall_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

/// A server's end of a connection that counts its writes, and takes none while it is shut.
struct Counted {
    stream: DuplexStream,
    writes: Arc<AtomicUsize>,
    shut: Arc<Shut>,
}

/// Whether nothing may be written, and the task that waits for that to end.
#[derive(Default)]
struct Shut(Mutex<(bool, Option<Waker>)>);

impl Shut {
    fn set(&self, is_shut: bool) {
        let mut state = self.0.lock().unwrap();
        state.0 = is_shut;
        state.1.take().into_iter().for_each(Waker::wake);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            state.1 = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.shut.poll(cx));
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A client's end of a connection that is being served.
struct Client {
    stream: DuplexStream,
    served: JoinHandle<()>,
    outbox: Arc<dyn OutputBytes>,
    started: Instant,
    broker: Broker,
    /// How often the server has written.
    writes: Arc<AtomicUsize>,
    shut: Arc<Shut>,
    folder: Arc<tempfile::TempDir>,
}

impl Client {
    fn connect() -> Client {
        Client::over(PIPE_BYTES)
    }

    /// Over a pipe that holds so much.
    fn over(pipe_bytes: usize) -> Client {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let options = BrokerOptions { fsync: false, ..BrokerOptions::default() };
        let broker = Broker::open(folder.path(), options).expect("a folder of its own");
        Client::begin(broker, folder, pipe_bytes)
    }

    /// One more of the same broker.
    fn of(broker: Broker, folder: Arc<tempfile::TempDir>) -> Client {
        Client::begin(broker, folder, PIPE_BYTES)
    }

    fn begin(broker: Broker, folder: Arc<tempfile::TempDir>, pipe_bytes: usize) -> Client {
        let (stream, server) = tokio::io::duplex(pipe_bytes);
        let (writes, shut) = (Arc::new(AtomicUsize::new(0)), Arc::new(Shut::default()));
        let server = Counted { stream: server, writes: writes.clone(), shut: shut.clone() };
        let started = Instant::now();
        let clock: Arc<dyn Clock> = Arc::new(TokioClock(started));
        let loopback = ([127, 0, 0, 1], 5672).into();
        let peer = Peer::plain(loopback, loopback, 1);
        let session = Session::new(broker.clone(), Arc::new(Settings::default()), peer, now_of(&*clock));
        let outbox = session.outbox();
        let served = tokio::spawn(serve(server, session, clock));
        Client { stream, served, outbox, started, broker, writes, shut, folder }
    }

    async fn opened(heartbeat: u16) -> Client {
        Client::connect().open(heartbeat).await
    }

    async fn open(self, heartbeat: u16) -> Client {
        let mut client = self;
        client.stream.write_all(&PROTOCOL_HEADER).await.expect("it reads");
        client.expect("connection.start").await;
        let response = b"\0guest\0guest";
        let start_ok = connection::StartOk {
            mechanism: ShortStr::bounded(b"PLAIN"),
            response,
            locale: ShortStr::bounded(b"en_US"),
            ..connection::StartOk::default()
        };
        client.send(0, &[start_ok.into()]).await;
        client.expect("connection.tune").await;
        let tune_ok = connection::TuneOk { channel_max: 2047, frame_max: 131_072, heartbeat };
        let open = connection::Open { virtual_host: ShortStr::bounded(b"/"), ..connection::Open::default() };
        client.send(0, &[tune_ok.into(), open.into()]).await;
        client.expect("connection.open-ok").await;
        client
    }

    async fn open_channel(&mut self) {
        self.send(1, &[channel::Open::default().into()]).await;
        self.expect("channel.open-ok").await;
    }

    async fn send(&mut self, channel: u16, methods: &[Method<'_>]) {
        let mut bytes = Vec::new();
        methods.iter().for_each(|method| method.encode_frame(channel, &mut bytes));
        self.stream.write_all(&bytes).await.expect("it reads");
    }

    /// The next frame: kind and payload; `None` at the end of the stream.
    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 7];
        self.stream.read_exact(&mut header).await.ok()?;
        let size = u32::from_be_bytes([header[3], header[4], header[5], header[6]]) as usize;
        let mut payload = vec![0; size + 1];
        self.stream.read_exact(&mut payload).await.ok()?;
        assert_eq!(payload.pop(), Some(0xce), "the end of a frame");
        Some((header[0], payload))
    }

    async fn expect(&mut self, name: &str) {
        let (_, payload) = self.frame().await.expect("a frame");
        assert_eq!(Method::decode(&payload).expect("a method").name(), name);
    }

    /// Waits for the server to end the connection; when it did, in milliseconds from the start.
    async fn ended_ms(self) -> u64 {
        self.served.await.expect("no panic");
        let ended_ms = self.started.elapsed().as_millis() as u64;
        self.broker.shutdown();
        ended_ms
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_handshake_ends_without_a_word_when_its_time_is_up() {
    for sent in [&b""[..], b"AMQP", &PROTOCOL_HEADER] {
        let mut client = Client::connect();
        client.stream.write_all(sent).await.expect("it reads");
        if sent == PROTOCOL_HEADER {
            client.expect("connection.start").await;
        }
        let mut rest = Vec::new();
        client.stream.read_to_end(&mut rest).await.expect("it ends");
        assert_eq!(rest, b"", "after {sent:?}");
        let ended_ms = client.ended_ms().await;
        assert!((10_000..10_100).contains(&ended_ms), "ended after {ended_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_gets_heartbeats_and_is_dropped_after_two_intervals() {
    let mut client = Client::opened(10).await;
    let mut beats = 0;
    while let Some((kind, payload)) = client.frame().await {
        assert_eq!((kind, payload.len()), (FRAME_HEARTBEAT, 0));
        beats += 1;
    }
    assert!((3..=4).contains(&beats), "{beats} heartbeats");
    let ended_ms = client.ended_ms().await;
    assert!((20_000..22_600).contains(&ended_ms), "ended after {ended_ms} ms");
}

/// In real time: answers come from the log's thread, and a connection that nobody wakes would answer at its next tick.
#[tokio::test]
async fn requests_that_waited_for_an_earlier_one_are_answered_when_their_own_answer_is_there() {
    let mut client = Client::opened(0).await;
    client.open_channel().await;
    let deleted = ["a", "b", "c"]
        .map(|name| queue::Delete { queue: ShortStr::bounded(name.as_bytes()), ..queue::Delete::default() });
    for delete in &deleted {
        let declare = queue::Declare { queue: delete.queue, durable: true, ..queue::Declare::default() };
        client.send(1, &[declare.into()]).await;
        client.expect("queue.declare-ok").await;
    }
    let before = client.started.elapsed();
    client.send(1, &deleted.map(Method::from)).await;
    for _ in 0..3 {
        client.expect("queue.delete-ok").await;
    }
    assert!(client.started.elapsed() - before < Duration::from_secs(5), "woken by nothing but a timer");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_beats_stays() {
    let mut client = Client::opened(10).await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(9)).await;
        client.stream.write_all(&wire::amqp091::HEARTBEAT).await.expect("it reads");
    }
    assert!(!client.served.is_finished(), "three minutes without a method are fine");
    client.send(0, &[connection::Close::default().into()]).await;
    while let Some((kind, _)) = client.frame().await {
        if kind != FRAME_HEARTBEAT {
            break;
        }
    }
    drop(client.stream);
    client.served.await.expect("no panic");
    client.broker.shutdown();
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_from_and_costs_a_bounded_outbox() {
    const REQUESTS: usize = 150_000;
    let mut client = Client::opened(0).await;
    client.open_channel().await;
    let mut request = Vec::new();
    Method::from(basic::Qos::default()).encode_frame(1, &mut request);
    let mut answer = Vec::new();
    Method::from(basic::QosOk {}).encode_frame(1, &mut answer);
    assert!(REQUESTS * answer.len() > OUTPUT_BYTES_MAX + 2 * PIPE_BYTES, "too little to fill an outbox");
    let (mut reader, mut writer) = tokio::io::split(client.stream);
    let written = Arc::new(AtomicUsize::new(0));
    let counted = written.clone();
    let writing = tokio::spawn(async move {
        for _ in 0..REQUESTS / 100 {
            writer.write_all(&request.repeat(100)).await.expect("it reads in the end");
            counted.fetch_add(100, Ordering::Relaxed);
        }
        writer
    });
    // Until nobody makes progress any more: one task writes, one serves, this one looks.
    let mut still = 0;
    let mut seen = (0, 0);
    while still < 1000 {
        tokio::task::yield_now().await;
        let now = (written.load(Ordering::Relaxed), client.outbox.pending_bytes());
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
        // A little output may have waited before, and one read's worth of answers may come on top.
        assert!(now.1 <= OUTPUT_BYTES_MAX + OUTPUT_BYTES_LOW + PIPE_BYTES, "{} bytes wait", now.1);
    }
    assert!(seen.0 < REQUESTS, "the server stopped reading");
    let mut answers = vec![0; REQUESTS * answer.len()];
    reader.read_exact(&mut answers).await.expect("every request is answered");
    assert!(answers.chunks(answer.len()).all(|one| one == answer));
    drop((reader, writing.await.expect("it wrote all")));
    client.served.await.expect("no panic");
    client.broker.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_large_delivery_comes_whole_though_the_client_has_closed_and_the_socket_takes_all_it_is_given() {
    const BODY_BYTES: usize = 15 << 20;
    let mut client = Client::over(2 * BODY_BYTES).open(0).await;
    client.open_channel().await;
    let queue = ShortStr::bounded(b"q");
    client.send(1, &[queue::Declare { queue, ..queue::Declare::default() }.into()]).await;
    client.expect("queue.declare-ok").await;
    let mut publish = Vec::new();
    encode_publish(&mut publish, 1, b"", b"q", false, &[0, 0], &vec![7; BODY_BYTES], 131_072);
    client.stream.write_all(&publish).await.expect("it reads");
    client.shut.set(true);
    client.send(1, &[basic::Consume { queue, ..basic::Consume::default() }.into()]).await;
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while client.outbox.pending_bytes() < BODY_BYTES {
        assert!(std::time::Instant::now() < until, "{} bytes wait", client.outbox.pending_bytes());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.send(0, &[connection::Close::default().into()]).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.shut.set(false);
    let before_ms = client.started.elapsed().as_millis();
    let mut body_bytes = 0;
    let last = loop {
        let (kind, payload) = client.frame().await.expect("the server says its last word");
        match (kind, Method::decode(&payload)) {
            (FRAME_METHOD, Ok(Method::ConnectionCloseOk(_))) => break kind,
            (FRAME_BODY, _) => body_bytes += payload.len(),
            _ => {}
        }
    };
    assert_eq!((last, body_bytes), (FRAME_METHOD, BODY_BYTES));
    let took_ms = client.started.elapsed().as_millis() - before_ms;
    assert!(took_ms < 5, "nobody waited for a timer: {took_ms} ms");
    drop(client.stream);
    client.broker.shutdown();
}

#[tokio::test(start_paused = true)]
async fn the_client_ends_the_stream_after_its_close_and_one_that_never_does_is_left() {
    let mut client = Client::opened(0).await;
    client.send(0, &[connection::Close::default().into()]).await;
    // More than the pipe holds, which nobody will ever parse.
    for _ in 0..64 {
        client.stream.write_all(&[0x55; 16 * 1024]).await.expect("it is read to the end");
    }
    client.expect("connection.close-ok").await;
    let before_ms = client.started.elapsed().as_millis() as u64;
    assert!(client.frame().await.is_none(), "nothing but the end");
    let waited_ms = client.ended_ms().await - before_ms;
    assert!((30_000..=30_100).contains(&waited_ms), "left after {waited_ms} ms");
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_at_once_when_the_client_hangs_up_after_its_close() {
    let mut client = Client::opened(0).await;
    client.send(0, &[connection::Close::default().into()]).await;
    client.expect("connection.close-ok").await;
    let Client { stream, served, started, broker, .. } = client;
    drop(stream);
    served.await.expect("no panic");
    assert!(started.elapsed() < Duration::from_secs(1));
    broker.shutdown();
}
