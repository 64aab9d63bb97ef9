//! Rules about documents: ARCHITECTURE.md names what exists and every crate; links between documents resolve.

use super::{Finding, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Every path in backticks in ARCHITECTURE.md exists, and every crate is named there.
pub(crate) fn architecture_names_what_exists(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(ARCHITECTURE).unwrap_or_default();
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for path in backticked(line).filter(|word| is_path(word)) {
            if !tree.exists(path) {
                findings.push(Finding::new(ARCHITECTURE, index + 1, format!("`{path}` does not exist")));
            }
        }
    }
    for (folder, _) in tree.crates() {
        if !text.contains(&format!("`{folder}`")) {
            findings.push(Finding::new(ARCHITECTURE, 0, format!("the crate `{folder}` is not named")));
        }
    }
    findings
}

fn backticked(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A word with a `/`, or a file of the root by its ending; no blanks and no placeholders.
fn is_path(word: &str) -> bool {
    let plain =
        word.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '<' | '>' | '*'));
    let ending = [".rs", ".md", ".toml", ".txt", ".sh"].iter().any(|ending| word.ends_with(ending));
    plain && (word.contains('/') || ending) && word != "/" && !word.starts_with('.')
}

/// Relative links in Markdown lead to files that exist.
pub(crate) fn links_resolve(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path.ends_with(".md")) {
        let mut fenced = false;
        for (index, line) in file.text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            for target in links(line) {
                if resolve(&file.path, &target).is_none_or(|path| !path.is_empty() && !tree.exists(&path)) {
                    findings.push(Finding::new(
                        &file.path,
                        index + 1,
                        format!("the link to `{target}` leads nowhere"),
                    ));
                }
            }
        }
    }
    findings
}

/// Relative targets of `[text](target)` in a line, outside inline code.
fn links(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let relative =
        |target: &&str| !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#');
    targets.filter(relative).map(|target| target.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// The path a link leads to, relative to the root; `None` if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let count = |text: &str| {
            let files = [(ARCHITECTURE, text), ("base/stdx/src/lib.rs", ""), ("base/stdx/Cargo.toml", "")];
            architecture_names_what_exists(&Tree::of(&files)).len()
        };
        assert_eq!(count("see `base/stdx/src/lib.rs`, `base/stdx/` and `ARCHITECTURE.md`"), 0);
        assert_eq!(count("see `base/stdx/src/gone.rs`"), 1);
        assert_eq!(count("see `edge/<protocol>/publish.rs`"), 1);
        assert_eq!(count("see `GONE.md`"), 1);
        assert_eq!(count("call `cargo xtask tidy`, `a::b()` in vhost `/`"), 0);
    }

    #[test]
    fn a_crate_that_is_not_named_is_found() {
        let crate_of_ours = ("base/stdx/Cargo.toml", "[package]\nname = \"stdx\"");
        let named = [(ARCHITECTURE, "`base/stdx`: ids"), crate_of_ours];
        assert_eq!(architecture_names_what_exists(&Tree::of(&named)), []);
        let forgotten = [(ARCHITECTURE, "nothing"), crate_of_ours];
        assert_eq!(architecture_names_what_exists(&Tree::of(&forgotten)).len(), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let count = |text: &str| {
            links_resolve(&Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")])).len()
        };
        assert_eq!(
            count("[b](b.md) [r](../README.md#start) [x](https://x.y/z.md) [h](#here) [d](../docs/)"),
            0
        );
        assert_eq!(count("[gone](gone.md)"), 1);
        assert_eq!(count("[b](b.md) and [gone](../b.md)"), 1);
        assert_eq!(count("[out](../../b.md)"), 1);
        assert_eq!(count("`[code](gone.md)`\n```\n[fence](gone.md)\n```"), 0);
    }
}
