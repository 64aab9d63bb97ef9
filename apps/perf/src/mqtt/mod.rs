//! Load by MQTT: `warren perf --mqtt`. Publishers, subscribers, idle clients, reconnects and changes of subscriptions; a thread drives many clients.
//!
//! Refuses to know AMQP and its topologies.

mod client;
mod drive;
mod member;
mod options;
mod publisher;
mod run;

pub(crate) use options::MqttOptions;
pub(crate) use run::run;
