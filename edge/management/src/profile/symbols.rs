//! From addresses to names of functions: Rust paths without hashes, functions that were compiled into others included. Knows
//! nothing of samples.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use addr2line::Loader;
use platform::{Memory, RealMemory, profile};

/// The file that runs, also when another one stands in its place since (proc_pid_exe(5)): after an upgrade of the package the
/// names are still those of the program that runs.
const PROGRAM: &str = "/proc/self/exe";

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: Arc<str>,
    pub(super) file: Arc<str>,
}

/// Functions at each address, looked up once. What the lookup keeps of debugging information is freed with it.
pub(super) struct Symbols {
    known: HashMap<usize, Arc<[Function]>>,
    program: Option<Program>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self { known: HashMap::new(), program: Program::open() }
    }
}

impl Symbols {
    /// Functions of a stack from the outermost in; callers that nobody knows are left out.
    pub(super) fn stack(&mut self, addresses: &[usize]) -> Vec<Function> {
        let mut functions = Vec::with_capacity(addresses.len());
        for (depth, address) in addresses.iter().enumerate() {
            // Lookups subtract one, because a caller's address is where it goes on.
            let address = if depth == 0 { address.saturating_add(1) } else { *address };
            functions.extend(self.at(address).iter().cloned());
        }
        functions.reverse();
        functions
    }

    /// Functions at an address, innermost first.
    fn at(&mut self, address: usize) -> Arc<[Function]> {
        let program = self.program.as_ref().filter(|program| program.mapping.contains(&address));
        let resolve = || match program {
            Some(program) => program.resolve(address),
            None => resolve(address),
        };
        self.known.entry(address).or_insert_with(|| resolve().into()).clone()
    }
}

impl Drop for Symbols {
    fn drop(&mut self) {
        backtrace::clear_symbol_cache();
        // The line tables of the whole program were read into memory.
        RealMemory::new().release();
    }
}

/// Debugging information of the program itself.
struct Program {
    loader: Loader,
    mapping: Range<usize>,
}

impl Program {
    fn open() -> Option<Program> {
        let mapping = profile::program_mapping();
        // Without the file, or with one that cannot be read, the libraries' way is tried.
        let loader = Loader::new(PROGRAM).ok().filter(|_| !mapping.is_empty())?;
        Some(Program { loader, mapping })
    }

    /// Functions at an address in the mapping, innermost first.
    fn resolve(&self, address: usize) -> Vec<Function> {
        let place = (address - self.mapping.start) as u64 + self.loader.relative_address_base();
        let place = place.saturating_sub(1);
        let mut found = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(place) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(name) = frame.function.as_ref().and_then(|it| it.demangle().ok()) else { continue };
                let file = frame.location.and_then(|it| it.file).unwrap_or_default();
                found.push(Function::new(&name, file));
            }
        }
        if found.is_empty()
            && let Some(name) = self.loader.find_symbol(place)
        {
            found.push(Function::new(&addr2line::demangle_auto(name.into(), None), ""));
        }
        found
    }
}

impl Function {
    fn new(name: &str, file: &str) -> Function {
        Function { name: qualified(&readable(name), file).into(), file: file.into() }
    }
}

/// Functions at an address of a library, innermost first.
fn resolve(address: usize) -> Vec<Function> {
    let mut found = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        if let Some(name) = symbol.name() {
            let file = symbol.filename().map(|file| file.display().to_string()).unwrap_or_default();
            found.push(Function::new(&format!("{name:#}"), &file));
        }
    });
    found
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
        let mut symbols = Symbols::default();
        let here = resolve as fn(usize) -> Vec<Function> as usize;
        let functions = symbols.stack(&[here]);
        let innermost = functions.last().expect("it is known");
        assert!(innermost.name.ends_with("symbols::resolve"), "{functions:?}");
        assert!(innermost.file.ends_with("symbols.rs"));
        assert_eq!(symbols.stack(&[1]), []);
        // What the program's file says, and what libraries are asked for, agree.
        let names = |functions: Vec<Function>| functions.into_iter().map(|it| it.name).collect::<Vec<_>>();
        assert_eq!(names(super::resolve(here + 1)), names(symbols.at(here + 1).to_vec()));
        assert!(symbols.program.is_some());
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
