//! TLS without sockets: PEM files to configurations of rustls, for listeners and for everything that dials; facts of
//! certificates and of sessions, in RabbitMQ's spelling.
//!
//! Every error names the file and the remedy. Refuses to know sockets, connections, and users of a configuration.

mod certificate;
mod client;
mod dial;
mod error;
mod files;
mod key;
mod names;
mod server;
mod session;
mod slot;
mod suites;
mod verify;

pub use certificate::{CertificateFacts, SanType};
pub use client::{ClientOptions, client_config};
pub use dial::{ClientStream, connect, explained, server_name};
pub use error::TlsError;
pub use rustls;
pub use server::{InUse, NamedCertificate, ServerMaterial, ServerOptions, Verify, server_config};
pub use session::SessionFacts;
pub use slot::{CertificateLogin, LOOK_INTERVAL, TlsSlot};
pub use suites::{Version, suite_names};
pub use tokio_rustls;
