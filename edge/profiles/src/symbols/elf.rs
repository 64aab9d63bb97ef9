//! The file of a program: where its sections are, and its table of symbols. 64 bits and the byte order of this machine only, which
//! a program that runs has. Knows nothing of debugging information.

use gimli::{Reader as _, Result};

use super::part::{Pages, Part};

/// `SHF_COMPRESSED`.
const COMPRESSED: u64 = 1 << 11;
/// `SHT_NOBITS`: such a section takes no place in the file.
const NOBITS: u32 = 8;
/// Bytes of an entry of the table of symbols.
const SYMBOL_BYTES: u64 = 24;
/// `STT_FUNC`.
const FUNCTION: u8 = 2;
/// `STT_GNU_IFUNC`: a function that is chosen by the processor.
const INDIRECT_FUNCTION: u8 = 10;

/// A section.
struct Section {
    name: String,
    at: u64,
    bytes: u64,
}

/// The sections of a file (System V ABI, chapter 4).
pub(super) struct Elf<'a> {
    pages: &'a Pages,
    sections: Vec<Section>,
}

impl<'a> Elf<'a> {
    /// Of a file; `None` when it is none of this machine's. Sections that are compressed are passed over.
    pub(super) fn open(pages: &'a Pages) -> Result<Option<Elf<'a>>> {
        let mut header = pages.part(0, 64);
        let identification: [u8; 16] = header.read_u8_array()?;
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if identification[..6] != [0x7f, b'E', b'L', b'F', 2, order] {
            return Ok(None);
        }
        let number = |at, bytes| pages.part(at, bytes).read_uint(bytes as usize);
        let (table, each) = (number(40, 8)?, number(58, 2)?);
        let (count, names) = (number(60, 2)?, number(62, 2)?);
        let place = |index: u64| table.saturating_add(index * each);
        let names_at = number(place(names) + 24, 8)?;
        let mut sections = Vec::new();
        for index in 0..count {
            let mut entry = pages.part(place(index), 64);
            let (name, kind, flags) = (entry.read_u32()?, entry.read_u32()?, entry.read_u64()?);
            let (_address, at, bytes) = (entry.read_u64()?, entry.read_u64()?, entry.read_u64()?);
            if kind != NOBITS && flags & COMPRESSED == 0 {
                sections.push(Section { name: text(pages, names_at + u64::from(name))?, at, bytes });
            }
        }
        Ok(Some(Elf { pages, sections }))
    }

    /// A section; empty when there is none of that name.
    pub(super) fn section(&self, name: &str) -> Part<'a> {
        let found = self.sections.iter().find(|section| section.name == name);
        found.map_or(self.pages.part(0, 0), |section| self.pages.part(section.at, section.bytes))
    }

    /// Whether it has a table of all symbols.
    pub(super) fn is_whole(&self) -> bool {
        !self.section(".symtab").is_empty()
    }

    /// The number that the linker gave it, and the file with what was taken out of it.
    pub(super) fn build_id(&self) -> Result<Vec<u8>> {
        let mut note = self.section(".note.gnu.build-id");
        let (name_bytes, id_bytes, _kind) = (note.read_u32()?, note.read_u32()?, note.read_u32()?);
        note.skip(name_bytes.next_multiple_of(4) as usize)?;
        Ok(note.split(id_bytes as usize)?.to_slice()?.into_owned())
    }

    /// The functions of the table of symbols that have these addresses, which are sorted. Of a function with several names the one that
    /// a program calls it by.
    pub(super) fn symbols(&self, addresses: &[u64]) -> Result<Vec<Option<String>>> {
        let (table, names) = if self.is_whole() { (".symtab", ".strtab") } else { (".dynsym", ".dynstr") };
        let names = self.sections.iter().find(|section| section.name == names).map_or(0, |it| it.at);
        let mut best: Vec<Option<(u64, String)>> = vec![None; addresses.len()];
        let mut table = self.section(table);
        while table.len() as u64 >= SYMBOL_BYTES {
            let (name, kind, _other) = (table.read_u32()?, table.read_u8()? & 15, table.read_u8()?);
            let (section, begin, bytes) = (table.read_u16()?, table.read_u64()?, table.read_u64()?);
            let end = begin.saturating_add(bytes.max(1));
            let from = addresses.partition_point(|address| *address < begin);
            let count = addresses[from..].partition_point(|address| *address < end);
            if section == 0 || ![FUNCTION, INDIRECT_FUNCTION].contains(&kind) || count == 0 {
                continue;
            }
            let name = text(self.pages, names + u64::from(name))?;
            for best in &mut best[from..from + count] {
                let is_better = best.as_ref().is_none_or(|(known, known_name)| {
                    begin > *known || begin == *known && is_plainer(&name, known_name)
                });
                if is_better {
                    *best = Some((begin, name.clone()));
                }
            }
        }
        Ok(best.into_iter().map(|found| found.map(|(_, name)| name)).collect())
    }
}

/// Whether a name is less of an internal one: `read` rather than `__read`.
fn is_plainer(name: &str, other: &str) -> bool {
    let rank = |name: &str| (name.len() - name.trim_start_matches('_').len(), name.len());
    (rank(name), name) < (rank(other), other)
}

/// A text that ends with a zero.
fn text(pages: &Pages, at: u64) -> Result<String> {
    let text = pages.part(at, u64::MAX).read_null_terminated_slice()?;
    Ok(text.to_string_lossy()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn of_several_names_the_plainest_is_taken() {
        assert!(is_plainer("read", "__read") && is_plainer("read", "__GI___libc_read"));
        assert!(is_plainer("_a", "__a") && is_plainer("a", "b") && !is_plainer("b", "a"));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[b'x'; 100]).unwrap();
        assert!(Elf::open(&Pages::new(file).unwrap()).unwrap().is_none());
        assert!(Elf::open(&Pages::new(tempfile::tempfile().unwrap()).unwrap()).is_err());
        let pages = Pages::new(File::open("/proc/self/exe").unwrap()).unwrap();
        let elf = Elf::open(&pages).unwrap().unwrap();
        assert!(elf.is_whole() && elf.section(".text").len() > 1000 && elf.section(".nothing").is_empty());
        assert_eq!(elf.symbols(&[1]).unwrap(), [None]);
    }
}
