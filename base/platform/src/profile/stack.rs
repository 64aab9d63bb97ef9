//! Walks the stack of this thread by frame pointers, which every function of this program and of Rust's standard library keeps
//! (`.cargo/config.toml`). Reads nothing outside the thread's stack. Knows nothing of symbols.
//!
//! The C library keeps no frame pointers: where a thread is found in it, its caller is looked for among the first words of the
//! stack, and everything further out is exact again.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ring::DEPTH_MAX;

/// Words above the stack pointer that are searched for the caller of a function without a frame.
const WORDS_SEARCHED: usize = 64;

/// Words above the stack pointer that are searched for the next frame when the register that should hold it does not.
const FRAME_WORDS_SEARCHED: usize = 512;

thread_local! {
    /// Lowest and one past the highest address of this thread's stack; 0 until it is registered.
    static LOW: AtomicUsize = const { AtomicUsize::new(0) };
    static HIGH: AtomicUsize = const { AtomicUsize::new(0) };
}

/// Where this program's own code lies.
static CODE: OnceLock<std::ops::Range<usize>> = OnceLock::new();

/// The registers of a thread that a stack walk needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    /// Where it executes.
    pub(super) instruction: usize,
    /// Top of its stack.
    pub(super) stack: usize,
    /// Its innermost frame.
    pub(super) frame: usize,
}

/// Makes the stack of this thread known; only the innermost address is recorded of others. Cheap; again is harmless.
pub fn register_thread() {
    if HIGH.with(|high| high.load(Ordering::Relaxed)) != 0 {
        return;
    }
    if let Some((low, high)) = bounds() {
        LOW.with(|known| known.store(low, Ordering::Relaxed));
        HIGH.with(|known| known.store(high, Ordering::Release));
    }
}

/// The stack of this thread as the C library knows it.
#[expect(unsafe_code, reason = "asks the C library for the bounds of a stack")]
fn bounds() -> Option<(usize, usize)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: `pthread_self` has no preconditions; `pthread_getattr_np` initialises the attributes when it returns 0
    // (pthread_getattr_np(3)), and they are used and destroyed only then. The pointers are to locals.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut low = std::ptr::null_mut();
        let mut bytes = 0;
        let known = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (known == 0).then(|| (low as usize, low as usize + bytes))
    }
}

/// Finds out where this program's code lies. Before the first walk; not in a signal handler.
pub(super) fn learn_code() {
    CODE.get_or_init(|| {
        let (maps, program) = maps();
        mapping_in(&maps, &program, " r-xp ")
    });
}

/// Where this program's file lies in memory, from its first byte on; empty where nobody tells.
pub fn program_mapping() -> std::ops::Range<usize> {
    let (maps, program) = maps();
    mapping_in(&maps, &program, " ")
}

/// Where files of libraries lie in memory, each from its first byte on.
pub fn library_mappings() -> Vec<(std::ops::Range<usize>, PathBuf)> {
    let (maps, program) = maps();
    libraries_in(&maps, &program)
}

fn libraries_in(maps: &str, program: &str) -> Vec<(std::ops::Range<usize>, PathBuf)> {
    let path = |line: &str| line.find('/').map(|at| line[at..].to_owned());
    let code = maps.lines().filter(|line| line.contains(" r-xp ")).filter_map(path);
    let mut paths: Vec<String> = code.filter(|path| path != program).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().map(|path| (mapping_in(maps, &path, " "), path.into())).collect()
}

/// The text of `/proc/self/maps`, and what this program is called there. A program whose file is gone is called so in both.
fn maps() -> (String, String) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    (maps, program)
}

/// The span of a program's mappings of a kind in the text of `/proc/self/maps`.
fn mapping_in(maps: &str, program: &str, kind: &str) -> std::ops::Range<usize> {
    let ranges =
        maps.lines().filter(|line| line.ends_with(program) && line.contains(kind)).filter_map(|line| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
        });
    ranges.fold(
        0..0,
        |span, (from, to)| {
            if span.is_empty() { from..to } else { span.start.min(from)..span.end.max(to) }
        },
    )
}

/// Writes the stack that the registers show, innermost first; returns its depth. Safe in a signal handler of the thread that the
/// registers belong to.
pub(super) fn walk(registers: Registers, out: &mut [usize; DEPTH_MAX]) -> usize {
    walk_in(CODE.get().unwrap_or(&(0..0)), registers, out)
}

/// Writes the stack of the caller, innermost first; returns its depth.
pub(super) fn walk_here(out: &mut [usize; DEPTH_MAX]) -> usize {
    let marker = 0usize;
    let here = std::ptr::from_ref(std::hint::black_box(&marker)).expose_provenance();
    // Neither an instruction nor a frame is known: the first frame above is this function's own.
    let registers = Registers { instruction: 0, stack: here, frame: 0 };
    let depth = walk_in(CODE.get().unwrap_or(&(0..0)), registers, out);
    // A return address that was searched for beside the frames may be a left-over of an earlier call.
    let skipped = depth.min(if depth > 2 { 2 } else { 1 });
    out.copy_within(skipped..depth, 0);
    depth - skipped
}

fn walk_in(own: &std::ops::Range<usize>, registers: Registers, out: &mut [usize; DEPTH_MAX]) -> usize {
    out[0] = registers.instruction;
    let mut depth = 1;
    let (low, high) =
        (LOW.with(|low| low.load(Ordering::Relaxed)), HIGH.with(|high| high.load(Ordering::Relaxed)));
    let is_here = |address: usize| {
        address >= registers.stack
            && address >= low
            && address < high.saturating_sub(16)
            && address.is_multiple_of(8)
    };
    let is_frame =
        |at: usize| is_here(at) && word(at) > at && is_here(word(at)) && own.contains(&word(at + 8));
    let mut frame = registers.frame;
    if !own.contains(&registers.instruction) {
        let near = |at: &usize| is_here(*at);
        let mut searched = (registers.stack..high).step_by(8).take(WORDS_SEARCHED).take_while(near);
        if let Some(caller) = searched.find(|at| own.contains(&word(*at))).map(word) {
            out[depth] = caller;
            depth += 1;
        }
        if !is_frame(frame) {
            // The C library uses the register for something else: the next frame lies above.
            let mut above = (registers.stack..high).step_by(8).take(FRAME_WORDS_SEARCHED).take_while(near);
            frame = above.find(|at| is_frame(*at)).unwrap_or(0);
        }
    }
    while depth < DEPTH_MAX && is_here(frame) {
        let (outer, caller) = (word(frame), word(frame + 8));
        if caller == 0 {
            break;
        }
        // The search above may have found the same caller.
        if out[depth - 1] != caller {
            out[depth] = caller;
            depth += 1;
        }
        if outer <= frame {
            break;
        }
        frame = outer;
    }
    depth
}

/// A word of this thread's stack.
#[expect(unsafe_code, reason = "reads the frames of the interrupted thread")]
fn word(address: usize) -> usize {
    // SAFETY: the caller has checked that the eight aligned bytes lie between the interrupted stack pointer and the end of this
    // thread's stack, as the C library gave it: mapped, readable memory that only this thread writes to, and it is interrupted.
    unsafe { std::ptr::with_exposed_provenance::<usize>(address).read_volatile() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_program_spans_its_executable_mappings() {
        let maps = "10-20 r--p 0 00:00 1 /bin/p\n20-30 r-xp 0 00:00 1 /bin/p\n50-60 r-xp 0 00:00 1 /bin/p\n70-80 r-xp 0 00:00 1 /lib/c\n";
        assert_eq!(mapping_in(maps, "/bin/p", " r-xp "), 0x20..0x60);
        assert_eq!(mapping_in("", "/bin/p", " "), 0..0);
        let libraries = "60-70 r--p 0 00:00 1 /lib/c d\n70-80 r-xp 0 00:00 1 /lib/c d\n80-90 r--p 0 00:00 1 /etc/e\n90-a0 r-xp 0 00:00 0 [vdso]\n";
        let found = libraries_in(&format!("{maps}{libraries}"), "/bin/p");
        assert_eq!(found, [(0x70..0x80, PathBuf::from("/lib/c")), (0x60..0x80, PathBuf::from("/lib/c d"))]);
    }

    #[test]
    fn registers_that_lie_outside_the_stack_are_not_followed() {
        register_thread();
        let mut out = [0; DEPTH_MAX];
        for wild in [0, 8, usize::MAX - 7, 0x1234_5678_9abc, 3] {
            let registers = Registers { instruction: 42, stack: wild, frame: wild };
            assert_eq!(walk_in(&(0..usize::MAX), registers, &mut out), 1, "{wild:x}");
            assert_eq!(walk_in(&(0..0), registers, &mut out), 1, "{wild:x}");
            assert_eq!(out[0], 42);
        }
    }

    #[test]
    fn a_function_without_a_frame_is_left_by_the_next_frame_above_it() {
        register_thread();
        let mut words = [0usize; 16];
        let at = words.as_ptr() as usize;
        words[2] = 0x5001;
        // A frame, and the one around it.
        words[6] = at + 8 * 10;
        words[7] = 0x5002;
        words[10] = 0;
        words[11] = 0x5003;
        let words = std::hint::black_box(&words);
        let at = words.as_ptr() as usize;
        let mut out = [0; DEPTH_MAX];
        let registers = Registers { instruction: 0x9000, stack: at, frame: 77 };
        let depth = walk_in(&(0x5000..0x6000), registers, &mut out);
        assert_eq!(out[..depth], [0x9000, 0x5001, 0x5002, 0x5003]);
    }

    #[test]
    fn frames_that_point_at_themselves_or_backwards_end_the_walk() {
        register_thread();
        let mut frames = [0usize; 8];
        let at = frames.as_ptr() as usize;
        // Two frames: the outer one points back to the inner one.
        frames[0] = at + 32;
        frames[1] = 0x1000;
        frames[4] = at;
        frames[5] = 0x2000;
        let frames = std::hint::black_box(&frames);
        let at = frames.as_ptr() as usize;
        let mut out = [0; DEPTH_MAX];
        let depth = walk_in(&(0..usize::MAX), Registers { instruction: 42, stack: at, frame: at }, &mut out);
        assert_eq!(out[..depth], [42, 0x1000, 0x2000]);
    }
}
