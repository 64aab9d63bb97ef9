//! Patterns beside those of RabbitMQ: `seen.txt` has what it matched and what it said.

use crate::policies::pattern::{Pattern, policy_pattern_problem};

/// Patterns that RabbitMQ takes and we do not; docs/policies-and-limits.md tells of them.
const REFUSED: [&str; 25] = [
    "(*ANYCRLF)^b",
    "(*BSR_ANYCRLF)\\R",
    "(*COMMIT)b",
    "(*LIMIT_MATCH=1)a",
    "(*PRUNE)a",
    "(*THEN)a",
    "(*UCP)^\\w+$",
    "(*UTF8)a",
    "(*UTF8)ä",
    "(?*a)",
    "(?:a{1000}){1000}",
    "(?<=a\\1)(b)",
    "(?J)(?<n>a)|(?<n>b)x",
    "(?R)",
    "(?|(a)|(b))\\1",
    "[[:<:]]a",
    "[[:>:]]",
    "^(?(?=a)ab|x.*)$",
    "^(?:(a)|b)(?(1)b|c)",
    "^(?<c>a)?(?(<c>)b|x.*)$",
    "^(a)?(?(1)b|x.*)$",
    "a(*ACCEPT)b",
    "a(*SKIP)b",
    "a{0,65535}",
    "a{65535}",
];

/// Where it says of another place that it is wrong.
const ELSEWHERE: &str = "\\g{-2}(a)";

#[test]
fn patterns_match_what_they_match_in_rabbitmq_and_are_refused_in_its_words() {
    let mut lines = include_str!("seen.txt").lines().skip(1);
    let names: Vec<String> = lines.next().unwrap().split('\t').map(|it| it.replace('␤', "\n")).collect();
    let mut refused = Vec::new();
    for line in lines {
        let (pattern, seen) = line.rsplit_once('\t').unwrap();
        let problem = policy_pattern_problem(pattern);
        match (seen.split_once(' ').unwrap(), problem) {
            (("match", _), Some(_)) => refused.push(pattern),
            (("match", bits), None) => {
                let compiled = Pattern::new(pattern);
                let ours = names.iter().map(|it| if compiled.matches(it.as_bytes()) { '1' } else { '0' });
                assert_eq!(ours.collect::<String>(), bits, "{pattern}");
            }
            ((_, words), problem) => {
                let ours = problem.map(|it| format!("{} {}", it.position, it.text));
                assert!(
                    ours.as_deref() == Some(words) || pattern == ELSEWHERE,
                    "{pattern}: {ours:?}, {words}"
                );
            }
        }
    }
    refused.sort_unstable();
    assert_eq!(refused, REFUSED);
}

#[test]
fn whatever_is_written_is_a_pattern_or_has_a_problem() {
    const PIECES: [&str; 48] = [
        "a", "b", "ä", "(", ")", "[", "]", "{", "}", "|", "*", "+", "?", "^", "$", ".", "\\", "\\Q", "\\E",
        "\\p{", "L}", "\\pN", "(?", "(?:", "(?=", "(?<!", "(?<n>", "(?P=n)", "(?1)", "(?(1)", "(?|", "(?#",
        "\\1", "\\g{", "\\x{", "\\o{", "\\c", "\\N", "[:", "alpha", ":]", "-", ",", "2", "(*", "(?i", "x)",
        "\\k<",
    ];
    let mut seed = 7u64;
    let mut dice = |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % sides
    };
    let mut taken = 0;
    for _ in 0..20_000 {
        let pattern: String = (0..=dice(8)).map(|_| PIECES[dice(PIECES.len())]).collect();
        match policy_pattern_problem(&pattern) {
            Some(problem) => {
                assert!(problem.position <= pattern.len() && !problem.text.is_empty(), "{pattern}");
            }
            None => {
                taken += 1;
                Pattern::new(&pattern).matches(b"aab");
            }
        }
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn calls_of_groups_that_multiply_are_too_large() {
    let doubling: String = (1..40).map(|nth| format!("(?<g{nth}>(?&g{0})(?&g{0}))", nth - 1)).collect();
    let problem = policy_pattern_problem(&format!("(?<g0>ab){doubling}")).unwrap();
    assert_eq!(problem.text, "regular expression is too large");
}

#[test]
fn a_quantifier_of_a_class_after_an_assertion_is_of_the_class() {
    for pattern in ["^(?!x)[ab]+$", "^(?!x)(?:a|b)+$", "^(?!x)\\w+$"] {
        for len in [3, 30, 255] {
            assert!(Pattern::new(pattern).matches(&"ab".repeat(len).as_bytes()[..len]), "{pattern} {len}");
        }
    }
}

#[test]
fn what_may_repeat_not_at_all_after_an_assertion_leaves_the_assertion() {
    let matched = |pattern: &str, names: [&str; 6]| -> String {
        let compiled = Pattern::new(pattern);
        names.iter().map(|it| if compiled.matches(it.as_bytes()) { '1' } else { '0' }).collect()
    };
    for repeated in
        ["\\w*", "\\w?", "[a-z]*", "[a-z]?", "[^-]*", "\\w{0,9}", "\\S*?", "\\pL*+", "\\N{0}", "(?:\\w)*"]
    {
        let excluded = format!("^(?!orders){repeated}");
        let seen = matched(&excluded, ["orders", "orders-eu", "order", "billing", "", "-"]);
        assert_eq!(seen, "001111", "{excluded}");
        let wanted = format!("^(?=orders){repeated}");
        let seen = matched(&wanted, ["orders", "orders-eu", "order", "billing", "", "-"]);
        assert_eq!(seen, "110000", "{wanted}");
        let not_after = format!("^.(?<!-){repeated}");
        let seen = matched(&not_after, ["orders", "-orders", "o", "--", "", "-"]);
        assert_eq!(seen, "101000", "{not_after}");
    }
    for thrice in ["[a-z]{3}", "\\w{3}", "[^-]{3}", "[[:lower:]]{3}", "\\pL{3}+", "(?:[a-z]){3}"] {
        let excluded = format!("^(?!amq){thrice}$");
        assert_eq!(matched(&excluded, ["abc", "b", "amq", "abcd", "", "amqp"]), "100000", "{excluded}");
        let wanted = format!("^(?=a){thrice}$");
        assert_eq!(matched(&wanted, ["abc", "a", "amq", "bcd", "", "abcd"]), "101000", "{wanted}");
    }
}
