//! The machine of simulated groups: a list of commands, each of them a number.

use bytes::Bytes;

/// The applied entries, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    commands: Vec<u64>,
    digest: u64,
}

impl List {
    pub(crate) fn apply(&mut self, command: u64) {
        self.commands.push(command);
        self.digest = (self.digest ^ command).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    pub(crate) fn capture(&self) -> Bytes {
        self.commands.iter().flat_map(|command| command.to_be_bytes()).collect::<Vec<u8>>().into()
    }

    pub(crate) fn install(state: &Bytes) -> Self {
        let mut list = Self::default();
        for command in state.chunks_exact(8) {
            list.apply(u64::from_be_bytes(command.try_into().expect("eight bytes")));
        }
        list
    }

    /// The same for lists with the same commands in the same order.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn commands(&self) -> &[u64] {
        &self.commands
    }
}

/// The body of an entry: the command, and bytes to make it longer.
pub(crate) fn body_of(command: u64, bytes: u64) -> Bytes {
    let mut body = command.to_be_bytes().to_vec();
    body.resize(8 + usize::try_from(bytes).expect("a short body"), 7);
    body.into()
}

pub(crate) fn command_of(body: &Bytes) -> u64 {
    u64::from_be_bytes(body[..8].try_into().expect("a body has a command"))
}
