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
    /// Of a file; `None` when it is none of this machine's or has compressed sections.
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
            if flags & COMPRESSED != 0 {
                return Ok(None);
            }
            if kind != NOBITS {
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

    /// The functions of the table of symbols that have these addresses, which are sorted.
    pub(super) fn symbols(&self, addresses: &[u64]) -> Result<Vec<Option<String>>> {
        let mut best: Vec<Option<(u64, u32)>> = vec![None; addresses.len()];
        let mut table = self.section(".symtab");
        while table.len() as u64 >= SYMBOL_BYTES {
            let (name, kind, _other) = (table.read_u32()?, table.read_u8()? & 15, table.read_u8()?);
            let (section, begin, bytes) = (table.read_u16()?, table.read_u64()?, table.read_u64()?);
            if section == 0 || kind != FUNCTION {
                continue;
            }
            let end = begin.saturating_add(bytes.max(1));
            let from = addresses.partition_point(|address| *address < begin);
            for (address, best) in addresses.iter().zip(&mut best).skip(from) {
                if *address >= end {
                    break;
                }
                *best = (*best).max(Some((begin, name)));
            }
        }
        let names = self.sections.iter().find(|section| section.name == ".strtab").map_or(0, |it| it.at);
        let name = |(_, name): (u64, u32)| text(self.pages, names + u64::from(name));
        best.into_iter().map(|found| found.map(name).transpose()).collect()
    }
}

/// A text that ends with a zero.
fn text(pages: &Pages, at: u64) -> Result<String> {
    let text = pages.part(at, u64::MAX).read_null_terminated_slice()?;
    Ok(text.to_string_lossy()?.into_owned())
}
