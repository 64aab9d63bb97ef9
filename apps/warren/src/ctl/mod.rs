//! `warren ctl`, also called as `rabbitmqctl`: one command to the running server, its answer on the terminal.

mod arguments;
mod banner;
mod documents;
mod run;

pub use run::run;
