//! Sockets, frames and TLS without the GIL: the counterpart of `tandem_kafka/network/selector.py`.
//!
//! `selector` has the bindings, `engine` the loop over all connections, and `channel` a single
//! connection. `watchdog` sends heartbeats while Python cannot.

pub mod channel;
pub mod engine;
pub mod expected;
pub mod failure;
pub mod frames;
pub mod heartbeat;
pub mod keepalive;
pub mod selector;
pub mod socket;
pub mod tls;
pub mod watchdog;
