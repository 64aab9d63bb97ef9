//! Bodies of the fuzz targets: decode, encode, decode again, compare. Not part of the public interface.
//!
//! The crate in `fuzz/` calls them with generated input, the test `tests/corpus_replay.rs` with the stored corpus.
//! They panic when a round trip differs; input that is refused must merely not panic.

mod amqp091;
mod amqp10;
mod mqtt;
mod peer;
mod stomp;
mod stream;

pub use amqp10::{amqp10_frame, amqp10_sections, amqp10_value};
pub use amqp091::{amqp091_frame, amqp091_method, amqp091_properties, amqp091_table};
pub use mqtt::{mqtt_packet, mqtt_topic};
pub use peer::peer_frame;
pub use stomp::stomp_frame;
pub use stream::{stream_chunk, stream_frame};
