//! Where the shared secret comes from: the places of RabbitMQ's Erlang cookie, or a new one in the data folder.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use net::peer::LinkSecret;
use platform::Random;

use crate::config::ClusterOptions;

/// Name of the file, as in RabbitMQ.
const FILE: &str = ".erlang.cookie";
/// RabbitMQ's folder in its packages and images.
const FOLDER_OF_PACKAGES: &str = "/var/lib/rabbitmq";
/// Letters of a new secret; Erlang makes 20.
const LETTERS: usize = 32;

/// The secret, and where it is from: `RABBITMQ_ERLANG_COOKIE`, else the first file of the data folder, the user's home and RabbitMQ's folder,
/// else a new one in the data folder.
///
/// # Errors
/// A file that cannot be read or written, or is empty.
pub(super) fn find(
    options: &ClusterOptions,
    data_dir: &Path,
    random: &dyn Random,
) -> anyhow::Result<(LinkSecret, String)> {
    if let Some(cookie) = &options.cookie {
        return Ok((LinkSecret::new(cookie.expose()), "RABBITMQ_ERLANG_COOKIE".into()));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folders = [Some(data_dir.to_owned()), home, Some(FOLDER_OF_PACKAGES.into())];
    find_in(folders.into_iter().flatten(), data_dir, random)
}

fn find_in(
    folders: impl Iterator<Item = PathBuf>,
    data_dir: &Path,
    random: &dyn Random,
) -> anyhow::Result<(LinkSecret, String)> {
    for path in folders.map(|folder| folder.join(FILE)) {
        let place = path.display().to_string();
        match fs::read_to_string(&path) {
            Ok(text) if text.trim().is_empty() => {
                bail!("{place} is empty; write the secret of the other nodes there")
            }
            Ok(text) => {
                warn_of_open(&path);
                return Ok((LinkSecret::new(&text), place));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // Another user's home or RabbitMQ: not ours.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !path.starts_with(data_dir) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {place}")),
        }
    }
    let path = data_dir.join(FILE);
    let secret = new_secret(random);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(secret.as_bytes())?;
    file.sync_all()?;
    tracing::warn!(
        "a new secret is in {}: copy it to the same place of each node, or set RABBITMQ_ERLANG_COOKIE everywhere",
        path.display()
    );
    Ok((LinkSecret::new(&secret), path.display().to_string()))
}

/// Erlang refuses such a file.
fn warn_of_open(path: &Path) {
    let mode = fs::metadata(path).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        let path = path.display();
        tracing::warn!("other users of this machine can read the secret of the cluster: chmod 600 {path}");
    }
}

fn new_secret(random: &dyn Random) -> String {
    let mut bytes = [0; LETTERS];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(b'A' + byte % 26)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::RealRandom;

    #[test]
    fn the_first_file_counts_and_a_new_one_is_for_its_owner_only() {
        let (data, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let find = || {
            let folders = [data.path().to_owned(), home.path().to_owned()];
            find_in(folders.into_iter(), data.path(), &RealRandom).map(|(_, place)| place)
        };
        let (in_data, in_home) = (data.path().join(FILE), home.path().join(FILE));
        assert_eq!(find().unwrap(), in_data.display().to_string());
        assert_eq!(fs::metadata(&in_data).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&in_data).unwrap().len(), LETTERS);
        fs::write(&in_home, "HOME\n").unwrap();
        assert_eq!(find().unwrap(), in_data.display().to_string());
        fs::remove_file(&in_data).unwrap();
        assert_eq!(find().unwrap(), in_home.display().to_string());
        fs::write(&in_data, "\n").unwrap();
        assert!(find().unwrap_err().to_string().contains("is empty"));
    }
}
