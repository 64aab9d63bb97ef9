//! Sizes: functions of at most 70 lines, files of at most 800, circles of imports of at most 8 files. Larger ones stand in
//! `xtask/ratchet.txt` with their size, and those numbers may only go down.
//!
//! ```text
//! # kind  size  place
//! file    912   core/queues/src/classic.rs
//! fn      83    core/queues/src/classic.rs::drain
//! circle  61    core/broker
//! ```

use super::circles::{CIRCLE_FILES_MAX, large_circles};
use super::{Finding, Tree};
use std::collections::BTreeMap;

/// Where the exceptions stand.
pub(crate) const FILE: &str = "xtask/ratchet.txt";
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 800;

const HEAD: &str = "\
# Places that are larger than the house allows (functions 70 lines, files 800, circles of imports 8 files), with their size. The numbers may only go
# down: `cargo xtask tidy --tighten` lowers them and drops what has become small. A new line needs a good reason. A circle's size is the
# number of files of a crate in circles that are too large; `cargo xtask tidy --circles` names them.
# kind  size  place
";

/// The places that are too large: (kind, place) to size, in lines, of circles in files. Several functions of one name in a file count as
/// the largest.
type Sizes = BTreeMap<(String, String), usize>;

/// Everything too large stands in the ratchet file with no smaller number, and nothing else stands there.
pub(crate) fn sizes_only_shrink(tree: &Tree) -> Vec<Finding> {
    let (allowed, mut findings) = allowed(tree);
    let actual = oversized(tree);
    for ((kind, place), size) in &actual {
        let (max, unit) = match kind.as_str() {
            "fn" => (FUNCTION_LINES_MAX, "lines"),
            "file" => (FILE_LINES_MAX, "lines"),
            _ => (CIRCLE_FILES_MAX, "files in import circles"),
        };
        let problem = match allowed.get(&(kind.clone(), place.clone())) {
            None => format!("{size} {unit}; {max} are allowed: split it{}", hint(kind)),
            Some(was) if size > was => {
                format!("grew from {was} to {size} {unit}; it may only shrink{}", hint(kind))
            }
            Some(was) if size < was => format!("shrank to {size} {unit}: {LOWER}"),
            Some(_) => continue,
        };
        findings.push(Finding::new(place, 0, problem));
    }
    for (kind, place) in allowed.keys().filter(|key| !actual.contains_key(*key)) {
        findings.push(Finding::new(place, 0, format!("this {kind} is no longer too large: {LOWER}")));
    }
    findings
}

/// Where to look for the files of a circle.
fn hint(kind: &str) -> &'static str {
    if kind == "circle" { " (`cargo xtask tidy --circles` names the files)" } else { "" }
}

const LOWER: &str = "run `cargo xtask tidy --tighten`";

/// The ratchet file with every number lowered to what it is now. Nothing is added and no number is raised.
pub(crate) fn tightened(tree: &Tree) -> String {
    let actual = oversized(tree);
    let mut text = HEAD.to_owned();
    for (key, was) in allowed(tree).0 {
        if let Some(size) = actual.get(&key) {
            let (kind, place) = key;
            text.push_str(&format!("{kind:<7} {:<5} {place}\n", was.min(*size)));
        }
    }
    text
}

fn oversized(tree: &Tree) -> Sizes {
    let mut sizes = Sizes::new();
    for (file, code) in tree.rust().filter(|(file, _)| !is_generated(&file.text)) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            sizes.insert(("file".to_owned(), file.path.clone()), lines);
        }
        for function in code.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            let size =
                sizes.entry(("fn".to_owned(), format!("{}::{}", file.path, function.name))).or_default();
            *size = function.lines.max(*size);
        }
    }
    for (folder, circles) in large_circles(tree) {
        sizes.insert(("circle".to_owned(), folder), circles.iter().map(Vec::len).sum());
    }
    sizes
}

/// A generated file says so in its first lines; nobody reads it, so its size does not matter.
fn is_generated(text: &str) -> bool {
    text.lines().take(5).any(|line| line.contains("@generated"))
}

fn allowed(tree: &Tree) -> (Sizes, Vec<Finding>) {
    let mut sizes = Sizes::new();
    let mut findings = Vec::new();
    for (index, line) in tree.text(FILE).unwrap_or_default().lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [kind @ ("fn" | "file" | "circle"), size, place] if size.parse::<usize>().is_ok() => {
                sizes.insert((kind.to_owned(), place.to_owned()), size.parse().unwrap_or_default());
            }
            _ => findings.push(Finding::new(FILE, index + 1, "expected: fn|file|circle SIZE PLACE")),
        }
    }
    (sizes, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("//! A.\nfn long() {{\n{}}}\n", "\n".repeat(lines - 2))
    }

    fn count(source: &str, ratchet: &str) -> usize {
        sizes_only_shrink(&Tree::of(&[("base/a.rs", source), (FILE, ratchet)])).len()
    }

    #[test]
    fn a_function_over_the_limit_is_found_unless_the_ratchet_has_it() {
        assert_eq!(count(&function(70), ""), 0);
        assert_eq!(count(&function(71), ""), 1);
        assert_eq!(count(&function(71), "fn 71 base/a.rs::long"), 0);
    }

    #[test]
    fn a_file_over_the_limit_is_found_unless_it_is_generated() {
        assert_eq!(count(&"//! A.\n".repeat(800), ""), 0);
        assert_eq!(count(&"//! A.\n".repeat(801), ""), 1);
        assert_eq!(count(&format!("//! @generated\n{}", "\n".repeat(801)), ""), 0);
    }

    #[test]
    fn the_numbers_may_only_go_down() {
        assert_eq!(count(&function(80), "fn 79 base/a.rs::long"), 1, "grew");
        assert_eq!(count(&function(80), "fn 81 base/a.rs::long"), 1, "shrank");
        assert_eq!(count(&function(60), "fn 81 base/a.rs::long"), 1, "small now");
        assert_eq!(count(&function(60), "fn base/a.rs::long"), 1, "not a ratchet line");
    }

    #[test]
    fn tightening_lowers_and_drops_but_never_raises_or_adds() {
        let tree = |ratchet| Tree::of(&[("base/a.rs", &*function(80)), (FILE, ratchet)]);
        assert!(
            tightened(&tree("fn 90 base/a.rs::long\nfn 99 base/a.rs::gone"))
                .ends_with("fn      80    base/a.rs::long\n")
        );
        assert!(tightened(&tree("fn 75 base/a.rs::long")).ends_with("fn      75    base/a.rs::long\n"));
        assert_eq!(tightened(&tree("")), HEAD);
    }
}
