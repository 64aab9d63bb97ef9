//! Metrics of the links to other nodes and of the metadata that all nodes have; nothing on a node that is alone. Refuses to know pages.

use std::io;

use broker::cluster::peers::{LaneStatus, LinkStatus, PeerStatus};
use broker::cluster::{Cluster, View};

use super::page::{Kind, Page, labels};
use crate::resources::node::Node;

/// Names of lanes, in their order.
const LANES: [&str; 3] = ["control", "live", "recovery"];

/// One metric of a lane.
type OfLane = (&'static str, Kind, &'static str, fn(&LaneStatus) -> u64);

const OF_LANES: &[OfLane] = &[
    ("link_sent_bytes_total", Kind::Counter, "Bytes sent to a node", |it| it.sent_bytes),
    ("link_received_bytes_total", Kind::Counter, "Bytes that came from a node", |it| it.received_bytes),
    ("link_sent_frames_total", Kind::Counter, "Frames sent to a node", |it| it.sent_frames),
    ("link_received_frames_total", Kind::Counter, "Frames that came from a node", |it| it.received_frames),
    ("link_waiting_bytes", Kind::Gauge, "Bytes that wait until the link to a node takes them", |it| {
        it.waiting_bytes
    }),
    ("link_refused_frames_total", Kind::Counter, "Frames refused because too much waited", |it| {
        it.refused_frames
    }),
];

/// One metric of the metadata.
type OfView = (&'static str, &'static str, fn(&View) -> u64);

const OF_METADATA: &[OfView] = &[
    ("metadata_term", "Raft term of the metadata", |it| it.term),
    (
        "metadata_committed_index",
        "Entries of the metadata that are committed, as far as this node knows",
        |it| it.commit,
    ),
    ("metadata_applied_index", "Entries of the metadata that this node has applied", |it| it.applied),
    ("metadata_is_leader", "Whether this node leads the metadata", |it| u64::from(it.leader == Some(it.own))),
    ("metadata_has_leader", "Whether this node knows a leader: without one changes wait", |it| {
        u64::from(it.leader.is_some())
    }),
    ("metadata_voters", "Nodes that count for majorities", |it| {
        it.members.iter().filter(|member| member.is_voter).count() as u64
    }),
    ("metadata_voters_up", "Voters that are linked with this node, itself included", |it| {
        it.members.iter().filter(|member| member.is_voter && member.is_up).count() as u64
    }),
];

fn write_metadata(cluster: &Cluster, page: &mut Page<'_>) -> io::Result<()> {
    let view = cluster.view();
    for (name, help, value) in OF_METADATA {
        page.head(name, Kind::Gauge, help)?;
        page.sample(name, "", value(&view) as f64)?;
    }
    let name = "metadata_leader_changes_total";
    page.head(name, Kind::Counter, "Times this node has learned of another leader")?;
    page.sample(name, "", cluster.leader_changes() as f64)
}

/// Writes them; counters begin anew with each link.
pub(crate) fn write(node: &Node, page: &mut Page<'_>) -> io::Result<()> {
    let Some(links) = &node.peers else { return Ok(()) };
    if let Some(cluster) = &links.cluster {
        write_metadata(cluster, page)?;
    }
    let known = links.peers.known();
    page.head("link_up", Kind::Gauge, "Whether a node is connected")?;
    for peer in &known {
        page.sample("link_up", &of(peer, None), f64::from(u8::from(peer.link.is_some())))?;
    }
    let linked: Vec<(&PeerStatus, &LinkStatus)> =
        known.iter().filter_map(|peer| Some((peer, peer.link.as_ref()?))).collect();
    page.head("link_round_trip_seconds", Kind::Gauge, "The last round trip to a node and back")?;
    for (peer, link) in &linked {
        page.sample("link_round_trip_seconds", &of(peer, None), link.round_trip_us as f64 / 1e6)?;
    }
    for (name, kind, help, value) in OF_LANES {
        page.head(name, *kind, help)?;
        for (peer, link) in &linked {
            for (lane, status) in LANES.into_iter().zip(&link.lanes) {
                page.sample(name, &of(peer, Some(lane)), value(status) as f64)?;
            }
        }
    }
    Ok(())
}

fn of(peer: &PeerStatus, lane: Option<&str>) -> String {
    let name = ("peer", peer.identity.name.as_str().as_bytes());
    let lane = lane.map(|lane| ("lane", lane.as_bytes()));
    labels(&[Some(name), lane].into_iter().flatten().collect::<Vec<_>>())
}
