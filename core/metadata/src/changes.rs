//! Results of applying a command: the answer to its proposer, changes for the broker's runtime tables, and facts for the log.

use std::sync::Arc;

use crate::command::Name;
use crate::facts::Fact;
use crate::policies::PolicyKind;
use crate::records::{Binding, ExchangeRecord, QueueRecord, VhostName};
use crate::refusal::Refusal;
use crate::replicas::Replicas;
use stdx::QueueId;

/// The answer to a command that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Something changed.
    Changed,
    /// All was already so: the binding existed, the thing to delete did not (B53, B78, B84, B85).
    Unchanged,
    /// The exchange is new.
    ExchangeCreated(Arc<ExchangeRecord>),
    /// An equivalent exchange was there.
    ExchangeExists(Arc<ExchangeRecord>),
    /// The queue is new.
    QueueCreated(Arc<QueueRecord>),
    /// An equivalent queue was there, open to the owner that asked.
    QueueExists(Arc<QueueRecord>),
    /// A batch was applied, except for these commands.
    Imported {
        /// Position in the batch and reason. Existing exchanges and queues that differ are among them: an import
        /// never changes those.
        refused: Vec<(usize, Refusal)>,
    },
}

/// One step for the broker's runtime tables, in an order in which it can be followed: ends appear before bindings,
/// bindings go before their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A vhost is there; its predeclared exchanges follow.
    VhostAdded(VhostName),
    /// Metadata or limits of a vhost changed.
    VhostChanged(VhostName),
    /// A vhost is gone, after all in it.
    VhostDeleted(VhostName),
    /// An exchange is there.
    ExchangeAdded(Arc<ExchangeRecord>),
    /// An exchange is gone.
    ExchangeDeleted(Arc<ExchangeRecord>),
    /// A queue is there.
    QueueAdded(Arc<QueueRecord>),
    /// A queue has other arguments; all else is as before.
    QueueChanged(Arc<QueueRecord>),
    /// Other nodes have a queue, or another one leads it.
    ReplicasChanged {
        /// Which.
        queue: QueueId,
        /// Its members now.
        replicas: Arc<Replicas>,
    },
    /// A queue is gone, and its messages with it.
    QueueDeleted(Arc<QueueRecord>),
    /// A binding is there.
    BindingAdded(Arc<Binding>),
    /// A binding is gone.
    BindingRemoved(Arc<Binding>),
    /// A user is new, or its password, tags or limits changed.
    UserChanged(Name),
    /// A user is gone with its permissions.
    UserDeleted(Name),
    /// Permissions were set or cleared.
    PermissionsChanged {
        /// The user whose permissions they are.
        user: Name,
        /// Where.
        vhost: Name,
    },
    /// Topic permissions were set or cleared.
    TopicPermissionsChanged {
        /// The user whose permissions they are.
        user: Name,
        /// Where.
        vhost: Name,
    },
    /// A runtime parameter was set or cleared.
    ParameterChanged {
        /// Where.
        vhost: Name,
        /// Component.
        component: Box<str>,
        /// Name.
        name: Box<str>,
    },
    /// A global runtime parameter was set or cleared.
    GlobalParameterChanged {
        /// Name.
        name: Box<str>,
    },
    /// A policy was set or cleared.
    PolicyChanged {
        /// The kind of the policy.
        kind: PolicyKind,
        /// Where.
        vhost: Name,
        /// Name.
        name: Box<str>,
    },
}

/// The results of commands, gathered over as many of them as the caller likes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// For the runtime tables, in order.
    pub changes: Vec<Change>,
    /// For the log, in order. Empty when nothing durable changed: transient queues and exchanges and their bindings
    /// are not logged.
    pub facts: Vec<Fact>,
}

impl Applied {
    /// Whether anything must reach the log before the answer is given.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !self.facts.is_empty()
    }

    /// Forgets all, keeping the memory.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.facts.clear();
    }

    pub(crate) fn push(&mut self, change: Change, fact: Fact) {
        self.changes.push(change);
        self.facts.push(fact);
    }
}
