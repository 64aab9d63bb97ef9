//! Effects of each command, one file a kind of thing.

mod bindings;
mod exchanges;
mod parameters;
mod policies;
mod queues;
mod replay;
mod users;
mod vhosts;

#[cfg(test)]
mod tests;
