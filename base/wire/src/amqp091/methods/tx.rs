//! Class 90: transactions of publishes and acknowledgements on one channel.

use super::define::methods;

methods! {
    class 90;

    /// Makes the channel transactional.
    Select 10 "tx.select" {}

    /// The channel is transactional.
    SelectOk 11 "tx.select-ok" {}

    /// Applies what was gathered.
    Commit 20 "tx.commit" {}

    /// It is applied.
    CommitOk 21 "tx.commit-ok" {}

    /// Drops what was gathered.
    Rollback 30 "tx.rollback" {}

    /// It is dropped.
    RollbackOk 31 "tx.rollback-ok" {}
}
