//! The only door to clock, disk, memory figures, randomness and threads: a real side and a simulated side.
//!
//! Everything above takes `Arc<dyn Disk>`, `Arc<dyn Clock>` or `Arc<dyn Random>`, so that a test can run the same code from
//! a seed with a disk that forgets unsynced writes. This crate refuses to know file formats, retries and policies: it does
//! what it is told and reports what the operating system said. Principal type: [`Disk`].

pub mod clock;
pub mod disk;
pub mod memory;
pub mod open_files;
pub mod privacy;
pub mod profile;
pub mod random;
pub mod thread;

pub use clock::{Clock, Monotonic, RealClock, SimClock};
pub use disk::real::RealDisk;
pub use disk::sim::SimDisk;
pub use disk::{Caching, Disk, DiskFile, OpenMode};
pub use memory::{HeapBytes, Memory, RealMemory, ResidentBytes, SimMemory};
pub use random::{Random, RealRandom, SeededRandom};
