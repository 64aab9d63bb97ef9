//! Samples of what the process does with its CPU time: a signal that comes with CPU time used, the stack and the labels of the
//! thread it finds, put into a ring without a lock or an allocation; the same signal, sent to a thread that sleeps, shows where it
//! waits, and sent after page faults, who touches new memory. And of what it does with its memory: one allocation in many,
//! with stack and labels, until it is freed. Off until started; costs next to nothing then.
//!
//! Knows nothing of function names, queues or formats: a sample is addresses and numbers.

mod allocator;
mod faults;
mod heap;
mod labels;
mod names;
mod ring;
mod signal;
mod stack;
mod waiting;

pub use allocator::{HUGE_BYTES_MIN, WatchedAllocator, has_huge_pieces};
pub use faults::{FAULTS_EVERY_MAX, FaultWatch};
pub use heap::{
    Allocation, HeapMark, INTERVAL_BYTES, heap, heap_mark, is_heap_watched, start_heap, stop_heap,
};
pub use labels::{Labels, QueueScope, SessionScope, enter_queue, enter_session, set_exchange};
pub use names::{FAULT, NameId, intern, name_of};
pub use ring::{DEPTH_MAX, Sample};
pub use signal::{HZ_MAX, cpu_time_ns, drain, dropped, probe, set_rate};
pub use stack::{library_mappings, program_mapping, register_thread};
pub use waiting::{Waiting, waiting_threads};
