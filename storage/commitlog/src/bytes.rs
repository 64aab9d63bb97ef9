//! Fixed-width big-endian numbers in byte slices whose length the caller has checked. Knows nothing of formats.

/// The four bytes at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

/// The eight bytes at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
}

/// Writes four bytes at `at`.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Writes eight bytes at `at`.
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

/// A length as a file offset.
pub(crate) const fn offset_of(len: usize) -> u64 {
    len as u64
}

/// A file offset or length as an index; files larger than the address space cannot be handled.
pub(crate) fn index_of(offset: u64) -> usize {
    usize::try_from(offset).expect("lengths in memory fit the address space")
}
