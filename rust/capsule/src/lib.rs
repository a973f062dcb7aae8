//! The Arrow PyCapsule protocol, by which Arrow data crosses to and from pyarrow, polars and others.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// Deeper types are none for pyarrow, and those of thousands of levels overflow the stack.
pub const MOST_DEEP: usize = 64;

/// An array for anything that reads Arrow; one of structs is a record batch.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct ArrowArray(ArrayRef);

/// A type for anything that reads Arrow.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct ArrowType(Field);

impl ArrowArray {
    pub fn new(array: ArrayRef) -> Self {
        ArrowArray(array)
    }
}

impl ArrowType {
    pub fn new(field: Field) -> Self {
        ArrowType(field)
    }
}

#[pymethods]
impl ArrowArray {
    /// Return the capsules of schema and array; a requested schema is ignored.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let data = self.0.to_data();
        let schema = FFI_ArrowSchema::try_from(data.data_type()).map_err(value_error)?;
        let array = FFI_ArrowArray::new(&data);
        // A consumer that imports the content leaves an empty struct, which is dropped with the capsule.
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

#[pymethods]
impl ArrowType {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&self.0).map_err(value_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

/// The type that an object exports by `__arrow_c_schema__`; that of a schema is a struct.
pub fn data_type_of(exporter: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let capsule = exporter.call_method0("__arrow_c_schema__")?;
    let schema = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: a capsule of this name holds such a schema, which the capsule keeps.
    let schema = unsafe { schema.cast::<FFI_ArrowSchema>().as_ref() };
    if deeper_than(schema, MOST_DEEP) {
        return Err(PyValueError::new_err(format!("types are nested more than {MOST_DEEP} deep")));
    }
    DataType::try_from(schema).map_err(value_error)
}

fn deeper_than(schema: &FFI_ArrowSchema, most: usize) -> bool {
    most == 0 || schema.children().any(|child| deeper_than(child, most - 1))
}

/// The array that an object exports by `__arrow_c_array__`, in the memory in which it is.
pub fn array_of(exporter: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let capsules = exporter.call_method0("__arrow_c_array__")?;
    let capsules = capsules.cast::<PyTuple>()?;
    if capsules.len() != 2 {
        return Err(PyTypeError::new_err("__arrow_c_array__ must return two capsules"));
    }
    let (schema, array) = (capsules.get_item(0)?, capsules.get_item(1)?);
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: capsules of these names hold such structures; the array is moved out, as the protocol
    // demands, and the capsule keeps a released one.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.cast::<FFI_ArrowArray>().as_ptr());
        if array.is_released() {
            return Err(PyValueError::new_err("the array has been imported before"));
        }
        from_ffi(array, schema.cast::<FFI_ArrowSchema>().as_ref())
    };
    Ok(make_array(data.map_err(value_error)?))
}

fn value_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
