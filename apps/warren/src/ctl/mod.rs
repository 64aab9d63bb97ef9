//! `warren ctl`, also called as `rabbitmqctl` and `rabbitmq-diagnostics`: one command to the running server, here or
//! over HTTP, its answer on the terminal.

mod arguments;
mod banner;
mod called;
mod catalogue;
mod completing;
mod documents;
mod explained;
mod following;
mod guide;
mod local;
mod outcome;
mod profiles;
mod run;
mod server;
mod waiting;

pub use called::Called;
pub use run::run;
pub use server::URL_VARIABLE;
