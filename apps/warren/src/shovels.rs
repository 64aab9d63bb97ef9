//! Starts shovels, and gives them connections to this very server: pipes into sessions. Refuses to know parameters.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use broker::{Broker, User};
use platform::{Clock, Random};
use protocols::amqp091::{Session, Settings};
use protocols::{Logins, Mechanism, Now, Peer};
use shovel::{Local, Login, Rules, Shovels, Topology};
use tokio::io::duplex;

use crate::config::{ShovelOptions, Switch};

/// Bytes that a pipe holds in each direction.
const PIPE_BYTES: usize = 256 << 10;

/// Starts the shovels of all runtime parameters. Inside a runtime only.
pub(crate) fn start(
    broker: &Broker,
    settings: &Settings,
    options: &ShovelOptions,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
) -> Shovels {
    // The client within speaks PLAIN, whatever clients from outside may speak.
    let logins = Logins { mechanisms: vec![Mechanism::Plain], ..settings.logins.clone() };
    let settings = Arc::new(Settings { logins, ..settings.clone() });
    let numbers = AtomicU16::new(0);
    let within = broker.clone();
    let local: Local = Arc::new(move |login| {
        // No socket, so no port: a number tells these connections apart in listings.
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let number = numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let peer = Peer::plain(address(number), address(0), random.next_u64());
        let now = Now { monotonic_ms: clock.now().as_ms(), unix_ms: clock.wall_ms() };
        let session = Session::new(within.clone(), settings.clone(), peer, now);
        let session = match login {
            Login::Internal => session.acting_as(Arc::new(User::internal())),
            Login::ByPassword => session,
        };
        let (ours, theirs) = duplex(PIPE_BYTES);
        tokio::spawn(net::serve(theirs, session, clock.clone()));
        ours
    });
    Shovels::start(broker.clone(), local, management::read_shovel, rules(options))
}

fn rules(options: &ShovelOptions) -> Rules {
    let topology = if options.predeclared == Switch::On { Topology::Predeclared } else { Topology::Declared };
    Rules { lifetime_min: Duration::from_secs(options.lifetime_min_s), topology }
}
