//! Tables that were replaced and may still be read: kept until the last reader is gone, so that freeing a hundred
//! thousand bindings never falls to a publisher. Refuses to know how tables come about.

use std::sync::Arc;

use crate::{QueueHandle, Table};

/// Replaced tables, owned by the writer.
pub struct Retired<Q: QueueHandle> {
    tables: Vec<Arc<Table<Q>>>,
}

impl<Q: QueueHandle> Retired<Q> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { tables: Vec::new() }
    }

    /// Takes a table that [`crate::Exchange::publish`] gave back and frees nothing yet.
    pub fn keep(&mut self, table: Arc<Table<Q>>) {
        self.tables.push(table);
    }

    /// Takes a table that [`crate::Exchange::publish`] gave back and frees those that nobody reads any more. At most
    /// one is held per table that a reader still holds, plus this one.
    pub fn retire(&mut self, table: Arc<Table<Q>>) {
        self.tables.push(table);
        self.free();
    }

    /// Frees the tables that nobody reads any more and returns how many are left.
    pub fn free(&mut self) -> usize {
        drop(self.take_unread());
        self.tables.len()
    }

    /// Gives out the tables that nobody reads any more, for the caller to free where it disturbs nobody. Once replaced, a table has
    /// no new readers, and those that hold a guard were counted when it was replaced.
    pub fn take_unread(&mut self) -> Vec<Arc<Table<Q>>> {
        self.tables.extract_if(.., |table| Arc::strong_count(table) == 1).collect()
    }
}

impl<Q: QueueHandle> Default for Retired<Q> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use message::Table as Arguments;

    use super::*;
    use crate::{Destination, Exchange, ExchangeKind};

    #[test]
    fn a_table_is_kept_until_its_readers_are_gone() {
        let exchange = Exchange::new(1, b"x", ExchangeKind::Direct);
        let mut retired = Retired::new();
        let reader = exchange.load();
        for queue in 0..3u32 {
            let (_, old) =
                exchange.edit(|table| table.bind(b"k", Arguments::EMPTY, &Destination::Queue(queue)));
            retired.retire(old);
        }
        assert_eq!(retired.free(), 1);
        drop(reader);
        assert_eq!(retired.free(), 0);
    }
}
