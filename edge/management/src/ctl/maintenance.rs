//! Commands about who may connect: listeners suspended and resumed, maintenance mode. Knows RabbitMQ's texts.

use std::io;

use crate::ctl::commands::{Commands, Outcome};
use crate::ctl::protocol::{Answer, Exit, Failure};

/// Commands about who may connect.
pub(crate) const COMMANDS: Commands = &[
    ("suspend_listeners", |it| answered(it.node.maintenance.suspend())),
    ("resume_listeners", |it| answered(it.node.maintenance.resume())),
    ("drain", |it| answered(it.node.maintenance.drain(it.broker))),
    ("revive", |it| answered(it.node.maintenance.revive(it.broker))),
];

fn answered(done: io::Result<()>) -> Outcome {
    done.map(|()| Answer::done()).map_err(|error| {
        let text = format!("Error:\na listener cannot be changed: {error}");
        Failure::new(Exit::UNAVAILABLE, text)
    })
}
