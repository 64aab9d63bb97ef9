//! Commands of an operator about the membership of a node whose broker is stopped: `join_cluster`, `reset`, `force_boot`. Blocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use broker::cluster::peers::Peers;
use broker::cluster::{Cluster, NodeName, Purpose};
use platform::{RealClock, RealDisk, RealRandom};
use tokio::runtime::Runtime;

use super::{Joined, known, start_for};
use crate::config::Options;
use crate::emptying;

/// How long the other nodes may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to reach another node.
const LINK_TIMEOUT: Duration = Duration::from_secs(10);
/// Between looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Marks that the next start goes without the other nodes.
const FORCED: &str = "force_boot";
/// Marks that this start has begun, and the copy is whole.
const BEGUN: &str = "force_boot.begun";
/// The replica as it was before that.
const BEFORE: &str = "cluster.before-force-boot";

/// Links the node for a while, and ends that in order.
fn linked<T>(
    runtime: &Runtime,
    options: &Options,
    purpose: Purpose,
    seeds: &[String],
    work: impl FnOnce(&Joined) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let inside = runtime.enter();
    let started = start_for(options, Arc::new(RealClock::new()), Arc::new(RealRandom), purpose, seeds)?;
    drop(inside);
    let joined = started.ok_or_else(|| {
        anyhow!("this node has no links to others: start it with --cluster-listen, --cluster-seeds or cluster_formation.*")
    })?;
    let done = work(&joined);
    runtime.block_on(joined.leave());
    joined.stop();
    done
}

/// Leaves the cluster, if the node is in one with others.
///
/// # Errors
/// The others do not let it go, or are not there.
pub(crate) fn leave(runtime: &Runtime, options: &Options) -> anyhow::Result<()> {
    if !is_member(&options.node.data_dir)? {
        return Ok(());
    }
    linked(runtime, options, Purpose::Leave, &[], |joined| {
        let wait_left = |timeout| joined.cluster.wait_left(timeout).map_err(|text| anyhow!(text));
        let has_left =
            wait_left(LINK_TIMEOUT)? || !joined.links.connected().is_empty() && wait_left(ANSWER_TIMEOUT)?;
        if !has_left {
            // RabbitMQ's words.
            bail!(
                "{{:no_running_cluster_nodes, ~c\"You cannot leave a cluster if no online nodes are present.\"}}"
            );
        }
        Ok(())
    })
}

/// Becomes a member of the cluster of another node. A node that is in that cluster stays as it is; one that is in a cluster of its own, without
/// queues, leaves that.
///
/// # Errors
/// The other node is not reached; it is in no cluster; this one is in a cluster with others, or has queues.
pub(crate) fn join(
    runtime: &Runtime,
    options: &Options,
    node: &NodeName,
    address: Option<&str>,
    queues: Option<usize>,
) -> anyhow::Result<()> {
    let dir = &options.node.data_dir;
    if is_member(dir)? {
        let members = members(runtime, options)?;
        if members.contains(node) {
            return Ok(());
        }
        if members.len() > 1 {
            bail!(
                "{{:inconsistent_cluster, ~c\"This node is a member of another cluster: run `reset` on it first\"}}"
            );
        }
        if queues != Some(0) {
            bail!("this node may have queues of its own: run `reset` on it first, which deletes all it has");
        }
        emptying::empty(dir)?;
    }
    let address = address.map_or_else(|| format!("{}:{}", node.host(), options.cluster.port), str::to_owned);
    linked(runtime, options, Purpose::Join, &[address], |joined| {
        if !until(LINK_TIMEOUT, || joined.links.connected().iter().any(|peer| peer.identity.name == *node)) {
            // RabbitMQ's words.
            bail!("{{:aborted_feature_flags_compat_check, {{:error, {{:erpc, :noconnection}}}}}}");
        }
        if !joined.cluster.wait_ready(ANSWER_TIMEOUT).map_err(|text| anyhow!(text))? {
            bail!(
                "node {node} has not made this node a member: no majority of its cluster runs, or it is in none"
            );
        }
        let addresses: Vec<String> = joined.links.known().into_iter().map(|peer| peer.address).collect();
        known::write(dir, &addresses)?;
        Ok(())
    })
}

fn members(runtime: &Runtime, options: &Options) -> anyhow::Result<Vec<NodeName>> {
    linked(runtime, options, Purpose::Serve, &[], |joined| {
        until(LINK_TIMEOUT, || !joined.cluster.view().members.is_empty());
        Ok(joined.cluster.view().members.iter().map(|member| member.name.clone()).collect())
    })
}

/// From the next start on the node goes without the others. Does nothing for a node that is in no cluster.
///
/// # Errors
/// The disk refuses.
pub(crate) fn force_boot(dir: &Path) -> anyhow::Result<()> {
    if !is_member(dir)? {
        return Ok(());
    }
    fs::File::create(dir.join(FORCED))?.sync_all()?;
    fs::File::open(dir)?.sync_all()?;
    Ok(())
}

/// Why a start is made. One that was forced and did not end begins again with the replica of before.
///
/// # Errors
/// That cannot be copied.
pub(super) fn purpose_of_start(dir: &Path) -> anyhow::Result<Purpose> {
    if !dir.join(FORCED).exists() {
        return Ok(Purpose::Serve);
    }
    let begun = dir.join(BEGUN);
    if !begun.exists() && !is_member(dir)? {
        emptying::remove(&dir.join(FORCED))?;
        return Ok(Purpose::Serve);
    }
    if begun.exists() {
        emptying::remove(&dir.join("cluster"))?;
        copy_all(&dir.join(BEFORE), &dir.join("cluster"))?;
    } else {
        emptying::remove(&dir.join(BEFORE))?;
        copy_all(&dir.join("cluster"), &dir.join(BEFORE))?;
        fs::File::create(&begun)?.sync_all()?;
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(Purpose::ForceBoot)
}

/// A start that was forced has ended well.
///
/// # Errors
/// The disk refuses.
pub(super) fn forced(dir: &Path) -> std::io::Result<()> {
    // In this order: a copy that is left is never taken for that of a later time.
    for marker in [BEGUN, FORCED] {
        emptying::remove(&dir.join(marker))?;
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Copies a folder, durably.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    fs::File::open(to)?.sync_all()
}

/// Whether the folder is that of a member.
///
/// # Errors
/// It cannot be read.
pub(crate) fn is_member(dir: &Path) -> anyhow::Result<bool> {
    Ok(Cluster::is_member(&RealDisk, dir)?)
}

fn until(timeout: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}
