//! The files of the repository, read once, and what a rule reports about them. Refuses to know the rules.

use super::code::Code;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// Text files by path relative to the root, with `/`. Tracked by git or about to be (not ignored).
#[derive(Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, File>,
}

/// One text file.
pub(crate) struct File {
    /// Path relative to the root.
    pub(crate) path: String,
    /// The whole text; empty for files that are not UTF-8, which still exist for links.
    pub(crate) text: String,
    /// Rust code without comments and literals; `None` for other files.
    pub(crate) code: Option<Code>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("tidy asks git for the list of files")?;
        if !output.status.success() {
            bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let mut tree = Self::default();
        for path in String::from_utf8_lossy(&output.stdout).split('\0').filter(|path| !path.is_empty()) {
            // A deleted file that is still in the index has gone for every rule.
            if let Ok(bytes) = std::fs::read(root.join(path)) {
                tree.add(path, &String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(tree)
    }

    /// Adds a file, replacing one of the same path.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        let code = path.ends_with(".rs").then(|| Code::new(text));
        self.files.insert(path.to_owned(), File { path: path.to_owned(), text: text.to_owned(), code });
    }

    /// A tree of the given files, for the tests of rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, text);
        }
        tree
    }

    /// Number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// All files in order of their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// All Rust files with their code.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Code)> {
        self.files().filter_map(|file| Some((file, file.code.as_ref()?)))
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|file| file.text.as_str())
    }

    /// Whether a file or a folder of that path exists; a `/` at the end is ignored.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// Folders of the workspace's crates: those with a `Cargo.toml` that has a package, except the fuzz targets.
    pub(crate) fn crates(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(|file| {
            let folder = file.path.strip_suffix("/Cargo.toml")?;
            file.text.contains("[package]").then_some((folder, file.text.as_str()))
        })
    }
}

/// One violation: where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    text: String,
}

impl Finding {
    /// `line` counts from 1; 0 stands for the whole file.
    pub(crate) fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_if_a_file_lies_in_them() {
        let tree = Tree::of(&[("base/wire/src/lib.rs", ""), ("base/wire2.md", "")]);
        for path in ["base", "base/", "base/wire", "base/wire/src/lib.rs", "base/wire2.md"] {
            assert!(tree.exists(path), "{path}");
        }
        for path in ["bas", "base/wir", "base/wire2", "base/wire/src/lib.rs/x"] {
            assert!(!tree.exists(path), "{path}");
        }
    }
}
