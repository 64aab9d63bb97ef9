//! The list of rules, and running it. Refuses to know any rule.

use super::circles::large_circles;
use super::{Finding, Tree, documents, layers, prose, ratchet, siblings, source, unsafety};
use anyhow::{Result, bail};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule of the house that a program checks.
const RULES: &[Rule] = &[
    layers::dependencies_point_down,
    layers::libraries_are_allowed,
    siblings::siblings_do_not_import_each_other,
    source::files_open_with_their_purpose,
    source::roots_hold_only_documentation_and_modules,
    source::libraries_do_not_print_or_stub,
    source::notes_name_an_issue,
    source::allows_give_a_reason,
    source::no_machine_paths,
    unsafety::unsafe_only_where_listed,
    ratchet::sizes_only_shrink,
    documents::architecture_names_what_exists,
    documents::links_resolve,
    prose::pages_are_short,
];

/// Runs every rule over the repository and prints what it found.
///
/// # Errors
/// If any rule found something, or the tree cannot be read.
pub(crate) fn check(root: &Path) -> Result<()> {
    let started = Instant::now();
    let tree = Tree::read(root)?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    findings.sort();
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    if !findings.is_empty() {
        bail!("tidy found {} problems", findings.len());
    }
    writeln!(out, "tidy: {} files, {} rules, {} ms", tree.len(), RULES.len(), started.elapsed().as_millis())?;
    Ok(())
}

/// Lowers the numbers of the ratchet to what they are, then checks.
///
/// # Errors
/// As [`check`].
pub(crate) fn tighten(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    std::fs::write(root.join(ratchet::FILE), ratchet::tightened(&tree))?;
    check(root)
}

/// Prints the files of every circle of imports that is too large.
///
/// # Errors
/// The tree cannot be read.
pub(crate) fn circles(root: &Path) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (folder, circles) in large_circles(&Tree::read(root)?) {
        for circle in circles {
            writeln!(out, "{folder}: {} files\n  {}", circle.len(), circle.join("\n  "))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo test` covers the house rules, too.
    #[test]
    fn this_repository_is_tidy() {
        check(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))).unwrap();
    }
}
