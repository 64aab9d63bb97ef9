//! Listeners and connection tasks: where sockets live.
//!
//! Principal types: [`Listener`], which accepts, [`Gate`], which stops it for a while, [`Endpoint`], which
//! unwraps PROXY headers, TLS and WebSockets, and the connection task that drives one protocol session: reads
//! greedily, hands bytes in, writes what has gathered with one call, and ticks the session's clock. Links to other
//! nodes are in [`peer`].
//!
//! Refuses to know: frames, methods, queues. The driver does exactly what a session says it needs.
mod connection;
mod endpoint;
mod gate;
mod listener;
pub mod peer;
mod turns;
mod web_socket;

pub use connection::serve;
pub use endpoint::Endpoint;
pub use gate::Gate;
pub use listener::{Listener, ListenerOptions};
pub use turns::thread_sleeps;
pub use web_socket::{FrameEnd, WebMessages, WebProtocol, WebSocketOptions};
