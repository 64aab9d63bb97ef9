//! Sans-I/O protocol sessions, one folder per protocol; none imports another.
