//! Definitions to import at a start: which files, read whole before anything is imported. Refuses to know what is in them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use management::{DEFINITIONS_BYTES_MAX, Document, StartImport, Unsupported, When};

use crate::config::{NodeOptions, Permit, Switch};

/// The definitions that the configuration asks for, read.
///
/// # Errors
/// A file or folder that cannot be read, by its name; a file larger than [`DEFINITIONS_BYTES_MAX`].
pub fn read(options: &NodeOptions) -> anyhow::Result<Option<StartImport>> {
    let Some(path) = options.definitions_file() else { return Ok(None) };
    let mut documents = Vec::new();
    for file in files(path).with_context(|| format!("cannot read the definitions in {}", path.display()))? {
        let name = file.display().to_string();
        let text = text(&file).with_context(|| format!("cannot read the definitions in {name}"))?;
        documents.push(Document { name, text });
    }
    Ok(Some(StartImport {
        documents,
        unsupported: match options.definitions_unsupported {
            Permit::Permitted => Unsupported::Skipped,
            Permit::Denied => Unsupported::Refused,
        },
        when: match options.definitions_skip_unchanged {
            Switch::On => When::Changed,
            Switch::Off => When::Always,
        },
    }))
}

/// The file itself, or the `.json` files of a folder in order of their names.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries: Vec<_> = std::fs::read_dir(path)?.collect::<Result<_, _>>()?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

fn text(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(DEFINITIONS_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > DEFINITIONS_BYTES_MAX {
        bail!("it is larger than {DEFINITIONS_BYTES_MAX} bytes");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_json_files_in_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("b.json", "{}"), ("a.json", "[]"), ("c.txt", "")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let options =
            NodeOptions { load_definitions: Some(folder.path().to_owned()), ..NodeOptions::default() };
        let texts: Vec<String> =
            read(&options).unwrap().unwrap().documents.into_iter().map(|it| it.text).collect();
        assert_eq!(texts, ["[]", "{}"]);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let options =
            NodeOptions { definitions_path: Some("/nowhere/x.json".into()), ..NodeOptions::default() };
        let error = format!("{:#}", read(&options).unwrap_err());
        assert!(error.contains("/nowhere/x.json") && error.contains("No such file"), "{error}");
    }
}
