//! Rules about the prose of user pages: short sentences, and pages within their budget of words. Refuses to judge style.

use super::{Finding, Tree};

/// Most words of a sentence. The house aims at 25.
const SENTENCE_WORDS_MAX: usize = 35;

/// The checked pages, each with the most words it may have.
const PAGES: &[(&str, usize)] = &[
    ("CHANGELOG.md", 1_500),
    ("CONTRIBUTING.md", 1_200),
    ("README.md", 1_200),
    ("SECURITY.md", 500),
    ("docs/benchmarking.md", 2_500),
    ("docs/configuration.md", 13_400),
    ("docs/decisions/bodies-of-fanouts.md", 800),
    ("docs/decisions/heap-profiles.md", 400),
    ("docs/decisions/large-messages-in-one-buffer.md", 600),
    ("docs/decisions/raft-kernel.md", 900),
    ("docs/decisions/web-ui-bundle.md", 400),
    ("docs/formats/groups.md", 900),
    ("docs/formats/log.md", 2_000),
    ("docs/formats/metadata.md", 1_600),
    ("docs/formats/queue-records.md", 2_200),
    ("docs/formats/segment.md", 800),
    ("docs/installing.md", 1_200),
    ("docs/known-limits.md", 2_500),
    ("docs/management-api.md", 3_000),
    ("docs/migrating-from-rabbitmq.md", 2_200),
    ("docs/monitoring.md", 1_200),
    ("docs/operating.md", 2_500),
    ("docs/performance.md", 6_400),
    ("docs/policies-and-limits.md", 1_200),
    ("docs/profiling.md", 2_200),
    ("docs/routing.md", 2_000),
    ("docs/shovel.md", 1_000),
    ("docs/storage.md", 2_000),
    ("docs/tls.md", 1_800),
    ("docs/troubleshooting.md", 1_500),
    ("docs/ui.md", 1_200),
];

/// No checked page has a sentence of more than 35 words, and none has more words than its budget.
///
/// Code blocks and inline code are not prose. A list item, a heading and a cell of a table each begin a sentence.
pub(crate) fn pages_are_short(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, budget) in PAGES {
        let Some(text) = tree.text(path) else {
            findings.push(Finding::new(
                path,
                0,
                "this page is listed in xtask/src/tidy/prose.rs and is missing",
            ));
            continue;
        };
        let words = text.split_whitespace().count();
        if words > *budget {
            findings.push(Finding::new(path, 0, format!("{words} words; its budget is {budget}")));
        }
        for (line, words) in long_sentences(text) {
            let problem =
                format!("a sentence of {words} words; {SENTENCE_WORDS_MAX} are allowed: make it two");
            findings.push(Finding::new(path, line, problem));
        }
    }
    findings
}

/// The first line and the number of words of each sentence that is too long.
fn long_sentences(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut fenced = false;
    let (mut begin, mut words) = (0, 0);
    let mut end = |begin: usize, words: &mut usize| {
        if *words > SENTENCE_WORDS_MAX {
            found.push((begin, *words));
        }
        *words = 0;
    };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let fence = line.starts_with("```");
        fenced ^= fence;
        if fenced || fence || begins_anew(line) {
            end(begin, &mut words);
        }
        if fenced || fence {
            continue;
        }
        for word in prose(line).split_whitespace() {
            if word == "|" {
                end(begin, &mut words);
                continue;
            }
            if words == 0 {
                begin = index + 1;
            }
            words += usize::from(word.contains(char::is_alphanumeric));
            if word.trim_end_matches([')', '*', '_', '"']).ends_with(['.', '!', '?']) {
                end(begin, &mut words);
            }
        }
    }
    end(begin, &mut words);
    found
}

/// A line that does not go on with the sentence of the line before.
fn begins_anew(line: &str) -> bool {
    let numbered = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    line.is_empty() || numbered || ["- ", "* ", "#", "|", "<!--"].iter().any(|mark| line.starts_with(mark))
}

/// The line with each piece of inline code as one word, without the targets of links.
fn prose(line: &str) -> String {
    let pieces = line.split('`').enumerate();
    let words: String = pieces.map(|(index, piece)| if index % 2 == 1 { "code" } else { piece }).collect();
    let mut text = String::new();
    let mut rest = words.replace('|', " | ");
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map(|(_, behind)| behind).unwrap_or_default().to_owned();
    }
    text + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        long_sentences(text).len()
    }

    #[test]
    fn a_sentence_of_36_words_is_found() {
        assert_eq!(count(&"word ".repeat(35)), 0);
        assert_eq!(count(&"word ".repeat(36)), 1);
        assert_eq!(count(&"word\n".repeat(36)), 1);
        assert_eq!(long_sentences(&format!("One.\nTwo.\n\n{}", "word ".repeat(36))), [(4, 36)]);
    }

    #[test]
    fn sentences_end_at_marks_cells_items_and_blank_lines() {
        let half = "word ".repeat(20);
        for between in [". ", "? ", "\n\n", "\n- ", "\n2. ", " | ", ".) ", "\n# "] {
            assert_eq!(count(&format!("{}{between}{half}", half.trim_end())), 0, "{between:?}");
        }
        assert_eq!(count(&format!("{half}, {half}")), 1);
        assert_eq!(count(&format!("{half}; {half}")), 1);
    }

    #[test]
    fn code_and_targets_of_links_are_no_words() {
        let many = "word ".repeat(36);
        assert_eq!(count(&format!("```\n{many}\n```\n")), 0);
        assert_eq!(count(&format!("Call `{many}` now.")), 0);
        assert_eq!(count(&format!("{}[a](b.md) [c](d.md).", "word ".repeat(33))), 0);
        assert_eq!(count(&format!("{}[a](b.md) [c](d.md).", "word ".repeat(34))), 1);
    }

    #[test]
    fn a_page_beyond_its_budget_and_a_missing_page_are_found() {
        let (path, budget) = PAGES[0];
        let findings = |text: &str| {
            let tree = Tree::of(&[(path, text)]);
            pages_are_short(&tree).into_iter().filter(|finding| finding.to_string().starts_with(path)).count()
        };
        assert_eq!(findings(&"a. ".repeat(budget)), 0);
        assert_eq!(findings(&"a. ".repeat(budget + 1)), 1);
        assert!(!pages_are_short(&Tree::of(&[])).is_empty());
    }
}
