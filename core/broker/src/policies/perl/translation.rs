//! Reads a pattern and writes it for the engines. Refuses to know groups, escapes and classes in detail.

use super::byte_set::ByteSet;
use crate::policies::pattern::PatternProblem;

/// Most repetitions that a quantifier can name.
const REPEAT_MAX: u32 = 65_535;

const NOT_REPEATABLE: &str = "quantifier does not follow a repeatable item";
pub(super) const NO_SUCH_GROUP: &str = "reference to non-existent subpattern";

/// Options that are on where the reader is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// `x`: blanks and comments are nothing.
    pub(super) is_extended: bool,
    /// `xx`: blanks in classes are nothing either.
    pub(super) is_extended_in_classes: bool,
    /// `n`: groups without a name capture nothing.
    pub(super) captures_names_only: bool,
    /// `J`: a name may be given twice.
    pub(super) shares_names: bool,
}

/// A group that is open.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// The options around it.
    pub(super) flags: Flags,
    /// Where it begins in what is written, and how many groups were before it, if it is an assertion.
    pub(super) assertion: Option<(usize, usize)>,
}

/// The translation that the engines get.
#[derive(Debug)]
pub(in crate::policies) struct Translation {
    pub(in crate::policies) text: String,
    /// An engine that does not know possessive quantifiers reads two in them.
    pub(in crate::policies) has_possessive: bool,
}

/// Which group something refers to, and where that was read.
#[derive(Debug)]
pub(super) enum Reference {
    Number(usize, usize),
    Name(String, usize),
}

/// The state of the translation so far.
#[derive(Debug, Default)]
pub(super) struct Reader<'p> {
    pub(super) pattern: &'p [u8],
    pub(super) at: usize,
    pub(super) out: String,
    pub(super) flags: Flags,
    pub(super) open: Vec<Open>,
    /// The assertion that has just ended.
    asserted: Option<(usize, usize)>,
    has_possessive: bool,
    pub(super) group_count: usize,
    pub(super) names: Vec<String>,
    pub(super) references: Vec<Reference>,
    pub(super) resets_branches: bool,
    pub(super) has_conditions: bool,
    /// Whether the reader is between `\Q` and `\E` in a class.
    pub(super) is_quoting: bool,
    /// Whether a quantifier may follow.
    pub(super) can_repeat: bool,
}

pub(super) type Read<T> = Result<T, PatternProblem>;

/// The pattern for engines that match bytes and know ASCII only.
///
/// # Errors
/// The fault that PCRE2 finds in it, in its words, or the part that this translation has no words for.
pub(in crate::policies) fn translated(pattern: &str) -> Read<Translation> {
    let mut reader = Reader { pattern: pattern.as_bytes(), ..Reader::default() };
    while let Some(byte) = reader.next() {
        reader.item(byte)?;
    }
    if !reader.open.is_empty() {
        return reader.problem("missing closing parenthesis");
    }
    reader.check_references()?;
    Ok(Translation { text: reader.out, has_possessive: reader.has_possessive })
}

impl Reader<'_> {
    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.pattern.get(self.at).copied()
    }

    /// Takes that, if it comes now.
    pub(super) fn takes(&mut self, expected: &str) -> bool {
        let comes = self.pattern[self.at..].starts_with(expected.as_bytes());
        self.at += if comes { expected.len() } else { 0 };
        comes
    }

    /// Takes characters as long as it is so.
    pub(super) fn take_while(&mut self, is_so: impl Fn(u8) -> bool) -> String {
        let len = self.pattern[self.at..].iter().take_while(|it| is_so(**it)).count();
        let taken = &self.pattern[self.at..self.at + len];
        self.at += len;
        String::from_utf8_lossy(taken).into_owned()
    }

    /// A fault that is noticed here.
    pub(super) fn problem<T>(&self, text: &str) -> Read<T> {
        Err(PatternProblem { text: text.into(), position: self.at })
    }

    /// A construct that the engines have no words for.
    pub(super) fn unsupported<T>(&self, what: &str) -> Read<T> {
        self.problem(&format!("{what} is not supported"))
    }

    fn item(&mut self, byte: u8) -> Read<()> {
        match byte {
            b'\\' => return self.escape(),
            b'[' => return self.class(),
            b'(' => return self.group(),
            b')' => match self.open.pop() {
                None => return self.problem("unmatched closing parenthesis"),
                Some(open) => {
                    self.flags = open.flags;
                    self.write(")", true);
                    self.asserted = open.assertion;
                }
            },
            b'*' | b'+' | b'?' => return self.quantifier(&char::from(byte).to_string()),
            b'{' => match self.repetition()? {
                Some(repetition) => return self.quantifier(&repetition),
                None => self.literal(byte),
            },
            b'|' | b'^' | b'$' => self.write(&char::from(byte).to_string(), false),
            b'.' => self.write(".", true),
            b'#' if self.flags.is_extended => drop(self.take_while(|it| it != b'\n')),
            b'\t'..=b'\r' | b' ' if self.flags.is_extended => {}
            other => self.literal(other),
        }
        Ok(())
    }

    pub(super) fn write(&mut self, text: &str, can_repeat: bool) {
        self.out.push_str(text);
        self.can_repeat = can_repeat;
        self.asserted = None;
    }

    pub(super) fn literal(&mut self, byte: u8) {
        match byte.is_ascii_alphanumeric() {
            true => self.write(&char::from(byte).to_string(), true),
            false => self.write(&format!("\\x{byte:02X}"), true),
        }
    }

    pub(super) fn set(&mut self, set: &ByteSet, is_inverted: bool) {
        let mut text = String::new();
        set.write(is_inverted, &mut text);
        self.write(&text, true);
    }

    /// After a `{`: its bounds, if it is a quantifier.
    fn repetition(&mut self) -> Read<Option<String>> {
        let begin = self.at;
        let blank = |it: u8| matches!(it, b' ' | b'\t');
        self.take_while(blank);
        let least = self.bound()?;
        self.take_while(blank);
        let has_comma = self.takes(",");
        self.take_while(blank);
        let most = if has_comma { self.bound()? } else { least };
        let is_in_order = most.is_none_or(|most| least.is_none_or(|least| least <= most));
        let end = self.at;
        self.take_while(blank);
        if (least.is_none() && most.is_none()) || !self.takes("}") {
            self.at = begin;
            return Ok(None);
        }
        if !is_in_order {
            self.at = end;
            return self.problem("numbers out of order in {} quantifier");
        }
        let least = least.unwrap_or(0);
        Ok(Some(match (has_comma, most) {
            (false, _) => format!("{{{least}}}"),
            (true, None) => format!("{{{least},}}"),
            (true, Some(most)) => format!("{{{least},{most}}}"),
        }))
    }

    fn bound(&mut self) -> Read<Option<u32>> {
        let digits = self.take_while(|it| it.is_ascii_digit());
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse().ok().filter(|it| *it <= REPEAT_MAX) {
            Some(number) => Ok(Some(number)),
            None => self.problem("number too big in {} quantifier"),
        }
    }

    fn quantifier(&mut self, text: &str) -> Read<()> {
        if !self.can_repeat {
            return self.problem(NOT_REPEATABLE);
        }
        let asserted = self.asserted;
        match asserted {
            None => self.write(text, false),
            // As good as once, or not at all.
            Some((begin, groups)) if groups == self.group_count => {
                let is_optional = matches!(text.as_bytes(), [b'*' | b'?', ..] | [b'{', b'0', ..]);
                self.out.truncate(if is_optional { begin } else { self.out.len() });
                self.write("", false);
            }
            Some(_) => return self.unsupported("a quantifier of an assertion with groups"),
        }
        match self.peek() {
            Some(b'?') => self.out.push_str(if asserted.is_none() { "?" } else { "" }),
            Some(b'+') if asserted.is_none() => {
                self.has_possessive = true;
                self.out.push('+');
            }
            Some(b'+') => {}
            _ => return Ok(()),
        }
        self.at += 1;
        Ok(())
    }

    /// Groups may be referred to before they are there.
    fn check_references(&mut self) -> Read<()> {
        for reference in &self.references {
            let (is_there, position) = match reference {
                Reference::Number(number, position) => (*number <= self.group_count, *position),
                Reference::Name(name, position) => (self.names.contains(name), *position),
            };
            if !is_there {
                return Err(PatternProblem { text: NO_SUCH_GROUP.into(), position });
            }
        }
        if self.resets_branches && !self.references.is_empty() {
            return self.unsupported("(?| together with a reference to a group");
        }
        if self.has_conditions {
            return self.unsupported("a condition, (?(...)yes|no),");
        }
        Ok(())
    }
}
