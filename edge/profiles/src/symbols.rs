//! From addresses to names of functions: Rust paths without hashes, functions that were compiled into others included. Knows
//! nothing of samples.

mod dwarf;
mod elf;
mod lines;
mod part;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use platform::{Memory, RealMemory, profile};

use dwarf::{Finder, Place, Places};
use elf::Elf;
use part::Pages;

/// The file that runs, also when another one stands in its place since (proc_pid_exe(5)): after an upgrade of the package the
/// names are still those of the program that runs.
const PROGRAM: &str = "/proc/self/exe";

/// Where packages put what was taken out of programs and libraries, by the numbers that the linker gave them.
const SEPARATE: &str = "/usr/lib/debug/.build-id";

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: Arc<str>,
    pub(super) file: Arc<str>,
}

/// Functions at addresses, innermost first.
pub(super) struct Symbols(HashMap<usize, Arc<[Function]>>);

impl Symbols {
    /// Looks up what stands at the addresses of these stacks, innermost first each.
    pub(super) fn of<'a>(stacks: impl Iterator<Item = &'a [usize]>) -> Symbols {
        let all: HashSet<usize> = stacks.flat_map(returns).collect();
        let mut all: Vec<usize> = all.into_iter().collect();
        all.sort_unstable();
        let mut texts = Texts::default();
        let mut known = HashMap::with_capacity(all.len());
        let inside = |range: &Range<usize>| {
            let begin = all.partition_point(|address| *address < range.start);
            &all[begin..begin + all[begin..].partition_point(|address| *address < range.end)]
        };
        let program = profile::program_mapping();
        known.extend(in_program(inside(&program), program.start, &mut texts).unwrap_or_default());
        for (range, path) in profile::library_mappings() {
            let wanted = inside(&range);
            if !wanted.is_empty() {
                known.extend(in_library(&path, wanted, range.start, &mut texts).unwrap_or_default());
            }
        }
        RealMemory::new().release();
        Symbols(known)
    }

    /// Functions of one of the stacks from the outermost in; callers that nobody knows are left out.
    pub(super) fn stack(&self, addresses: &[usize]) -> Vec<Function> {
        let known = returns(addresses).filter_map(|address| self.0.get(&address));
        let mut functions: Vec<Function> = known.flat_map(|at| at.iter().cloned()).collect();
        functions.reverse();
        functions
    }
}

/// Addresses of a stack as lookups want them: they subtract one, because a caller's address is where it goes on.
fn returns(addresses: &[usize]) -> impl Iterator<Item = usize> {
    addresses.iter().enumerate().map(|(depth, address)| match depth {
        0 => address.saturating_add(1),
        _ => *address,
    })
}

/// Functions at sorted addresses of the program.
fn in_program(addresses: &[usize], begin: usize, texts: &mut Texts) -> Option<Vec<(usize, Arc<[Function]>)>> {
    let pages = Pages::new(File::open(PROGRAM).ok()?).ok()?;
    let elf = Elf::open(&pages).ok()??;
    // A package of the system keeps names in a file of its own.
    let separate = if elf.is_whole() { None } else { separate(&elf) };
    let elf = separate.as_ref().and_then(|pages| Elf::open(pages).ok()?).unwrap_or(elf);
    let places = places(addresses, begin);
    let mut found = Finder::new(|name| elf.section(name)).ok()?.at(&places);
    // Code that is not written in Rust has no debugging information, but symbols.
    let nameless: Vec<usize> = (0..places.len()).filter(|at| found[*at].functions.is_empty()).collect();
    let missing: Vec<u64> = nameless.iter().map(|at| places[*at]).collect();
    for (at, name) in nameless.into_iter().zip(elf.symbols(&missing).unwrap_or_default()) {
        let file = found[at].file.clone();
        found[at].functions.extend(name.map(|name| Place { name: name.into(), file }));
    }
    let functions = |places: &Places| -> Arc<[Function]> {
        let all = places.functions.iter().map(|place| texts.function(&demangled(&place.name), &place.file));
        all.collect::<Vec<_>>().into()
    };
    let functions: Vec<Arc<[Function]>> = found.iter().map(functions).collect();
    Some(addresses.iter().copied().zip(functions).collect())
}

/// A name of the linker's as it stands in the source, without a hash.
fn demangled(name: &str) -> String {
    rustc_demangle::try_demangle(name).map_or_else(|_| name.to_owned(), |name| format!("{name:#}"))
}

/// Names and files, each once in memory.
#[derive(Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn function(&mut self, name: &str, file: &str) -> Function {
        Function { name: self.kept(&qualified(&readable(name), file)), file: self.kept(file) }
    }

    fn kept(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.0.insert(text.clone());
        text
    }
}

/// Addresses in a file that lies in memory from a place on.
fn places(addresses: &[usize], begin: usize) -> Vec<u64> {
    addresses.iter().map(|address| (address - begin).saturating_sub(1) as u64).collect()
}

/// Functions at sorted addresses of a library, by its symbols; all of them are known where the system's package of debugging
/// information is installed, else those that programs call.
fn in_library(
    path: &Path,
    addresses: &[usize],
    begin: usize,
    texts: &mut Texts,
) -> Option<Vec<(usize, Arc<[Function]>)>> {
    let places = places(addresses, begin);
    let pages = Pages::new(File::open(path).ok()?).ok()?;
    let elf = Elf::open(&pages).ok()??;
    let beside = if elf.is_whole() { None } else { beside(&elf, &places) };
    let names = beside.map_or_else(|| elf.symbols(&places).ok(), Some)?;
    let functions = names.into_iter().map(|name| -> Arc<[Function]> {
        name.map(|name| texts.function(&demangled(&name), "")).into_iter().collect()
    });
    Some(addresses.iter().copied().zip(functions).collect())
}

/// Names by the file with what was taken out of a library.
fn beside(elf: &Elf<'_>, places: &[u64]) -> Option<Vec<Option<String>>> {
    let pages = separate(elf)?;
    Elf::open(&pages).ok()??.symbols(places).ok()
}

/// The file with what was taken out of a program or library, if it is installed.
fn separate(elf: &Elf<'_>) -> Option<Pages> {
    let id: String = elf.build_id().ok()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let (folder, name) = id.split_at_checked(2)?;
    Pages::new(File::open(format!("{SEPARATE}/{folder}/{name}.debug")).ok()?).ok()
}

/// Release binaries keep line tables only, in which functions that others were compiled into have no path: the file says it.
/// `src/cell.rs` of the crate in `core/broker` is `broker::cell`.
fn qualified(name: &str, file: &str) -> String {
    let Some((before, inside)) = file.rsplit_once("/src/").filter(|_| !name.contains("::")) else {
        return name.to_owned();
    };
    // `tokio-1.54.0` is the crate `tokio`.
    let folder = before.rsplit('/').next().unwrap_or(before);
    let version =
        folder.rfind('-').filter(|at| folder[at + 1..].starts_with(|first: char| first.is_ascii_digit()));
    let krate = folder[..version.unwrap_or(folder.len())].replace('-', "_");
    let module = inside.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    match module.as_str() {
        "lib" | "main" => format!("{krate}::{name}"),
        module => format!("{krate}::{module}::{name}"),
    }
}

/// A path without what nobody reads: generic arguments and the suffixes of the linker. `<A as B>::c` stays, without the arguments
/// of `A` and `B`.
fn readable(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('<') {
        let (before, bracket) = rest.split_at(at);
        out.push_str(before);
        let is_argument = out.ends_with(|last: char| last.is_alphanumeric() || "_}:".contains(last));
        match closing(bracket).filter(|_| is_argument) {
            Some(length) => {
                out.truncate(out.trim_end_matches("::").len());
                rest = &bracket[length..];
            }
            None => {
                out.push('<');
                rest = &bracket[1..];
            }
        }
    }
    out.push_str(rest);
    // A semicolon separates functions in folded stacks.
    out.replace(';', ",")
}

/// Length of the brackets that a text begins with.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            // Not the arrow of a function's type.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
        before = character;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_function_is_found_by_name_and_file() {
        let here = readable as fn(&str) -> String as usize;
        let symbols = Symbols::of([&[here, here + 40][..], &[1]].into_iter());
        let functions = symbols.stack(&[here]);
        let innermost = functions.last().expect("it is known");
        assert!(innermost.name.ends_with("symbols::readable"), "{functions:?}");
        assert!(innermost.file.ends_with("symbols.rs"));
        assert_eq!(symbols.stack(&[1]), []);
    }

    #[test]
    fn functions_of_libraries_have_names() {
        let (library, _) = profile::library_mappings()
            .into_iter()
            .find(|(_, path)| path.display().to_string().contains("/libc.so"))
            .expect("tests use the C library");
        // Some of its code, wherever that lies in it.
        let addresses: Vec<usize> = library.clone().step_by(1009).collect();
        let symbols = Symbols::of(addresses.iter().map(std::slice::from_ref));
        let names: HashSet<Arc<str>> =
            addresses.iter().flat_map(|at| symbols.stack(&[*at])).map(|it| it.name).collect();
        assert!(names.len() > 100, "{names:?}");
    }

    /// Functions at an address, innermost first, as the library for backtraces finds them.
    fn of_backtrace(address: usize, texts: &mut Texts) -> Vec<Function> {
        let mut found = Vec::new();
        backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
            if let Some(name) = symbol.name() {
                let file = symbol.filename().map(|file| file.display().to_string()).unwrap_or_default();
                found.push(texts.function(&format!("{name:#}"), &file));
            }
        });
        found
    }

    #[test]
    fn what_the_file_says_is_what_the_library_for_backtraces_says() {
        let program = profile::program_mapping();
        let pages = Pages::new(File::open(PROGRAM).unwrap()).unwrap();
        let text = Elf::open(&pages).unwrap().unwrap().section(".text");
        let begin = program.start + gimli::Reader::offset_id(&text).0 as usize;
        // All over it: every so many bytes of its code.
        let addresses: Vec<usize> =
            (begin..begin + gimli::Reader::len(&text)).step_by(9973).take(700).collect();
        let mut texts = Texts::default();
        let known = in_program(&addresses, program.start, &mut texts).expect("it is readable");
        assert_eq!(known.len(), addresses.len());
        let (mut same, mut inlined) = (0, 0);
        // Between functions lies what is never run; the library calls it by the function before.
        for (address, functions) in known.into_iter().filter(|(_, functions)| !functions.is_empty()) {
            let place = address - program.start;
            assert_eq!(functions.to_vec(), of_backtrace(address, &mut texts), "at {place:#x} of the file");
            same += 1;
            inlined += usize::from(functions.len() > 1);
        }
        assert!(same > 300 && inlined > 20, "{same} with names, {inlined} with functions compiled into them");
    }

    #[test]
    fn a_name_without_a_path_gets_it_from_its_file() {
        for (file, path) in [
            ("/b/core/broker/src/cell.rs", "broker::cell::run"),
            ("/r/tokio-1.54.0/src/runtime/task/mod.rs", "tokio::runtime::task::run"),
            ("/r/parking-lot/src/lib.rs", "parking_lot::run"),
            ("/b/x.rs", "run"),
            ("", "run"),
        ] {
            assert_eq!(qualified("run", file), path);
        }
        assert_eq!(qualified("a::run", "/b/core/broker/src/cell.rs"), "a::run");
    }

    #[test]
    fn generic_arguments_are_left_out() {
        for (name, path) in [
            ("a::b::<u8>::c", "a::b::c"),
            ("a::b::<alloc::vec::Vec<fn() -> u8>>::c.llvm.123", "a::b::c"),
            ("<a::B<u8> as c::D<T>>::e", "<a::B as c::D>::e"),
            ("write<queues::message::IncomingMessage>", "write"),
            ("{closure#1}<a::b::{closure_env#0}>", "{closure#1}"),
            ("a::<u8", "a::<u8"),
        ] {
            assert_eq!(readable(name), path);
        }
    }
}
