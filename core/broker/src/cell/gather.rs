//! A block on its way back into memory: its own bytes, and bodies that it shares with other queues. Complete when all are there.
//! Refuses to know where they come from.

use queues::{BlockToken, BodyBytes, HeldBody, SharedBody};

/// The parts of one block that have come.
pub(crate) struct Gather {
    pub(crate) token: BlockToken,
    awaits_block: bool,
    block: Option<Vec<u8>>,
    found: Vec<HeldBody>,
    missing: Vec<SharedBody>,
    is_lost: bool,
}

impl Gather {
    /// Of a block whose own bytes were asked for, or are in memory.
    pub(crate) fn new(token: BlockToken, awaits_block: bool) -> Gather {
        Gather { token, awaits_block, block: None, found: Vec::new(), missing: Vec::new(), is_lost: false }
    }

    /// A body was asked for.
    pub(crate) fn await_body(&mut self, body: SharedBody) {
        self.missing.push(body);
    }

    /// A body is here.
    pub(crate) fn add(&mut self, held: HeldBody) {
        self.found.push(held);
    }

    /// Something cannot be had.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// The block's own bytes were read, or not.
    pub(super) fn take_block(&mut self, bytes: Option<Vec<u8>>) {
        self.awaits_block = false;
        self.is_lost |= bytes.is_none();
        self.block = bytes;
    }

    /// A body was read, or not.
    pub(super) fn take_body(&mut self, id: u64, bytes: Option<&BodyBytes>) {
        for body in self.missing.extract_if(.., |body| body.id() == id) {
            match bytes {
                Some(bytes) => self.found.push(HeldBody { body, bytes: bytes.clone() }),
                None => self.is_lost = true,
            }
        }
    }

    /// Whether nothing more comes.
    pub(crate) fn is_complete(&self) -> bool {
        !self.awaits_block && self.missing.is_empty()
    }

    /// The block's own bytes, if they were asked for, and its bodies; `None` when something cannot be had.
    pub(super) fn into_parts(self) -> Option<(Option<Vec<u8>>, Vec<HeldBody>)> {
        (!self.is_lost).then_some((self.block, self.found))
    }
}
