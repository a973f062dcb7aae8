//! The usual way of `poll()` without Python code: nothing but records needs attention, and no user
//! code comes between. Python does the same (`consumer/reading/`), and everything else.

mod collection;
mod poll;

pub use crate::usual::collection::UsualCase;
pub use crate::usual::poll::{TaskCall, UsualReading};
