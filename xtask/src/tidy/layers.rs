//! Layers: folders are layers, dependencies point down only, and each outside library is used where it was meant to be.
//!
//! ```text
//! base <- storage <- core <- edge <- apps        testing, fuzz and xtask stand outside and may use everything
//! ```

use super::{Finding, Tree};

/// Layers from the bottom up.
const LAYERS: [&str; 5] = ["base", "storage", "core", "edge", "apps"];

/// Folders outside the layers: they may use everything and nothing may use them.
const OUTSIDE: [&str; 3] = ["testing", "fuzz", "xtask"];

/// Edges inside a layer. Everything else beside each other is a stranger.
const BESIDE: &[(&str, &str)] = &[
    ("base/platform", "base/stdx"),
    ("base/wire", "base/stdx"),
    ("storage/multiraft", "storage/commitlog"),
    ("core/broker", "core/message"),
    ("core/broker", "core/metadata"),
    ("core/broker", "core/queues"),
    ("core/broker", "core/routing"),
    ("core/queues", "core/message"),
    ("core/routing", "core/message"),
    ("edge/management", "edge/profiles"),
    ("edge/management", "edge/protocols"),
    ("edge/management", "edge/shovel"),
    ("edge/net", "edge/protocols"),
    ("edge/net", "edge/tls"),
    ("edge/management", "edge/tls"),
    ("edge/shovel", "edge/tls"),
    ("apps/warren", "apps/perf"),
];

/// Edges that point down and are forbidden all the same. `core/message` says what bytes of a protocol mean.
const FORBIDDEN: &[(&str, &str)] =
    &[("core/broker", "base/wire"), ("core/queues", "base/wire"), ("core/routing", "base/wire")];

/// Outside libraries and the folders that may use them; an empty list means everywhere. Reasons stand in the workspace
/// table of `Cargo.toml`.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("aho-corasick", &["core/broker"]),
    ("anyhow", &["apps"]),
    ("arc-swap", &["core", "edge"]),
    ("axum", &["edge/management"]),
    ("atomic-waker", &["core", "edge", "base/stdx"]),
    ("backtrace", &["edge/profiles"]),
    ("base64", &["core/metadata", "core/broker", "edge", "apps"]),
    ("bytes", &[]),
    ("clap", &["apps"]),
    ("crc32fast", &["storage", "base", "core/metadata"]),
    ("flate2", &["edge/management", "edge/profiles"]),
    ("fancy-regex", &["core/broker"]),
    ("foldhash", &[]),
    ("futures-util", &["edge/net"]),
    ("getrandom", &["base/platform"]),
    ("gimli", &["edge/profiles"]),
    ("hashbrown", &[]),
    ("hdrhistogram", &["apps"]),
    ("http-body", &["edge/management"]),
    ("hyper", &["edge/management"]),
    ("hyper-util", &["edge/management"]),
    ("libc", &["base/platform"]),
    ("memchr", &[]),
    ("pkcs8", &["edge/tls"]),
    ("parking_lot", &["base", "storage", "core", "edge", "apps"]),
    ("regex", &["core", "edge/management"]),
    ("regex-syntax", &["core/broker"]),
    ("protobuf", &["storage/multiraft"]),
    ("raft", &["storage/multiraft"]),
    ("rustls", &["edge/tls"]),
    ("rustix", &["base/platform", "apps"]),
    ("rustc-demangle", &["edge/profiles"]),
    ("serde", &["edge/management", "edge/profiles", "apps"]),
    ("serde_json", &["edge/management", "edge/profiles", "apps"]),
    ("sha2", &["core/metadata", "edge/net"]),
    ("slog", &["storage/multiraft"]),
    ("smallvec", &[]),
    ("socket2", &["edge/net", "apps"]),
    ("subtle", &["core/metadata", "edge/net"]),
    ("thiserror", &[]),
    ("tokio", &["edge/net", "edge/tls", "edge/management", "edge/shovel", "apps"]),
    ("tokio-rustls", &["edge"]),
    ("tokio-tungstenite", &["edge/net"]),
    ("x509-parser", &["edge/tls"]),
    ("tracing", &["storage", "core", "edge", "apps"]),
    ("tracing-subscriber", &["apps"]),
];

/// A dependency of one crate, as a line of its manifest.
struct Dependency {
    name: String,
    line: usize,
}

/// Dependencies between our crates point down, or along a listed edge. Development dependencies may point anywhere.
pub(crate) fn dependencies_point_down(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, manifest) in tree.crates() {
        let path = format!("{folder}/Cargo.toml");
        for dependency in dependencies(manifest) {
            let Some(target) = folder_of(tree, &dependency.name) else { continue };
            if let Some(problem) = wrong_way(folder, target) {
                findings.push(Finding::new(&path, dependency.line, problem));
            }
        }
        if height(folder).is_none() && !is_outside(folder) {
            findings.push(Finding::new(
                &path,
                1,
                format!("`{folder}` lies in no layer ({})", LAYERS.join(", ")),
            ));
        }
    }
    findings
}

fn wrong_way(from: &str, to: &str) -> Option<String> {
    if is_outside(from) {
        return None;
    }
    if is_outside(to) {
        return Some(format!("`{from}` depends on `{to}`, which nothing may depend on"));
    }
    if FORBIDDEN.contains(&(from, to)) {
        return Some(format!("`{from}` depends on `{to}`: it reads messages through `core/message`"));
    }
    let (above, below) = (height(from)?, height(to)?);
    if above < below {
        return Some(format!("`{from}` depends on `{to}`: dependencies point down, {}", LAYERS.join(" <- ")));
    }
    let beside = above == below && !BESIDE.contains(&(from, to));
    beside.then(|| format!("`{from}` depends on `{to}` of the same layer; if that is right, list it in xtask/src/tidy/layers.rs"))
}

/// Every outside library stands in the table, and is used only where the table says.
pub(crate) fn libraries_are_allowed(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, manifest) in tree.crates().filter(|(folder, _)| !is_outside(folder)) {
        let path = format!("{folder}/Cargo.toml");
        for dependency in dependencies(manifest) {
            if folder_of(tree, &dependency.name).is_some() {
                continue;
            }
            let name = &dependency.name;
            let problem = match LIBRARIES.iter().find(|(library, _)| library == name) {
                None => format!("`{name}` is not in the table of libraries (xtask/src/tidy/layers.rs)"),
                Some((_, places)) if !allowed_in(folder, places) => {
                    format!("`{name}` is meant for {} only", places.join(", "))
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(&path, dependency.line, problem));
        }
    }
    findings
}

fn allowed_in(folder: &str, places: &[&str]) -> bool {
    places.is_empty()
        || places.iter().any(|place| folder == *place || folder.starts_with(&format!("{place}/")))
}

fn height(folder: &str) -> Option<usize> {
    let layer = folder.split('/').next()?;
    LAYERS.iter().position(|known| *known == layer)
}

fn is_outside(folder: &str) -> bool {
    OUTSIDE.iter().any(|outside| allowed_in(folder, &[outside]))
}

/// The folder of a crate of ours, by its package name.
fn folder_of<'a>(tree: &'a Tree, name: &str) -> Option<&'a str> {
    let line = format!("name = \"{name}\"");
    tree.crates().find(|(_, manifest)| manifest.lines().any(|l| l.trim() == line)).map(|(folder, _)| folder)
}

/// Names in `[dependencies]`, `[build-dependencies]` and their `target` and table forms; not `[dev-dependencies]`.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let number = index + 1;
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (table, name) = section_parts(section);
            inside = is_dependency_table(table) && name.is_none();
            if let Some(name) = name.filter(|_| is_dependency_table(table)) {
                found.push(Dependency { name: name.to_owned(), line: number });
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default().trim_matches('"');
            found.push(Dependency { name: name.to_owned(), line: number });
        }
    }
    found
}

/// `dependencies.tokio` is a table of one dependency: the table's name and the dependency's.
fn section_parts(section: &str) -> (&str, Option<&str>) {
    match section.rsplit_once("dependencies.") {
        Some((head, name)) => (&section[..head.len() + "dependencies".len()], Some(name)),
        None => (section, None),
    }
}

fn is_dependency_table(table: &str) -> bool {
    table.ends_with("dependencies") && !table.ends_with("dev-dependencies") && !table.starts_with("workspace")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}\n")
    }

    /// A tree with one crate per layer, two in core; `core/broker` has this rest of a manifest.
    fn tree(rest: &str) -> Tree {
        let mut tree = Tree::default();
        for (folder, name) in [
            ("base/stdx", "stdx"),
            ("storage/commitlog", "commitlog"),
            ("core/routing", "routing"),
            ("edge/net", "net"),
            ("testing/sim", "sim"),
        ] {
            tree.add(&format!("{folder}/Cargo.toml"), &manifest(name, ""));
        }
        tree.add("core/broker/Cargo.toml", &manifest("broker", rest));
        tree
    }

    #[test]
    fn a_dependency_that_points_up_or_out_is_found() {
        let count = |rest: &str| dependencies_point_down(&tree(rest)).len();
        assert_eq!(count("[dependencies]\nstdx.workspace = true\nrouting = { path = \"x\" }"), 0);
        assert_eq!(count("[dependencies]\nnet.workspace = true"), 1);
        assert_eq!(count("[dependencies.net]\nworkspace = true"), 1);
        assert_eq!(count("[build-dependencies]\nnet.workspace = true"), 1);
        assert_eq!(count("[target.'cfg(unix)'.dependencies]\nnet.workspace = true"), 1);
        assert_eq!(count("[dependencies]\nsim.workspace = true"), 1);
        assert_eq!(count("[dev-dependencies]\nnet.workspace = true\nsim.workspace = true"), 0);
    }

    #[test]
    fn a_queue_that_reads_frames_is_found() {
        let problem = wrong_way("core/queues", "base/wire");
        assert!(problem.is_some_and(|problem| problem.contains("core/message")));
        assert_eq!(wrong_way("core/message", "base/wire"), None);
    }

    #[test]
    fn a_neighbour_that_is_not_listed_is_found() {
        let mut tree = tree("");
        tree.add("core/routing/Cargo.toml", &manifest("routing", "[dependencies]\nbroker.workspace = true"));
        assert_eq!(dependencies_point_down(&tree).len(), 1);
    }

    #[test]
    fn a_crate_outside_every_layer_is_found() {
        let tree = Tree::of(&[("lib/a/Cargo.toml", "[package]\nname = \"a\"\n")]);
        assert_eq!(dependencies_point_down(&tree).len(), 1);
    }

    #[test]
    fn a_library_in_the_wrong_place_or_not_in_the_table_is_found() {
        let count = |rest: &str| libraries_are_allowed(&tree(rest)).len();
        assert_eq!(count("[dependencies]\nregex.workspace = true\nstdx.workspace = true"), 0);
        assert_eq!(count("[dependencies]\ntokio = { workspace = true }"), 1);
        assert_eq!(count("[dependencies]\nleft-pad = \"1\""), 1);
        assert_eq!(count("[dev-dependencies]\ntokio = { workspace = true }"), 0);
    }
}
