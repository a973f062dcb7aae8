//! Objects of Python classes, without their constructors.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A new object of a class whose constructor does nothing but store its arguments, which the caller
/// stores instead. No Python code runs.
pub fn bare<'py>(kind: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    kind.call_method1(intern!(kind.py(), "__new__"), (kind,))
}
