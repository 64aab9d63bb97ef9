//! `LIKE` of JMS selectors: whether a text fits a pattern of literal bytes, `_` (any one byte) and `%` (any number of bytes).
//!
//! Also its form with a regular expression, which RabbitMQ takes and no client sends. Refuses to know expressions and headers. Never backtracks: what stands between two `%` is sought once, leftmost, behind what
//! was found before; no later place could let more fit.

use std::cell::Cell;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

/// Bytes that a compiled regular expression may take, and its cache; with [`REGEX_STEPS`] it bounds the time of a match.
const REGEX_BYTES_MAX: usize = 32 * 1024;

/// Steps for each byte of text that a regular expression looks at.
const REGEX_STEPS: usize = 64;

/// The steps that evaluating may still take, in bytes looked at. Runs out rather than holding up a connection's thread.
#[derive(Debug)]
pub(super) struct Steps(Cell<Option<u64>>);

impl Steps {
    pub(super) const fn new(step_count: u64) -> Self {
        Self(Cell::new(Some(step_count)))
    }

    /// Takes so many; says whether there were enough. Once there are not, there are never again.
    pub(super) fn take(&self, step_count: usize) -> bool {
        let left = self.0.get().and_then(|left| left.checked_sub(step_count as u64));
        self.0.set(left);
        left.is_some()
    }

    /// How many are left; `None` when more were asked for than there were.
    pub(super) const fn left(&self) -> Option<u64> {
        self.0.get()
    }
}

/// A pattern, cut at each `%`.
#[derive(Debug)]
pub(super) struct Like {
    /// The text begins with this.
    first: Piece,
    /// These follow in this order, anywhere.
    middle: Box<[Piece]>,
    /// The text ends with this; `None` of a pattern without `%`.
    last: Option<Piece>,
}

/// A regular expression that a whole text must match.
#[derive(Debug)]
pub(super) struct Whole(Regex);

impl Whole {
    /// Compiles a regular expression over bytes; `Err` is why it is none, in a few words. Look-around and back-references are not
    /// supported.
    pub(super) fn new(text: &[u8]) -> Result<Self, Box<str>> {
        let text = std::str::from_utf8(text).map_err(|_| "no UTF-8")?;
        let mut builder = RegexBuilder::new(text);
        builder.unicode(false).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).nest_limit(50);
        builder.build().map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "too large".into(),
            other => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").into()
            }
        })
    }

    /// Whether the first match is the whole text, as RabbitMQ asks; `false` when steps run out.
    pub(super) fn fits(&self, text: &[u8], steps: &Steps) -> bool {
        steps.take((text.len() + 1) * REGEX_STEPS)
            && self.0.find(text).is_some_and(|found| found.range() == (0..text.len()))
    }
}

#[derive(Debug)]
enum Piece {
    Literal(Box<[u8]>),
    /// Each a byte, or any byte.
    Mixed(Box<[Option<u8>]>),
}

impl Like {
    /// Reads a pattern. The byte behind `escape` stands for itself; an `escape` at the end does so too.
    pub(super) fn new(text: &[u8], escape: Option<u8>) -> Self {
        let (mut pieces, mut piece) = (Vec::new(), Vec::new());
        let mut rest = text.iter();
        while let Some(&byte) = rest.next() {
            match byte {
                byte if Some(byte) == escape => piece.push(Some(rest.next().copied().unwrap_or(byte))),
                b'_' => piece.push(None),
                b'%' => pieces.push(Piece::new(&std::mem::take(&mut piece))),
                byte => piece.push(Some(byte)),
            }
        }
        let end = Piece::new(&piece);
        if pieces.is_empty() {
            return Self { first: end, middle: Box::default(), last: None };
        }
        let first = pieces.remove(0);
        pieces.retain(|piece| piece.len() > 0);
        Self { first, middle: pieces.into(), last: Some(end) }
    }

    /// Whether the whole text fits. Takes as many steps as there are bytes in text and pattern, unless a piece with `_` nearly
    /// fits in many places; `false` when steps run out.
    pub(super) fn fits(&self, text: &[u8], steps: &Steps) -> bool {
        if steps.left().is_none() {
            return false;
        }
        let Some((start, rest)) = text.split_at_checked(self.first.len()) else { return false };
        let Some(last) = &self.last else { return rest.is_empty() && self.first.fits(start, steps) };
        let Some(between) = rest.len().checked_sub(last.len()) else { return false };
        let (mut rest, end) = rest.split_at(between);
        if !self.first.fits(start, steps) || !last.fits(end, steps) {
            return false;
        }
        self.middle.iter().all(|piece| match piece.find(rest, steps) {
            Some(at) => {
                rest = &rest[at + piece.len()..];
                true
            }
            None => false,
        })
    }
}

impl Piece {
    fn new(bytes: &[Option<u8>]) -> Self {
        let literal: Option<Box<[u8]>> = bytes.iter().copied().collect();
        literal.map_or_else(|| Self::Mixed(bytes.into()), Self::Literal)
    }

    const fn len(&self) -> usize {
        match self {
            Self::Literal(bytes) => bytes.len(),
            Self::Mixed(bytes) => bytes.len(),
        }
    }

    /// Whether it fits a text of its length.
    fn fits(&self, text: &[u8], steps: &Steps) -> bool {
        match self {
            Self::Literal(bytes) => steps.take(text.len()) && **bytes == *text,
            Self::Mixed(bytes) => {
                let fit =
                    |(wanted, found): &(&Option<u8>, &u8)| wanted.is_none_or(|wanted| wanted == **found);
                let fitting = bytes.iter().zip(text).take_while(fit).count();
                steps.take(fitting + 1) && fitting == bytes.len()
            }
        }
    }

    /// The leftmost place where it fits.
    fn find(&self, text: &[u8], steps: &Steps) -> Option<usize> {
        match self {
            Self::Literal(bytes) => {
                let found = memmem::find(text, bytes);
                steps.take(found.unwrap_or(text.len()) + bytes.len()).then_some(found)?
            }
            Self::Mixed(bytes) => {
                let mut places = text.windows(bytes.len()).enumerate();
                let (at, _) =
                    places.find(|(_, window)| self.fits(window, steps) || steps.left().is_none())?;
                steps.left().map(|_| at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        Like::new(pattern.as_bytes(), Some(b'!')).fits(text.as_bytes(), &Steps::new(10_000))
    }

    /// By the definition, piece by piece.
    fn fits_slowly(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'%', behind @ ..] => (0..=text.len()).any(|from| fits_slowly(behind, &text[from..])),
            [wanted, behind @ ..] => text.split_first().is_some_and(|(found, rest)| {
                (*wanted == b'_' || wanted == found) && fits_slowly(behind, rest)
            }),
        }
    }

    #[test]
    fn all_short_patterns_and_texts_fit_as_defined() {
        let words = |letters: &[u8], len_max: u32| -> Vec<Vec<u8>> {
            let count = letters.len();
            let word = |len: u32, number: usize| {
                (0..len).map(|at| letters[number / count.pow(at) % count]).collect::<Vec<u8>>()
            };
            (0..=len_max).flat_map(|len| (0..count.pow(len)).map(move |number| word(len, number))).collect()
        };
        let texts = words(b"ab", 6);
        for pattern in words(b"ab_%", 5) {
            let like = Like::new(&pattern, None);
            for text in &texts {
                let expected = fits_slowly(&pattern, text);
                assert_eq!(like.fits(text, &Steps::new(1000)), expected, "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn escaped_bytes_stand_for_themselves() {
        assert!(fits("5!%%", "5% off") && !fits("5!%%", "50 off"));
        assert!(fits("a!_b", "a_b") && !fits("a!_b", "axb") && fits("a!", "a!") && fits("!!", "!"));
    }

    #[test]
    fn a_regular_expression_matches_whole_texts_and_is_bounded() {
        let fits =
            |regex: &str, text: &[u8]| Whole::new(regex.as_bytes()).unwrap().fits(text, &Steps::new(1 << 20));
        assert!(
            fits("r.*|b", b"red")
                && fits("", b"")
                && fits("[\\d]+", b"12")
                && fits("\u{e4}", "\u{e4}".as_bytes())
        );
        assert!(!fits("r.", b"red") && !fits("ed", b"red") && !fits(".*", &[b'a'; 20_000]));
        let why = |regex: &[u8]| Whole::new(regex).unwrap_err();
        assert_eq!(&*why(b"["), "unclosed character class");
        assert_eq!(&*why(b"(?!a)"), "look-around, including look-ahead and look-behind, is not supported");
        assert_eq!(&*why(b"((a{1,100}){1,100}){1,100}"), "too large");
        assert_eq!(&*why(b"\xff"), "no UTF-8");
    }

    #[test]
    fn a_long_pattern_on_a_long_text_takes_steps_as_their_lengths() {
        let text = vec![b'a'; 120_000];
        let pattern = [b"%", &vec![b'a'; 60_000][..], b"b"].concat();
        let steps = Steps::new(1 << 20);
        assert!(!Like::new(&[&pattern[..], b"%"].concat(), None).fits(&text, &steps));
        assert!(!Like::new(&pattern, None).fits(&text, &steps));
        let many = Like::new(&b"%a".repeat(60_000), None);
        assert!(many.fits(&text, &steps));
        assert!(steps.left() > Some((1 << 20) - 600_000));
    }

    #[test]
    fn steps_run_out_where_any_bytes_make_a_piece_fit_nearly_everywhere() {
        let text = vec![b'a'; 120_000];
        let pattern = [b"%_", &vec![b'a'; 60_000][..], b"b%"].concat();
        let steps = Steps::new(1 << 20);
        assert!(!Like::new(&pattern, None).fits(&text, &steps));
        assert_eq!(steps.left(), None);
        assert!(!steps.take(0), "once out, they stay out");
    }
}
