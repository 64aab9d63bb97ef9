//! Patterns as RabbitMQ's library, PCRE2, reads them: each byte of a name is a character, and only ASCII letters have a case.
//!
//! A pattern is read once and written for the engines. Features that they lack (`\Q..\E`, `\p{L}`, `(?|`, calls of groups by PCRE's names)
//! are written in other words, classes and escapes as sets of bytes. Parts that do not change whether there is a match are left out. Order
//! of reading: `translation` (the pattern), `groups` (what begins with a parenthesis), `escapes`, `classes`, `byte_set`. Refuses to know
//! how a match is searched.

mod byte_set;
mod classes;
mod escapes;
mod groups;
#[cfg(test)]
mod tests;
mod translation;

pub(super) use translation::{Translation, translated};
