//! Exchange types and immutable routing tables. Knows neither queues' contents nor sockets.
