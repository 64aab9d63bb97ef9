//! connection.update-secret (B29): the rights of the user are looked at again.
//!
//! Refuses to know secrets: a user with a password of our own has nothing to renew, and RabbitMQ's internal backend takes
//! any secret, too (seen with 4.3.6 and 3.10.8). Tokens come with their own backend.

use wire::amqp091::methods::connection::{UpdateSecret, UpdateSecretOk};

use super::super::errors::{Failure, Outcome, ReplyCode};
use super::Session;
use crate::refusals::open_text;

impl Session {
    /// Ends the connection if its user may no longer open the vhost, and consumers that may no longer read.
    pub(super) fn update_secret(&mut self) -> Outcome {
        let running = self.running.as_mut().expect("update-secret is dispatched in running state only");
        let principal = &running.principal;
        principal.check_vhost().map_err(|error| {
            let text = open_text(&error, &principal.user.name, principal.vhost.name());
            Failure::new(ReplyCode::NotAllowed, text).in_method(UpdateSecret::ID)
        })?;
        running.reply(0, UpdateSecretOk {});
        running.cancel_forbidden();
        Ok(())
    }
}
