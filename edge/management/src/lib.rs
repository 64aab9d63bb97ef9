//! The control socket behind the command-line tools; the only place that knows JSON.
