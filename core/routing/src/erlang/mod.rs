//! Functions that RabbitMQ's routing borrows from its virtual machine: term hashes, a random generator that is a hash in disguise,
//! and terms as text. Kept because exchanges must send the same message to the same queue as RabbitMQ does.
//!
//! Refuses to know exchanges and bindings.

mod exs1024;
mod phash2;
#[cfg(test)]
mod phash2_vectors;
mod term;

pub(crate) use exs1024::Exs1024;
pub(crate) use phash2::{
    FALSE_HASH, NIL_HASH, TRUE_HASH, UNDEFINED_HASH, hash_binaries, hash_binary, hash_float,
};
pub(crate) use term::{Term, TermError, parse as parse_term};
