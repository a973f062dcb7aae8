//! Converts a decoded response to nested tuples, whose fields records/native_reader.py names.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::buffer::{self, Buffer};
use crate::fetch::frame::FetchFrame;
use crate::fetch::response::{NodeEndpoint, Partition, Response, Topic, decode_body};

/// Returns `(throttle_time_ms, error_code, session_id, partitions, nodes)`.
///
/// `frame` is a decoded frame of the native transport, or the bytes of a response without its
/// header, which are copied.
///
/// Raises ValueError if the bytes are not a response of that version.
#[pyfunction]
pub fn decode_fetch_response<'py>(
    py: Python<'py>,
    frame: &Bound<'py, PyAny>,
    version: i16,
) -> PyResult<Bound<'py, PyTuple>> {
    let received = frame.cast::<FetchFrame>().ok().and_then(|frame| frame.get().take());
    let fetched = match received {
        Some(fetched) => fetched,
        None => {
            let view = PyBuffer::<u8>::get(frame)?;
            let mut bytes = buffer::claim(view.len_bytes());
            bytes.resize(view.len_bytes(), 0);
            view.copy_to_slice(py, &mut bytes)?;
            decode_body(&Arc::new(Buffer::new(bytes)), &[], 0, version)
        }
    };
    response_to_python(py, fetched.map_err(PyValueError::new_err)?)
}

fn response_to_python(py: Python<'_>, response: Response) -> PyResult<Bound<'_, PyTuple>> {
    let mut names = Names::default();
    let partitions =
        response.partitions.into_iter().map(|each| partition_to_python(py, each, &mut names));
    let partitions = PyTuple::new(py, partitions.collect::<PyResult<Vec<_>>>()?)?;
    let nodes = tuple_of(py, response.nodes.into_iter().map(node_to_python))?;
    (response.throttle_time_ms, response.error_code, response.session_id, partitions, nodes)
        .into_pyobject(py)
}

/// Invariant: all objects exist before the tuple. Making one may run a garbage collection, and so a
/// memory profiler, which references each object. No item can be set in a tuple that others
/// reference.
fn tuple_of<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    items: impl IntoIterator<Item = T>,
) -> PyResult<Bound<'py, PyTuple>> {
    let made = items.into_iter().map(|each| each.into_bound_py_any(py));
    PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

/// The name of the last topic: the partitions of a topic follow each other, and share it.
#[derive(Default)]
struct Names<'py>(Option<(Arc<str>, Bound<'py, PyString>)>);

impl<'py> Names<'py> {
    fn of(&mut self, py: Python<'py>, name: &Arc<str>) -> Bound<'py, PyString> {
        if let Some((known, text)) = &self.0
            && Arc::ptr_eq(known, name)
        {
            return text.clone();
        }
        let text = PyString::new(py, name);
        self.0 = Some((name.clone(), text.clone()));
        text
    }
}

fn partition_to_python<'py>(
    py: Python<'py>,
    partition: Partition,
    names: &mut Names<'py>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (topic, topic_id) = match &partition.topic {
        Topic::Name(name) => (Some(names.of(py, name)), None),
        Topic::Id(id) => (None, Some(PyBytes::new(py, id))),
    };
    let aborted = tuple_of(py, partition.aborted)?;
    (
        topic,
        topic_id,
        partition.partition,
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        aborted,
        partition.preferred_read_replica,
        partition.current_leader,
        partition.diverging_epoch,
        partition.batches.map(|batches| *batches),
    )
        .into_pyobject(py)
}

fn node_to_python(node: NodeEndpoint) -> (i32, String, i32, Option<String>) {
    (node.node_id, node.host, node.port, node.rack)
}
