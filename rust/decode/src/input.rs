//! A column of byte strings that Python hands over.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray, LargeBinaryArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tandem_kafka_capsule::array_of;

pub enum Input {
    Small(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
}

impl Input {
    /// Imports a column by `__arrow_c_array__`, without a copy.
    pub fn imported(column: &Bound<'_, PyAny>) -> PyResult<Self> {
        Input::of(array_of(column)?).map_err(|found| {
            PyTypeError::new_err(format!(
                "a column of type binary or string is needed, got {found}"
            ))
        })
    }

    /// Imports a column, and that of headers, which is as long.
    pub fn with_headers(
        column: &Bound<'_, PyAny>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Self, Option<Self>)> {
        let (column, headers) =
            (Input::imported(column)?, headers.map(Input::imported).transpose()?);
        if headers.as_ref().is_some_and(|headers| headers.len() != column.len()) {
            return Err(PyValueError::new_err("a header for each value is needed, or null"));
        }
        Ok((column, headers))
    }

    fn of(array: ArrayRef) -> Result<Self, DataType> {
        match array.data_type() {
            DataType::Binary => Ok(Input::Small(array.as_binary().clone())),
            DataType::LargeBinary => Ok(Input::Large(array.as_binary().clone())),
            DataType::BinaryView => Ok(Input::View(array.as_binary_view().clone())),
            DataType::Utf8 => Ok(Input::Small(array.as_string::<i32>().clone().into())),
            DataType::LargeUtf8 => Ok(Input::Large(array.as_string::<i64>().clone().into())),
            DataType::Utf8View => Ok(Input::View(array.as_string_view().clone().to_binary_view())),
            other => Err(other.clone()),
        }
    }

    pub fn len(&self) -> usize {
        self.array().len()
    }

    /// Bytes of all values, at least.
    pub fn size(&self) -> usize {
        match self {
            Input::Small(array) => {
                let offsets = array.value_offsets();
                (offsets[array.len()] - offsets[0]) as usize
            }
            Input::Large(array) => {
                let offsets = array.value_offsets();
                (offsets[array.len()] - offsets[0]) as usize
            }
            Input::View(array) => array.views().iter().map(|view| *view as u32 as usize).sum(),
        }
    }

    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if self.array().is_null(row) {
            return None;
        }
        Some(match self {
            Input::Small(array) => array.value(row),
            Input::Large(array) => array.value(row),
            Input::View(array) => array.value(row),
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Input::Small(array) => array,
            Input::Large(array) => array,
            Input::View(array) => array,
        }
    }
}
