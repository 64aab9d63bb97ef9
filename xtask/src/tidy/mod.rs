//! `cargo xtask tidy`: the house rules that a program can check. Fast, plain text scanning, no compiler.
//!
//! One rule, one function from the [`Tree`] to [`Finding`]s; each rule has a test that shows it can fail. To add a rule,
//! write the function and add it to [`rules::RULES`].

mod circles;
mod code;
mod documents;
mod layers;
mod prose;
mod ratchet;
mod rules;
mod siblings;
mod source;
mod tree;
mod unsafety;

pub(crate) use rules::{check, circles, tighten};
pub(crate) use tree::{Finding, Tree};
