//! `cargo xtask suites`: the suites that look at Warren from outside, each a few lines of one [`list`], run in three lanes side by side.
//!
//! ```text
//!  list ──► run ──► lanes ──► a suite: broker of its own or the shared one ──► bash, output in .cache/test-logs/NAME.log
//!            └──► watcher: kills what is left when the run ends, however it ends
//! ```
//!
//! Refuses to know what the suites check.

mod arguments;
mod broker;
mod list;
mod process;
mod report;
mod run;

pub(crate) use process::watch;
pub(crate) use run::{run, setup_of_tests};

/// The help text of `cargo xtask suites --help`.
pub(crate) const HELP: &str = "\
cargo xtask suites [NAME...]        these suites; without names all that `make test` runs
cargo xtask suites --soak           the long campaigns: hours
cargo xtask suites --list           names of all suites
cargo xtask suites --against-url [NAME...]
                                    against the broker at AMQP_URL instead of a Warren that is started for it

Each suite writes .cache/test-logs/NAME.log. The exit code is not 0 if a suite failed. No process is left behind.

Environment:
  WARREN_BIN      the binary to test (default: a build of the profile `suites`; a release for campaigns. It
                  is made first)
  BROKER_FLAVOR   with --against-url: warren (default), rabbitmq3 or rabbitmq4
  BROKER_CTL      with --against-url: a command like rabbitmqctl, for `conformance`
  BROKER_PID      with --against-url: the broker's process, whose memory `hostile` watches
  PERFTEST_S      seconds of each timed case of PerfTest (default 3)
  KILL9_CYCLES    lives of the broker in `kill9` (default 12)
  FLOOD_MB        MB of messages that `hostile` throws at a queue without consumer (default 512)
  TEST_SEED       a number or `random`: other random work in management, kill9, freeze and delayed. A failure prints its
                  seed. For management it may be a range, 1-300
  CHROMIUM        the browser of `ui` (default: chromium)
  UI_SHOTS        a folder for pictures of the pages of the web UI
";
