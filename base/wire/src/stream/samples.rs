//! Field values for tests, made from what proptest generated.

/// Pools that fields are taken from in turn.
#[derive(Clone, Debug)]
pub struct Samples<'a> {
    numbers: &'a [u64],
    texts: &'a [String],
    taken: usize,
}

impl<'a> Samples<'a> {
    /// None of the pools may be empty.
    pub(super) fn new(numbers: &'a [u64], texts: &'a [String]) -> Self {
        Self { numbers, texts, taken: 0 }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.taken += 1;
        self.numbers[self.taken % self.numbers.len()]
    }

    pub(super) fn text(&mut self) -> &'a str {
        self.taken += 1;
        &self.texts[self.taken % self.texts.len()]
    }
}
