//! Text to tokens: the longest that fits, as RabbitMQ's scanner takes it.

use super::{Calculation, Comparison, Field, SqlError};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    And,
    Or,
    Not,
    Like,
    In,
    Is,
    Null,
    Escape,
    Utc,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Binary(Vec<u8>),
    Field(Field),
    Name(Box<[u8]>),
    Compare(Comparison),
    Plus,
    Minus,
    /// `*`, `/` and `%`.
    Calculate(Calculation),
    Open,
    Close,
    Comma,
}

/// Words that are no names, in any case.
const RESERVED: [&str; 20] = [
    "and",
    "or",
    "not",
    "like",
    "in",
    "is",
    "null",
    "escape",
    "true",
    "false",
    "exists",
    "nan",
    "inf",
    "lower",
    "upper",
    "left",
    "right",
    "substring",
    "utc",
    "date",
];

/// All tokens, each with the byte at which it begins.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, SqlError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with([' ', '\t', '\u{c}', '\n', '\r']) {
            at += 1;
            continue;
        }
        let (token, bytes) = token(rest).ok_or(SqlError::Token(at))?;
        tokens.push((token, at));
        at += bytes;
    }
    Ok(tokens)
}

/// The token at the front, and how many bytes it takes.
fn token(rest: &str) -> Option<(Token, usize)> {
    let first = rest.as_bytes()[0];
    match first {
        b'0'..=b'9' => number(rest),
        b'a'..=b'z' | b'A'..=b'Z' => word(rest),
        b'\'' | b'"' => quoted(rest, char::from(first)),
        b'[' => delimited(rest),
        _ => sign(rest),
    }
}

fn sign(rest: &str) -> Option<(Token, usize)> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
    let two = match rest.as_bytes().get(..2) {
        Some(b"<>" | b"!=") => Some(Unequal),
        Some(b">=") => Some(GreaterOrEqual),
        Some(b"<=") => Some(LessOrEqual),
        _ => None,
    };
    if let Some(two) = two {
        return Some((Token::Compare(two), 2));
    }
    let one = match rest.as_bytes()[0] {
        b'=' => Token::Compare(Equal),
        b'>' => Token::Compare(Greater),
        b'<' => Token::Compare(Less),
        b'+' => Token::Plus,
        b'-' => Token::Minus,
        b'*' => Token::Calculate(Calculation::Multiply),
        b'/' => Token::Calculate(Calculation::Divide),
        b'%' => Token::Calculate(Calculation::Remainder),
        b'(' => Token::Open,
        b')' => Token::Close,
        b',' => Token::Comma,
        _ => return None,
    };
    Some((one, 1))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn number(rest: &str) -> Option<(Token, usize)> {
    if let Some(hex) = rest.strip_prefix("0x") {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
        let pairs = hex.bytes().take_while(is_hex).count() / 2;
        if pairs > 0 {
            let byte = |pair: usize| u8::from_str_radix(&hex[2 * pair..2 * pair + 2], 16).ok();
            return Some((Token::Binary((0..pairs).filter_map(byte).collect()), 2 + 2 * pairs));
        }
    }
    let whole = digits(rest);
    let fraction = match rest[whole..].strip_prefix('.').map(digits) {
        None | Some(0) => return Some((Token::Int(rest[..whole].parse().ok()?), whole)),
        Some(fraction) => whole + 1 + fraction,
    };
    let exponent = rest[fraction..].strip_prefix('E').map_or(0, |exponent| {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        match digits(&exponent[sign..]) {
            0 => 0,
            digits => 1 + sign + digits,
        }
    });
    let end = fraction + exponent;
    let number = rest[..end].parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some((Token::Float(number), end))
}

fn name_bytes(text: &str) -> usize {
    match text.bytes().next() {
        Some(first) if first.is_ascii_alphabetic() => {
            text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
        }
        _ => 0,
    }
}

/// A keyword, a name, or a name of a section with a field behind it.
fn word(rest: &str) -> Option<(Token, usize)> {
    let section =
        rest.bytes().take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')).count();
    if let Some(field) = rest[section..].strip_prefix('.') {
        let bytes = name_bytes(field);
        if bytes > 0 {
            return Some((of_section(&rest[..section], &field[..bytes])?, section + 1 + bytes));
        }
    }
    let bytes = name_bytes(rest);
    let word = &rest[..bytes];
    let token = match word {
        "AND" => Token::And,
        "OR" => Token::Or,
        "NOT" => Token::Not,
        "LIKE" => Token::Like,
        "IN" => Token::In,
        "IS" => Token::Is,
        "NULL" => Token::Null,
        "ESCAPE" => Token::Escape,
        "TRUE" => Token::Bool(true),
        "FALSE" => Token::Bool(false),
        "UTC" => Token::Utc,
        _ if RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)) => return None,
        _ => Token::Name(word.as_bytes().into()),
    };
    Some((token, bytes))
}

fn of_section(section: &str, field: &str) -> Option<Token> {
    let property = |name: &'static str| Token::Field(Field::Property(name.as_bytes()));
    Some(match (section, field) {
        ("application_properties" | "a", field) => Token::Name(field.as_bytes().into()),
        ("header" | "h", "priority") => Token::Field(Field::Priority),
        ("properties" | "p", field) => property(match field {
            "message_id" => "message-id",
            "user_id" => "user-id",
            "to" => "to",
            "subject" => "subject",
            "reply_to" => "reply-to",
            "correlation_id" => "correlation-id",
            "content_type" => "content-type",
            "content_encoding" => "content-encoding",
            "absolute_expiry_time" => "absolute-expiry-time",
            "creation_time" => "creation-time",
            "group_id" => "group-id",
            "group_sequence" => "group-sequence",
            "reply_to_group_id" => "reply-to-group-id",
            _ => return None,
        }),
        _ => return None,
    })
}

/// A text in quotes; two of them within it are one.
fn quoted(rest: &str, quote: char) -> Option<(Token, usize)> {
    let mut at = 1;
    loop {
        at += rest[at..].find(quote)? + 1;
        if !rest[at..].starts_with(quote) {
            break;
        }
        at += 1;
    }
    let twice = [quote, quote].iter().collect::<String>();
    Some((Token::Text(rest[1..at - 1].replace(&twice, &quote.to_string())), at))
}

/// A name in brackets; brackets within it stand twice.
fn delimited(rest: &str) -> Option<(Token, usize)> {
    let bytes = rest.as_bytes();
    let mut name = Vec::new();
    let mut at = 1;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'[', Some(b'[')) | (b']', Some(b']')) => {
                name.push(bytes[at]);
                at += 2;
            }
            (b']', _) => break,
            (b'[', _) => return None,
            (byte, _) if byte.is_ascii_control() => return None,
            (byte, _) => {
                name.push(*byte);
                at += 1;
            }
        }
    }
    Some((Token::Name(name.into()), at + 1))
}
