//! Brokers and connections for unit tests. Refuses to know what is tested.

use std::path::Path;
use std::sync::Arc;

use platform::{SeededRandom, SimClock, SimDisk, SimMemory};

use crate::{Broker, BrokerOptions, Commits, Driver, FileSizes, Foundation, OpenError, Principal, Unseen};

/// A connection of the default user to the default vhost.
pub(crate) fn connect(broker: &Broker) -> Result<Principal, OpenError> {
    let guest = broker.authenticate("guest", b"guest", true).expect("the default user");
    broker.open_connection(guest, "/", broker.next_connection_id(), Arc::new(Unseen))
}

/// A broker on a simulated disk whose engines move when they are told to, and a connection to it.
pub(crate) fn driven() -> (Broker, Driver, Principal, Arc<SimClock>) {
    let clock = Arc::new(SimClock::new(1_000_000));
    let (broker, driver, principal) = driven_on(&SimDisk::new(), &clock, FileSizes::default());
    (broker, driver, principal, clock)
}

/// The same with what is on that disk.
pub(crate) fn driven_on(
    disk: &SimDisk,
    clock: &Arc<SimClock>,
    sizes: FileSizes,
) -> (Broker, Driver, Principal) {
    driven_with(disk, clock, sizes, BrokerOptions::default())
}

/// The same with options.
pub(crate) fn driven_with(
    disk: &SimDisk,
    clock: &Arc<SimClock>,
    sizes: FileSizes,
    options: BrokerOptions,
) -> (Broker, Driver, Principal) {
    let foundation = Foundation {
        disk: Arc::new(disk.clone()),
        clock: clock.clone(),
        random: Arc::new(SeededRandom::new(1)),
        memory: Arc::new(SimMemory::new(1 << 30)),
        sizes,
        commits: Commits::AtOnce,
    };
    let opened = Broker::open_driven(&foundation, Path::new("/data"), options);
    let (broker, mut driver) = opened.expect("a disk without faults");
    driver.run_until_idle();
    let principal = connect(&broker).expect("the default vhost");
    (broker, driver, principal)
}
