//! Metrics of the links to other nodes; nothing on a node that is alone. Refuses to know pages.

use std::io;

use broker::cluster::peers::{LaneStatus, LinkStatus, PeerStatus};

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

/// Writes them; counters begin anew with each link.
pub(crate) fn write(node: &Node, page: &mut Page<'_>) -> io::Result<()> {
    let Some(links) = &node.peers else { return Ok(()) };
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
