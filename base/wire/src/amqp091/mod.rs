//! AMQP 0-9-1 in RabbitMQ's dialect: frames, methods, content headers, field tables, SASL responses.
//!
//! ```text
//!  frame     kind u8 | channel u16 | size u32 | payload (size bytes) | 0xCE
//!  method    class u16 | method u16 | fields, consecutive bits packed low bit first
//!  header    class u16 | weight u16 | body size u64 | property flags u16 | property list
//!  body      bytes
//! ```
//!
//! Numbers are big endian. Both directions of every method encode and decode, so the same code serves the broker,
//! clients and fuzzers. Principal types: [`Method`], [`Properties`], [`Table`].
//!
//! Where the published specification and RabbitMQ differ, RabbitMQ wins; such places say so. The codec of RabbitMQ
//! 4.3.6 was given 1545 methods, tables and property lists that the fuzzers had found: the same ones were refused
//! and the others came out with the same bytes, but for two differences on purpose. Tables nested deeper than
//! [`TABLE_DEPTH_MAX`] are refused here, and floats that are not finite are kept here (RabbitMQ crashes on them).

mod alike;
mod deliver;
mod field;
mod frame;
mod header;
mod method;
pub mod methods;
mod properties;
mod properties_buf;
pub mod sasl;
mod short_str;
mod table;
mod table_buf;
mod value;

pub use alike::AlikePublishes;
pub use deliver::{
    BodyFrames, DeliverRun, encode_ack, encode_deliver, encode_deliver_head, encode_get_ok, encode_nack,
    encode_publish, encode_reject, encode_return,
};
pub use frame::{
    FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, FRAME_OVERHEAD, Frame, FrameError,
    HEARTBEAT, PROTOCOL_HEADER, Parsed, parse_frame, write_frame,
};
pub use header::{ContentHeader, HeaderError};
pub use method::{Method, MethodError, decode_publish};
pub use properties::{
    Properties, PropertiesError, Property, delivery_mode_of, expiration_of, headers_of, priority_of,
};
pub use properties_buf::{Edit, PropertiesBuf, PropertyTooLong, rewrite};
pub use short_str::{SHORT_STR_BYTES_MAX, ShortStr, is_same};
pub use table::{Array, Elements, Entries, Entry, TABLE_DEPTH_MAX, Table, TableError};
pub use table_buf::{ArrayBuf, TableBuf};
pub use value::Value;
