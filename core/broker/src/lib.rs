//! The one API that protocol sessions and management call.
//!
//! Principal type: [`Broker`]. The control plane (declare, bind, delete, users, vhosts) goes through the metadata
//! machine and its log; the data plane (publish, deliver, settle, confirm) goes straight to queue cells.
//!
//! Refuses to know: protocols (no reply codes, no frames), sockets, files' layouts, JSON.
pub mod access;
mod actor;
pub mod alarms;
mod announcements;
mod background;
mod bodies;
mod broker;
mod call;
mod cell;
mod checkpointer;
mod clients;
pub mod cluster;
mod cluster_name;
mod connection_lines;
mod connections;
pub mod control;
pub mod data;
mod driven;
mod effects;
mod folder_lock;
mod foundation;
mod log_places;
mod log_texts;
mod login_lines;
mod logins;
mod memory_shares;
mod memory_use;
mod name_table;
pub mod offline;
mod open_errors;
mod options;
mod pacing;
mod password_rule;
mod permission;
pub mod policies;
mod queue_types;
mod recovery;
mod refused;
mod seen_files;
mod segment_room;
mod services;
mod sessions;
pub mod stages;
pub mod stats;
mod storage;
mod stream_listing;
pub mod streams;
mod super_streams;
#[cfg(test)]
mod test_broker;
mod vhost;

pub use access::{Client, Principal, User};
pub use actor::on_behalf_of;
pub use alarms::{Alarms, DiskLimit, Levels, MemoryLimit, Raised, size_bytes};
pub use announcements::certificates::CertificateEnd;
pub use announcements::events::{ReadParameter, SilentExchange};
pub use announcements::log::LogExchange;
pub use announcements::shovels::ShovelNews;
pub use announcements::tap::{Told, ToldEvent};
pub use announcements::trace_switch::Tracing;
pub use broker::Broker;
pub use call::{Call, Changed, Commit};
pub use cell::adjusting::QueueArguments;
pub use cell::condition::Condition;
pub use cell::examine::{ConsumerHold, Examined, Intake};
pub use cell::{Queue, QueueRef};
pub use clients::{ClientBusy, ClientClaim};
pub use connection_lines::Ending;
pub use connections::{
    ChannelInfo, ChannelPermit, ChannelRefused, CloseReason, ConnectionControl, ConnectionInfo,
    ConnectionMemory, Connections, MqttInfo, PeerCertificate, TlsSession,
};
pub use control::bindings::{BindRequest, DestinationName, FoundBinding, QueueBinding};
pub use control::deleted::DeletedQueue;
pub use control::exchanges::{ExchangeDeclare, check_exchange_type};
pub use control::explain::{ExplainedRoute, Imagined, QUEUES_ASKED_MAX, ReplyAddress};
pub use control::long_changes::LongChanges;
pub use control::queues::{DeclaredQueue, FoundQueue, QueueDeclare};
pub use control::seeds::{LimitSeed, PolicySeed, UserSeed, VhostSeeds};
pub use data::confirms::{ConfirmRange, ConfirmSink};
pub use data::consume::{ConsumeRequest, ConsumerSink, SessionHold};
pub use data::consuming::Consuming;
pub use data::publish::{Incoming, PublishChannel, Publisher, Routed};
pub use driven::{Driven, Driver, Engine, Remains, Unseen};
pub use foundation::{Commits, FileSizes, Foundation, SharedBodySizes};
pub use logins::{LOGIN_SOURCES_MAX, LoginOutcome, LoginProtocol, LoginRecording, LoginSource, LoginTotals};
pub use memory_use::MemoryUse;
pub use metadata::Placement;
pub use open_errors::{OpenError, StartError};
pub use options::{BrokerOptions, DefaultObjects, Reconciliation};
pub use password_rule::PasswordRule;
pub use permission::Permission;
pub use queue_types::{QUEUE_TYPE_ARGUMENT, queue_config, queue_type};
pub use refused::{BindingRefusal, Compared, Difference, LimitScope, Refused, Resource, ResourceKind};
pub use sessions::{FilterInfo, LinkInfo, SessionInfo};
pub use stages::{Began, QueueKind, Stage, StageTimes, StageTiming, Stages};
pub use stats::{
    ByProtocol, ChurnTotals, ConnectionTotals, DeadLetterTotals, PublishCounters, SIZE_CLASSES, Sizes,
    TrafficTotals,
};
pub use storage::StorageState;
pub use stream_listing::{StreamConsumer, StreamPublisher};
pub use super_streams::{SuperStream, SuperStreamRefused, is_stream_name};
pub use vhost::Vhost;

// Types that sessions need from the layers below, under one roof.
pub use message::Filter;
pub use queues::RetryOf;
pub use queues::{
    ArgumentError, ArgumentReason, BodyBuffer, BodyBytes, ConsumerId, ConsumerSpec, ConsumerStats, Credit,
    CreditNews, Delivery, DeliveryTotals, DeliveryView, GotMessage, Head, InMemory, Kind, LargeBody,
    MemberStanding, MessageSeq, Peeked, QueueCounts, QueueGlance, QueueStats, QueueTotals, Scheduled,
    SettleHow, SettleRun, Standing,
};
pub use routing::{ArgumentError as ExchangeArgumentError, Passage};
pub use stdx::ConnectionId;
