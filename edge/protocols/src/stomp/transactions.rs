//! BEGIN, COMMIT and ABORT: frames of a transaction wait here, as in RabbitMQ, and are done one after the other when it is committed.
//!
//! Refuses to know what the frames mean.

use std::collections::HashMap;

use wire::stomp::Headers;

use super::errors::Trouble;
use super::running::Running;

/// Open transactions of one connection, at most.
const OPEN_MAX: usize = 16;

/// Frames of one transaction, at most.
const FRAMES_MAX: usize = 1_024;

/// Bytes of all of them, at most.
const BYTES_MAX: usize = 16 << 20;

/// The open transactions of a connection.
#[derive(Default)]
pub(crate) struct Transactions {
    open: HashMap<Box<[u8]>, Vec<Box<[u8]>>>,
    bytes: usize,
}

/// A frame or receipt that COMMIT lets go.
pub(crate) enum Replayed {
    /// A frame.
    Frame(Box<[u8]>),
    /// The receipt of COMMIT, after its frames.
    Receipt(Box<[u8]>),
}

impl Transactions {
    fn take(&mut self, name: &[u8]) -> Result<Vec<Box<[u8]>>, Trouble> {
        let frames = self.open.remove(name).ok_or_else(|| bad(name))?;
        self.bytes -= frames.iter().map(|frame| frame.len()).sum::<usize>();
        Ok(frames)
    }

    fn begin(&mut self, name: &[u8]) -> Result<(), Trouble> {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(name) {
            let text = format!("a connection has at most {OPEN_MAX} open transactions\n");
            return Err(Trouble::ending("Too many transactions", text));
        }
        // One of that name begins again, as in RabbitMQ.
        let _before = self.take(name);
        self.open.insert(name.into(), Vec::new());
        Ok(())
    }

    fn add(&mut self, name: &[u8], frame: &[u8]) -> Result<(), Trouble> {
        let frames = self.open.get_mut(name).ok_or_else(|| bad(name))?;
        if frames.len() >= FRAMES_MAX || self.bytes + frame.len() > BYTES_MAX {
            let text =
                format!("a transaction has at most {FRAMES_MAX} frames, all of them {BYTES_MAX} bytes\n");
            return Err(Trouble::ending("Transaction too large", text));
        }
        self.bytes += frame.len();
        frames.push(frame.into());
        Ok(())
    }
}

fn bad(name: &[u8]) -> Trouble {
    let name = String::from_utf8_lossy(name);
    Trouble::told("Bad transaction", format!("Invalid transaction identifier: \"{name}\"\n"))
}

fn name_of<'a>(headers: Headers<'a>, command: &str) -> Result<std::borrow::Cow<'a, [u8]>, Trouble> {
    let text = || format!("\"{command}\" must include a 'transaction' header\n");
    headers.get(b"transaction").ok_or_else(|| Trouble::told("Missing transaction", text()))
}

impl Running {
    /// Puts a frame aside that names a transaction.
    pub(crate) fn put_aside(&mut self, headers: Headers<'_>, raw: &[u8]) -> Result<(), Trouble> {
        let name = headers.get(b"transaction").unwrap_or_default();
        self.transactions.add(&name, raw)
    }

    /// BEGIN.
    pub(crate) fn begin(&mut self, headers: Headers<'_>) -> Result<(), Trouble> {
        self.transactions.begin(&name_of(headers, "BEGIN")?)
    }

    /// COMMIT: its frames are next.
    pub(crate) fn commit(&mut self, headers: Headers<'_>) -> Result<(), Trouble> {
        let frames = self.transactions.take(&name_of(headers, "COMMIT")?)?;
        self.replayed.extend(frames.into_iter().map(Replayed::Frame));
        self.replayed.extend(headers.get(b"receipt").map(|receipt| Replayed::Receipt(receipt.into())));
        Ok(())
    }

    /// ABORT.
    pub(crate) fn abort(&mut self, headers: Headers<'_>) -> Result<(), Trouble> {
        self.transactions.take(&name_of(headers, "ABORT")?).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_have_bounds() {
        let mut transactions = Transactions::default();
        for number in 0..OPEN_MAX {
            transactions.begin(number.to_string().as_bytes()).unwrap();
        }
        transactions.begin(b"0").unwrap();
        assert!(transactions.begin(b"more").unwrap_err().ends);
        for _ in 0..FRAMES_MAX {
            transactions.add(b"0", b"frame").unwrap();
        }
        assert!(transactions.add(b"0", b"frame").unwrap_err().ends);
        assert!(transactions.add(b"1", &vec![0; BYTES_MAX]).unwrap_err().ends);
        assert_eq!(transactions.take(b"0").unwrap().len(), FRAMES_MAX);
        assert_eq!(transactions.bytes, 0);
        transactions.add(b"1", &vec![0; BYTES_MAX]).unwrap();
        assert!(!transactions.take(b"0").unwrap_err().ends);
    }
}
