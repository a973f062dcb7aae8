//! Standing fetches: the transport repeats a fetch by itself while nothing changes.
//!
//! `order` decides what a response means and what is fetched next, `request` encodes it, `queue`
//! holds what the application has not taken yet, and `bell` wakes the application. `bindings` has what
//! Python calls.

mod bell;
mod bindings;
mod counts;
mod order;
mod progress;
mod queue;
mod request;

pub use crate::standing::bell::Bell;
pub use crate::standing::bindings::StandingFetch;
pub use crate::standing::order::{Absorbed, Standing};
pub use crate::standing::progress::FetchProgress;
pub use crate::standing::queue::ChunkQueue;
