//! The native record path and transport of tandem-kafka. This file only has the bindings, also of
//! the decoders to Arrow (`decode/`), a crate that knows nothing of this one.

use pyo3::prelude::*;

pub mod arrow;
pub mod batches;
pub mod buffer;
pub mod fetch;
pub mod frame;
pub mod options;
pub mod pool;
pub mod records;
pub mod runtime;
pub mod slots;
pub mod standing;
pub mod transport;
pub mod usual;
pub mod view;
pub mod wake;

/// Increased when Python and this library must change together: a stale library is rejected.
const ABI: u32 = 17;

// The GIL protects the conversion of rows to a list, and the reuse of a loop's record.
#[pymodule(gil_used = true)]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::arrow::to_arrow;
    #[pymodule_export]
    use crate::batches::Batches;
    #[pymodule_export]
    use crate::fetch::decode_fetch_response;
    #[pymodule_export]
    use crate::frame::Frame;
    #[pymodule_export]
    use crate::records::{
        Accepting, Feed, Loop, RecordIterator, RecordReader, Records, deserialize,
    };
    #[pymodule_export]
    use crate::runtime::run;
    #[pymodule_export]
    use crate::standing::{ChunkQueue, FetchProgress, Notifier, StandingFetch};
    #[pymodule_export]
    use crate::transport::selector::Selector;
    #[pymodule_export]
    use crate::transport::tls::config::TlsConfig;
    #[pymodule_export]
    use crate::usual::{TaskCall, UsualCase, UsualReading};
    #[pymodule_export]
    use tandem_kafka_capsule::{ArrowArray, ArrowType};
    #[pymodule_export]
    use tandem_kafka_decode::ColumnDecoder;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("ABI", ABI)
    }
}
