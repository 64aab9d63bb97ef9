//! The author of changes of metadata that no client's session makes: the command line, unless somebody says otherwise.
//!
//! Events name the author (B176). The name belongs to the thread for as long as its work takes: work that is handed to other threads is
//! done in the name that is handed along. Refuses to know rights.

use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static ACTOR: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Does something in a user's name: events name the user for its changes through [`crate::Broker`] on this thread.
pub fn on_behalf_of<T>(user: &str, work: impl FnOnce() -> T) -> T {
    let _guard = Guard(ACTOR.with_borrow_mut(|actor| actor.replace(user.into())));
    work()
}

/// The name to act in.
pub(crate) fn actor() -> Arc<str> {
    ACTOR.with_borrow(|actor| actor.clone().unwrap_or_else(|| CLI.into()))
}

/// Gives the former name back, also after a panic.
struct Guard(Option<Arc<str>>);

impl Drop for Guard {
    fn drop(&mut self) {
        let former = self.0.take();
        ACTOR.with_borrow_mut(|actor| *actor = former);
    }
}

/// The name of a person or tool that changes something, in RabbitMQ's words.
pub(crate) const CLI: &str = "rmq-cli";

/// The name for changes that nobody asks for, in RabbitMQ's words.
pub(crate) const INTERNAL: &str = "rmq-internal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_for_its_work_and_no_longer() {
        assert_eq!(&*actor(), CLI);
        let inner = on_behalf_of("one", || (on_behalf_of("two", actor), actor()));
        assert_eq!((&*inner.0, &*inner.1), ("two", "one"));
        let panicked = std::panic::catch_unwind(|| on_behalf_of("three", || panic!("expected in this test")));
        assert!(panicked.is_err() && &*actor() == CLI);
    }
}
