//! Real links over loopback.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use broker::cluster::NodeName;
use broker::cluster::peers::{
    DataId, DownReason, Epoch, Lane, PeerEvents, PeerIdentity, Peers, SendRefused, VersionRange,
};
use bytes::Bytes;
use parking_lot::Mutex;
use platform::{RealClock, RealRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::peer::{HELLO_BYTES_MAX, Kind, write_frame};

use super::{LinkSecret, Links, LinksOptions};

#[derive(Default)]
struct Notes {
    told: Mutex<Vec<String>>,
    /// Frames are not taken while this is set.
    holds: AtomicBool,
}

impl Notes {
    fn told(&self) -> Vec<String> {
        self.told.lock().clone()
    }

    fn count(&self, begin: &str) -> usize {
        self.told.lock().iter().filter(|line| line.starts_with(begin)).count()
    }

    fn note(&self, line: String) {
        self.told.lock().push(line);
    }
}

impl PeerEvents for Notes {
    fn up(&self, peer: &PeerIdentity, _epoch: Epoch) {
        self.note(format!("up {} {}", peer.name, peer.life));
    }

    fn down(&self, name: &NodeName, _epoch: Epoch, why: DownReason) {
        self.note(format!("down {name} {why:?}"));
    }

    fn frame(&self, from: &NodeName, _epoch: Epoch, lane: Lane, kind: u8, payload: Bytes) {
        if self.holds.load(Ordering::Relaxed) {
            // The other tasks of this thread go on.
            tokio::task::block_in_place(|| {
                while self.holds.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        self.note(format!("{from} {lane:?} {kind} {}", payload.len()));
    }

    fn drained(&self, to: &NodeName, lane: Lane) {
        self.note(format!("drained {to} {lane:?}"));
    }
}

/// Lets frames be taken again, also when the test fails: the runtime waits for the holder of one.
struct Release(Arc<Notes>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.holds.store(false, Ordering::Relaxed);
    }
}

struct Node {
    links: Arc<Links>,
    notes: Arc<Notes>,
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn start_with(own: &str, life: u32, secret: &str, seeds: &[SocketAddr]) -> Node {
    let versions = VersionRange { min: 1, max: 1 };
    let mut data_id = [0; 16];
    data_id[..own.len()].copy_from_slice(own.as_bytes());
    let own = PeerIdentity { name: name(own), data_id: DataId(data_id), life, versions };
    let options = LinksOptions {
        own,
        secret: LinkSecret::new(secret),
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        address: "127.0.0.1:0".into(),
        seeds: seeds.iter().map(SocketAddr::to_string).collect(),
        seeds_by_dns: None,
        tls: None,
    };
    let notes = Arc::new(Notes::default());
    let (clock, random) = (Arc::new(RealClock::new()), Arc::new(RealRandom));
    let links = Links::start(options, notes.clone(), clock, random).unwrap();
    Node { links, notes }
}

fn start(own: &str, seeds: &[SocketAddr]) -> Node {
    start_with(own, 1, "cookie", seeds)
}

impl Node {
    fn at(&self) -> SocketAddr {
        self.links.local_address()
    }

    fn connected(&self) -> Vec<String> {
        self.links.connected().iter().map(|peer| peer.identity.name.to_string()).collect()
    }
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn on_threads(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

#[test]
fn frames_come_in_order_on_each_lane_and_a_restarted_node_is_found_again() {
    on_threads(async {
        let a = start("a@x", &[]);
        let b = start("b@x", &[a.at()]);
        eventually("both are up", || a.connected() == ["b@x"] && b.connected() == ["a@x"]).await;
        for size in [0_usize, 1, 40_000, 1 << 20] {
            for lane in Lane::ALL {
                a.links.send(&name("b@x"), lane, 16, vec![7; size].into()).unwrap();
            }
        }
        eventually("all frames", || b.notes.count("a@x ") == 12).await;
        for lane in Lane::ALL {
            let wanted = [0, 1, 40_000, 1 << 20].map(|size: usize| format!("a@x {lane:?} 16 {size}"));
            let of_lane = format!("a@x {lane:?}");
            let came = b.notes.told().into_iter().filter(|line| line.starts_with(&of_lane));
            assert_eq!(came.collect::<Vec<_>>(), wanted);
        }
        let status = a.links.connected().remove(0).link.unwrap();
        assert_eq!((status.lanes[1].sent_frames, status.lanes[1].waiting_bytes), (4, 0));
        eventually("a round trip", || {
            a.links
                .connected()
                .first()
                .is_some_and(|peer| peer.link.as_ref().is_some_and(|link| link.round_trip_us > 0))
        })
        .await;

        b.links.stop().await;
        assert_eq!(b.notes.told().last().map(String::as_str), Some("down a@x Ended"));
        eventually("it is seen", || a.notes.told().contains(&"down b@x Closed".to_owned())).await;
        assert_eq!(a.links.send(&name("b@x"), Lane::Live, 16, Bytes::new()), Err(SendRefused::Down));
        assert!(a.links.known()[0].link.is_none());
        let b = start_with("b@x", 2, "cookie", &[a.at()]);
        eventually("its next life", || a.notes.told().contains(&"up b@x 2".to_owned())).await;
        drop(b);
    });
}

#[test]
fn other_secrets_and_names_that_are_taken_are_refused() {
    on_threads(async {
        let a = start("a@x", &[]);
        let stranger = start_with("s@x", 1, "another", &[a.at()]);
        let twin = start("a@x", &[a.at()]);
        let friend = start("f@x", &[a.at()]);
        eventually("who has the secret", || a.connected() == ["f@x"]).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(stranger.notes.told(), [""; 0]);
        assert_eq!(twin.notes.told(), [""; 0]);
        assert_eq!(a.notes.told(), ["up f@x 1"]);
        drop(friend);
    });
}

#[test]
fn two_that_dial_each_other_and_themselves_have_one_link() {
    on_threads(async {
        for _ in 0..5 {
            let (one, other) =
                (TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await);
            let (at_a, at_b) = (one.unwrap().local_addr().unwrap(), other.unwrap().local_addr().unwrap());
            let seeds = [at_a, at_b];
            let (a, b) = (start_at("a@x", at_a, &seeds), start_at("b@x", at_b, &seeds));
            eventually("both are up", || a.connected() == ["b@x"] && b.connected() == ["a@x"]).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!((a.notes.told(), b.notes.told()), (vec!["up b@x 1".into()], vec!["up a@x 1".into()]));
        }
    });
}

fn start_at(own: &str, at: SocketAddr, seeds: &[SocketAddr]) -> Node {
    let versions = VersionRange { min: 1, max: 1 };
    let options = LinksOptions {
        own: PeerIdentity { name: name(own), data_id: DataId([own.as_bytes()[0]; 16]), life: 1, versions },
        secret: LinkSecret::new("cookie"),
        listen: vec![at],
        // A node that may have any port is not dialled.
        address: if at.port() == 0 { String::new() } else { at.to_string() },
        seeds: seeds.iter().map(SocketAddr::to_string).collect(),
        seeds_by_dns: None,
        tls: None,
    };
    let notes = Arc::new(Notes::default());
    let end = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        // The listener of the life before may take a moment to close.
        match Links::start(options.clone(), notes.clone(), Arc::new(RealClock::new()), Arc::new(RealRandom)) {
            Err(error)
                if error.kind() == std::io::ErrorKind::AddrInUse && std::time::Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            links => return Node { links: links.unwrap(), notes },
        }
    }
}

#[test]
fn nodes_learn_of_each_other_and_one_without_seeds_finds_them_after_a_restart() {
    on_threads(async {
        let a = start("a@x", &[]);
        let at_a = a.at();
        let (b, c) = (start("b@x", &[at_a]), start("c@x", &[at_a]));
        eventually("all", || {
            a.connected().len() == 2 && b.connected().len() == 2 && c.connected().len() == 2
        })
        .await;
        a.links.stop().await;
        drop(a);
        let a = start_at("a@x", at_a, &[]);
        eventually("it is found", || a.connected() == ["b@x", "c@x"]).await;
        b.links.forget(&name("c@x"));
        eventually("it is seen", || c.notes.count("down b@x") == 1).await;
    });
}

#[test]
fn a_lane_takes_so_much_and_tells_when_there_is_room() {
    on_threads(async {
        let a = start("a@x", &[]);
        let b = start("b@x", &[a.at()]);
        eventually("up", || a.connected().len() == 1 && b.connected().len() == 1).await;
        b.notes.holds.store(true, Ordering::Relaxed);
        let release = Release(b.notes.clone());
        let send = || a.links.send(&name("b@x"), Lane::Live, 20, vec![1; 1 << 20].into());
        eventually("full", || send() == Err(SendRefused::Full)).await;
        assert_eq!(a.links.send(&name("b@x"), Lane::Control, 20, Bytes::new()), Ok(()));
        assert!(a.links.connected()[0].link.as_ref().is_some_and(|link| link.lanes[1].refused_frames > 0));
        drop(release);
        eventually("room", || a.notes.told().contains(&"drained b@x Live".to_owned())).await;
        assert_eq!(send(), Ok(()));
    });
}

/// Passes bytes on; holds them while it is frozen.
async fn proxy(to: SocketAddr, is_frozen: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(to).await.unwrap();
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(pass(near_in, far_out, is_frozen.clone()));
            tokio::spawn(pass(far_in, near_out, is_frozen.clone()));
        }
    });
    at
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    is_frozen: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        while is_frozen.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

#[test]
fn silence_is_noticed_after_a_second_and_healing_needs_no_hand() {
    on_threads(async {
        let is_frozen = Arc::new(AtomicBool::new(false));
        let a = start("a@x", &[]);
        let b = start_at("b@x", "127.0.0.1:0".parse().unwrap(), &[proxy(a.at(), is_frozen.clone()).await]);
        eventually("up", || a.connected().len() == 1 && b.connected().len() == 1).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(a.notes.count("down"), 0, "signs of life are enough");
        is_frozen.store(true, Ordering::Relaxed);
        let began = Instant::now();
        eventually("down", || a.connected().is_empty() && b.connected().is_empty()).await;
        assert!((0.7..3.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
        assert!(a.notes.told().contains(&"down b@x Silent".to_owned()));
        is_frozen.store(false, Ordering::Relaxed);
        eventually("up again", || a.notes.count("up b@x") == 2 && b.notes.count("up a@x") == 2).await;
    });
}

#[test]
fn who_has_not_proven_anything_is_closed_at_a_byte_too_many() {
    on_threads(async {
        let a = start("a@x", &[]);
        let mut large = Vec::new();
        write_frame(Kind::Hello as u8, &vec![0; HELLO_BYTES_MAX + 1], &mut large);
        let mut other_kind = Vec::new();
        write_frame(20, b"frame of the broker's", &mut other_kind);
        for bytes in [&large[..12], &other_kind, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let mut stream = TcpStream::connect(a.at()).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            let mut answer = Vec::new();
            let ended = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await;
            assert!(ended.is_ok() && answer.is_empty(), "{answer:?}");
        }
        assert_eq!(a.notes.told(), [""; 0]);
    });
}
