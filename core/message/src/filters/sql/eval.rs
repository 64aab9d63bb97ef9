//! The value of an expression for a message. Whatever cannot be compared or calculated is unknown or false, never an error.

use std::cmp::Ordering;

use super::super::Message;
use super::super::properties::field;
use super::super::scalar::Scalar;
use super::{Calculation, Comparison, Field, Node};

/// Priority of a message that says nothing of one.
const PRIORITY_DEFAULT: i128 = 4;

/// Whether the expression is true: neither false nor unknown.
pub(super) fn is_true(node: &Node, message: &Message<'_>, now_ms: u64) -> bool {
    matches!(Context { message, now_ms }.eval(node), Scalar::Bool(true))
}

struct Context<'c, 'm> {
    message: &'c Message<'m>,
    now_ms: u64,
}

impl<'c> Context<'c, '_> {
    fn eval(&self, node: &'c Node) -> Scalar<'c> {
        match node {
            Node::Bool(flag) => Scalar::Bool(*flag),
            Node::Int(number) => Scalar::Int(*number),
            Node::Float(number) => Scalar::Float(*number),
            Node::Bytes(bytes) => Scalar::Bytes(bytes),
            Node::Field(field) => self.field(*field),
            Node::ApplicationProperty(name) => {
                let value = self.message.application_properties.get(name);
                value.and_then(|value| Scalar::of(&value)).unwrap_or(Scalar::Unknown)
            }
            Node::Utc => Scalar::Int(self.now_ms.into()),
            Node::Not(inner) => truth(self.flag(inner).map(|flag| !flag)),
            Node::And(both) => truth(self.and(both)),
            Node::Or(both) => truth(self.or(both)),
            Node::Compare(comparison, both) => {
                truth(compare(*comparison, self.eval(&both[0]), self.eval(&both[1])))
            }
            Node::Calculate(calculation, both) => {
                calculate(*calculation, self.eval(&both[0]), self.eval(&both[1]))
            }
            Node::Plus(inner) => match self.eval(inner) {
                number @ (Scalar::Int(_) | Scalar::Float(_)) => number,
                _ => Scalar::Unknown,
            },
            Node::Minus(inner) => match self.eval(inner) {
                Scalar::Int(number) => number.checked_neg().map_or(Scalar::Unknown, Scalar::Int),
                Scalar::Float(number) => Scalar::Float(-number),
                _ => Scalar::Unknown,
            },
            Node::In(subject, list) => match self.eval(subject) {
                Scalar::Unknown => Scalar::Unknown,
                value => Scalar::Bool(list.iter().any(|other| self.eval(other).equals(&value))),
            },
            Node::IsNull(inner) => Scalar::Bool(matches!(self.eval(inner), Scalar::Unknown)),
            Node::Like(subject, like) => {
                let value = self.eval(subject);
                truth(value.bytes().and_then(|text| like.matches(text)))
            }
        }
    }

    fn field(&self, wanted: Field) -> Scalar<'c> {
        match wanted {
            Field::Property(name) => field(&self.message.properties, name),
            Field::Priority => {
                let header = self.message.header.priority.map(i128::from);
                let basic = || Some(self.message.annotations.get("x-basic-priority")?.as_i64()?.into());
                Scalar::Int(header.or_else(basic).unwrap_or(PRIORITY_DEFAULT))
            }
        }
    }

    /// A truth value; `None` is unknown.
    fn flag(&self, node: &'c Node) -> Option<bool> {
        match self.eval(node) {
            Scalar::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    fn and(&self, [left, right]: &'c [Node; 2]) -> Option<bool> {
        match self.flag(left) {
            Some(true) => self.flag(right),
            Some(false) => Some(false),
            None => self.flag(right).filter(|right| !right),
        }
    }

    fn or(&self, [left, right]: &'c [Node; 2]) -> Option<bool> {
        match self.flag(left) {
            Some(true) => Some(true),
            Some(false) => self.flag(right),
            None => self.flag(right).filter(|right| *right),
        }
    }
}

const fn truth(known: Option<bool>) -> Scalar<'static> {
    match known {
        Some(flag) => Scalar::Bool(flag),
        None => Scalar::Unknown,
    }
}

fn compare(comparison: Comparison, left: Scalar<'_>, right: Scalar<'_>) -> Option<bool> {
    if matches!(left, Scalar::Unknown) || matches!(right, Scalar::Unknown) {
        return None;
    }
    // Values of different kinds are unequal, and neither of them is the greater one.
    let order = left.order(&right);
    Some(match comparison {
        Comparison::Equal => left.equals(&right),
        Comparison::Unequal => !left.equals(&right),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
    })
}

fn calculate<'a>(calculation: Calculation, left: Scalar<'_>, right: Scalar<'_>) -> Scalar<'a> {
    let (Some(one), Some(other)) = (left.number(), right.number()) else { return Scalar::Unknown };
    let whole = match (calculation, left, right) {
        (Calculation::Add, Scalar::Int(one), Scalar::Int(other)) => one.checked_add(other),
        (Calculation::Subtract, Scalar::Int(one), Scalar::Int(other)) => one.checked_sub(other),
        (Calculation::Multiply, Scalar::Int(one), Scalar::Int(other)) => one.checked_mul(other),
        (Calculation::Remainder, Scalar::Int(one), Scalar::Int(other)) => one.checked_rem(other),
        _ => None,
    };
    if let Some(whole) = whole {
        return Scalar::Int(whole);
    }
    let number = match calculation {
        Calculation::Add => one + other,
        Calculation::Subtract => one - other,
        Calculation::Multiply => one * other,
        Calculation::Divide if other != 0.0 => one / other,
        Calculation::Divide | Calculation::Remainder => return Scalar::Unknown,
    };
    if number.is_finite() { Scalar::Float(number) } else { Scalar::Unknown }
}
