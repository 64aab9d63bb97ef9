//! Rust source reduced to what the rules look at: comments, strings and character literals blanked, lines kept; and the
//! functions and test modules in it, found by matching braces. Refuses to understand Rust any further.

/// A file's code.
pub(crate) struct Code {
    /// The text with every comment and literal replaced by blanks, line by line as in the file.
    text: String,
    /// Byte ranges of `#[cfg(test)]` items.
    tests: Vec<(usize, usize)>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Line of `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub(crate) lines: usize,
}

impl Code {
    /// Blanks comments and literals of `source`.
    pub(crate) fn new(source: &str) -> Self {
        let text = blanked(source);
        let tests = test_items(&text);
        Self { text, tests }
    }

    /// The blanked text; offsets and lines are those of the file (comments and literals count in characters).
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Line of an offset into [`Code::text`], from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// Whether the offset lies in a `#[cfg(test)]` item.
    pub(crate) fn in_tests(&self, offset: usize) -> bool {
        self.tests.iter().any(|(from, to)| (*from..*to).contains(&offset))
    }

    /// Offsets where `word` stands with no letter, digit or underscore on either side.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let free = |character: Option<char>| !character.is_some_and(|c| c.is_alphanumeric() || c == '_');
        self.text.match_indices(word).map(|(offset, _)| offset).filter(move |offset| {
            free(self.text[..*offset].chars().next_back())
                && (!word.ends_with(|c: char| c.is_alphanumeric())
                    || free(self.text[offset + word.len()..].chars().next()))
        })
    }

    /// Every function that has a body, nested ones included.
    pub(crate) fn functions(&self) -> Vec<Function> {
        self.words("fn").filter_map(|offset| self.function(offset)).collect()
    }

    fn function(&self, offset: usize) -> Option<Function> {
        let rest = self.text[offset + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            return None; // a function pointer's type
        }
        let open = body(&self.text, offset)?;
        let close = matching_brace(&self.text, open)?;
        let (line, last) = (self.line(offset), self.line(close));
        Some(Function { name, line, lines: last - line + 1 })
    }
}

/// Offset of the `{` that opens the body of the item at `from`, or `None` if a `;` comes first.
fn body(text: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, character) in text[from..].char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(from + offset),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Offset of the `}` that closes the `{` at `open`.
fn matching_brace(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, character) in text[open..].char_indices() {
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some(open + offset);
        }
    }
    None
}

fn test_items(text: &str) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    for (offset, _) in text.match_indices("#[cfg(test)]") {
        let end = body(text, offset).and_then(|open| matching_brace(text, open));
        items.push((offset, end.unwrap_or(offset)));
    }
    items
}

/// Replaces comments and literals by blanks, keeping line breaks.
fn blanked(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = literal_or_comment(rest, out.chars().next_back());
        if length > 0 {
            let (skipped, after) = rest.split_at(length);
            out.extend(skipped.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = after;
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Bytes of the comment or literal that `text` starts with; 0 if it starts with code. `before` is the character in front.
fn literal_or_comment(text: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment(text);
    }
    let unprefixed = if in_word { text } else { text.trim_start_matches(['b', 'c']) };
    let prefix = text.len() - unprefixed.len();
    if prefix <= 1 {
        if !in_word && unprefixed.starts_with('r') && unprefixed[1..].starts_with(['"', '#']) {
            return raw_string(&unprefixed[1..]).map_or(0, |length| prefix + 1 + length);
        }
        if unprefixed.starts_with('"') {
            return prefix + quoted(unprefixed, '"');
        }
        if unprefixed.starts_with('\'') {
            return character_literal(unprefixed).map_or(0, |length| prefix + length);
        }
    }
    0
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// `text` starts behind the `r`.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let inside = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(hashes + 1 + inside.find(&end).map_or(inside.len(), |at| at + end.len()))
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, character) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return offset + 1;
        }
    }
    text.len()
}

/// `'a'` and `'\n'` are literals, `'a` is a lifetime.
fn character_literal(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    let (_, first) = characters.next()?;
    if first == '\\' {
        return Some(quoted(text, '\''));
    }
    let (offset, second) = characters.next()?;
    (second == '\'').then_some(offset + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        for (source, code) in [
            ("a // fn b\nc", "a c"),
            ("a /* x /* y */ \n z */ b", "a b"),
            ("f(\"{ \\\" }\") {}", "f( ) {}"),
            ("f(r#\"a\" {\"#);", "f( );"),
            ("f(b\"{\", b'{', '\\'', '{')", "f( , , , )"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("let br = bar(r, b);", "let br = bar(r, b);"),
            ("\"open", ""),
        ] {
            let blanked = Code::new(source);
            assert_eq!(blanked.text().split_whitespace().collect::<Vec<_>>().join(" "), code, "{source}");
            assert_eq!(blanked.text().chars().count(), source.chars().count(), "{source}");
            assert_eq!(blanked.text().lines().count(), source.lines().count(), "{source}");
        }
    }

    #[test]
    fn functions_are_measured_from_their_first_line_to_their_last() {
        let source = "trait T {\n fn declared(&self);\n}\nfn a() { }\npub(crate) fn b(\n x: [u8; 3],\n) -> u8 {\n  fn c() {\n  }\n}\ntype F = fn(u8);\n";
        let found: Vec<_> =
            Code::new(source).functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("a".to_owned(), 4, 1), ("b".to_owned(), 5, 6), ("c".to_owned(), 8, 2)]);
    }

    #[test]
    fn test_modules_are_known_and_words_are_whole() {
        let source = "fn a() { unsafe {} unsafe_code(); }\n#[cfg(test)]\nmod tests {\n fn b() { unsafe {} }\n}\nfn c() {}";
        let code = Code::new(source);
        let words: Vec<_> =
            code.words("unsafe").map(|offset| (code.line(offset), code.in_tests(offset))).collect();
        assert_eq!(words, [(1, false), (4, true)]);
        assert!(!code.in_tests(source.find("fn c").unwrap()));
    }

    #[test]
    fn unfinished_source_is_read_without_panic() {
        for source in
            ["'", "'\\", "r#\"", "b'", "/*", "fn", "fn a(", "fn a() {", "\u{1F407}", "#[cfg(test)]", "br##"]
        {
            let code = Code::new(source);
            let _ = code.functions();
        }
    }
}
