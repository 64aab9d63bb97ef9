//! Thresholds as operators write them. Knows nothing of what is measured.

/// Above how much memory of this process the memory alarm is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryLimit {
    /// This part of the memory there is, from 0 to 1.
    Fraction(f64),
    /// Bytes.
    Bytes(u64),
}

impl MemoryLimit {
    /// The threshold in bytes where there is so much memory.
    #[must_use]
    pub fn bytes(self, total_bytes: u64) -> u64 {
        match self {
            MemoryLimit::Fraction(fraction) => part_of(total_bytes, fraction),
            MemoryLimit::Bytes(bytes) => bytes,
        }
    }
}

/// Below how much free space of the data directory's file system the disk alarm is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskLimit {
    /// Bytes.
    Bytes(u64),
    /// This many times the memory there is.
    OfMemory(f64),
}

impl DiskLimit {
    /// The threshold in bytes where there is so much memory.
    #[must_use]
    pub fn bytes(self, total_memory_bytes: u64) -> u64 {
        match self {
            DiskLimit::Bytes(bytes) => bytes,
            DiskLimit::OfMemory(factor) => part_of(total_memory_bytes, factor),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a threshold is right to a few bytes, and `as` saturates"
)]
fn part_of(total_bytes: u64, factor: f64) -> u64 {
    (total_bytes as f64 * factor) as u64
}

/// An amount of bytes as RabbitMQ takes it for its thresholds: `50000`, `50MB` (a million), `50MiB` or `50M` (powers of
/// 1,024). `None` for anything else and what does not fit 64 bits.
#[must_use]
pub fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("50000", 50_000),
            ("50MB", 50_000_000),
            ("2GB", 2_000_000_000),
            ("2G", 2 << 30),
            ("2gib", 2 << 30),
            ("1MiB", 1 << 20),
            ("3k", 3072),
            ("3kB", 3000),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(size_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "MB", "-1", "1.5GB", "1 GB", "1XB", "99999999999999999999", "18446744073709551615k"]
        {
            assert_eq!(size_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn fractions_are_of_all_memory() {
        assert_eq!(MemoryLimit::Fraction(0.6).bytes(1000), 600);
        assert_eq!(MemoryLimit::Fraction(0.0).bytes(1000), 0);
        assert_eq!(MemoryLimit::Bytes(7).bytes(1000), 7);
        assert_eq!(DiskLimit::OfMemory(1.5).bytes(1000), 1500);
        assert_eq!(DiskLimit::OfMemory(f64::MAX).bytes(1000), u64::MAX);
    }
}
