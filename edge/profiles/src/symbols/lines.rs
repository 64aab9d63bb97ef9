//! In which file the source of an address stands, by the table of lines of its unit, which is run through and not kept. Knows nothing of
//! functions.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::{Dwarf, LineProgramHeader, Reader as _, Result, Unit};

use super::part::Part;

/// The number of the file for each of these addresses, which are sorted; 0 where none is said.
pub(super) fn files_at(unit: &Unit<Part<'_>>, addresses: &[u64]) -> Result<Vec<u64>> {
    let mut files = vec![0; addresses.len()];
    let mut is_known = vec![false; addresses.len()];
    let Some(program) = unit.line_program.clone() else { return Ok(files) };
    let mut rows = program.rows();
    // The row before: it holds up to the next.
    let mut before: Option<(u64, u64)> = None;
    while let Some((_, row)) = rows.next_row()? {
        if let Some((begin, file)) = before {
            let from = addresses.partition_point(|address| *address < begin);
            let wanted = addresses[from..].iter().take_while(|address| **address < row.address()).count();
            for at in from..from + wanted {
                if !std::mem::replace(&mut is_known[at], true) {
                    files[at] = file;
                }
            }
        }
        before = (!row.end_sequence()).then(|| (row.address(), row.file_index()));
    }
    Ok(files)
}

/// Paths of the files of a unit, put together once.
#[derive(Default)]
pub(super) struct Paths(HashMap<u64, Arc<str>>);

impl Paths {
    /// The path of a file; empty where there is none of that number.
    pub(super) fn path<'a>(
        &mut self,
        dwarf: &Dwarf<Part<'a>>,
        unit: &Unit<Part<'a>>,
        number: u64,
    ) -> Arc<str> {
        let read = || {
            let header = unit.line_program.as_ref()?.header();
            path(dwarf, unit, header, number).ok().flatten()
        };
        self.0.entry(number).or_insert_with(|| read().unwrap_or_default().into()).clone()
    }
}

fn path<'a>(
    dwarf: &Dwarf<Part<'a>>,
    unit: &Unit<Part<'a>>,
    header: &LineProgramHeader<Part<'a>>,
    number: u64,
) -> Result<Option<String>> {
    let Some(file) = header.file(number) else { return Ok(None) };
    let mut path = match &unit.comp_dir {
        Some(folder) => folder.to_string_lossy()?.into_owned(),
        None => String::new(),
    };
    // The folder 0 is that of the unit.
    let folder = file.directory(header).filter(|_| file.directory_index() != 0);
    for part in folder.into_iter().chain([file.path_name()]) {
        let part = dwarf.attr_string(unit, part)?;
        join(&mut path, &part.to_string_lossy()?);
    }
    Ok(Some(path))
}

fn join(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn a_path_from_the_root_stands_for_itself() {
        let joined = |path: &str, part: &str| {
            let mut path = path.to_owned();
            join(&mut path, part);
            path
        };
        assert_eq!(joined("/a", "b.rs"), "/a/b.rs");
        assert_eq!(joined("/a/", "b.rs"), "/a/b.rs");
        assert_eq!(joined("/a", "/c/b.rs"), "/c/b.rs");
        assert_eq!(joined("", "b.rs"), "b.rs");
    }
}
