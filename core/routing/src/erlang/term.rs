//! Erlang terms as text, as far as JMS clients write them: the compiled form of a selector.
//!
//! Accepts what RabbitMQ 4.3's reader of selectors accepts, and refuses with its words; refuses to know what the terms mean.

use std::fmt;

/// Deeper terms are refused.
const DEPTH_MAX: usize = 16;

/// The atoms that may occur.
const ATOMS: &[&str] = &[
    "ident",
    "not",
    "and",
    "or",
    "is_null",
    "not_null",
    "like",
    "not_like",
    "between",
    "not_between",
    "range",
    "=",
    "<>",
    ">",
    "<",
    ">=",
    "<=",
    "in",
    "not_in",
    "+",
    "-",
    "*",
    "/",
    "true",
    "false",
    "no_escape",
    "regex",
];

/// A term.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    /// One of a fixed list.
    Atom(&'static str),
    /// An integer. Larger ones are read as floats.
    Integer(i64),
    /// A finite float.
    Float(f64),
    /// `<<"...">>`, bytes.
    Binary(Box<[u8]>),
    /// `"..."`, which is a list of characters and equal to no binary.
    Characters(Box<[u8]>),
    /// `{...}`
    Tuple(Vec<Term>),
    /// `[...]`
    List(Vec<Term>),
}

/// In Erlang's notation.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, terms: &[Term]| {
            terms.iter().enumerate().try_for_each(|(at, term)| {
                f.write_str(if at > 0 { "," } else { "" })?;
                write!(f, "{term}")
            })
        };
        match self {
            Term::Atom(name) if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => {
                f.write_str(name)
            }
            Term::Atom(name) => write!(f, "'{name}'"),
            Term::Integer(number) => write!(f, "{number}"),
            Term::Float(number) => write!(f, "{number:?}"),
            Term::Binary(bytes) => write!(f, "<<{:?}>>", String::from_utf8_lossy(bytes)),
            Term::Characters(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Term::Tuple(terms) => {
                f.write_str("{")?;
                all(f, terms)?;
                f.write_str("}")
            }
            Term::List(terms) => {
                f.write_str("[")?;
                all(f, terms)?;
                f.write_str("]")
            }
        }
    }
}

/// Why a text is no term. `Display` gives RabbitMQ's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TermError {
    #[error("unexpected_end")]
    End,
    #[error("unexpected_character")]
    Character,
    #[error("trailing_characters")]
    Trailing,
    #[error("max_depth_exceeded")]
    Depth,
    #[error("invalid_term")]
    Number,
    #[error("invalid_binary")]
    Binary,
    #[error("expected_closing_binary")]
    BinaryEnd,
    #[error("unterminated_string")]
    StringEnd,
    #[error("unterminated_quoted_atom")]
    AtomEnd,
    #[error("expected_comma_or_closing_brace")]
    TupleEnd,
    #[error("expected_comma_or_closing_bracket")]
    ListEnd,
    #[error("{{disallowed_atom,{0:?}}}")]
    Atom(String),
}

/// Reads one term, with or without a full stop behind it.
pub(crate) fn parse(text: &[u8]) -> Result<Term, TermError> {
    let mut reader = Reader { rest: text };
    let term = reader.term(0)?;
    reader.skip_space();
    reader.takes(b'.');
    reader.skip_space();
    if reader.rest.is_empty() { Ok(term) } else { Err(TermError::Trailing) }
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes that byte if it comes next.
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> &[u8] {
        let len = self.rest.iter().position(|&byte| !fits(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn term(&mut self, depth: usize) -> Result<Term, TermError> {
        if depth > DEPTH_MAX {
            return Err(TermError::Depth);
        }
        self.skip_space();
        match *self.rest {
            [] => Err(TermError::End),
            [b'{', ..] => self.sequence(b'}', TermError::TupleEnd, depth).map(Term::Tuple),
            [b'[', ..] => self.sequence(b']', TermError::ListEnd, depth).map(Term::List),
            [b'<', b'<', ..] => self.binary(),
            [b'"', ..] => self.quoted(b'"', TermError::StringEnd).map(|text| Term::Characters(text.into())),
            [b'\'', ..] => self.quoted(b'\'', TermError::AtomEnd).and_then(|name| atom(&name)),
            [sign @ (b'-' | b'+'), ..] => {
                self.rest = &self.rest[1..];
                self.skip_space();
                self.number(if sign == b'-' { "-" } else { "" })
            }
            [b'0'..=b'9', ..] => self.number(""),
            [b'a'..=b'z', ..] => {
                atom(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'))
            }
            _ => Err(TermError::Character),
        }
    }

    fn sequence(&mut self, end: u8, unended: TermError, depth: usize) -> Result<Vec<Term>, TermError> {
        self.rest = &self.rest[1..];
        let mut terms = Vec::new();
        self.skip_space();
        if self.takes(end) {
            return Ok(terms);
        }
        loop {
            terms.push(self.term(depth + 1)?);
            self.skip_space();
            if self.takes(end) {
                return Ok(terms);
            }
            if !self.takes(b',') {
                return Err(unended);
            }
            self.skip_space();
            // A comma may stand before the end of a tuple.
            if end == b'}' && self.takes(end) {
                return Ok(terms);
            }
        }
    }

    fn binary(&mut self) -> Result<Term, TermError> {
        self.rest = &self.rest[2..];
        self.skip_space();
        let bytes = match self.rest.first() {
            Some(b'"') => self.quoted(b'"', TermError::StringEnd)?,
            Some(b'>') => Vec::new(),
            _ => return Err(TermError::Binary),
        };
        self.skip_space();
        if self.takes(b'>') && self.takes(b'>') {
            Ok(Term::Binary(bytes.into()))
        } else {
            Err(TermError::BinaryEnd)
        }
    }

    fn quoted(&mut self, quote: u8, unended: TermError) -> Result<Vec<u8>, TermError> {
        self.rest = &self.rest[1..];
        let mut bytes = Vec::new();
        loop {
            match self.next() {
                None => return Err(unended),
                Some(byte) if byte == quote => return Ok(bytes),
                Some(b'\\') => match self.next() {
                    None => return Err(unended),
                    Some(b'n') if quote == b'"' => bytes.push(b'\n'),
                    Some(b't') if quote == b'"' => bytes.push(b'\t'),
                    Some(b'r') if quote == b'"' => bytes.push(b'\r'),
                    Some(byte) => bytes.push(byte),
                },
                Some(byte) => bytes.push(byte),
            }
        }
    }

    fn digits(&mut self, into: &mut String) -> usize {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        into.extend(digits.iter().map(|&digit| char::from(digit)));
        digits.len()
    }

    fn number(&mut self, sign: &str) -> Result<Term, TermError> {
        let mut text = sign.to_owned();
        if self.digits(&mut text) == 0 {
            return Err(TermError::Character);
        }
        let is_float = matches!(self.rest, [b'.', b'0'..=b'9', ..]);
        if is_float {
            self.takes(b'.');
            text.push('.');
            self.digits(&mut text);
            if self.takes(b'e') || self.takes(b'E') {
                text.push('e');
                if self.takes(b'-') {
                    text.push('-');
                } else {
                    self.takes(b'+');
                }
                if self.digits(&mut text) == 0 {
                    return Err(TermError::Number);
                }
            }
        }
        match text.parse() {
            Ok(integer) if !is_float => Ok(Term::Integer(integer)),
            _ => {
                let float = text.parse().ok().filter(|float: &f64| float.is_finite());
                float.map(Term::Float).ok_or(TermError::Number)
            }
        }
    }
}

fn atom(name: &[u8]) -> Result<Term, TermError> {
    let known = ATOMS.iter().find(|atom| atom.as_bytes() == name);
    known.map(|atom| Term::Atom(atom)).ok_or_else(|| TermError::Atom(String::from_utf8_lossy(name).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_compiled_selector_is_read() {
        let text = br#" { 'and' , {'=', {ident, <<"a\"b">>}, -5 }, {in,{ident,<<"c">>},[<<"x">>, 1.5e2, "s", true]} } . "#;
        let ident = |name: &[u8]| Term::Tuple(vec![Term::Atom("ident"), Term::Binary(name.into())]);
        let list = vec![
            Term::Binary(b"x"[..].into()),
            Term::Float(150.0),
            Term::Characters(b"s"[..].into()),
            Term::Atom("true"),
        ];
        assert_eq!(
            parse(text),
            Ok(Term::Tuple(vec![
                Term::Atom("and"),
                Term::Tuple(vec![Term::Atom("="), ident(b"a\"b"), Term::Integer(-5)]),
                Term::Tuple(vec![Term::Atom("in"), ident(b"c"), Term::List(list)]),
            ]))
        );
        assert_eq!(parse(b"99999999999999999999"), Ok(Term::Float(1e20)));
        assert_eq!(parse(b"{<<>>,}"), Ok(Term::Tuple(vec![Term::Binary(Box::default())])));
    }

    #[test]
    fn terms_are_written_as_erlang_writes_them() {
        let text = r#"{'like',[1,2.0,<<"a">>],"s",'<>',{regex,no_escape},[]}"#;
        let written = parse(text.as_bytes()).map(|term| term.to_string());
        assert_eq!(written.as_deref(), Ok(r#"{like,[1,2.0,<<"a">>],"s",'<>',{regex,no_escape},[]}"#));
    }

    #[test]
    fn what_is_no_term_is_refused_in_rabbitmqs_words() {
        for (text, expected) in [
            ("", "unexpected_end"),
            ("{foo}", "{disallowed_atom,\"foo\"}"),
            ("[1,2", "expected_comma_or_closing_bracket"),
            ("[1;2]", "expected_comma_or_closing_bracket"),
            ("{ident;1}", "expected_comma_or_closing_brace"),
            ("Foo", "unexpected_character"),
            ("- x", "unexpected_character"),
            ("<<1,2>>", "invalid_binary"),
            ("<<\"abc>>", "unterminated_string"),
            ("\"abc", "unterminated_string"),
            ("'and", "unterminated_quoted_atom"),
            ("1.e5", "trailing_characters"),
            ("1.0e500", "invalid_term"),
            ("true false", "trailing_characters"),
            ("{{{{{{{{{{{{{{{{{{1}}}}}}}}}}}}}}}}}}", "max_depth_exceeded"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        let pieces =
            [&b"{"[..], b"[", b"<<\"", b"\"", b"'", b"1.", b"e", b"-", b",", b"\\", b">", b"and", b" "];
        let mut seed = 1_u32;
        for _ in 0..20_000 {
            let mut text = Vec::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.extend_from_slice(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let _ = parse(&text);
        }
    }
}
