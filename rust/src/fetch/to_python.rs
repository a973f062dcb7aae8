//! Converts a decoded response to nested tuples, whose fields records/native_reader.py names.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::buffer::{self, Buffer};
use crate::fetch::response::{NodeEndpoint, Partition, Response, Topic};
use crate::frame::Frame;

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
    let received = frame.cast::<Frame>().ok().and_then(|frame| frame.get().take_fetched());
    let fetched = match received {
        Some(fetched) => fetched,
        None => {
            let view = PyBuffer::<u8>::get(frame)?;
            let mut bytes = buffer::claim(view.len_bytes());
            bytes.resize(view.len_bytes(), 0);
            view.copy_to_slice(py, &mut bytes)?;
            super::decode_body(&Arc::new(Buffer::new(bytes)), &[], 0, version)
        }
    };
    response_to_python(py, fetched.map_err(PyValueError::new_err)?)
}

fn response_to_python(py: Python<'_>, response: Response) -> PyResult<Bound<'_, PyTuple>> {
    let partitions = response.partitions.into_iter().map(|each| partition_to_python(py, each));
    let partitions = PyTuple::new(py, partitions.collect::<PyResult<Vec<_>>>()?)?;
    let nodes = PyTuple::new(py, response.nodes.into_iter().map(node_to_python))?;
    (response.throttle_time_ms, response.error_code, response.session_id, partitions, nodes)
        .into_pyobject(py)
}

fn partition_to_python(py: Python<'_>, partition: Partition) -> PyResult<Bound<'_, PyTuple>> {
    let (topic, topic_id) = match partition.topic {
        Topic::Name(name) => (Some(name), None),
        Topic::Id(id) => (None, Some(PyBytes::new(py, &id))),
    };
    let aborted = PyTuple::new(py, partition.aborted)?;
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
        partition.batches,
    )
        .into_pyobject(py)
}

fn node_to_python(node: NodeEndpoint) -> (i32, String, i32, Option<String>) {
    (node.node_id, node.host, node.port, node.rack)
}
