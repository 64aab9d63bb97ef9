//! The lasting identity of this data folder. A node whose disk was lost comes back with another one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use broker::cluster::peers::DataId;
use platform::Random;

/// Where it stands, as 32 hexadecimal digits.
const FILE: &str = "node.id";

/// Reads it; makes it when the folder has none.
///
/// # Errors
/// The file cannot be read or written, or holds something else.
pub(super) fn of_folder(folder: &Path, random: &dyn Random) -> io::Result<DataId> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => parse(text.trim()).ok_or_else(|| {
            let problem =
                format!("{} holds no identity: 32 hexadecimal digits were expected", path.display());
            io::Error::new(ErrorKind::InvalidData, problem)
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => make(folder, &path, random),
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> Option<DataId> {
    (text.len() == 32 && text.is_ascii()).then_some(())?;
    u128::from_str_radix(text, 16).ok().map(|number| DataId(number.to_be_bytes()))
}

/// Written under another name first: there is never half of it.
fn make(folder: &Path, path: &Path, random: &dyn Random) -> io::Result<DataId> {
    let mut id = DataId([0; 16]);
    random.fill(&mut id.0);
    let new = folder.join("node.id.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
    writeln!(file, "{:032x}", u128::from_be_bytes(id.0))?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::RealRandom;

    #[test]
    fn a_folder_keeps_its_identity_and_another_one_has_another() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = of_folder(one.path(), &RealRandom).unwrap();
        assert_eq!(of_folder(one.path(), &RealRandom).unwrap(), id);
        assert_ne!(of_folder(other.path(), &RealRandom).unwrap(), id);
        fs::write(one.path().join(FILE), "12").unwrap();
        assert!(
            of_folder(one.path(), &RealRandom).unwrap_err().to_string().contains("32 hexadecimal digits")
        );
    }
}
