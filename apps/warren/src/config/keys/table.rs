//! The sections in the order of the reference.

use crate::config::key::{Key, Section};

static SECTIONS: [&Section; 23] = [
    &super::network::SECTION,
    &super::tls::CLIENTS,
    &super::limits::SECTION,
    &super::alarms::SECTION,
    &super::access::SECTION,
    &super::seeds::SECTION,
    &super::queues::SECTION,
    &super::management::SECTION,
    &super::tls::MANAGEMENT,
    &super::prometheus::SECTION,
    &super::tls::PROMETHEUS,
    &super::shovels::SECTION,
    &super::mqtt::SECTION,
    &super::web::MQTT,
    &super::tls::WEB_MQTT,
    &super::stomp::SECTION,
    &super::web::STOMP,
    &super::tls::WEB_STOMP,
    &super::stream::SECTION,
    &super::node::SECTION,
    &super::cluster::SECTION,
    &super::logging::SECTION,
    &super::accepted::SECTION,
];

/// All sections, in the order of the reference.
pub fn sections() -> impl Iterator<Item = &'static Section> {
    SECTIONS.iter().copied()
}

/// All keys, in the order of the reference.
pub fn all() -> impl Iterator<Item = &'static Key> {
    sections().flat_map(|section| section.keys)
}
