//! Why a broker does not start, and why a connection may not open a vhost.

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process has it.
    #[error("{0}")]
    InUse(String),
    /// Log, segments or snapshot cannot be read or written.
    #[error("storage: {0}")]
    Storage(String),
    /// The metadata do not fit together.
    #[error("metadata: {0}")]
    Metadata(String),
    /// A fresh data directory is to start with a user whose password may not be set: whose, and why.
    #[error("{0}")]
    FirstPassword(String),
}

impl StartError {
    pub(crate) fn storage(error: impl std::fmt::Display) -> StartError {
        StartError::Storage(error.to_string())
    }

    pub(crate) fn metadata(error: impl std::fmt::Display) -> StartError {
        StartError::Metadata(error.to_string())
    }
}

/// Why a connection may not open a vhost (B24, B25).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// 530 `vhost foo not found`.
    VhostNotFound(String),
    /// 530 `access to vhost 'v' refused for user 'u'`.
    AccessRefused,
    /// 530 `connection refused: node connection limit (N) is reached`.
    NodeLimit(u64),
    /// 530 `access to vhost 'v' refused for user 'u': connection limit (N) is reached`.
    VhostLimit(u64),
    /// 530 `connection refused for user 'u': user connection limit (N) is reached`.
    UserLimit(u64),
}
