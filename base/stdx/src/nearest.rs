//! The known word that looks most like one that nobody knows. Refuses to know what the words are for.

/// The one of `known` that looks most like `word`, if not more than `close_enough` edits are between them.
#[must_use]
pub fn nearest_of<'a>(
    word: &str,
    close_enough: usize,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let measured = known.into_iter().map(|name| (name, distance(word, name)));
    measured
        .min_by_key(|(_, distance)| *distance)
        .filter(|(_, distance)| *distance <= close_enough)
        .map(|(name, _)| name)
}

/// Edits (insert, delete, replace, each 1) between two texts.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replace = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// How many edits a word may be away and still be a slip of the keyboard: a third of it, and never less than two.
#[must_use]
pub fn slips_max(word: &str) -> usize {
    (word.chars().count() / 3).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }

    #[test]
    fn a_slip_finds_its_word_and_a_guess_finds_none() {
        let known = ["messages", "messages_ready", "name"];
        assert_eq!(nearest_of("mesages", 2, known), Some("messages"));
        assert_eq!(nearest_of("consumers", slips_max("consumers"), known), None);
    }
}
