//! Words of topic keys, and whether a pattern of words matches them (B88).
//!
//! A key is `Some(bytes)` split on every dot, so `a.` is two words, the second one empty. No words at all is `None`: the
//! empty key, or what is left behind the last word. Refuses to know bindings.

/// Matches exactly one word.
pub(super) const STAR: &[u8] = b"*";
/// Matches any number of words, also none.
pub(super) const HASH: &[u8] = b"#";

/// The words of a whole key.
#[inline]
pub(super) const fn words_of(key: &[u8]) -> Option<&[u8]> {
    if key.is_empty() { None } else { Some(key) }
}

/// The first word and what is behind it.
#[inline]
pub(super) fn split(words: &[u8]) -> (&[u8], Option<&[u8]>) {
    match words.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&words[..dot], Some(&words[dot + 1..])),
        None => (words, None),
    }
}

/// All words of a key.
pub(super) fn each_word(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = words_of(key);
    std::iter::from_fn(move || {
        let (word, behind) = split(rest?);
        rest = behind;
        Some(word)
    })
}

/// Whether the pattern matches all of the words. Takes at most (words in the pattern) x (words) steps.
pub(super) fn matches(pattern: Option<&[u8]>, words: Option<&[u8]>) -> bool {
    matches_from(pattern, words, None)
}

/// Whether the pattern matches some ending of the words, as if `#` stood in front of it.
pub(super) fn matches_an_ending(pattern: Option<&[u8]>, words: Option<&[u8]>) -> bool {
    matches_from(pattern, words, Some((pattern, words)))
}

/// The pattern after the last `#`, and where in the words the next attempt to match it begins.
type Retry<'p, 'w> = Option<(Option<&'p [u8]>, Option<&'w [u8]>)>;

// As with `*` in file names: only the last `#` ever needs to take more words, because the earlier ones took as few as
// they could.
fn matches_from<'p, 'w>(
    mut pattern: Option<&'p [u8]>,
    mut words: Option<&'w [u8]>,
    mut retry: Retry<'p, 'w>,
) -> bool {
    loop {
        let fits = match (pattern.map(split), words.map(split)) {
            (Some((HASH, behind)), _) => {
                retry = Some((behind, words));
                pattern = behind;
                continue;
            }
            (Some((expected, behind)), Some((word, words_behind)))
                if expected == STAR || expected == word =>
            {
                Some((behind, words_behind))
            }
            (None, None) => return true,
            _ => None,
        };
        (pattern, words) = match (fits, retry) {
            (Some(rest), _) => rest,
            (None, Some((behind, Some(skipped)))) => {
                let shorter = split(skipped).1;
                retry = Some((behind, shorter));
                (behind, shorter)
            }
            (None, _) => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_matches(pattern: &str, key: &str) -> bool {
        matches(words_of(pattern.as_bytes()), words_of(key.as_bytes()))
    }

    #[test]
    fn the_empty_key_has_no_words_and_dots_make_empty_ones() {
        assert_eq!(each_word(b"").count(), 0);
        assert_eq!(each_word(b".").collect::<Vec<_>>(), [b"", b""]);
        assert_eq!(each_word(b"a..b").collect::<Vec<_>>(), [&b"a"[..], b"", b"b"]);
    }

    #[test]
    fn a_star_is_one_word_and_a_hash_any_number() {
        for (pattern, key) in [
            ("", ""),
            ("#", ""),
            ("#", "a"),
            ("#", "."),
            ("#.#", ""),
            ("*", "a"),
            ("*.*", "."),
            ("a.#", "a"),
            ("a.#", "a."),
            ("#.a", "a"),
            ("#.a", "a.b.a"),
            ("a.#.b", "a.b"),
            ("a.#.b.#.c", "a.x.b.b.c.c"),
            ("#.*", "a"),
            ("*.#", "a.b.c"),
            ("#.a.b.#.c", "a.a.b.c"),
        ] {
            assert!(key_matches(pattern, key), "{pattern} {key}");
        }
    }

    #[test]
    fn what_is_left_over_on_either_side_is_no_match() {
        for (pattern, key) in [
            ("", "a"),
            ("", "."),
            ("*", ""),
            ("*", "a.b"),
            ("*", "."),
            ("a", "a."),
            ("a.*", "a"),
            ("#.a", "a.b"),
            ("a.#.b", "a.c"),
            ("#.*", ""),
            ("a#", "ab"),
            ("##", "a"),
        ] {
            assert!(!key_matches(pattern, key), "{pattern} {key}");
        }
    }
}
