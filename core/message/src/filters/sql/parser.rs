//! Tokens to a tree. The number of tokens bounds its depth.

use super::lexer::Token;
use super::{Calculation, Like, Node, SqlError};

/// The tree of a whole expression.
pub(super) fn parse(tokens: &[(Token, usize)], end: usize) -> Result<Node, SqlError> {
    let mut parser = Parser { tokens, at: 0, end };
    let node = parser.or()?;
    if parser.at < tokens.len() { Err(parser.wrong()) } else { Ok(node) }
}

struct Parser<'t> {
    tokens: &'t [(Token, usize)],
    at: usize,
    end: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn wrong(&self) -> SqlError {
        SqlError::Syntax(self.tokens.get(self.at).map_or(self.end, |(_, at)| *at))
    }

    /// Passes over a token if it is this one.
    fn takes(&mut self, token: &Token) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }

    fn must(&mut self, token: &Token) -> Result<(), SqlError> {
        if self.takes(token) { Ok(()) } else { Err(self.wrong()) }
    }

    fn or(&mut self) -> Result<Node, SqlError> {
        let mut left = self.and()?;
        while self.takes(&Token::Or) {
            left = Node::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node, SqlError> {
        let mut left = self.not()?;
        while self.takes(&Token::And) {
            left = Node::And(Box::new([left, self.not()?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node, SqlError> {
        if self.takes(&Token::Not) {
            return Ok(Node::Not(Box::new(self.not()?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node, SqlError> {
        let start = self.at;
        let left = self.sum()?;
        let is_name = self.at == start + 1 && matches!(left, Node::Field(_) | Node::ApplicationProperty(_));
        if let Some(Token::Compare(comparison)) = self.peek() {
            self.at += 1;
            return Ok(Node::Compare(*comparison, Box::new([left, self.sum()?])));
        }
        if is_name && self.takes(&Token::Is) {
            let is_negated = self.takes(&Token::Not);
            self.must(&Token::Null)?;
            return Ok(negated(is_negated, Node::IsNull(Box::new(left))));
        }
        let is_negated = self.takes(&Token::Not);
        if self.takes(&Token::Like) {
            return Ok(negated(is_negated, self.like(left)?));
        }
        if self.takes(&Token::In) {
            return Ok(negated(is_negated, self.list(left)?));
        }
        if is_negated { Err(self.wrong()) } else { Ok(left) }
    }

    fn text(&mut self) -> Result<&'t str, SqlError> {
        let Some(Token::Text(text)) = self.peek() else { return Err(self.wrong()) };
        self.at += 1;
        Ok(text)
    }

    fn like(&mut self, subject: Node) -> Result<Node, SqlError> {
        let pattern = self.text()?;
        let mut escape = None;
        if self.takes(&Token::Escape) {
            let mut chars = self.text()?.chars();
            escape = chars.next();
            if escape.is_none() || chars.next().is_some() {
                return Err(SqlError::Pattern);
            }
        }
        let like = Like::parse(pattern, escape).ok_or(SqlError::Pattern)?;
        Ok(Node::Like(Box::new(subject), like))
    }

    fn list(&mut self, subject: Node) -> Result<Node, SqlError> {
        self.must(&Token::Open)?;
        let mut list = vec![self.sum()?];
        while self.takes(&Token::Comma) {
            list.push(self.sum()?);
        }
        self.must(&Token::Close)?;
        Ok(Node::In(Box::new(subject), list))
    }

    fn sum(&mut self) -> Result<Node, SqlError> {
        let mut left = self.product()?;
        loop {
            let calculation = match self.peek() {
                Some(Token::Plus) => Calculation::Add,
                Some(Token::Minus) => Calculation::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Node::Calculate(calculation, Box::new([left, self.product()?]));
        }
    }

    fn product(&mut self) -> Result<Node, SqlError> {
        let mut left = self.signed()?;
        while let Some(Token::Calculate(calculation)) = self.peek() {
            self.at += 1;
            left = Node::Calculate(*calculation, Box::new([left, self.signed()?]));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Node, SqlError> {
        if self.takes(&Token::Plus) {
            return Ok(Node::Plus(Box::new(self.primary()?)));
        }
        if self.takes(&Token::Minus) {
            return Ok(Node::Minus(Box::new(self.primary()?)));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Node, SqlError> {
        let node = match self.peek() {
            Some(Token::Bool(flag)) => Node::Bool(*flag),
            Some(Token::Int(number)) => Node::Int(*number),
            Some(Token::Float(number)) => Node::Float(*number),
            Some(Token::Text(text)) => Node::Bytes(text.as_bytes().into()),
            Some(Token::Binary(bytes)) => Node::Bytes(bytes.as_slice().into()),
            Some(Token::Field(field)) => Node::Field(*field),
            Some(Token::Name(name)) => Node::ApplicationProperty(name.clone()),
            Some(Token::Utc) => {
                self.at += 1;
                self.must(&Token::Open)?;
                self.must(&Token::Close)?;
                return Ok(Node::Utc);
            }
            Some(Token::Open) => {
                self.at += 1;
                let inner = self.or()?;
                self.must(&Token::Close)?;
                return Ok(inner);
            }
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(node)
    }
}

fn negated(is_negated: bool, node: Node) -> Node {
    if is_negated { Node::Not(Box::new(node)) } else { node }
}
