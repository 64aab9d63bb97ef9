//! The conversation of the nodes of a cluster: frames, and the messages that belong to the links themselves.
//!
//! Numbers are big endian. Frames of kinds from [`FIRST_FOREIGN_KIND`] on are opaque here. Refuses to know secrets and proofs: the owner
//! of a secret computes over the bytes of both [`Hello`]s as they were sent.

mod frame;
mod message;

pub use frame::{
    FRAME_BYTES_MAX, FrameError, HEAD_BYTES, HELLO_BYTES_MAX, Head, PAYLOAD_BYTES_MAX, Parsed, parse_frame,
    write_frame,
};
pub use message::{
    Auth, FIRST_FOREIGN_KIND, Hello, Kind, Liveness, MessageError, NEIGHBOURS_MAX, NONCE_BYTES, Neighbour,
    Neighbours, PROOF_BYTES, Verdict,
};
