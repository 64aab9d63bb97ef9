//! How many requests are answered at once, and how much memory their bodies have.

/// Requests that are answered at once; more wait for their turn.
pub const CALLS_MAX: usize = 16;

/// Health checks that are answered at once, beside all else.
pub(crate) const CHECKS_MAX: usize = 4;

/// Profiles that are taken and commands of `warren ctl` that run at once, beside all else: they may last for seconds.
pub(crate) const WATCHES_MAX: usize = 4;

/// Memory for all bodies above 64 KiB on their way, KiB, and again for what is made of them; more wait for their turn.
pub(crate) const BODIES_KIB_MAX: usize = 64 << 10;

/// Forms with a name and a password that are read at once, from clients that nobody knows yet; a further one is 503.
pub(crate) const FORMS_MAX: usize = 64;
