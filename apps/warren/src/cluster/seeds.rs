//! How many nodes the first start of a cluster waits for. Refuses to know which of them are there.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use crate::config::ClusterOptions;

/// The nodes that are named, this one included, whether it is among them or not. One that names nobody else is a cluster of its own, which others
/// may join.
pub(super) fn count(options: &ClusterOptions, own_address: &str) -> usize {
    let mut seeds = options.all_seeds();
    if let Some(host) = options.dns() {
        let found = (host, options.port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
        seeds.extend(found.iter().map(ToString::to_string));
    }
    seeds.sort();
    seeds.dedup();
    let is_named = seeds.iter().any(|seed| seed == own_address || is_here(seed, own_address));
    seeds.len() + usize::from(!is_named)
}

/// Whether an address leads to this machine, with the port of this node.
fn is_here(seed: &str, own_address: &str) -> bool {
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
    let is_own = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
    port(seed) == port(own_address)
        && seed.to_socket_addrs().is_ok_and(|mut found| found.any(|it| is_own(it.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_itself_once_by_whatever_name() {
        let count = |seeds: &[&str], own: &str| {
            let seeds = seeds.iter().map(|seed| (*seed).to_owned()).collect();
            super::count(&ClusterOptions { seeds, ..ClusterOptions::default() }, own)
        };
        assert_eq!(count(&[], "mq1:7"), 1);
        assert_eq!(count(&["mq1:7", "mq2.invalid:7"], "mq1:7"), 2);
        assert_eq!(count(&["mq2.invalid:7"], "mq1:7"), 2);
        assert_eq!(count(&["127.0.0.1:7", "mq2.invalid:7"], "mq1:7"), 2, "an address of this machine");
        assert_eq!(count(&["127.0.0.1:7", "127.0.0.1:8"], "127.0.0.1:9"), 3, "other ports of this machine");
    }
}
