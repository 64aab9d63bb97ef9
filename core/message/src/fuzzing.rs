//! The functions of fuzz targets: any bytes in, no panic, and results that can be read.

use wire::amqp10::Sections;
use wire::amqp091::Properties;

use crate::{MessageView, amqp10};

/// A message of AMQP 1.0, to AMQP 0-9-1 and back.
///
/// # Panics
/// If a conversion makes what cannot be read, or changes the bare message on the way to its own protocol.
pub fn amqp10_message(message: &[u8]) {
    let Ok(sections) = Sections::scan(message) else { return };
    if sections.validate().is_err() {
        return;
    }
    let mut properties = Vec::new();
    amqp10::store(&sections, &mut properties);
    let body = amqp10::stored_body(&sections);
    let view = MessageView { exchange: b"x", routing_key: b"k", properties: &properties, body };
    let mut delivered = Vec::new();
    amqp10::sections_of(&view, &mut delivered);
    let again = Sections::scan(&delivered).expect("a delivery is a message");
    assert_eq!(again.bare_message(), sections.bare_message(), "a bare message is not changed");
    let (plain, payload) = amqp10::in_amqp091(&properties, body);
    assert_eq!(Properties::new(&plain).validate(), Ok(()), "properties of a converted message");
    let back = MessageView { properties: &plain, body: &payload, ..view };
    let mut returned = Vec::new();
    amqp10::sections_of(&back, &mut returned);
    let returned = Sections::scan(&returned).expect("a message that comes back is one");
    returned.validate().expect("its values can be read");
}
