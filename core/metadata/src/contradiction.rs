//! Why a fact does not fit the state.

/// A fact that contradicts the state: the log is damaged, incomplete or of another snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// It speaks of a vhost that is not there.
    #[error("no such vhost")]
    NoVhost,
    /// It speaks of a user that is not there.
    #[error("no such user")]
    NoUser,
    /// It speaks of an exchange that is not there.
    #[error("no such exchange")]
    NoExchange,
    /// It speaks of a queue that is not there.
    #[error("no such queue")]
    NoQueue,
    /// It speaks of a binding that is not there.
    #[error("no such binding")]
    NoBinding,
    /// It adds what is already there.
    #[error("it is already there")]
    AlreadyThere,
    /// It adds something that is not durable.
    #[error("it is not durable")]
    NotDurable,
    /// It speaks of a node, and the state is none of a cluster.
    #[error("this is not the state of a cluster")]
    NoCluster,
    /// Its identifier is not one of a durable thing.
    #[error("its identifier is out of range")]
    BadId,
}
