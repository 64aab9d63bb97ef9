//! Rules about the text of source files: their beginning, and forbidden words.

use super::tree::File;
use super::{Finding, Tree};

/// Layers whose crates are libraries: they neither print nor leave stubs.
const LIBRARIES: [&str; 4] = ["base/", "storage/", "core/", "edge/"];

/// Every Rust file opens with `//!`: what it is and what it refuses to know.
pub(crate) fn files_open_with_their_purpose(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(file, _)| !file.text.trim_start().starts_with("//!"))
        .map(|(file, _)| {
            Finding::new(&file.path, 1, "open the file with `//!`: what it is, what it refuses to know")
        })
        .collect()
}

/// `lib.rs` and `mod.rs` hold documentation, `mod` and `use`, so that a reader sees a crate's parts at a glance.
pub(crate) fn roots_hold_only_documentation_and_modules(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust() {
        if !file.path.ends_with("/src/lib.rs") && !file.path.ends_with("/mod.rs") {
            continue;
        }
        for function in code.functions() {
            let text = format!(
                "`{}` belongs in a module: {} holds documentation and modules only",
                function.name, file.path
            );
            findings.push(Finding::new(&file.path, function.line, text));
        }
    }
    findings
}

/// Libraries do not print, and nothing is left as a stub.
pub(crate) fn libraries_do_not_print_or_stub(tree: &Tree) -> Vec<Finding> {
    let prints = ["println!", "eprintln!", "print!", "eprint!"];
    let stubs = ["dbg!", "todo!", "unimplemented!"];
    let mut findings = Vec::new();
    for (file, code) in tree.rust().filter(|(file, _)| in_library(file)) {
        for word in prints.into_iter().chain(stubs) {
            let testing = |offset| is_test_file(file) || code.in_tests(offset);
            let found = code.words(word).filter(|offset| stubs.contains(&word) || !testing(*offset));
            findings.extend(found.map(|offset| {
                Finding::new(
                    &file.path,
                    code.line(offset),
                    format!("`{word}` in a library; return it, or use tracing"),
                )
            }));
        }
    }
    findings
}

fn in_library(file: &File) -> bool {
    LIBRARIES.iter().any(|layer| file.path.starts_with(layer))
}

fn is_test_file(file: &File) -> bool {
    file.path.ends_with("tests.rs") || file.path.contains("/tests/") || file.path.contains("/benches/")
}

/// Written in two parts so that this file obeys the rule.
const NOTES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// A note about work to come names its issue, `(#12)`, or it is forgotten.
pub(crate) fn notes_name_an_issue(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| is_source(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            for word in NOTES {
                let forgotten = line.match_indices(word).any(|(offset, _)| is_note(line, offset, word));
                if forgotten {
                    let text = format!("{word} without an issue: write {word}(#N), or do it now");
                    findings.push(Finding::new(&file.path, index + 1, text));
                }
            }
        }
    }
    findings
}

fn is_note(line: &str, offset: usize, word: &str) -> bool {
    let before = line[..offset].chars().next_back();
    let after = &line[offset + word.len()..];
    let whole = !before.is_some_and(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
    let issue = after.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    let numbered = issue.is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    whole && !numbered
}

fn is_source(path: &str) -> bool {
    let endings =
        [".rs", ".py", ".sh", ".js", ".go", ".java", ".toml", ".yml", ".yaml", ".txt", "Makefile", ".ci/run"];
    endings.iter().any(|ending| path.ends_with(ending))
}

/// A lint is switched off with a reason, and best with `expect`, which notices when the reason has gone.
pub(crate) fn allows_give_a_reason(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust() {
        for attribute in ["[allow(", "[expect("] {
            for (offset, _) in code.text().match_indices(attribute) {
                let rest = &code.text()[offset..];
                let inside = rest.split_once(']').map_or(rest, |(inside, _)| inside);
                if code.text()[..offset].ends_with(['#', '!']) && !inside.contains("reason") {
                    let text = "a lint is switched off without a reason: #[expect(lint, reason = \"...\")]";
                    findings.push(Finding::new(&file.path, code.line(offset), text));
                }
            }
        }
    }
    findings
}

/// Folders of the machine somebody worked on; in two parts so that this file obeys the rule.
const MACHINE_PATHS: [&str; 3] = [concat!("/tm", "p/wt"), concat!("/wo", "rk/"), concat!("/tm", "p/target-")];

/// No file names a folder of the machine it was written on.
pub(crate) fn no_machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (index, line) in file.text.lines().enumerate() {
            for path in MACHINE_PATHS {
                let absolute = |offset: usize| {
                    !line[..offset]
                        .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'))
                };
                if line.match_indices(path).any(|(offset, _)| absolute(offset)) {
                    findings.push(Finding::new(
                        &file.path,
                        index + 1,
                        format!("`{path}` is a path of one machine"),
                    ));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&Tree) -> Vec<Finding>;

    /// How many findings `rule` has for one file.
    fn count(rule: Rule, path: &str, text: &str) -> usize {
        rule(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_file_without_its_purpose_is_found() {
        let rule = files_open_with_their_purpose;
        assert_eq!(count(rule, "base/a.rs", "use std;\n//! late"), 1);
        assert_eq!(count(rule, "base/a.rs", "//! What it is.\n"), 0);
        assert_eq!(count(rule, "a.md", "no Rust"), 0);
    }

    #[test]
    fn a_function_in_a_crate_root_is_found() {
        let rule = roots_hold_only_documentation_and_modules;
        assert_eq!(count(rule, "base/stdx/src/lib.rs", "mod a;\nfn b() {}"), 1);
        assert_eq!(count(rule, "base/stdx/src/x/mod.rs", "fn b() {}"), 1);
        assert_eq!(count(rule, "base/stdx/src/lib.rs", "//! fn a() {}\nmod a;\npub use a::B;"), 0);
        assert_eq!(count(rule, "base/stdx/src/model.rs", "fn b() {}"), 0);
    }

    #[test]
    fn printing_and_stubs_in_libraries_are_found() {
        let rule = libraries_do_not_print_or_stub;
        for word in ["println!", "eprintln!", "print!", "dbg!", "todo!", "unimplemented!"] {
            let text = format!("fn a() {{ {word}(); }}");
            assert_eq!(count(rule, "core/broker/src/a.rs", &text), 1, "{word}");
            assert_eq!(count(rule, "apps/warren/src/a.rs", &text), 0, "{word}");
        }
        assert_eq!(count(rule, "core/a.rs", "// println!()\nfn a() { my_println!(\"dbg!\") }"), 0);
        assert_eq!(count(rule, "core/a.rs", "#[cfg(test)]\nmod tests { fn a() { println!() } }"), 0);
        assert_eq!(count(rule, "core/a.rs", "#[cfg(test)]\nmod tests { fn a() { todo!() } }"), 1);
        assert_eq!(count(rule, "core/queues/src/tests.rs", "fn a() { println!() }"), 0);
    }

    #[test]
    fn a_note_without_an_issue_is_found() {
        let rule = notes_name_an_issue;
        for word in NOTES {
            assert_eq!(count(rule, "a.rs", &format!("// {word}: later")), 1);
            assert_eq!(count(rule, "Makefile", &format!("# {word}(#x) later")), 1);
            assert_eq!(count(rule, "a.py", &format!("# {word}(#12): later")), 0);
            assert_eq!(count(rule, "a.rs", &format!("// METHOD{word}S")), 0);
            assert_eq!(count(rule, "a.md", word), 0);
        }
    }

    #[test]
    fn a_lint_switched_off_without_a_reason_is_found() {
        let rule = allows_give_a_reason;
        assert_eq!(count(rule, "a.rs", "#[allow(dead_code)]\nfn a() {}"), 1);
        assert_eq!(count(rule, "a.rs", "#![allow(dead_code)]"), 1);
        assert_eq!(count(rule, "a.rs", "#[expect(dead_code)]"), 1);
        assert_eq!(count(rule, "a.rs", "#[expect(dead_code, reason = \"why\")]"), 0);
        assert_eq!(count(rule, "a.rs", "// #[allow(dead_code)]"), 0);
    }

    #[test]
    fn a_machine_path_is_found() {
        for path in MACHINE_PATHS {
            assert_eq!(count(no_machine_paths, "a.md", &format!("see {path}x")), 1);
            assert_eq!(count(no_machine_paths, "a.md", &format!("see net{path}")), 0);
        }
    }
}
