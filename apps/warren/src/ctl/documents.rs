//! Files of definitions: read before an import is sent, written after an export has come. Knows nothing inside them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use management::{DEFINITIONS_BYTES_MAX, Exit, Request};

/// Exit code and text.
type Failed = (u8, String);

/// For an import, replaces the file's name in the request by what is in it; for an export, takes the name out of
/// the request and gives it. Other commands stay as they are.
pub(super) fn prepare(request: &mut Request) -> Result<Option<PathBuf>, Failed> {
    match (request.command.as_str(), request.args.as_slice()) {
        ("export_definitions", [file]) => {
            let target = PathBuf::from(file);
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                return Err(bad(&format!("Directory {} does not exist", folder.display())));
            }
            request.args.clear();
            Ok(Some(target))
        }
        ("import_definitions", [] | [_]) => {
            let file = request.args.pop().filter(|file| file != "-");
            let document = read(file.as_deref().map(Path::new))?;
            request.args.push(document);
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn bad(problem: &str) -> Failed {
    (Exit::DATA, format!("Error (argument validation): Bad argument: {problem}"))
}

fn read(file: Option<&Path>) -> Result<String, Failed> {
    let name = file.map_or_else(|| "standard input".into(), |file| file.display().to_string());
    let failed = |error: io::Error| (Exit::DATA, format!("Error:\nFailed to read {name}: {error}"));
    if let Some(file) = file.filter(|file| !file.exists()) {
        return Err(bad(&format!("File {} does not exist", file.display())));
    }
    let source: Box<dyn Read> = match file {
        Some(file) => Box::new(File::open(file).map_err(failed)?),
        None => Box::new(io::stdin().lock()),
    };
    let mut document = String::new();
    source.take(DEFINITIONS_BYTES_MAX as u64 + 1).read_to_string(&mut document).map_err(failed)?;
    if document.len() > DEFINITIONS_BYTES_MAX {
        let text = format!("Error:\n{name} is larger than {DEFINITIONS_BYTES_MAX} bytes");
        return Err((Exit::DATA, text));
    }
    Ok(document)
}

/// Writes an exported document, for the owner only since password hashes are in it; `-` is standard output.
pub(super) fn write(target: Option<&Path>, document: &str) -> Result<(), Failed> {
    let Some(file) = target.filter(|file| *file != Path::new("-")) else {
        return writeln!(io::stdout(), "{document}")
            .map_err(|error| (Exit::SOFTWARE, format!("Error:\nFailed to write: {error}")));
    };
    replace(file, document)
        .map_err(|error| (Exit::UNAVAILABLE, format!("Error:\nFailed to write {}: {error}", file.display())))
}

fn replace(file: &Path, document: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?
        .write_all(document.as_bytes())
}
