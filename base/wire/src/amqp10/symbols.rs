//! Fields that hold several symbols: null, one symbol, or an array of them (AMQP 1.0 part 1, section 1.4).

use super::compound::Array;
use super::field::Field;
use super::value::Value;
use super::writer::Writer;

/// Several symbols, such as capabilities. Equality is equality of the symbols.
#[derive(Clone, Copy, Debug)]
pub struct Symbols<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    One(&'a [u8]),
    Received(Array<'a>),
    Given(&'a [&'a str]),
}

impl<'a> Symbols<'a> {
    /// No symbols.
    pub const EMPTY: Self = Self(Source::Given(&[]));

    /// These symbols, which must be ASCII.
    #[must_use]
    pub const fn of(symbols: &'a [&'a str]) -> Self {
        Self(Source::Given(symbols))
    }

    /// The symbols in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (one, received, given) = match self.0 {
            Source::One(symbol) => (Some(symbol), None, &[][..]),
            Source::Received(array) => (None, Some(array), &[][..]),
            Source::Given(symbols) => (None, None, symbols),
        };
        let received = received.into_iter().flat_map(|array| array.elements());
        let received = received.map_while(|element| match element {
            Ok(Value::Symbol(symbol)) => Some(symbol),
            _ => None,
        });
        one.into_iter().chain(received).chain(given.iter().map(|symbol| symbol.as_bytes()))
    }

    /// Whether this symbol is one of them.
    #[must_use]
    pub fn contains(&self, symbol: &str) -> bool {
        self.iter().any(|candidate| candidate == symbol.as_bytes())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Default for Symbols<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Symbols<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// None is as good as an empty array.
impl<'a> Field<'a> for Symbols<'a> {
    fn absent() -> Option<Self> {
        Some(Self::EMPTY)
    }

    fn read(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Symbol(symbol) => Some(Self(Source::One(symbol))),
            Value::Array(array) => {
                let has_symbols = matches!(array.code(), 0xA3 | 0xB3) && array.descriptor().is_none();
                let is_read = value.validate().is_ok() && (has_symbols || array.is_empty());
                is_read.then_some(Self(Source::Received(array)))
            }
            _ => None,
        }
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.symbols(self.iter());
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        if samples.number().is_multiple_of(2) {
            Self(Source::One(samples.text().as_bytes()))
        } else {
            Self::EMPTY
        }
    }
}
