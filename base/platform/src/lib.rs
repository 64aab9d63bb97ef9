//! The only door to clock, disk, randomness and threads: a real side and a simulated side.
