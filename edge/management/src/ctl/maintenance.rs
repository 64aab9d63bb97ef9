//! Commands about who may connect: listeners suspended and resumed, maintenance mode. Knows RabbitMQ's texts.

use std::io;

use broker::Broker;

use crate::ctl::commands::{Commands, Outcome};
use crate::ctl::protocol::{Answer, Exit, Failure};
use crate::resources::membership;
use crate::resources::node::Node;

/// Commands about who may connect.
pub(crate) const COMMANDS: Commands = &[
    ("suspend_listeners", |it| answered(it.node.maintenance.suspend())),
    ("resume_listeners", |it| answered(it.node.maintenance.resume())),
    ("drain", |it| drain(it.broker, it.node)),
    ("revive", |it| answered(it.node.maintenance.revive(it.broker))),
];

/// Maintenance mode begins, and other nodes lead the quorum queues that this node led.
fn drain(broker: &Broker, node: &Node) -> Outcome {
    let done = answered(node.maintenance.drain(broker))?;
    match membership::step_down(broker, node) {
        0 => {}
        queues => tracing::warn!(
            queues,
            "this node still leads quorum queues: no other node has an up-to-date copy"
        ),
    }
    Ok(done)
}

fn answered(done: io::Result<()>) -> Outcome {
    done.map(|()| Answer::done()).map_err(|error| {
        let text = format!("Error:\na listener cannot be changed: {error}");
        Failure::new(Exit::UNAVAILABLE, text)
    })
}
