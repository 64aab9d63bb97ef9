//! Mutual authentication of one connection.
//!
//! ```text
//! dials                         accepts
//!   hello ───────────────────────►         at most 1 KiB; names, folder, versions, nonce
//!         ◄─────────────────────── hello
//!   proof ───────────────────────►         HMAC over both hellos
//!         ◄─────────────────────── proof, or the verdict "wrong secret"
//! ```
//!
//! The dialling side proves first, so that nobody gets a proof by dialling.

use std::io;

use broker::cluster::NodeName;
use broker::cluster::peers::{DataId, Lane, PeerIdentity, VersionRange};
use wire::peer::{Auth, HELLO_BYTES_MAX, Hello, Kind, NONCE_BYTES, Verdict};

use super::frames::{invalid, read_frame, send_frame};
use super::secret::{Hellos, LinkSecret, Side};
use super::transport::Transport;

/// This node's description of itself.
pub(super) struct Own {
    pub(super) identity: PeerIdentity,
    /// `HOST:PORT` where it wants to be dialled.
    pub(super) address: String,
    /// Differs for each process.
    pub(super) instance: u64,
    pub(super) secret: LinkSecret,
}

/// A connection whose other side has proven that it has the secret.
pub(super) struct Greeted {
    pub(super) peer: PeerIdentity,
    /// Where it wants to be dialled; empty when it does not say.
    pub(super) address: String,
    pub(super) instance: u64,
    pub(super) lane: Lane,
    pub(super) link: u64,
    pub(super) transport: Transport,
}

/// Why a connection comes to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// This node refuses.
    #[error("{}", explain(*.0))]
    Ours(Verdict),
    /// The other one does.
    #[error("the other node refuses: {}", explain(*.0))]
    Theirs(Verdict),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer in time")]
    Late,
}

impl Refusal {
    /// The verdict of either side.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        match self {
            Refusal::Ours(verdict) | Refusal::Theirs(verdict) => Some(*verdict),
            Refusal::Io(_) | Refusal::Late => None,
        }
    }
}

fn explain(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Welcome => "welcome",
        Verdict::Linked => "the two are connected already",
        Verdict::WrongSecret => {
            "the nodes have different secrets; give both the same .erlang.cookie or RABBITMQ_ERLANG_COOKIE"
        }
        Verdict::Versions => {
            "no common version of the links; give all nodes the same release, and stop all of them for that if the older one cannot be upgraded alone"
        }
        Verdict::NameTaken => "two nodes have the same name; give one another name with --node",
        Verdict::Itself => "this address leads to the node itself",
        Verdict::FolderTaken => {
            "the data folder is a copy of another node's; start the copy with an empty folder"
        }
        Verdict::Busy => "too many connections at once",
    }
}

/// The number of a lane in a hello.
fn lane_number(lane: Lane) -> u8 {
    match lane {
        Lane::Control => 0,
        Lane::Live => 1,
        Lane::Recovery => 2,
    }
}

impl Own {
    fn hello(&self, lane: Lane, link: u64, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
        let mut payload = Vec::new();
        let hello = Hello {
            version_min: self.identity.versions.min,
            version_max: self.identity.versions.max,
            lane: lane_number(lane),
            link,
            data_id: self.identity.data_id.0,
            life: self.identity.life,
            instance: self.instance,
            nonce,
            name: self.identity.name.as_str(),
            address: &self.address,
        };
        hello.encode(&mut payload);
        payload
    }

    /// Greets as the side that dials.
    pub(super) async fn dial(
        &self,
        mut transport: Transport,
        lane: Lane,
        link: u64,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Greeted, Refusal> {
        let dialled = self.hello(lane, link, nonce);
        send_frame(&mut transport.writer, Kind::Hello, &dialled).await?;
        let accepted = expect(&mut transport, Kind::Hello).await?;
        let hello = Hello::decode(&accepted).map_err(invalid)?;
        let (peer, address, instance) = self.examine(&hello).map_err(Refusal::Ours)?;
        let hellos = Hellos { dialled, accepted };
        self.send_proof(&mut transport, Side::Dials, &hellos).await?;
        self.check_proof(&mut transport, Side::Accepts, &hellos).await?;
        Ok(Greeted { peer, address, instance, lane, link, transport })
    }

    /// Greets as the side that accepts.
    pub(super) async fn accept(
        &self,
        mut transport: Transport,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Greeted, Refusal> {
        let dialled = expect(&mut transport, Kind::Hello).await?;
        let hello = Hello::decode(&dialled).map_err(invalid)?;
        let lane = Lane::ALL.into_iter().find(|lane| lane_number(*lane) == hello.lane);
        let lane = lane.ok_or_else(|| invalid("no such lane"))?;
        let link = hello.link;
        let (peer, address, instance) = match self.examine(&hello) {
            Ok(found) => found,
            Err(verdict) => {
                send_verdict(&mut transport, verdict).await?;
                return Err(Refusal::Ours(verdict));
            }
        };
        let accepted = self.hello(lane, link, nonce);
        send_frame(&mut transport.writer, Kind::Hello, &accepted).await?;
        let hellos = Hellos { dialled, accepted };
        if let Err(refusal) = self.check_proof(&mut transport, Side::Dials, &hellos).await {
            if let Refusal::Ours(verdict) = refusal {
                send_verdict(&mut transport, verdict).await?;
            }
            return Err(refusal);
        }
        self.send_proof(&mut transport, Side::Accepts, &hellos).await?;
        Ok(Greeted { peer, address, instance, lane, link, transport })
    }

    /// The content of a hello, unless this node cannot be connected with its sender.
    fn examine(&self, hello: &Hello<'_>) -> Result<(PeerIdentity, String, u64), Verdict> {
        let own = &self.identity;
        if hello.instance == self.instance {
            return Err(Verdict::Itself);
        }
        if hello.version_min > own.versions.max || hello.version_max < own.versions.min {
            return Err(Verdict::Versions);
        }
        // A name that is none is as bad as one that is taken: nobody can be told apart by it.
        let name = NodeName::new(hello.name).map_err(|_| Verdict::NameTaken)?;
        if name == own.name {
            return Err(Verdict::NameTaken);
        }
        if hello.data_id == own.data_id.0 {
            return Err(Verdict::FolderTaken);
        }
        let versions = VersionRange { min: hello.version_min, max: hello.version_max };
        let peer = PeerIdentity { name, data_id: DataId(hello.data_id), life: hello.life, versions };
        Ok((peer, hello.address.to_owned(), hello.instance))
    }

    async fn send_proof(
        &self,
        transport: &mut Transport,
        side: Side,
        hellos: &Hellos,
    ) -> Result<(), Refusal> {
        let mut payload = Vec::new();
        Auth { proof: self.secret.prove(side, hellos) }.encode(&mut payload);
        Ok(send_frame(&mut transport.writer, Kind::Auth, &payload).await?)
    }

    async fn check_proof(
        &self,
        transport: &mut Transport,
        side: Side,
        hellos: &Hellos,
    ) -> Result<(), Refusal> {
        let payload = expect(transport, Kind::Auth).await?;
        let auth = Auth::decode(&payload).map_err(invalid)?;
        if self.secret.accepts(side, hellos, &auth.proof) {
            Ok(())
        } else {
            Err(Refusal::Ours(Verdict::WrongSecret))
        }
    }
}

/// The payload of the next frame, which has to be of this kind, or a verdict that is no welcome.
async fn expect(transport: &mut Transport, wanted: Kind) -> Result<Vec<u8>, Refusal> {
    let (kind, payload) = read_frame(&mut transport.reader, HELLO_BYTES_MAX).await?;
    if kind == wanted as u8 {
        return Ok(payload);
    }
    if kind == Kind::Verdict as u8 {
        return Err(Refusal::Theirs(Verdict::decode(&payload).map_err(invalid)?));
    }
    Err(invalid(format!("a frame of kind {kind} where one of kind {} is due", wanted as u8)).into())
}

/// The verdict of the node that decides.
///
/// # Errors
/// It is no welcome.
pub(super) async fn await_verdict(transport: &mut Transport) -> Result<(), Refusal> {
    match Verdict::decode(&expect(transport, Kind::Verdict).await?).map_err(invalid)? {
        Verdict::Welcome => Ok(()),
        refused => Err(Refusal::Theirs(refused)),
    }
}

/// Sends what becomes of the connection.
pub(super) async fn send_verdict(transport: &mut Transport, verdict: Verdict) -> io::Result<()> {
    let mut payload = Vec::new();
    verdict.encode(&mut payload);
    send_frame(&mut transport.writer, Kind::Verdict, &payload).await
}
