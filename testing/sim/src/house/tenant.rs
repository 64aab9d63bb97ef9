//! Questions that every tenant answers. Knows no tenant.

use super::ending::Ended;
use super::ledger::Ledger;
use super::site::Site;

/// One party on the broker.
pub(crate) trait Tenant {
    /// A life begins: missing objects are declared.
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String>;

    /// One operation of random choice. In bad weather nothing that would have to be answered.
    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String>;

    /// Time has passed.
    fn tick(&mut self, now_ms: u64);

    /// Its knowledge of its messages.
    fn ledger(&mut self) -> &mut Ledger;

    /// Puts back its fetched messages, as a client that leaves does; a queue that goes with its consumers goes.
    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String>;

    /// Compares the messages with the expected ones. All engines are idle; fetched messages are put back.
    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String>;

    /// The life is over; without a word or in order.
    fn ended(&mut self, how: Ended);
}
