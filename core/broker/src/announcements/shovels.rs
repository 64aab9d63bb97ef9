//! Events of shovels (B176). Refuses to know what a shovel does.

use super::events::Announcer;
use crate::Broker;

/// The news of a shovel.
#[derive(Clone, Copy, Debug)]
pub enum ShovelNews<'a> {
    /// It has come into another state.
    Status {
        /// RabbitMQ's name of the state.
        status: &'a str,
        /// The other known facts, by RabbitMQ's names.
        details: &'a [(&'a str, &'a str)],
    },
    /// It is no more.
    Removed,
}

impl Announcer {
    fn shovel_told(&self, vhost: &str, name: &str, news: ShovelNews<'_>) {
        let key = match news {
            ShovelNews::Status { .. } => "shovel.worker.status",
            ShovelNews::Removed => "shovel.worker.removed",
        };
        self.tell(key, |headers| {
            headers.text("name", name).text("vhost", vhost);
            if let ShovelNews::Status { status, details } = news {
                headers.text("status", status);
                for (name, text) in details {
                    match *name {
                        "reason" => headers.characters(name, text),
                        _ => headers.text(name, text),
                    };
                }
            }
        });
    }
}

impl Broker {
    /// Tells of a shovel on the exchange of events.
    pub fn tell_of_shovel(&self, vhost: &str, name: &str, news: ShovelNews<'_>) {
        self.services().announcer.shovel_told(vhost, name, news);
    }
}
