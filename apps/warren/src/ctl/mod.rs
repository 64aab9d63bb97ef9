//! `warren ctl`, also called as `rabbitmqctl` and `rabbitmq-diagnostics`: one command to the running server, its answer on the
//! terminal.

mod arguments;
mod banner;
mod called;
mod catalogue;
mod documents;
mod guide;
mod local;
mod outcome;
mod profiles;
mod run;
mod waiting;

pub use called::Called;
pub use run::run;
