//! A message as it came from another node.

use bytes::Bytes;

/// A message on its way, in parts of the frame that brought it.
pub(super) struct Carried {
    pub(super) exchange: Bytes,
    pub(super) routing_key: Bytes,
    pub(super) properties: Bytes,
    pub(super) body: Bytes,
    pub(super) annotations: Bytes,
}
