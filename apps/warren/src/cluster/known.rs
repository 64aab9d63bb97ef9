//! Where other nodes were reached last, in a file of the data folder: a member that is told of no nodes finds its own again.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use broker::cluster::peers::Peers;
use net::peer::Links;

/// One `HOST:PORT` a line.
pub(super) const FILE: &str = "cluster.nodes";
/// More are not kept.
const ADDRESSES_MAX: usize = 64;
/// How often the file is compared with the links.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The addresses of an earlier life; none when there is no file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read_to_string(dir.join(FILE)) {
        Ok(text) => Ok(text.lines().take(ADDRESSES_MAX).map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Written under another name first: there is never half of it.
pub(super) fn write(dir: &Path, addresses: &[String]) -> io::Result<()> {
    let new = dir.join("cluster.nodes.new");
    let mut file = File::create(&new)?;
    for address in addresses.iter().take(ADDRESSES_MAX) {
        writeln!(file, "{address}")?;
    }
    file.sync_all()?;
    fs::rename(&new, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

/// Keeps the file as the links are, until they are gone. Nodes that are down stay in it.
pub(super) async fn keep(dir: std::path::PathBuf, links: Weak<Links>) {
    let mut written = read(&dir).unwrap_or_default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(links) = links.upgrade() else { return };
        let mut addresses: Vec<String> = links.known().into_iter().map(|peer| peer.address).collect();
        addresses.sort();
        addresses.dedup();
        if addresses.is_empty() || addresses == written {
            continue;
        }
        match write(&dir, &addresses) {
            Ok(()) => written = addresses,
            Err(error) => tracing::warn!(%error, "the addresses of the other nodes cannot be written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).unwrap().is_empty());
        let addresses = ["mq1:25672".to_owned(), "[::1]:7".to_owned()];
        write(dir.path(), &addresses).unwrap();
        assert_eq!(read(dir.path()).unwrap(), addresses);
    }
}
