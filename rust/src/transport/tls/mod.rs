//! TLS with rustls: `config` reads the options, `verify` checks the broker's certificate, and
//! `session` encrypts a connection.

pub mod certificate;
pub mod ciphers;
pub mod config;
pub mod key;
pub mod path;
pub mod problem;
pub mod session;
pub mod trust;
pub mod verify;
