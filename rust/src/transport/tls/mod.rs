//! TLS by rustls: `config` from options, `verify` the broker's certificate, `session` a connection.

pub mod certificate;
pub mod ciphers;
pub mod config;
pub mod key;
pub mod problem;
pub mod session;
pub mod verify;
