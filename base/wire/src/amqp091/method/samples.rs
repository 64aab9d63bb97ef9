//! Field values for tests, made from what proptest generated; the macro builds one of each method from them.

use crate::amqp091::{ShortStr, Table, TableBuf};

/// Pools that fields are taken from in turn.
#[derive(Clone, Debug)]
pub(in crate::amqp091) struct Samples<'a> {
    numbers: &'a [u64],
    texts: &'a [String],
    tables: &'a [TableBuf],
    taken: usize,
}

impl<'a> Samples<'a> {
    /// None of the pools may be empty.
    pub(super) fn new(numbers: &'a [u64], texts: &'a [String], tables: &'a [TableBuf]) -> Self {
        Self { numbers, texts, tables, taken: 0 }
    }

    fn next<T>(&mut self, pool: &'a [T]) -> &'a T {
        self.taken += 1;
        &pool[self.taken % pool.len()]
    }
}

/// A field type that can be taken from the pools.
pub(in crate::amqp091) trait Sample<'a> {
    fn sample(samples: &mut Samples<'a>) -> Self;
}

macro_rules! number_samples {
    ($($number:ident),*) => { $(
        impl<'a> Sample<'a> for $number {
            fn sample(samples: &mut Samples<'a>) -> Self {
                let bytes = samples.next(samples.numbers).to_le_bytes();
                $number::from_le_bytes(*bytes.first_chunk().unwrap())
            }
        }
    )* };
}

number_samples!(u8, u16, u32, u64);

impl<'a> Sample<'a> for bool {
    fn sample(samples: &mut Samples<'a>) -> Self {
        samples.next(samples.numbers) % 2 == 1
    }
}

impl<'a> Sample<'a> for ShortStr<'a> {
    fn sample(samples: &mut Samples<'a>) -> Self {
        ShortStr::clipped(samples.next(samples.texts).as_bytes())
    }
}

impl<'a> Sample<'a> for &'a [u8] {
    fn sample(samples: &mut Samples<'a>) -> Self {
        samples.next(samples.texts).as_bytes()
    }
}

impl<'a> Sample<'a> for Table<'a> {
    fn sample(samples: &mut Samples<'a>) -> Self {
        samples.next(samples.tables).as_table()
    }
}
