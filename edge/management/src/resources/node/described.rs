//! A node's description of itself for the status of its cluster, and all nodes that are up, each as it describes itself. Refuses to know how it
//! is written.

use std::net::SocketAddr;

use broker::cluster::peers::Vitals;
use broker::{Broker, Raised};
use serde::{Deserialize, Serialize};

use super::cluster::{Member, members};
use super::maintenance::MARKED;
use super::{NODE_NAME, Node};
use crate::resources::alarms;

/// The question for a [`Description`], as nodes ask it.
pub(crate) const QUESTION: &[u8] = b"\"Description\"";

/// A listener of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DescribedListener {
    pub(crate) address: SocketAddr,
    pub(crate) protocol: String,
    pub(crate) purpose: String,
}

/// A node's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    /// The version of RabbitMQ that clients take it for.
    pub(crate) rabbitmq_version: String,
    pub(crate) warren_version: String,
    pub(crate) cpu_cores: usize,
    /// In RabbitMQ's words.
    pub(crate) maintenance: String,
    /// One line for each alarm.
    pub(crate) alarms: Vec<String>,
    /// RabbitMQ's names of the resources that are short.
    pub(crate) short: Vec<String>,
    pub(crate) listeners: Vec<DescribedListener>,
}

/// A node that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) name: String,
    /// `None`: it does not answer.
    pub(crate) said: Option<Description>,
    /// The alarms that its link tells; none of this node.
    pub(crate) vitals: Vitals,
}

/// This node's description.
pub(crate) fn of_this_node(broker: &Broker, node: &Node) -> Description {
    let listener = |it: &super::NodeListener| DescribedListener {
        address: it.address,
        protocol: it.protocol.to_string(),
        purpose: it.purpose.to_string(),
    };
    let raised = broker.alarms().raised();
    Description {
        rabbitmq_version: node.rabbitmq_version.clone(),
        warren_version: node.version.into(),
        cpu_cores: std::thread::available_parallelism().map_or(1, usize::from),
        maintenance: node.maintenance.status().into(),
        alarms: alarms::lines(broker),
        short: short(raised.has(Raised::DISK), raised.has(Raised::MEMORY)),
        listeners: node.listeners.iter().map(listener).collect(),
    }
}

/// RabbitMQ's names of the resources that are short.
fn short(disk: bool, memory: bool) -> Vec<String> {
    let named = [("disk", disk), ("memory", memory)].into_iter().filter(|(_, is_short)| *is_short);
    named.map(|(name, _)| name.to_owned()).collect()
}

impl Described {
    /// As the node says; one that does not answer is not.
    pub(crate) fn is_in_maintenance(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.maintenance == MARKED)
    }

    /// One line for each alarm; of a node that does not answer, what its link tells.
    pub(crate) fn alarms(&self) -> Vec<String> {
        match &self.said {
            Some(said) => said.alarms.clone(),
            None => alarms::lines_of_node(&self.name, self.vitals),
        }
    }

    /// The resources that are short.
    pub(crate) fn short(&self) -> Vec<String> {
        let vitals = self.vitals;
        self.said
            .as_ref()
            .map_or_else(|| short(vitals.is_disk_short, vitals.is_memory_short), |it| it.short.clone())
    }
}

/// The nodes that are up, in order of their names, with these answers of the others.
pub(crate) fn of_all(node: &Node, own: &Description, answers: &[(String, Vec<u8>)]) -> Vec<Described> {
    let said = |member: &Member| {
        if member.name.as_str() == NODE_NAME {
            return Some(own.clone());
        }
        let (_, bytes) = answers.iter().find(|(name, _)| *name == member.name)?;
        serde_json::from_slice(bytes).ok()
    };
    let up = members(node).into_iter().filter(|member| member.is_running);
    up.map(|member| Described {
        said: said(&member),
        name: member.name,
        vitals: member.vitals.unwrap_or_default(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::node::cluster::tests::with_two;

    #[test]
    fn nodes_that_are_up_are_described_and_one_that_does_not_answer_is_named() {
        let (node, _net) = with_two();
        let described = |version: &str| Description {
            rabbitmq_version: version.into(),
            warren_version: "1".into(),
            cpu_cores: 2,
            maintenance: "not under maintenance".into(),
            alarms: Vec::new(),
            short: Vec::new(),
            listeners: Vec::new(),
        };
        let own = described("own");
        let silent = of_all(&node, &own, &[]);
        let names: Vec<_> = silent.iter().map(|it| (it.name.as_str(), it.said.is_some())).collect();
        assert_eq!(names, [("b@x", false), ("warren@localhost", true)]);
        let answer = serde_json::to_vec(&described("theirs")).unwrap();
        let all = of_all(&node, &own, &[("b@x".into(), answer)]);
        assert_eq!(all[0].said, Some(described("theirs")));
        assert_eq!(of_all(&node, &own, &[("b@x".into(), b"{}".to_vec())])[0].said, None);
    }
}
