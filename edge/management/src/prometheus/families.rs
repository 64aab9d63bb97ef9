//! The families of metrics by RabbitMQ's names, and the pages made of them. Refuses to know HTTP.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use broker::{Broker, Queue, QueueGlance};

use super::metric::write_sum;
use super::page::Page;
use super::{certificates, clients, exchanges, global, links, node, queues, shovels, stages, streams};
use crate::resources::node::Node;

/// The object of a request for a page.
pub(crate) struct Asked<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) node: &'a Node,
    /// Only these vhosts; none is all.
    pub(crate) vhosts: Vec<String>,
    /// Only queues of these names; none is all.
    pub(crate) queue_names: Vec<String>,
    queue_sum: OnceCell<QueueGlance>,
}

impl<'a> Asked<'a> {
    /// About everything.
    pub(crate) fn new(broker: &'a Broker, node: &'a Node) -> Asked<'a> {
        let queue_sum = OnceCell::new();
        Asked { broker, node, vhosts: Vec::new(), queue_names: Vec::new(), queue_sum }
    }

    pub(crate) fn wants_vhost(&self, name: &str) -> bool {
        self.vhosts.is_empty() || self.vhosts.iter().any(|vhost| vhost == name)
    }

    /// Queues asked about, by vhost and name.
    pub(crate) fn queues(&self) -> Vec<Arc<Queue>> {
        let vhosts = self.broker.vhosts().into_iter().filter(|vhost| self.wants_vhost(vhost.name()));
        let of = |vhost: Arc<broker::Vhost>| -> Vec<Arc<Queue>> {
            if self.queue_names.is_empty() {
                return queues::sorted(vhost.queues());
            }
            self.queue_names.iter().filter_map(|name| vhost.queue(name.as_bytes())).collect()
        };
        vhosts.flat_map(of).collect()
    }

    /// All queues together.
    pub(crate) fn queue_sum(&self) -> &QueueGlance {
        self.queue_sum.get_or_init(|| self.broker.queue_sums())
    }
}

type Write = fn(&Asked<'_>, &mut Page<'_>) -> io::Result<()>;

/// A family: its name in `family=`, and how it is written object by object.
struct Family {
    name: &'static str,
    /// On `/metrics/per-object`.
    is_of_objects: bool,
    write: Write,
}

const fn family(name: &'static str, write: Write) -> Family {
    Family { name, is_of_objects: true, write }
}

/// Families that are asked for by name only.
const fn asked_for(name: &'static str, write: Write) -> Family {
    Family { name, is_of_objects: false, write }
}

const FAMILIES: &[Family] = &[
    family("connection_churn_metrics", |asked, page| write_sum(page, node::CHURN, &asked.broker.churn())),
    family("node_coarse_metrics", node::coarse),
    family("node_metrics", node::limits),
    family("node_persister_metrics", node::persister),
    family("auth_attempt_metrics", node::logins),
    family("auth_attempt_detailed_metrics", node::login_sources),
    family("queue_coarse_metrics", |asked, page| queues::each(asked, page, queues::COARSE)),
    asked_for("queue_consumer_count", |asked, page| queues::each(asked, page, queues::CONSUMERS)),
    family("queue_metrics", |asked, page| {
        queues::each(asked, page, queues::DETAILS)?;
        streams::segments_each(&asked.queues(), page)
    }),
    family("queue_delivery_metrics", |asked, page| queues::each(asked, page, queues::DELIVERIES)),
    family("queue_loss_metrics", |asked, page| {
        of_warren(page, |page| queues::each(asked, page, queues::LOSSES))
    }),
    family("channel_metrics", |asked, page| clients::each_channel(asked, page, clients::CHANNELS)),
    family("channel_exchange_metrics", |asked, page| clients::each_channel(asked, page, clients::PUBLISHES)),
    family("channel_queue_metrics", |asked, page| clients::each_channel(asked, page, clients::DELIVERIES)),
    family("channel_queue_exchange_metrics", queues::each_published),
    family("connection_coarse_metrics", |asked, page| clients::each_connection(asked, page, clients::BYTES)),
    family("connection_metrics", |asked, page| clients::each_connection(asked, page, clients::PACKETS)),
    family("stream_consumer_metrics", |asked, page| streams::each(asked.broker, page)),
    family("exchange_metrics", exchanges::each),
    asked_for("vhost_status", |asked, page| of_cluster(asked, page, node::vhosts)),
    asked_for("exchange_names", |asked, page| of_cluster(asked, page, exchanges::names)),
    asked_for("exchange_bindings", |asked, page| of_cluster(asked, page, exchanges::bindings)),
];

/// Families whose queues are named and described too.
const OF_QUEUES: [&str; 3] = ["queue_coarse_metrics", "queue_consumer_count", "queue_metrics"];

fn of_cluster(asked: &Asked<'_>, page: &mut Page<'_>, write: Write) -> io::Result<()> {
    let before = page.set_prefix("rabbitmq_cluster_");
    write(asked, page)?;
    page.set_prefix(before);
    Ok(())
}

/// Metrics that RabbitMQ does not have.
fn of_warren(page: &mut Page<'_>, write: impl FnOnce(&mut Page<'_>) -> io::Result<()>) -> io::Result<()> {
    let before = page.set_prefix("warren_");
    write(page)?;
    page.set_prefix(before);
    Ok(())
}

/// Families asked for by name. A metric that several of them have is written once; names that are none are passed over, as
/// RabbitMQ does.
pub(crate) fn detailed(asked: &Asked<'_>, page: &mut Page<'_>, names: &[String]) -> io::Result<()> {
    let wanted = |name: &str| names.iter().any(|one| one == name);
    for family in FAMILIES.iter().filter(|family| wanted(family.name)) {
        let is_twice = family.name == "queue_consumer_count" && wanted("queue_metrics");
        if !is_twice {
            (family.write)(asked, page)?;
        }
    }
    if OF_QUEUES.iter().any(|name| wanted(name)) { queues::infos(asked, page) } else { Ok(()) }
}

/// One line per object.
pub(crate) fn per_object(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    for family in FAMILIES.iter().filter(|family| family.is_of_objects) {
        (family.write)(asked, page)?;
    }
    queues::infos(asked, page)?;
    whole(asked, page, &clients::channel_sum(asked.broker))
}

/// Sums over all objects.
pub(crate) fn aggregated(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    write_sum(page, node::CHURN, &asked.broker.churn())?;
    node::coarse(asked, page)?;
    node::limits(asked, page)?;
    node::persister(asked, page)?;
    node::logins(asked, page)?;
    for metrics in [queues::COARSE, queues::DETAILS, queues::DELIVERIES, queues::PUBLISHES] {
        write_sum(page, metrics, asked.queue_sum())?;
    }
    of_warren(page, |page| write_sum(page, queues::LOSSES, asked.queue_sum()))?;
    let channels = clients::channel_sum(asked.broker);
    for metrics in [clients::CHANNELS, clients::PUBLISHES, clients::DELIVERIES] {
        write_sum(page, metrics, &channels.sum)?;
    }
    let connections = clients::connection_sum(asked.broker);
    for metrics in [clients::BYTES, clients::PACKETS] {
        write_sum(page, metrics, &connections)?;
    }
    let passed = exchanges::sum(asked.broker);
    write_sum(page, exchanges::METRICS, &passed)?;
    of_warren(page, |page| write_sum(page, exchanges::OURS, &passed))?;
    shovels::states(asked, page)?;
    streams::largest(asked.broker, page)?;
    streams::segments(&asked.queues(), page)?;
    whole(asked, page, &channels)
}

/// Metrics that are the same whether objects are summed or not.
fn whole(asked: &Asked<'_>, page: &mut Page<'_>, channels: &clients::Channels) -> io::Result<()> {
    global::totals(asked, page, channels)?;
    global::passed(asked, page, channels)?;
    global::alarms(asked, page)?;
    of_warren(page, |page| certificates::ends(asked, page))?;
    of_warren(page, |page| links::write(asked.node, page))?;
    of_warren(page, |page| streams::faults(asked.broker, page))?;
    stages::write(asked.broker, page)?;
    node::process(page)
}
