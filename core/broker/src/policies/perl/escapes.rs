//! Escapes, which begin with a backslash, outside classes and in them. Refuses to know groups.

use super::byte_set::ByteSet;
use super::translation::{Read, Reader, Reference};

const AT_END: &str = "\\ at end of pattern";
const OF_PERL_ONLY: &str = "PCRE2 does not support \\F, \\L, \\l, \\N{name}, \\U, or \\u";
const NO_DIGITS: &str = "digits missing after \\x or in \\x{} or \\o{} or \\N{U+}";

/// The meaning of an escape wherever it is.
pub(super) enum Escaped {
    Byte(u8),
    Set(ByteSet),
    /// This letter, with a meaning of its own.
    Special(u8),
}

impl Reader<'_> {
    /// After a backslash, outside classes.
    pub(super) fn escape(&mut self) -> Read<()> {
        if self.peek().is_some_and(|it| matches!(it, b'1'..=b'9')) && self.back_reference_by_digits()? {
            return Ok(());
        }
        match self.escaped()? {
            Escaped::Byte(byte) => self.literal(byte),
            Escaped::Set(set) => self.set(&set, false),
            Escaped::Special(letter) => return self.special(letter),
        }
        Ok(())
    }

    fn special(&mut self, letter: u8) -> Read<()> {
        match letter {
            b'b' | b'B' | b'A' | b'z' | b'Z' => self.write(&format!("\\{}", char::from(letter)), false),
            // Where a search begins, which is the begin of the name.
            b'G' => self.write("\\A", false),
            // It only moves where the match is said to begin.
            b'K' => self.can_repeat = false,
            b'N' => self.set(&ByteSet::of(|it| it != b'\n'), false),
            b'C' => self.set(&ByteSet::of(|_| true), false),
            b'R' => self.write("(?>\\x0D\\x0A|[\\x0A-\\x0D\\x85])", true),
            b'X' => self.write("(?>\\x0D\\x0A|[\\x00-\\xFF])", true),
            b'g' => return self.reference_or_call(),
            b'k' => {
                let at = self.at + 1;
                let end = match self.next() {
                    Some(b'{') => "}",
                    Some(b'<') => ">",
                    Some(b'\'') => "'",
                    other => {
                        self.at -= usize::from(other.is_some());
                        return self
                            .problem("\\k is not followed by a braced, angle-bracketed, or quoted name");
                    }
                };
                let name = self.name(end)?;
                self.back_reference_by_name(name, at);
            }
            b'Q' => {
                while let Some(byte) = self.quoted() {
                    self.literal(byte);
                }
            }
            b'E' => {}
            _ => return self.problem("unrecognized character follows \\"),
        }
        Ok(())
    }

    /// The next byte of a quotation; `None` at its end.
    pub(super) fn quoted(&mut self) -> Option<u8> {
        if self.takes("\\E") { None } else { self.next() }
    }

    /// After a backslash: its meaning outside classes and in them.
    pub(super) fn escaped(&mut self) -> Read<Escaped> {
        let Some(letter) = self.next() else { return self.problem(AT_END) };
        let byte = match letter {
            b'a' => 0x07,
            b'e' => 0x1B,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'c' => match self.next() {
                Some(byte @ b' '..=b'~') => byte.to_ascii_uppercase() ^ 0x40,
                _ => return self.problem("\\c at end of pattern"),
            },
            b'o' => self.octal_in_braces()?,
            b'x' => self.hexadecimal()?,
            b'0'..=b'7' => {
                self.at -= 1;
                self.octal()?
            }
            b'p' | b'P' => return self.property(letter == b'P').map(Escaped::Set),
            b'N' if self.peek() == Some(b'{') && !self.is_repetition() => return self.by_name(),
            b'F' | b'L' | b'l' | b'U' | b'u' => return self.problem(OF_PERL_ONLY),
            letter if letter.is_ascii_alphabetic() => {
                return Ok(ByteSet::of_escape(letter).map_or(Escaped::Special(letter), Escaped::Set));
            }
            other => other,
        };
        Ok(Escaped::Byte(byte))
    }

    /// After `\N`: a character by its number in Unicode, or its name.
    fn by_name(&mut self) -> Read<Escaped> {
        self.at += 1;
        if !self.takes("U+") {
            return self.problem(OF_PERL_ONLY);
        }
        self.take_while(|it| it.is_ascii_hexdigit());
        self.takes("}");
        self.problem("\\N{U+dddd} is supported only in Unicode (UTF) mode")
    }

    fn is_repetition(&self) -> bool {
        let rest = &self.pattern[self.at + 1..];
        let len = rest.iter().take_while(|it| it.is_ascii_digit() || matches!(it, b',' | b' ')).count();
        rest.get(len) == Some(&b'}') && rest[..len].iter().any(u8::is_ascii_digit)
    }

    /// Up to three octal digits.
    fn octal(&mut self) -> Read<u8> {
        let rest = &self.pattern[self.at..];
        let len = rest.iter().take(3).take_while(|it| matches!(it, b'0'..=b'7')).count();
        let value = rest[..len].iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
        self.at += len;
        match u8::try_from(value) {
            Ok(byte) => Ok(byte),
            Err(_) => self.problem("octal value is greater than \\377 in 8-bit non-UTF-8 mode"),
        }
    }

    fn octal_in_braces(&mut self) -> Read<u8> {
        if !self.takes("{") {
            return self.problem("missing opening brace after \\o");
        }
        let digits = self.take_while(|it| matches!(it, b'0'..=b'7'));
        self.number_in_braces(&digits, 8, "non-octal character in \\o{} (closing brace missing?)")
    }

    fn hexadecimal(&mut self) -> Read<u8> {
        if self.takes("{") {
            let digits = self.take_while(|it| it.is_ascii_hexdigit());
            return self.number_in_braces(&digits, 16, "non-hex character in \\x{} (closing brace missing?)");
        }
        let rest = &self.pattern[self.at..];
        let len = rest.iter().take(2).take_while(|it| it.is_ascii_hexdigit()).count();
        let digits = String::from_utf8_lossy(&rest[..len]).into_owned();
        self.at += len;
        match u8::from_str_radix(&digits, 16) {
            Ok(byte) => Ok(byte),
            Err(_) => self.problem(NO_DIGITS),
        }
    }

    fn number_in_braces(&mut self, digits: &str, radix: u32, strange: &str) -> Read<u8> {
        match (digits, self.peek()) {
            ("", None | Some(b'}')) => return self.problem(NO_DIGITS),
            (_, Some(b'}')) => {}
            (_, other) => {
                self.at += usize::from(other.is_some());
                return self.problem(strange);
            }
        }
        let number = u8::from_str_radix(digits, radix);
        match number {
            Ok(byte) => {
                self.at += 1;
                Ok(byte)
            }
            Err(_) => self.problem("character code point value in \\x{} or \\o{} is too large"),
        }
    }

    fn property(&mut self, is_inverted: bool) -> Read<ByteSet> {
        let name = match self.next() {
            Some(b'{') => {
                let name = self.take_while(|it| it != b'}');
                if !self.takes("}") {
                    return self.problem("malformed \\P or \\p sequence");
                }
                name
            }
            Some(letter) if letter.is_ascii_alphabetic() => char::from(letter).to_string(),
            _ => return self.problem("malformed \\P or \\p sequence"),
        };
        match ByteSet::of_property(&name) {
            Some(set) => Ok(set.inverted_if(is_inverted)),
            None => self.problem("unknown property after \\P or \\p"),
        }
    }

    /// `\1`; whether it is one and not an octal number.
    fn back_reference_by_digits(&mut self) -> Read<bool> {
        let begin = self.at;
        let digits = self.take_while(|it| it.is_ascii_digit());
        let number = digits.parse::<usize>().unwrap_or(usize::MAX);
        if number < 10 || number <= self.group_count || digits.starts_with(['8', '9']) {
            self.back_reference(number);
            return Ok(true);
        }
        self.at = begin;
        Ok(false)
    }

    fn back_reference(&mut self, number: usize) {
        self.references.push(Reference::Number(number, self.at));
        self.write(&format!("(?:\\{number})"), true);
    }

    /// After `\g`: a back reference, or a call in the way of Oniguruma.
    fn reference_or_call(&mut self) -> Read<()> {
        let at = self.at + 1;
        let (end, is_call) = match self.peek() {
            Some(b'{') => ("}", false),
            Some(b'<') => (">", true),
            Some(b'\'') => ("'", true),
            Some(b'0'..=b'9' | b'+' | b'-') => ("", false),
            _ => {
                let text = "\\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number";
                return self.problem(text);
            }
        };
        self.at += end.len();
        let is_number = self.peek().is_some_and(|it| matches!(it, b'0'..=b'9' | b'+' | b'-'));
        if !is_number && is_call {
            return self.call_by_name(end);
        }
        if !is_number {
            let name = self.name(end)?;
            self.back_reference_by_name(name, at);
            return Ok(());
        }
        match self.number()? {
            Some(number) if self.takes(end) => match is_call {
                false => self.back_reference(number),
                true => {
                    self.references.push(Reference::Number(number, at));
                    self.write(&format!("(?:\\g<{number}>)"), true);
                }
            },
            _ => return self.problem("\\g is not followed by a number"),
        }
        Ok(())
    }
}
