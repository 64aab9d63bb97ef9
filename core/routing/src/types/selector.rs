//! JMS selectors in their compiled form: an expression over headers, with SQL's three-valued logic.
//!
//! Refuses to know bindings. A header that is missing, or of a type that JMS does not have, is `undefined`; an expression that RabbitMQ
//! crashes on (adding a text, dividing by a flag) selects nothing.

use std::borrow::Cow;
use std::cmp::Ordering;

use message::{Table as Headers, Value};

use super::like::{Like, Steps, Whole};
use crate::erlang::{Term, TermError, parse_term};

/// Steps that one selector may take on one message, in bytes looked at: a header of 128 KiB, eight times.
const STEPS_MAX: u64 = 1024 * 1024;

/// Steps that all selectors of an exchange may take on one message: some milliseconds.
pub(super) const STEPS_MAX_PER_MESSAGE: u64 = 16 * STEPS_MAX;

/// Why a selector is refused. `Display` gives RabbitMQ's words behind `invalid JMS selector`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SelectorError(#[from] Reason);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error(": {0}")]
    Term(#[from] TermError),
    #[error(" pattern: {{invalid_like_pattern,invalid_escape}}")]
    Escape,
    #[error(" pattern: {{invalid_like_pattern,{{not_a_binary_pattern,{0}}}}}")]
    Pattern(String),
    #[error(" pattern: {{invalid_regex,{0:?}}}")]
    Regex(Box<str>),
}

/// A selector.
#[derive(Debug)]
pub(crate) struct Selector(Expression);

#[derive(Debug)]
enum Expression {
    Constant(Term),
    Header(Box<[u8]>),
    Not(Box<Expression>),
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
    IsUndefined(Box<Expression>),
    Negative(Box<Expression>),
    Same(Box<Expression>),
    Like(Box<Expression>, Like),
    Matches(Box<Expression>, Whole),
    Between(Box<[Expression; 3]>),
    In(Box<Expression>, Vec<Term>),
    Operation(Operator, Box<[Expression; 2]>),
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Equal,
    Unequal,
    Greater,
    Less,
    AtLeast,
    AtMost,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// `LIKE`, with its pattern, or with the atom `regex` and a regular expression.
fn like(one: Box<Expression>, pattern: &Term, escape: &Term) -> Result<Expression, Reason> {
    let text = match (pattern, escape) {
        (Term::Atom("regex"), Term::Binary(text) | Term::Characters(text)) => {
            return Ok(Expression::Matches(one, Whole::new(text).map_err(Reason::Regex)?));
        }
        (Term::Atom("regex"), other) => return Err(Reason::Regex(format!("no text: {other}").into())),
        (Term::Binary(text), _) => text,
        (other, _) => return Err(Reason::Pattern(other.to_string())),
    };
    match escape {
        Term::Binary(escape) if escape.len() == 1 => {
            Ok(Expression::Like(one, Like::new(text, Some(escape[0]))))
        }
        Term::Atom("no_escape") => Ok(Expression::Like(one, Like::new(text, None))),
        _ => Err(Reason::Escape),
    }
}

/// The message that an expression is evaluated on.
struct Subject<'m> {
    headers: Headers<'m>,
    steps: Steps,
}

impl<'m> Subject<'m> {
    fn header(&self, name: &[u8]) -> Option<Value<'m>> {
        // A header is found by looking at those before it; a name's length is a byte.
        self.steps.take(1 + self.headers.raw().len() / 16).then(|| self.headers.get(name))?
    }
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
enum Outcome<'s> {
    Undefined,
    Flag(bool),
    Integer(i64),
    Float(f64),
    Text(Cow<'s, [u8]>),
    /// Nothing that selects or compares.
    Other,
}

impl Selector {
    /// Reads a selector.
    pub(crate) fn compile(text: &[u8]) -> Result<Self, SelectorError> {
        let term = parse_term(text).map_err(Reason::Term)?;
        Ok(Self(Expression::new(term)?))
    }

    /// Whether a message with these headers is selected. Takes what it looks at off `steps_left`; with too few left, or where
    /// one selector takes more than [`STEPS_MAX`], nothing is.
    pub(crate) fn selects(&self, headers: Headers<'_>, steps_left: &mut u64) -> bool {
        let allowed = STEPS_MAX.min(*steps_left);
        let message = Subject { headers, steps: Steps::new(allowed) };
        let selects = self.0.value(&message) == Outcome::Flag(true);
        *steps_left -= allowed - message.steps.left().unwrap_or(0);
        selects && message.steps.left().is_some()
    }
}

impl Expression {
    fn new(term: Term) -> Result<Self, Reason> {
        let Term::Tuple(parts) = term else { return Ok(Self::Constant(term)) };
        let mut parts = parts.into_iter();
        let parts = [parts.next(), parts.next(), parts.next(), parts.next(), parts.next()];
        let boxed = |term| Self::new(term).map(Box::new);
        let pair = |one, other| Ok::<_, Reason>(Box::new([Self::new(one)?, Self::new(other)?]));
        Ok(match parts {
            [Some(Term::Atom("ident")), Some(Term::Binary(name)), None, ..] => Self::Header(name),
            [Some(Term::Atom(verb)), Some(one), None, ..] => match verb {
                "not" => Self::Not(boxed(one)?),
                "is_null" => Self::IsUndefined(boxed(one)?),
                "not_null" => Self::Not(Box::new(Self::IsUndefined(boxed(one)?))),
                "-" => Self::Negative(boxed(one)?),
                "+" => Self::Same(boxed(one)?),
                _ => Self::nothing(),
            },
            [Some(Term::Atom("in")), Some(one), Some(Term::List(list)), None, _] => {
                Self::In(boxed(one)?, list)
            }
            [Some(Term::Atom("not_in")), Some(one), Some(Term::List(list)), None, _] => {
                Self::Not(Box::new(Self::In(boxed(one)?, list)))
            }
            [Some(Term::Atom(verb)), Some(one), Some(Term::Tuple(range)), None, _]
                if verb.ends_with("between") && range.first() == Some(&Term::Atom("range")) =>
            {
                let mut ends = range.into_iter().skip(1);
                let (Some(from), Some(to)) = (ends.next(), ends.next()) else { return Ok(Self::nothing()) };
                Self::between(verb, [one, from, to])?
            }
            [Some(Term::Atom("and")), Some(one), Some(other), None, _] => Self::And(pair(one, other)?),
            [Some(Term::Atom("or")), Some(one), Some(other), None, _] => Self::Or(pair(one, other)?),
            [Some(Term::Atom(verb)), Some(one), Some(other), None, _] => match operator(verb) {
                Some(operator) => Self::Operation(operator, pair(one, other)?),
                None => Self::nothing(),
            },
            [Some(Term::Atom(verb)), Some(one), Some(pattern), Some(escape), None] => match verb {
                "like" => like(boxed(one)?, &pattern, &escape)?,
                "not_like" => Self::Not(Box::new(like(boxed(one)?, &pattern, &escape)?)),
                verb => Self::between(verb, [one, pattern, escape])?,
            },
            _ => Self::nothing(),
        })
    }

    /// An expression that RabbitMQ lets pass and that selects nothing.
    const fn nothing() -> Self {
        Self::Constant(Term::Tuple(Vec::new()))
    }

    fn between(verb: &str, [one, from, to]: [Term; 3]) -> Result<Self, Reason> {
        let between = Self::Between(Box::new([Self::new(one)?, Self::new(from)?, Self::new(to)?]));
        Ok(match verb {
            "between" => between,
            "not_between" => Self::Not(Box::new(between)),
            _ => Self::nothing(),
        })
    }

    fn value<'s>(&'s self, message: &Subject<'s>) -> Outcome<'s> {
        match self {
            Self::Constant(term) => constant(term),
            Self::Header(name) => message.header(name).map_or(Outcome::Undefined, of_header),
            Self::Not(inner) => match inner.value(message) {
                Outcome::Flag(flag) => Outcome::Flag(!flag),
                _ => Outcome::Undefined,
            },
            Self::And(both) => flags(both, message, false),
            Self::Or(both) => flags(both, message, true),
            Self::IsUndefined(inner) => Outcome::Flag(inner.value(message) == Outcome::Undefined),
            Self::Negative(inner) => match inner.value(message) {
                Outcome::Integer(number) => Outcome::Integer(number.saturating_neg()),
                Outcome::Float(number) => Outcome::Float(-number),
                Outcome::Undefined => Outcome::Undefined,
                _ => Outcome::Other,
            },
            Self::Same(inner) => inner.value(message),
            Self::Like(inner, pattern) => match inner.value(message) {
                Outcome::Undefined => Outcome::Undefined,
                Outcome::Text(text) => Outcome::Flag(pattern.fits(&text, &message.steps)),
                _ => Outcome::Other,
            },
            Self::Matches(inner, regex) => match inner.value(message) {
                Outcome::Undefined => Outcome::Undefined,
                Outcome::Text(text) => Outcome::Flag(regex.fits(&text, &message.steps)),
                _ => Outcome::Other,
            },
            Self::Between(three) => {
                let [value, from, to] = three.each_ref().map(|part| part.value(message));
                if [&value, &from, &to].contains(&&Outcome::Undefined) {
                    return Outcome::Undefined;
                }
                let within = compare(&from, &value).zip(compare(&value, &to));
                within.map_or(Outcome::Other, |(low, high)| Outcome::Flag(low.is_le() && high.is_le()))
            }
            Self::In(inner, list) => match inner.value(message) {
                Outcome::Undefined => Outcome::Undefined,
                // Integers and floats differ here.
                value => Outcome::Flag(list.iter().any(|term| constant(term) == value)),
            },
            Self::Operation(operator, both) => {
                let [one, other] = both.each_ref().map(|part| part.value(message));
                if one == Outcome::Undefined || other == Outcome::Undefined {
                    return Outcome::Undefined;
                }
                operator.apply(&one, &other)
            }
        }
    }
}

/// `AND` (`deciding` is false) and `OR` (true): the deciding value decides, whatever the other one is.
fn flags<'s>(both: &'s [Expression; 2], message: &Subject<'s>, deciding: bool) -> Outcome<'s> {
    let values = both.each_ref().map(|part| part.value(message));
    if values.contains(&Outcome::Flag(deciding)) {
        Outcome::Flag(deciding)
    } else if values.iter().all(|value| *value == Outcome::Flag(!deciding)) {
        Outcome::Flag(!deciding)
    } else {
        Outcome::Undefined
    }
}

fn operator(verb: &str) -> Option<Operator> {
    Some(match verb {
        "=" => Operator::Equal,
        "<>" => Operator::Unequal,
        ">" => Operator::Greater,
        "<" => Operator::Less,
        ">=" => Operator::AtLeast,
        "<=" => Operator::AtMost,
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        _ => return None,
    })
}

impl Operator {
    fn apply<'s>(self, one: &Outcome<'_>, other: &Outcome<'_>) -> Outcome<'s> {
        let compared = |fits: fn(Ordering) -> bool| {
            compare(one, other).map_or(Outcome::Other, |ordering| Outcome::Flag(fits(ordering)))
        };
        match self {
            Self::Equal => compared(Ordering::is_eq),
            Self::Unequal => compared(Ordering::is_ne),
            Self::Greater => compared(Ordering::is_gt),
            Self::Less => compared(Ordering::is_lt),
            Self::AtLeast => compared(Ordering::is_ge),
            Self::AtMost => compared(Ordering::is_le),
            Self::Add | Self::Subtract | Self::Multiply | Self::Divide => self.calculate(one, other),
        }
    }

    /// Integers stay integers except in division, and while they fit 64 bits.
    fn calculate<'s>(self, one: &Outcome<'_>, other: &Outcome<'_>) -> Outcome<'s> {
        let exact = match (self, one, other) {
            (Self::Add, Outcome::Integer(one), Outcome::Integer(other)) => one.checked_add(*other),
            (Self::Subtract, Outcome::Integer(one), Outcome::Integer(other)) => one.checked_sub(*other),
            (Self::Multiply, Outcome::Integer(one), Outcome::Integer(other)) => one.checked_mul(*other),
            _ => None,
        };
        if let Some(exact) = exact {
            return Outcome::Integer(exact);
        }
        let (Some(one), Some(other)) = (number(one), number(other)) else { return Outcome::Other };
        let result = match self {
            Self::Add => one + other,
            Self::Subtract => one - other,
            Self::Multiply => one * other,
            _ => one / other,
        };
        if result.is_finite() { Outcome::Float(result) } else { Outcome::Other }
    }
}

fn number(value: &Outcome<'_>) -> Option<f64> {
    match value {
        Outcome::Integer(number) => Some(*number as f64),
        Outcome::Float(number) => Some(*number),
        _ => None,
    }
}

/// Erlang's order across types: numbers, then flags, then texts. `None` where there is no saying.
fn compare(one: &Outcome<'_>, other: &Outcome<'_>) -> Option<Ordering> {
    let class = |value: &Outcome<'_>| match value {
        Outcome::Integer(_) | Outcome::Float(_) => Some(0),
        Outcome::Flag(_) => Some(1),
        Outcome::Text(_) => Some(2),
        Outcome::Undefined | Outcome::Other => None,
    };
    match (one, other) {
        (Outcome::Integer(one), Outcome::Integer(other)) => Some(one.cmp(other)),
        (Outcome::Flag(one), Outcome::Flag(other)) => Some(one.cmp(other)),
        (Outcome::Text(one), Outcome::Text(other)) => Some(one.cmp(other)),
        _ => match (number(one), number(other)) {
            (Some(one), Some(other)) => one.partial_cmp(&other),
            _ => Some(class(one)?.cmp(&class(other)?)),
        },
    }
}

fn constant(term: &Term) -> Outcome<'_> {
    match term {
        Term::Atom("true") => Outcome::Flag(true),
        Term::Atom("false") => Outcome::Flag(false),
        Term::Integer(number) => Outcome::Integer(*number),
        Term::Float(number) => Outcome::Float(*number),
        Term::Binary(text) => Outcome::Text(Cow::Borrowed(text)),
        Term::Atom(_) | Term::Characters(_) | Term::Tuple(_) | Term::List(_) => Outcome::Other,
    }
}

fn of_header(value: Value<'_>) -> Outcome<'_> {
    match value {
        Value::LongStr(text) => Outcome::Text(Cow::Borrowed(text)),
        Value::Bool(flag) => Outcome::Flag(flag),
        other => match (other.as_i64(), other.as_f64()) {
            (Some(number), _) => Outcome::Integer(number),
            (None, Some(number)) => Outcome::Float(number),
            (None, None) => Outcome::Undefined,
        },
    }
}

#[cfg(test)]
mod tests {
    use message::TableBuf;

    use super::*;

    fn selects(selector: &str, headers: &TableBuf) -> bool {
        Selector::compile(selector.as_bytes())
            .unwrap()
            .selects(headers.as_table(), &mut STEPS_MAX_PER_MESSAGE.clone())
    }

    fn headers() -> TableBuf {
        let mut table = TableBuf::new();
        table.push_str("color", "dark-blue").push_i64("n", 5).push_bool("flag", true);
        table.push("x", Value::F64(2.5)).push("t", Value::Timestamp(7));
        table
    }

    #[test]
    fn selectors_select() {
        for selector in [
            "true",
            r#"{ident,<<"flag">>}."#,
            r#"{'=',{ident,<<"n">>},5.0}"#,
            r#"{'and',{'>',{ident,<<"n">>},4},{'<=',{ident,<<"x">>},2.5}}"#,
            r#"{'or',{ident,<<"missing">>},{'<>',{ident,<<"color">>},<<"red">>}}"#,
            r#"{like,{ident,<<"color">>},<<"d_rk%blue">>,no_escape}"#,
            r#"{not_like,{ident,<<"color">>},<<"dark!%">>,<<"!">>}"#,
            r#"{like,{ident,<<"color">>},regex,<<"dark-.*">>}"#,
            r#"{not_like,{ident,<<"color">>},regex,<<"dark">>}"#,
            r#"{between,{ident,<<"n">>},{range,1,5}}"#,
            r#"{not_between,{ident,<<"n">>},6,7}"#,
            r#"{in,{ident,<<"color">>},[<<"red">>,<<"dark-blue">>]}"#,
            r#"{not_in,{ident,<<"n">>},[5.0,6]}"#,
            r#"{is_null,{ident,<<"missing">>}}"#,
            r#"{is_null,{ident,<<"t">>}}"#,
            r#"{not_null,{ident,<<"n">>}}"#,
            r#"{'=',{'+',{'*',{ident,<<"n">>},2},{'-',1}},9}"#,
            r#"{'=',{'/',{ident,<<"n">>},2},{ident,<<"x">>}}"#,
            r#"{'>',{ident,<<"color">>},1000}"#,
        ] {
            assert!(selects(selector, &headers()), "{selector}");
        }
    }

    #[test]
    fn what_is_false_unknown_or_nonsense_selects_nothing() {
        for selector in [
            "false",
            "5",
            "{ident}",
            r#"{'not',{ident,<<"missing">>}}"#,
            r#"{'=',{ident,<<"missing">>},{ident,<<"missing">>}}"#,
            r#"{'<>',{ident,<<"missing">>},1}"#,
            r#"{'and',true,{ident,<<"missing">>}}"#,
            r#"{like,{ident,<<"color">>},<<"dark">>,no_escape}"#,
            r#"{like,{ident,<<"n">>},<<"5">>,no_escape}"#,
            r#"{'=',{'/',{ident,<<"n">>},0},0}"#,
            r#"{'=',{'+',{ident,<<"color">>},1},1}"#,
            r#"{between,{ident,<<"missing">>},{range,1,5}}"#,
            r#"{'like',1,2}"#,
        ] {
            assert!(!selects(selector, &headers()), "{selector}");
        }
    }

    #[test]
    fn a_selector_that_takes_too_long_selects_nothing_and_leaves_steps_for_others() {
        let mut table = TableBuf::new();
        table.push_str("h", "a".repeat(100_000)).push_str("color", "red");
        let pattern = format!("%_{}b%", "a".repeat(50_000));
        let costly = format!(r#"{{'or',true,{{like,{{ident,<<"h">>}},<<"{pattern}">>,no_escape}}}}"#);
        let costly = Selector::compile(costly.as_bytes()).unwrap();
        let cheap = Selector::compile(br#"{'=',{ident,<<"color">>},<<"red">>}"#).unwrap();
        let mut left = 2 * STEPS_MAX + 100_000;
        assert!(!costly.selects(table.as_table(), &mut left));
        assert!(cheap.selects(table.as_table(), &mut left));
        assert!(!costly.selects(table.as_table(), &mut left) && left < 100_000);
        left = 0;
        assert!(!cheap.selects(table.as_table(), &mut left));
        assert!(Selector::compile(b"true").unwrap().selects(table.as_table(), &mut left));
    }

    #[test]
    fn what_cannot_be_compiled_is_refused_in_rabbitmqs_words() {
        let error = |text: &str| Selector::compile(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(""), ": unexpected_end");
        let like = |rest: &str| error(&format!("{{'not',{{like,{{ident,<<\"a\">>}},{rest}}}}}"));
        assert_eq!(like("<<\"a\">>,<<\"ab\">>"), " pattern: {invalid_like_pattern,invalid_escape}");
        let no_binary =
            |shown: &str| format!(" pattern: {{invalid_like_pattern,{{not_a_binary_pattern,{shown}}}}}");
        assert_eq!(like("5,no_escape"), no_binary("5"));
        assert_eq!(like("{regex,<<\"r.*\">>},no_escape"), no_binary("{regex,<<\"r.*\">>}"));
        assert_eq!(like("regex,<<\"[\">>"), " pattern: {invalid_regex,\"unclosed character class\"}");
    }
}
