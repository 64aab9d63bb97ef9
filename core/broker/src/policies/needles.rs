//! Texts that a name must have in it somewhere for a pattern to match: so that of thousands of policies only a few are tried with each of
//! hundreds of thousands of names. Says less rather than too much. Refuses to know policies.

use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::{Hir, HirKind};

use super::perl::translated;

/// Beginnings of assertions as the translation writes them.
const ASSERTIONS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];

/// At how many places of a pattern needles are looked for.
const PLACES_MAX: usize = 32;

/// How many of them may stand for one another.
const ALTERNATIVES_MAX: usize = 32;

/// Longest needle, bytes.
const NEEDLE_BYTES_MAX: usize = 48;

/// Of these, one at least is in every name that the pattern matches; none when there is nothing to say.
pub(super) fn needles(pattern: &str) -> Vec<Box<[u8]>> {
    let Ok(translation) = translated(pattern) else { return Vec::new() };
    let Some(text) = without_assertions(&translation.text) else { return Vec::new() };
    let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(&text);
    let Ok(parsed) = parsed else { return Vec::new() };
    let mut found = vec![extracted(ExtractKind::Prefix, &parsed), extracted(ExtractKind::Suffix, &parsed)];
    // Whatever begins in the middle of a match is in the name, too.
    if let HirKind::Concat(parts) = parsed.kind() {
        let rests = (1..parts.len().min(PLACES_MAX)).map(|from| Hir::concat(parts[from..].to_vec()));
        found.extend(rests.map(|rest| extracted(ExtractKind::Prefix, &rest)));
    }
    found.into_iter().max_by_key(|needles| shortest(needles)).unwrap_or_default()
}

fn shortest(needles: &[Box<[u8]>]) -> usize {
    needles.iter().map(|needle| needle.len()).min().unwrap_or(0)
}

/// The texts that every match of it begins or ends with; nothing when that may be anything.
fn extracted(kind: ExtractKind, hir: &Hir) -> Vec<Box<[u8]>> {
    let mut extractor = Extractor::new();
    extractor.kind(kind).limit_literal_len(NEEDLE_BYTES_MAX).limit_total(ALTERNATIVES_MAX);
    let found: Seq = extractor.extract(hir);
    let needles = found.literals().unwrap_or_default();
    if needles.iter().any(|needle| needle.is_empty()) {
        return Vec::new();
    }
    needles.iter().map(|needle| needle.as_bytes().into()).collect()
}

/// The expression without its assertions, which matches whatever it matches with them, and more. `None` when they cannot be told
/// apart. The translation writes punctuation of names as numbers: its parentheses are groups.
fn without_assertions(text: &str) -> Option<String> {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(at) = ASSERTIONS.iter().filter_map(|it| rest.find(it)).min() {
        kept.push_str(&rest[..at]);
        rest = &rest[at + group_len(&rest[at..])?..];
    }
    kept.push_str(rest);
    Some(kept)
}

/// Bytes of the group that a text begins with.
fn group_len(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' if open == 1 => return Some(at + 1),
            b')' => open = open.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    fn of(pattern: &str) -> Vec<String> {
        needles(pattern).iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect()
    }

    #[test]
    fn the_letters_that_a_pattern_needs_are_found_wherever_they_stand() {
        for (pattern, expected) in [
            ("^tenant-17\\.", &["tenant-17."][..]),
            ("orders-17$", &["orders-17"]),
            ("^.*-orders-17.*$", &["-orders-17"]),
            ("^[a-z]+-17\\.(q|r)", &["-17.q", "-17.r"]),
            ("^(tenant-17|shop-17)\\.", &["tenant-17.", "shop-17."]),
            ("^(?!amq\\.)tenant-17(?=\\.)", &["tenant-17"]),
            ("(?<!dead)-letters$", &["-letters"]),
            ("^(?i)ab", &["AB", "Ab", "aB", "ab"]),
        ] {
            assert_eq!(of(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_pattern_that_may_do_without() {
        for pattern in ["", "^", ".*", "^(?!amq\\.)", "^[a-z]+$", "(abc)?", "abc|", "^(.)x?\\1$", "("] {
            assert_eq!(of(pattern), Vec::<String>::new(), "{pattern}");
        }
    }

    #[test]
    fn no_name_that_a_pattern_matches_lacks_all_needles() {
        let parts = [
            "a", "b?", "[ab]", "(a|bc)", ".*", "^", "$", "(?!a)", "(?=b)", "(?<=a)", "c+?", "(?i:B)", "|",
            "\\.", "(?>ab)", "a{2}",
        ];
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 33).unwrap() % bound
        };
        let (mut matched, mut needed) = (0, 0);
        for _ in 0..5_000 {
            let text: String = (0..1 + below(6)).map(|_| parts[below(parts.len())]).collect();
            let (pattern, needles) = (Pattern::new(&text), needles(&text));
            needed += usize::from(!needles.is_empty());
            for _ in 0..20 {
                let name: Vec<u8> = (0..below(7)).map(|_| b"abcB."[below(5)]).collect();
                let has_one = needles.iter().any(|it| name.windows(it.len()).any(|window| *window == **it));
                if pattern.matches(&name) {
                    matched += 1;
                    assert!(needles.is_empty() || has_one, "{text} {needles:?} {name:?}");
                }
            }
        }
        assert!(matched > 5_000 && needed > 1_000, "{matched} {needed}");
    }
}
