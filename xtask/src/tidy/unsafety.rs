//! `unsafe` stands only in listed modules, and each block says why it is sound.

use super::{Finding, Tree};

/// Modules that may hold `unsafe`. A new one needs a reason here and a Miri or sanitizer test.
const LISTED: &[&str] = &[
    // Declares mallopt: glibc puts off merging what was freed until a publisher wants memory, who then waits for all of it; and keeps what
    // large bodies leave.
    "base/platform/src/memory/merging.rs",
    // Declares malloc_trim: without it the memory alarm would never end, because glibc keeps what was freed. And mallinfo2, the
    // only way to tell memory in use from memory kept.
    "base/platform/src/memory/release.rs",
    // The CPU profiler: a signal handler and its timer, which std and rustix do not offer; and the walk over frame pointers.
    // Tests walk wild registers and sample a thread at work.
    "base/platform/src/profile/signal.rs",
    // An allocator is unsafe to implement; this one passes every call to the system's, and asks for huge pages for very large pieces. A test
    // lets one grow, and looks at what the system says of its pages.
    "base/platform/src/profile/allocator.rs",
    "base/platform/src/profile/stack.rs",
    "base/platform/src/profile/waiting.rs",
    // perf_event_open and the fcntl that makes its events signals have no safe wrapper. A test counts the pages that it touches.
    "base/platform/src/profile/faults.rs",
    // getrusage of one thread has no safe wrapper: whether a slow write waited for the disk. A test sleeps, and is counted.
    "base/platform/src/thread.rs",
];

/// Lines above an `unsafe` in which its `SAFETY:` sentence may begin.
const SENTENCE_LINES: usize = 6;

/// Unsafe code only in listed modules, each with its `SAFETY:` sentence.
pub(crate) fn unsafe_only_where_listed(tree: &Tree) -> Vec<Finding> {
    unsafe_only_in(tree, LISTED)
}

fn unsafe_only_in(tree: &Tree, listed: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust() {
        let lines: Vec<&str> = file.text.lines().collect();
        for offset in code.words("unsafe") {
            let line = code.line(offset);
            if !listed.contains(&file.path.as_str()) {
                let text = "`unsafe` outside the listed modules (xtask/src/tidy/unsafety.rs)";
                findings.push(Finding::new(&file.path, line, text));
            } else if !lines[line.saturating_sub(SENTENCE_LINES)..line]
                .iter()
                .any(|line| line.contains("SAFETY:"))
            {
                findings.push(Finding::new(&file.path, line, "`unsafe` without a SAFETY: sentence above it"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_outside_the_list_or_without_its_sentence_is_found() {
        let block = Tree::of(&[("base/a.rs", "fn a() {\n    unsafe { b() }\n}")]);
        assert_eq!(unsafe_only_where_listed(&block).len(), 1);
        assert_eq!(unsafe_only_in(&block, &["base/a.rs"]).len(), 1);
        let said =
            Tree::of(&[("base/a.rs", "fn a() {\n    // SAFETY: b has no contract.\n    unsafe { b() }\n}")]);
        assert_eq!(unsafe_only_in(&said, &["base/a.rs"]), []);
        let words =
            Tree::of(&[("base/a.rs", "#![forbid(unsafe_code)]\n// unsafe\nfn a() { b(\"unsafe\") }")]);
        assert_eq!(unsafe_only_where_listed(&words), []);
    }
}
