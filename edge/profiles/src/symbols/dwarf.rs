//! Which functions stand at addresses of a program, by its debugging information (DWARF 2 to 5), those included that were compiled
//! into others. The information is read from the file, each unit that is needed once and from its beginning to its end; what is kept
//! is what was found. Knows nothing of how names are shown.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use gimli::{
    Abbreviations, Attribute, AttributeValue, DebugInfoOffset, Dwarf, EntriesRaw, Reader as _, Result, Unit,
    UnitHeader, UnitOffset, constants as dw,
};

use super::lines;
use super::part::Part;

/// Entries that say of each other what they are; so many are followed.
const ORIGINS_MAX: usize = 16;

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// As the linker knows it, or without a path.
    pub(super) name: Arc<str>,
    /// Where its source stands; empty when that is not known.
    pub(super) file: Arc<str>,
}

/// The code at an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Functions, innermost first; none where nobody knows.
    pub(super) functions: Vec<Place>,
    /// Where the source stands, which may be known without a function.
    pub(super) file: Arc<str>,
}

/// Functions at addresses.
pub(super) struct Finder<'a> {
    dwarf: Dwarf<Part<'a>>,
    /// Where units begin, sorted.
    units: Vec<usize>,
    abbreviations: HashMap<usize, Arc<Abbreviations>>,
    names: HashMap<usize, Option<Arc<str>>>,
}

/// A unit of compilation, and where it begins.
struct Opened<'a> {
    at: usize,
    unit: Unit<Part<'a>>,
}

/// The knowledge of a unit about an address.
#[derive(Default)]
struct Found {
    /// Where the function's entry is in the unit, and its name.
    function: Option<(UnitOffset, Option<Arc<str>>)>,
    /// The functions that were compiled into it here, the outermost first: name, and number of the file that it was called from.
    inlined: Vec<(Option<Arc<str>>, u64)>,
}

impl Found {
    /// Whether it is in this function, so deep in what is compiled into it.
    fn is_in(&self, function: UnitOffset, depth: usize) -> bool {
        self.function.as_ref().is_some_and(|(offset, _)| *offset == function) && self.inlined.len() == depth
    }
}

/// A function around an entry.
struct Around {
    level: isize,
    offset: UnitOffset,
    /// It has some of the addresses.
    is_wanted: bool,
    /// Levels of what is compiled into it, one in the other.
    inlined: Vec<isize>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(section: impl Fn(&str) -> Part<'a>) -> Result<Finder<'a>> {
        let dwarf = Dwarf::load(|id| Ok::<_, gimli::Error>(section(id.name())))?;
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            units.extend(header.debug_info_offset().map(|offset| offset.0));
        }
        Ok(Finder { dwarf, units, abbreviations: HashMap::new(), names: HashMap::new() })
    }

    /// The code at each of these addresses, which are sorted. Unreadable information is passed over.
    pub(super) fn at(&mut self, addresses: &[u64]) -> Vec<Places> {
        let mut places = vec![Places::default(); addresses.len()];
        let listed = self.listed(addresses).unwrap_or_default();
        for (unit, wanted) in &listed.wanted {
            let _unreadable = self.look_into(*unit, addresses, wanted, &mut places);
        }
        // Not every compiler lists the addresses of its units.
        let unlisted: Vec<usize> =
            self.units.iter().copied().filter(|unit| !listed.units.contains(unit)).collect();
        for unit in unlisted {
            let is_missing = |at: &usize| places[*at].functions.is_empty();
            let missing: Vec<usize> = (0..addresses.len()).filter(is_missing).collect();
            if missing.is_empty() {
                break;
            }
            if let Ok(wanted) = self.covered(unit, addresses, &missing) {
                let _unreadable = self.look_into(unit, addresses, &wanted, &mut places);
            }
        }
        places
    }

    /// Units that have a list of their addresses, and which of those wanted each of them has.
    fn listed(&self, addresses: &[u64]) -> Result<Listed> {
        let mut listed = Listed::default();
        let mut headers = self.dwarf.debug_aranges.headers();
        while let Some(header) = headers.next()? {
            let unit = header.debug_info_offset().0;
            listed.units.push(unit);
            let mut entries = header.entries();
            while let Some(entry) = entries.next()? {
                for at in within(addresses, entry.range()) {
                    listed.wanted.entry(unit).or_default().push(at);
                }
            }
        }
        listed.units.sort_unstable();
        listed.wanted.values_mut().for_each(|wanted| wanted.sort_unstable());
        Ok(listed)
    }

    /// Which of these addresses a unit has.
    fn covered(&mut self, unit: usize, addresses: &[u64], missing: &[usize]) -> Result<Vec<usize>> {
        let opened = self.open(unit)?;
        let mut covered = Vec::new();
        let mut ranges = self.dwarf.unit_ranges(&opened.unit)?;
        while let Some(range) = ranges.next()? {
            covered.extend(within(addresses, range).filter(|at| missing.binary_search(at).is_ok()));
        }
        covered.sort_unstable();
        covered.dedup();
        Ok(covered)
    }

    fn header(&self, at: usize) -> Result<UnitHeader<Part<'a>>> {
        self.dwarf.debug_info.header_from_offset(DebugInfoOffset(at))
    }

    /// The shapes of a unit's entries; many units share them.
    fn abbreviations(&mut self, header: &UnitHeader<Part<'a>>) -> Result<Arc<Abbreviations>> {
        let at = header.debug_abbrev_offset();
        if let Some(known) = self.abbreviations.get(&at.0) {
            return Ok(known.clone());
        }
        let read = Arc::new(self.dwarf.debug_abbrev.abbreviations(at)?);
        self.abbreviations.insert(at.0, read.clone());
        Ok(read)
    }

    fn open(&mut self, at: usize) -> Result<Opened<'a>> {
        let header = self.header(at)?;
        let abbreviations = self.abbreviations(&header)?;
        let unit = Unit::new_with_abbreviations(&self.dwarf, header, abbreviations)?;
        Ok(Opened { at, unit })
    }

    /// Fills in what a unit knows of the addresses that it has.
    fn look_into(
        &mut self,
        unit: usize,
        addresses: &[u64],
        wanted: &[usize],
        places: &mut [Places],
    ) -> Result<()> {
        let opened = self.open(unit)?;
        let addresses: Vec<u64> = wanted.iter().map(|at| addresses[*at]).collect();
        let found = self.functions(&opened, &addresses)?;
        let files = lines::files_at(&opened.unit, &addresses).unwrap_or_default();
        let mut paths = lines::Paths::default();
        for ((at, found), file) in wanted.iter().zip(found).zip(files.into_iter().chain(std::iter::repeat(0)))
        {
            let mut file = file;
            places[*at].file = paths.path(&self.dwarf, &opened.unit, file);
            let Some((_, function)) = found.function else { continue };
            let callers = found.inlined.iter().rev().map(|(_, called_from)| *called_from);
            let names = found.inlined.iter().rev().map(|(name, _)| name).chain([&function]);
            for (name, called_from) in names.zip(callers.chain([0])) {
                let path = paths.path(&self.dwarf, &opened.unit, file);
                places[*at].functions.extend(name.clone().map(|name| Place { name, file: path }));
                file = called_from;
            }
        }
        Ok(())
    }

    /// Walks over all entries of a unit.
    fn functions(&mut self, opened: &Opened<'a>, addresses: &[u64]) -> Result<Vec<Found>> {
        let mut found: Vec<Found> = addresses.iter().map(|_| Found::default()).collect();
        let mut entries = opened.unit.header.entries_raw(&opened.unit.abbreviations, None)?;
        // The functions around the entry, and in the innermost of them the levels of what is compiled into it around the entry.
        let mut around: Vec<Around> = Vec::new();
        while !entries.is_empty() {
            let (level, offset) = (entries.next_depth(), entries.next_offset());
            let Some(shape) = entries.read_abbreviation()? else { continue };
            while around.pop_if(|outer| outer.level >= level).is_some() {}
            match (shape.tag(), around.last_mut()) {
                (dw::DW_TAG_subprogram, _) => {
                    let entry = Entry::read(&mut entries, shape.attributes())?;
                    let mut range = entry.addresses(&self.dwarf, &opened.unit, addresses)?;
                    range.retain(|at| found[*at].function.is_none());
                    for at in &range {
                        found[*at].function = Some((offset, self.name(opened, &entry, 0)?));
                    }
                    around.push(Around { level, offset, is_wanted: !range.is_empty(), inlined: Vec::new() });
                }
                (dw::DW_TAG_inlined_subroutine, Some(function)) if function.is_wanted => {
                    let entry = Entry::read(&mut entries, shape.attributes())?;
                    while function.inlined.pop_if(|outer| *outer >= level).is_some() {}
                    for at in entry.addresses(&self.dwarf, &opened.unit, addresses)? {
                        let is_here = found[at].is_in(function.offset, function.inlined.len());
                        if is_here {
                            let name = self.name(opened, &entry, 0)?;
                            found[at].inlined.push((name, entry.called_from));
                        }
                    }
                    function.inlined.push(level);
                }
                _ => entries.skip_attributes(shape.attributes())?,
            }
        }
        Ok(found)
    }

    /// The name of an entry, or of what it is made of.
    fn name(&mut self, opened: &Opened<'a>, entry: &Entry<'a>, followed: usize) -> Result<Option<Arc<str>>> {
        for name in [&entry.linkage_name, &entry.name].into_iter().flatten() {
            if let Ok(text) = self.dwarf.attr_string(&opened.unit, name.clone()) {
                return Ok(Some(text.to_string_lossy()?.into()));
            }
        }
        match entry.origin {
            _ if followed == ORIGINS_MAX => Ok(None),
            Some(AttributeValue::UnitRef(offset)) => self.name_at(opened, offset, followed),
            Some(AttributeValue::DebugInfoRef(DebugInfoOffset(at))) => {
                if let Some(known) = self.names.get(&at) {
                    return Ok(known.clone());
                }
                let unit = self.units.partition_point(|begin| *begin <= at);
                let Some(unit) = unit.checked_sub(1).map(|index| self.units[index]) else { return Ok(None) };
                let opened = self.open(unit)?;
                self.name_at(&opened, UnitOffset(at - unit), followed)
            }
            _ => Ok(None),
        }
    }

    /// The name of the entry at a place of a unit, which is asked for again and again.
    fn name_at(
        &mut self,
        opened: &Opened<'a>,
        offset: UnitOffset,
        followed: usize,
    ) -> Result<Option<Arc<str>>> {
        if let Some(known) = self.names.get(&(opened.at + offset.0)) {
            return Ok(known.clone());
        }
        let mut entries = opened.unit.header.entries_raw(&opened.unit.abbreviations, Some(offset))?;
        let Some(shape) = entries.read_abbreviation()? else { return Ok(None) };
        let entry = Entry::read(&mut entries, shape.attributes())?;
        let name = self.name(opened, &entry, followed + 1)?;
        self.names.insert(opened.at + offset.0, name.clone());
        Ok(name)
    }
}

/// Units that say which addresses they have.
#[derive(Default)]
struct Listed {
    units: Vec<usize>,
    /// For each the numbers of the addresses.
    wanted: BTreeMap<usize, Vec<usize>>,
}

/// Numbers of the addresses in a range.
fn within(addresses: &[u64], range: gimli::Range) -> Range<usize> {
    let begin = addresses.partition_point(|address| *address < range.begin);
    let count = addresses[begin..].partition_point(|address| *address < range.end);
    begin..begin + count
}

/// The parts of an entry that matter.
#[derive(Default)]
struct Entry<'a> {
    linkage_name: Option<AttributeValue<Part<'a>>>,
    name: Option<AttributeValue<Part<'a>>>,
    /// The entry that says more.
    origin: Option<AttributeValue<Part<'a>>>,
    low: Option<AttributeValue<Part<'a>>>,
    high: Option<AttributeValue<Part<'a>>>,
    ranges: Option<AttributeValue<Part<'a>>>,
    /// Number of the file that it was called from.
    called_from: u64,
}

impl<'a> Entry<'a> {
    fn read(
        entries: &mut EntriesRaw<'_, Part<'a>>,
        attributes: &[gimli::AttributeSpecification],
    ) -> Result<Entry<'a>> {
        let mut entry = Entry::default();
        for specification in attributes {
            let attribute: Attribute<Part<'a>> = entries.read_attribute(*specification)?;
            let value = Some(attribute.value());
            match attribute.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => entry.linkage_name = value,
                dw::DW_AT_name => entry.name = value,
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => entry.origin = value,
                dw::DW_AT_low_pc => entry.low = value,
                dw::DW_AT_high_pc => entry.high = value,
                dw::DW_AT_ranges => entry.ranges = value,
                dw::DW_AT_call_file => {
                    entry.called_from = match attribute.value() {
                        AttributeValue::FileIndex(number) => number,
                        _ => 0,
                    }
                }
                _ => {}
            }
        }
        Ok(entry)
    }

    /// Numbers of the addresses that it has, in no order.
    fn addresses(
        &self,
        dwarf: &Dwarf<Part<'a>>,
        unit: &Unit<Part<'a>>,
        addresses: &[u64],
    ) -> Result<Vec<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        if let Some(mut ranges) =
            self.ranges.clone().map(|value| dwarf.attr_ranges(unit, value)).transpose()?.flatten()
        {
            while let Some(range) = ranges.next()? {
                found.push(within(addresses, range));
            }
        } else if let Some(begin) =
            self.low.clone().map(|value| dwarf.attr_address(unit, value)).transpose()?.flatten()
        {
            let end = match self.high.clone() {
                Some(AttributeValue::Udata(bytes)) => begin.saturating_add(bytes),
                Some(value) => dwarf.attr_address(unit, value)?.unwrap_or(begin),
                None => begin,
            };
            found.push(within(addresses, gimli::Range { begin, end }));
        }
        Ok(found.into_iter().flatten().collect())
    }
}
