//! SQL filters: an expression over header, properties and application properties, with SQL's three-valued logic
//! (AMQP Filter Expressions 1.0, section 6).
//!
//! Grammar, limits and results are those of RabbitMQ 4.3: arithmetic, comparisons, `AND`, `OR`, `NOT`, `LIKE`, `IN`, `IS NULL` and `UTC()`.

mod eval;
mod lexer;
mod parser;

use wire::amqp10::{Described, Value};

use super::like::Like;
use super::{Message, is_described_as};

/// Most characters of an expression.
const CHARS_MAX: usize = 4096;
/// Most tokens of an expression.
const TOKENS_MAX: usize = 200;

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Sql(Node);

/// Why an expression is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// It is described as something else, or is no string.
    #[error("it is no SQL filter")]
    NoSql,
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    NotText,
    /// It is longer than 4,096 characters or 200 tokens.
    #[error("it is too long")]
    TooLong,
    /// No token begins at this byte, or it is a word that means nothing here.
    #[error("byte {0} begins no token that is known here")]
    Token(usize),
    /// Something else must stand in place of the token that begins at this byte.
    #[error("something else must stand at byte {0}")]
    Syntax(usize),
    /// A pattern has a control character, or ends with its escape character.
    #[error("a pattern of LIKE is not valid")]
    Pattern,
}

/// A field of header or properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Priority,
    /// The name as it stands in property filters.
    Property(&'static [u8]),
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Bool(bool),
    Int(i128),
    Float(f64),
    Bytes(Box<[u8]>),
    Field(Field),
    ApplicationProperty(Box<[u8]>),
    Utc,
    Not(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Compare(Comparison, Box<[Node; 2]>),
    Calculate(Calculation, Box<[Node; 2]>),
    Plus(Box<Node>),
    Minus(Box<Node>),
    In(Box<Node>, Vec<Node>),
    IsNull(Box<Node>),
    Like(Box<Node>, Like),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calculation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Sql {
    /// Of a described value.
    ///
    /// # Errors
    /// See [`SqlError`].
    pub fn parse(described: &Described<'_>) -> Result<Sql, SqlError> {
        match described.value() {
            Some(Value::Str(text)) if is_described_as(described, "amqp:sql-filter", 0x120) => {
                Sql::compile(std::str::from_utf8(text).map_err(|_| SqlError::NotText)?)
            }
            _ => Err(SqlError::NoSql),
        }
    }

    /// Of an expression.
    ///
    /// # Errors
    /// See [`SqlError`].
    pub fn compile(text: &str) -> Result<Sql, SqlError> {
        // A character takes at least a byte.
        if text.len() > CHARS_MAX && text.chars().count() > CHARS_MAX {
            return Err(SqlError::TooLong);
        }
        let tokens = lexer::tokens(text)?;
        if tokens.len() > TOKENS_MAX {
            return Err(SqlError::TooLong);
        }
        parser::parse(&tokens, text.len()).map(Sql)
    }

    pub(super) fn passes(&self, message: &Message<'_>, now_ms: u64) -> bool {
        eval::is_true(&self.0, message, now_ms)
    }
}
