//! Plan of one history of a full disk: the size of the disk, the queues, the messages and the consumers.
//! Knows nothing of what happens to them.

use broker::{FileSizes, SharedBodySizes};
use platform::SeededRandom;

use crate::kinds::Kind;

/// The smallest disk and the largest one, were all sizes as usual, bytes, above the threshold of the alarm. On 8 MB there is no room for letters at
/// all.
const DISK_BYTES: (u64, u64) = (12_000_000, 400_000_000);

/// Disks are this large at most, bytes.
const SMALL_BYTES: u64 = 16_000_000;

/// Bytes of files that are not smaller on a smaller disk, about.
const FIXED_BYTES: u64 = 16 << 10;

/// So many messages fill the disk, at most: larger ones come to a larger disk.
const MESSAGES_MAX: u64 = 20_000;

/// Bytes that one read of a connection brings, were all sizes as usual.
const READ_BYTES: u64 = 256 << 10;

/// A message is at most this part of the largest reserve: 1 / this.
const MESSAGE_PART: u64 = 512;

/// Bytes of an empty message in a log and in letters, about.
const OVERHEAD_BYTES: u64 = 100;

/// A queue that messages are published to, or letters come to.
#[derive(Clone, Debug)]
pub(super) struct Role {
    /// The kind that it is declared as. `letters_to` are higher numbers here.
    pub(super) kind: Kind,
    /// Messages are published to it.
    pub(super) is_source: bool,
    pub(super) consumer: Taker,
}

/// The treatment of the messages of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// They stay until they die.
    Nobody,
    /// All are rejected.
    Rejects(When),
    /// All are taken and acked.
    Acks(When),
}

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// As long as there is a broker.
    Always,
    /// When nobody publishes any more.
    AtLast,
    /// When all letters of others have come.
    AfterOthers,
}

/// In which order messages come to the sources.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turns {
    /// So many to one, then to the next.
    Of(u64),
    Random,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// All sizes are the usual ones divided by this.
    pub(super) scale: u64,
    pub(super) disk_bytes: u64,
    pub(super) limit_bytes: u64,
    pub(super) roles: Vec<Role>,
    /// Bytes of a body: at least, and so many different ones.
    pub(super) body_bytes: (u64, u64),
    /// Bytes that one read of a connection brings, about.
    pub(super) batch_bytes: u64,
    pub(super) turns: Turns,
    /// Milliseconds between two publishers' batches, at most.
    pub(super) pace_ms: u64,
    /// One of so many steps of engines while publishers publish is a look at the disk.
    pub(super) steps_per_look: u64,
    pub(super) lives: u64,
}

impl Plan {
    pub(super) fn choose(random: &SeededRandom) -> Plan {
        let one_of =
            |values: &[u64]| values[usize::try_from(random.below(values.len() as u64)).expect("few")];
        let (least, most) = DISK_BYTES;
        // As often between 10 and 20 as between 100 and 200.
        let doubled = least << random.below(u64::from((most / least).ilog2()) + 1);
        let usual_bytes = (doubled + random.below(doubled)).min(most);
        let scale = one_of(&[1, 4, 4, 8, 8, 16]).max(usual_bytes / SMALL_BYTES);
        let limit_bytes = if random.chance(1, 2) { 0 } else { random.below(usual_bytes / 2) / scale };
        let disk_bytes = usual_bytes / scale + limit_bytes + FIXED_BYTES;
        let fits = disk_bytes / MESSAGES_MAX;
        let largest = (FileSizes::default().reserve_bytes_max / scale / MESSAGE_PART).max(64);
        let least_body =
            one_of(&[0, 0, 100, 400, 1500, 5000]).max(fits.saturating_sub(OVERHEAD_BYTES)).min(largest);
        let body_bytes =
            (least_body, 1 + random.below(if random.chance(1, 3) { largest } else { 1 + least_body / 4 }));
        Plan {
            scale,
            disk_bytes,
            limit_bytes,
            roles: roles(random),
            body_bytes,
            batch_bytes: READ_BYTES / scale,
            turns: if random.chance(1, 3) {
                Turns::Random
            } else {
                Turns::Of(one_of(&[1, 1, 10, 100, 1000]))
            },
            pace_ms: one_of(&[1, 5, 20, 100]),
            steps_per_look: one_of(&[10, 30, 100]),
            lives: 1 + random.below(3),
        }
    }

    /// The numbers of the queues that are published to.
    pub(super) fn sources(&self) -> Vec<usize> {
        (0..self.roles.len()).filter(|slot| self.roles[*slot].is_source).collect()
    }

    /// Where a message of this queue ends, were all to die that can.
    pub(super) fn end_of(&self, mut slot: usize) -> usize {
        while let Some(next) = self.roles[slot].kind.letters_to {
            slot = next;
        }
        slot
    }

    /// Whether messages leave this queue in their order: an expired message may overtake a rejected one that waits.
    pub(super) fn is_in_order(&self, mut slot: usize) -> bool {
        loop {
            let Role { kind, consumer, .. } = &self.roles[slot];
            if kind.ttl_ms.is_some() && matches!(consumer, Taker::Rejects(_)) {
                return false;
            }
            let Some(next) = kind.letters_to else { return true };
            slot = next;
        }
    }

    /// The longest that a message waits for its end where nothing holds it, milliseconds.
    pub(super) fn longest_ms(&self) -> u64 {
        let of = |slot: usize| self.roles[slot].kind.ttl_ms.unwrap_or(0);
        (0..self.roles.len()).map(of).sum()
    }

    /// Sizes of files on such a disk.
    pub(super) fn sizes(&self) -> FileSizes {
        let (usual, scale) = (FileSizes::default(), self.scale);
        let part = |bytes: usize| bytes / usize::try_from(scale).expect("small");
        FileSizes {
            log_file_bytes_max: usual.log_file_bytes_max / scale,
            segment_bytes_max: usual.segment_bytes_max / u32::try_from(scale).expect("small"),
            segment_free_bytes_max: usual.segment_free_bytes_max / scale,
            node_free_bytes_max: usual.node_free_bytes_max / scale,
            waiting_bytes_max: usual.waiting_bytes_max / scale,
            snapshot_every_bytes: usual.snapshot_every_bytes / scale,
            log_prefill_bytes: usual.log_prefill_bytes / scale,
            bodies: SharedBodySizes {
                bytes_min: part(usual.bodies.bytes_min),
                recent_bytes_max: part(usual.bodies.recent_bytes_max),
                unwritten_bytes_max: part(usual.bodies.unwritten_bytes_max),
            },
            reserve_bytes_max: usual.reserve_bytes_max / scale,
        }
    }
}

/// One to three families of sources, each with the queues that its letters go through to their end.
fn roles(random: &SeededRandom) -> Vec<Role> {
    let mut roles = Vec::new();
    for _ in 0..1 + random.below(3) {
        family(random, &mut roles);
    }
    roles
}

fn family(random: &SeededRandom, roles: &mut Vec<Role>) {
    let durable = Kind { durable: true, ..Kind::default() };
    let when = || if random.chance(1, 2) { When::Always } else { When::AtLast };
    if random.chance(1, 5) {
        // Plain ones.
        for _ in 0..=random.below(3) {
            roles.push(Role { kind: durable.clone(), is_source: true, consumer: Taker::Acks(when()) });
        }
        return;
    }
    let sources = 1 + random.below(1 << random.below(5));
    let hops = usize::try_from(random.below(3)).expect("few");
    let first_hop = roles.len() + usize::try_from(sources).expect("few");
    let ttl_ms = |most: u64| 100 + random.below(most);
    let (expires, is_mixed) = (random.chance(2, 3), random.chance(1, 8));
    for _ in 0..sources {
        let ttl_ms = (expires || is_mixed).then(|| ttl_ms(20_000));
        let consumer = if !expires || is_mixed { Taker::Rejects(when()) } else { Taker::Nobody };
        let kind = Kind { letters_to: Some(first_hop), ttl_ms, ..durable.clone() };
        roles.push(Role { kind, is_source: true, consumer });
    }
    for hop in 0..hops {
        let letters_to = Some(first_hop + hop + 1);
        let (ttl_ms, consumer) = match random.below(12) {
            0 => (Some(720_000), Taker::Nobody),
            1..=3 => (None, Taker::Rejects(when())),
            _ => (Some(ttl_ms(4000)), Taker::Nobody),
        };
        roles.push(Role { kind: Kind { letters_to, ttl_ms, ..durable.clone() }, is_source: false, consumer });
    }
    let when = if random.chance(1, 5) { When::AfterOthers } else { when() };
    roles.push(Role { kind: durable, is_source: false, consumer: Taker::Acks(when) });
}
