//! Groups, assertions, options, comments and calls, which begin with a parenthesis. Refuses to know what is in them.

use super::translation::{Flags, NO_SUCH_GROUP, Open, Read, Reader, Reference};

const STRANGE: &str = "unrecognized character after (? or (?-";
const UNCLOSED: &str = "missing closing parenthesis";
const BAD_VERB: &str = "(*VERB) not recognized or malformed";
/// Verbs of PCRE2, as far as RabbitMQ takes them, that nothing here has words for.
const VERBS: [&str; 25] = [
    "ACCEPT",
    "ANY",
    "ANYCRLF",
    "BSR_ANYCRLF",
    "BSR_UNICODE",
    "COMMIT",
    "CR",
    "CRLF",
    "LF",
    "LIMIT_DEPTH",
    "LIMIT_HEAP",
    "LIMIT_MATCH",
    "LIMIT_RECURSION",
    "MARK",
    "NOTEMPTY",
    "NO_AUTO_POSSESS",
    "NO_JIT",
    "NO_START_OPT",
    "NUL",
    "PRUNE",
    "SKIP",
    "THEN",
    "UCP",
    "UTF",
    "UTF8",
];
const NO_MATCH: &str = "[^\\x00-\\xFF]";

impl Reader<'_> {
    /// After a `(`.
    pub(super) fn group(&mut self) -> Read<()> {
        if self.peek() == Some(b'*') && self.pattern.get(self.at + 1).is_some_and(u8::is_ascii_alphabetic) {
            return self.verb();
        }
        if !self.takes("?") {
            match self.flags.captures_names_only {
                true => self.opens("(?:"),
                false => {
                    self.group_count += 1;
                    self.opens("(");
                }
            }
            return Ok(());
        }
        for (is_written, writes) in
            [(":", "(?:"), (">", "(?>"), ("=", "(?="), ("!", "(?!"), ("<=", "(?<="), ("<!", "(?<!")]
        {
            if self.takes(is_written) {
                self.opens(writes);
                return Ok(());
            }
        }
        match self.next() {
            None => self.problem(UNCLOSED),
            Some(b'|') => {
                self.resets_branches = true;
                self.opens("(?:");
                Ok(())
            }
            Some(b'#') => {
                self.take_while(|it| it != b')');
                if self.takes(")") { Ok(()) } else { self.problem("missing ) after (?# comment") }
            }
            Some(b'<') => self.named(">"),
            Some(b'\'') => self.named("'"),
            Some(b'P') => self.as_in_python(),
            Some(b'(') => self.conditional(),
            Some(b'&') => self.call_by_name(")"),
            Some(b'R') => self.call(0),
            Some(b'C') => {
                self.take_while(|it| it.is_ascii_digit());
                self.closes()
            }
            Some(byte) => {
                self.at -= 1;
                let next = self.pattern.get(self.at + 1);
                match byte {
                    b'0'..=b'9' => self.call_by_number(),
                    b'+' | b'-' if next.is_some_and(u8::is_ascii_digit) => self.call_by_number(),
                    _ => self.options(),
                }
            }
        }
    }

    fn opens(&mut self, text: &str) {
        let assertion =
            matches!(text, "(?=" | "(?!" | "(?<=" | "(?<!").then_some((self.out.len(), self.group_count));
        self.open.push(Open { flags: self.flags, assertion });
        self.write(text, false);
    }

    fn closes(&mut self) -> Read<()> {
        if self.takes(")") { Ok(()) } else { self.problem(UNCLOSED) }
    }

    fn verb(&mut self) -> Read<()> {
        self.at += 1;
        let name = self.take_while(|it| it.is_ascii_alphanumeric() || it == b'_');
        match &*name {
            "FAIL" | "F" if self.takes(")") => {
                self.write(NO_MATCH, true);
                Ok(())
            }
            "FAIL" | "F" => self.problem(BAD_VERB),
            other if VERBS.contains(&other) => self.unsupported(&format!("(*{other})")),
            _ => self.problem(BAD_VERB),
        }
    }

    /// A name up to its end.
    pub(super) fn name(&mut self, end: &str) -> Read<String> {
        if self.peek().is_some_and(|it| it.is_ascii_digit()) {
            self.at += 1;
            return self.problem("subpattern name must start with a non-digit");
        }
        let name = self.take_while(|it| it.is_ascii_alphanumeric() || it == b'_');
        if name.is_empty() {
            return self.problem("subpattern name expected");
        }
        match self.takes(end) {
            true => Ok(name),
            false => self.problem("syntax error in subpattern name (missing terminator?)"),
        }
    }

    fn named(&mut self, end: &str) -> Read<()> {
        let name = self.name(end)?;
        if self.names.contains(&name) {
            return match self.flags.shares_names {
                true => self.unsupported("a name of two groups"),
                false => self.problem("two named subpatterns have the same name (PCRE2_DUPNAMES not set)"),
            };
        }
        self.group_count += 1;
        self.opens(&format!("(?<{name}>"));
        self.names.push(name);
        Ok(())
    }

    fn as_in_python(&mut self) -> Read<()> {
        match self.next() {
            None => self.problem(UNCLOSED),
            Some(b'<') => self.named(">"),
            Some(b'=') => {
                let at = self.at;
                let name = self.name(")")?;
                self.back_reference_by_name(name, at);
                Ok(())
            }
            Some(b'>') => self.call_by_name(")"),
            Some(_) => self.problem(STRANGE),
        }
    }

    /// `(?(1)`, `(?(<name>)`, `(?('name')`, `(?(name)`; or a condition that is an assertion. Read to the end for what is wrong with it, and
    /// not supported then: the engine goes back into conditions that a possessive quantifier has left, and forgets groups in calls.
    fn conditional(&mut self) -> Read<()> {
        let at = self.at;
        self.has_conditions = true;
        if self.peek() == Some(b'?') {
            let is_assertion = ["?=", "?!", "?<=", "?<!"]
                .iter()
                .find(|it| self.pattern[self.at..].starts_with(it.as_bytes()));
            let Some(assertion) = is_assertion else { return self.problem(STRANGE) };
            self.at += assertion.len();
            self.opens("(?:");
            self.opens(&format!("({assertion}"));
            return Ok(());
        }
        let digits = self.take_while(|it| it.is_ascii_digit());
        if let Ok(number) = digits.parse() {
            if !self.takes(")") {
                return self.problem("missing closing parenthesis for condition");
            }
            self.references.push(Reference::Number(number, at - 1));
            self.opens("(?:");
            return Ok(());
        }
        if self.peek().is_none() {
            return self.problem(UNCLOSED);
        }
        let end = if self.takes("<") {
            ">)"
        } else if self.takes("'") {
            "')"
        } else {
            ")"
        };
        let name = self.name(end)?;
        if !self.names.contains(&name) {
            return self.unsupported(&format!("the condition ({name})"));
        }
        self.opens("(?:");
        self.references.push(Reference::Name(name, at));
        Ok(())
    }

    fn call(&mut self, number: usize) -> Read<()> {
        let at = self.at;
        self.closes()?;
        self.references.push(Reference::Number(number, at));
        self.write(&format!("(?:\\g<{number}>)"), true);
        Ok(())
    }

    /// A number of a group, which may count from here, if one comes.
    pub(super) fn number(&mut self) -> Read<Option<usize>> {
        let sign = self.peek().filter(|it| matches!(it, b'+' | b'-'));
        self.at += usize::from(sign.is_some());
        let digits = self.take_while(|it| it.is_ascii_digit());
        let Ok(number) = digits.parse::<usize>() else { return Ok(None) };
        let number = match sign {
            None => Some(number),
            Some(b'+') => Some(self.group_count.saturating_add(number)),
            Some(_) => (self.group_count + 1).checked_sub(number).filter(|it| *it > 0),
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => self.problem(NO_SUCH_GROUP),
        }
    }

    fn call_by_number(&mut self) -> Read<()> {
        match self.number()? {
            Some(number) => self.call(number),
            None => self.problem(STRANGE),
        }
    }

    pub(super) fn call_by_name(&mut self, end: &str) -> Read<()> {
        let at = self.at;
        let name = self.name(end)?;
        self.write(&format!("(?:\\g<{name}>)"), true);
        self.references.push(Reference::Name(name, at));
        Ok(())
    }

    pub(super) fn back_reference_by_name(&mut self, name: String, at: usize) {
        self.write(&format!("(?:\\k<{name}>)"), true);
        self.references.push(Reference::Name(name, at));
    }

    /// `(?i)`, `(?i-s:`: those that change whether there is a match are kept, what `x` says is done here.
    fn options(&mut self) -> Read<()> {
        let mut flags = self.flags;
        let (mut on, mut off) = (String::new(), String::new());
        if self.takes("^") {
            flags = Flags::default();
            off.push_str("ims");
        }
        let mut is_on = true;
        loop {
            let letter = self.next();
            match letter {
                Some(b'-') if is_on => is_on = false,
                Some(byte @ (b'i' | b'm' | b's')) => {
                    off.retain(|it| it != char::from(byte));
                    if is_on { on.push(char::from(byte)) } else { off.push(char::from(byte)) }
                }
                Some(b'x') => {
                    flags.is_extended = is_on;
                    flags.is_extended_in_classes = self.takes("x") && is_on;
                }
                Some(b'n') => flags.captures_names_only = is_on,
                Some(b'J') => flags.shares_names = is_on,
                // Greed does not change whether there is a match, and all is ASCII as it is.
                Some(b'U' | b'r') => {}
                Some(b'a') => drop(self.take_while(|it| matches!(it, b'D' | b'S' | b'W' | b'P' | b'T'))),
                Some(b')' | b':') => return self.opted(&on, &off, flags, letter == Some(b':')),
                None => return self.problem(UNCLOSED),
                Some(_) => return self.problem(STRANGE),
            }
        }
    }

    fn opted(&mut self, on: &str, off: &str, flags: Flags, is_group: bool) -> Read<()> {
        let minus = if off.is_empty() { "" } else { "-" };
        match (is_group, on.is_empty() && off.is_empty()) {
            (true, _) => self.opens(&format!("(?{on}{minus}{off}:")),
            (false, true) => self.can_repeat = false,
            (false, false) => self.write(&format!("(?{on}{minus}{off})"), false),
        }
        self.flags = flags;
        Ok(())
    }
}
