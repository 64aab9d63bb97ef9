//! This server as a node among others: its name, its folder's identity, the shared secret, and the links.
//!
//! A server without options of a cluster gets a name and nothing else: no listener, no file, no thread.

mod cookie;
mod identity;
mod known;
pub(crate) mod membership;
mod seeds;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use broker::cluster::peers::{PeerIdentity, Peers, VersionRange};
use broker::cluster::{Cluster, ClusterOptions as MemberOptions, NodeName, Purpose};
use broker::{Broker, BrokerOptions, Foundation, StartError};
use management::NodePeers;
use net::peer::{LinkTls, Links, LinksOptions};
use platform::{Clock, Random};
use tls::{CertificateLogin, ClientOptions, ServerOptions, TlsSlot, Verify};

use crate::config::{ClusterOptions, Options, Switch};
use crate::names::host_name;

/// How long one look for the other nodes takes at a start.
const WAIT: Duration = Duration::from_secs(1);
/// How often the log tells what is waited for, seconds.
const SAID_EVERY_S: u64 = 10;

/// The node of a server that belongs to no cluster and was given no name.
const ALONE: &str = management::DEFAULT_NODE_NAME;

/// The name of this server's node: the one it was given, else one by which others can reach it, else [`ALONE`].
///
/// # Errors
/// The name that was given is none.
pub(crate) fn node_name(options: &ClusterOptions) -> anyhow::Result<NodeName> {
    name_on_host(options, &host_name())
}

fn name_on_host(options: &ClusterOptions, whole_host: &str) -> anyhow::Result<NodeName> {
    let host = match options.long_names {
        Switch::On => whole_host,
        Switch::Off => whole_host.split('.').next().unwrap_or_default(),
    };
    let host = if host.is_empty() { "localhost" } else { host };
    let name = match &options.node {
        Some(given) if given.contains('@') => given.clone(),
        Some(given) => format!("{given}@{host}"),
        None if options.is_wanted() => format!("warren@{host}"),
        None => ALONE.to_owned(),
    };
    NodeName::new(&name).map_err(|error| anyhow!("{error} (--node, WARREN_NODE or RABBITMQ_NODENAME)"))
}

/// The server's name for commands that run beside it, if it is not the default.
pub(crate) fn told_name<'a>(options: &'a ClusterOptions, name: &'a NodeName) -> Option<&'a str> {
    options.node.as_deref().or_else(|| options.is_wanted().then(|| name.as_str()))
}

/// This node among others, before and while its broker is open.
pub(crate) struct Joined {
    cluster: Cluster,
    links: Arc<Links>,
    purpose: Purpose,
    is_given_up: AtomicBool,
}

impl Joined {
    /// The links to the others.
    pub(crate) fn links(&self) -> &Arc<Links> {
        &self.links
    }

    /// Its state for management.
    pub(crate) fn shown(&self) -> NodePeers {
        NodePeers { peers: self.links.clone(), cluster: Some(self.cluster.clone()) }
    }

    /// A start that waits for other nodes ends within a second.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Tells the other nodes that this one goes.
    pub(crate) async fn leave(&self) {
        self.cluster.answer_with(None);
        self.links.stop().await;
    }

    /// Closes the log of the metadata, after the broker. Blocks.
    pub(crate) fn stop(&self) {
        self.cluster.stop();
    }

    /// Opens the broker once the node has all that the cluster had committed. Blocks.
    ///
    /// # Errors
    /// The cluster refuses this node; or as [`Broker::open`].
    pub(crate) fn open(&self, dir: &Path, options: BrokerOptions) -> Result<Broker, StartError> {
        let mut waited_s = 0_u64;
        while !self.cluster.wait_ready(WAIT).map_err(StartError::Metadata)? {
            if self.is_given_up.load(Ordering::Relaxed) {
                return Err(StartError::Metadata("the start was given up".into()));
            }
            if waited_s.is_multiple_of(SAID_EVERY_S) {
                let linked = self.links.connected();
                let names: Vec<&str> = linked.iter().map(|peer| peer.identity.name.as_str()).collect();
                tracing::info!(connected = %names.join(","), "waiting for the other nodes: a start needs a majority of them, the first start all seeds");
            }
            waited_s += WAIT.as_secs();
        }
        if self.purpose == Purpose::ForceBoot {
            membership::forced(dir).map_err(|error| StartError::Storage(error.to_string()))?;
        }
        Broker::open_in_cluster(&foundation(), dir, options, &self.cluster)
    }
}

fn foundation() -> Foundation {
    Foundation::real(Arc::new(platform::RealDisk))
}

/// Links this node with the others, if it is to be. Must be called within the runtime that is to run the links.
///
/// # Errors
/// No secret, no listener, no TLS, or a data directory that cannot be read.
pub(crate) fn start(
    options: &Options,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
) -> anyhow::Result<Option<Joined>> {
    let purpose = membership::purpose_of_start(&options.node.data_dir)?;
    let joined = start_for(options, clock, random, purpose, &[])?;
    if let Some(joined) = &joined {
        let dir = options.node.data_dir.clone();
        tokio::spawn(known::keep(dir, Arc::downgrade(&joined.links)));
    }
    Ok(joined)
}

/// As [`start`], for this purpose, and with addresses of nodes beside those that are configured and known.
fn start_for(
    options: &Options,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    purpose: Purpose,
    further: &[String],
) -> anyhow::Result<Option<Joined>> {
    let (wanted, dir) = (&options.cluster, &options.node.data_dir);
    if !wanted.is_wanted() {
        return Ok(None);
    }
    std::fs::create_dir_all(dir).with_context(|| format!("the data directory {}", dir.display()))?;
    let name = node_name(wanted)?;
    let (secret, place) = cookie::find(wanted, dir, &*random)?;
    let listener = wanted.listener();
    let candidates = listener.candidates();
    let port = candidates.first().map_or(wanted.port, std::net::SocketAddr::port);
    let address = wanted.advertise.clone().unwrap_or_else(|| format!("{}:{port}", name.host()));
    let life = next_life(u32::try_from(clock.wall_ms() / 1000).unwrap_or(u32::MAX));
    let own = PeerIdentity { name, data_id: own_id(dir, &*random)?, life, versions: VersionRange::OWN };
    let seeds = seeds::count(wanted, &address);
    let mut dialled = wanted.all_seeds();
    dialled
        .extend(known::read(dir).with_context(|| format!("addresses of other nodes in {}", dir.display()))?);
    dialled.extend_from_slice(further);
    dialled.sort();
    dialled.dedup();
    tracing::info!(node = %own.name, %address, seeds = %wanted.all_seeds().join(","), secret = %place, "links to other nodes");
    let links = LinksOptions {
        own,
        secret,
        listen: candidates,
        address,
        seeds: dialled,
        seeds_by_dns: wanted.dns().map(|host| (host.to_owned(), wanted.port)),
        tls: link_tls(options)?,
    };
    let cluster =
        Cluster::new(foundation(), dir, MemberOptions { seeds, purpose, ..MemberOptions::default() });
    let links = Links::start(links, Arc::new(cluster.clone()), clock, random).with_context(|| {
        format!("cannot listen for other nodes on {listener}; choose another address with --cluster-listen ADDRESS:PORT")
    })?;
    if let Err(error) = cluster.start(links.clone()) {
        cluster.stop();
        return Err(error.into());
    }
    Ok(Some(Joined { cluster, links, purpose, is_given_up: AtomicBool::new(false) }))
}

/// Later than all earlier lives of this process: a broker may be closed and opened within a second.
fn next_life(now_s: u32) -> u32 {
    static LATEST: AtomicU32 = AtomicU32::new(0);
    let after = |latest: u32| now_s.max(latest.saturating_add(1));
    let before = LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(after(latest)));
    before.map_or(now_s, after)
}

fn own_id(data_dir: &Path, random: &dyn Random) -> anyhow::Result<broker::cluster::peers::DataId> {
    identity::of_folder(data_dir, random)
        .with_context(|| format!("the identity of the data directory {}", data_dir.display()))
}

/// The files of `ssl_options` for both directions. Each side has to show a certificate of the authority.
fn link_tls(options: &Options) -> anyhow::Result<Option<LinkTls>> {
    if options.cluster.tls == Switch::Off {
        return Ok(None);
    }
    let wrong = |error| anyhow!("no TLS between nodes (warren.cluster.tls, ssl_options.*): {error}");
    let files = &options.network.tls.server;
    let server = ServerOptions { verify: Verify::Peer, fail_if_no_peer_cert: true, ..files.clone() };
    let client = ClientOptions {
        verify: Verify::Peer,
        ca_file: files.ca_file.clone(),
        certificate_file: files.certificate_file.clone(),
        key_file: files.key_file.clone(),
        password: files.password.clone(),
        versions: files.versions.clone(),
    };
    let server = TlsSlot::new(server, CertificateLogin::default()).map_err(wrong)?;
    Ok(Some(LinkTls { server, client: tls::client_config(&client).map_err(wrong)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_name_that_it_was_given_or_one_by_which_it_is_reached() {
        let named = |given: Option<&str>, is_long: bool, seed: Option<&str>| {
            let options = ClusterOptions {
                node: given.map(str::to_owned),
                long_names: is_long.into(),
                seeds: seed.map(str::to_owned).into_iter().collect(),
                ..ClusterOptions::default()
            };
            name_on_host(&options, "mq1.example.org")
                .map(|name| name.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(named(None, false, None).unwrap(), "warren@localhost");
        assert_eq!(named(None, false, Some("mq2:25672")).unwrap(), "warren@mq1");
        assert_eq!(named(Some("rabbit"), false, None).unwrap(), "rabbit@mq1");
        assert_eq!(named(Some("rabbit"), true, None).unwrap(), "rabbit@mq1.example.org");
        assert_eq!(named(Some("rabbit@old"), false, None).unwrap(), "rabbit@old");
        assert!(named(Some("a@b@c"), false, None).unwrap_err().contains("two hosts"));
    }
}
