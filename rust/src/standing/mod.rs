//! Standing fetches: the transport repeats a fetch by itself while nothing changes.
//!
//! `state` decides what a response means and what is fetched next, `request` encodes it, `queue`
//! holds what the application has not taken yet, and `notifier` wakes the application; `alarm` is for
//! event loops. `bindings` has what Python calls.

mod alarm;
mod bindings;
mod counts;
mod notifier;
mod progress;
mod queue;
mod request;
mod state;

pub use crate::standing::bindings::StandingFetch;
pub use crate::standing::notifier::Notifier;
pub use crate::standing::progress::FetchProgress;
pub use crate::standing::queue::{CHUNK_BYTES, ChunkQueue, Opened, Origin, Shared, Taken};
pub use crate::standing::state::{Absorbed, SharedStanding};
