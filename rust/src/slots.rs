//! The `__slots__` of Python classes, read and written without looking their names up.
//!
//! An object of a subclass, and a slot without a value, are left to `getattr` and `setattr`.

use std::ptr;

use pyo3::BoundObject;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

/// The bytes of a pointer, and of the objects' header before the slots.
const WORD: usize = size_of::<*mut ffi::PyObject>();
const HEADER: usize = size_of::<ffi::PyObject>();

/// Where the objects of a class have a slot.
pub struct Slot {
    kind: Py<PyType>,
    name: Py<PyString>,
    offset: usize,
}

impl Slot {
    /// Finds a slot: in a new object, it is where a value stands that was stored by its name.
    pub fn of(kind: &Bound<'_, PyType>, name: &str) -> PyResult<Self> {
        let py = kind.py();
        let object = kind.call_method1("__new__", (kind,))?;
        let value = PyDict::new(py);
        object.setattr(name, &value)?;
        let size: usize = kind.getattr("__basicsize__")?.extract()?;
        let mut offsets = (HEADER..size).step_by(WORD);
        // SAFETY: the words are inside of the object.
        let holds = |at: &usize| unsafe { *place(&object, *at) == value.as_ptr() };
        let Some(offset) = offsets.find(holds) else {
            let text = format!("{kind} has no slot named {name}");
            return Err(PyTypeError::new_err(text));
        };
        let (kind, name) = (kind.clone().unbind(), PyString::intern(py, name).unbind());
        Ok(Slot { kind, name, offset })
    }

    fn fits(&self, object: &Bound<'_, PyAny>) -> bool {
        ptr::eq(object.get_type_ptr().cast(), self.kind.as_ptr())
    }

    pub fn get<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.fits(object) {
            // SAFETY: all objects of the class have the slot there: null, or an object that it
            // keeps alive.
            let found = unsafe {
                Bound::from_borrowed_ptr_or_opt(object.py(), *place(object, self.offset))
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        object.getattr(self.name.bind(object.py()))
    }

    pub fn set<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        value: impl IntoPyObject<'py, Error: Into<PyErr>>,
    ) -> PyResult<()> {
        let py = object.py();
        let value = value.into_pyobject(py).map_err(Into::into)?.into_any().into_bound();
        if !self.fits(object) {
            return object.setattr(self.name.bind(py), value);
        }
        // SAFETY: as in `get`; the slot owns its value from here on.
        let before = unsafe {
            let before = ptr::replace(place(object, self.offset), value.into_ptr());
            Bound::from_owned_ptr_or_opt(py, before)
        };
        drop(before); // once it is replaced: it may run Python code
        Ok(())
    }

    /// The value, if it need not be looked up; alive as long as no Python code runs.
    fn peek(&self, object: &Bound<'_, PyAny>) -> Option<*mut ffi::PyObject> {
        // SAFETY: as in `get`.
        let found = self.fits(object).then(|| unsafe { *place(object, self.offset) });
        found.filter(|found| !found.is_null())
    }

    pub fn is_true(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        // SAFETY: both always exist.
        let [yes, no] = unsafe { [ffi::Py_True(), ffi::Py_False()] };
        match self.peek(object) {
            Some(found) if found == yes => Ok(true),
            Some(found) if found == no => Ok(false),
            _ => self.get(object)?.is_truthy(),
        }
    }

    /// Whether the value is a certain object.
    pub fn is(&self, object: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.peek(object) {
            Some(found) => Ok(found == other.as_ptr()),
            None => Ok(self.get(object)?.is(other)),
        }
    }

    pub fn is_none(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        // SAFETY: it always exists.
        let none = unsafe { ffi::Py_None() };
        match self.peek(object) {
            Some(found) => Ok(found == none),
            None => Ok(self.get(object)?.is_none()),
        }
    }

    /// Whether the value is the same number; it is usually the same object.
    pub fn is_number(
        &self,
        object: &Bound<'_, PyAny>,
        number: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        Ok(self.is(object, number)? || self.get(object)?.eq(number)?)
    }

    /// The value of an int.
    pub fn int(&self, object: &Bound<'_, PyAny>) -> PyResult<i64> {
        self.get(object)?.extract()
    }
}

fn place(object: &Bound<'_, PyAny>, offset: usize) -> *mut *mut ffi::PyObject {
    object.as_ptr().wrapping_byte_add(offset).cast()
}

/// Declares what is used of a Python class: the class and some of its slots.
macro_rules! slots {
    ($name:ident { $($slot:ident),* }) => {
        pub struct $name {
            #[allow(dead_code)] // of some classes, no objects are made
            pub kind: pyo3::Py<pyo3::types::PyType>,
            $(pub $slot: crate::slots::Slot,)*
        }

        impl $name {
            pub fn of(kind: &pyo3::Bound<'_, pyo3::types::PyType>) -> pyo3::PyResult<Self> {
                Ok($name {
                    kind: kind.clone().unbind(),
                    $($slot: crate::slots::Slot::of(kind, stringify!($slot))?,)*
                })
            }
        }
    };
}
pub(crate) use slots;

/// A new object of a class whose base is `object` and whose constructor does nothing but store its
/// arguments, which the caller stores instead. No Python code runs.
pub fn bare<'py>(kind: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the type is alive; the function ignores its other arguments and returns a new object,
    // or null with an exception.
    unsafe {
        let made = ffi::PyType_GenericNew(kind.as_type_ptr(), ptr::null_mut(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(kind.py(), made)
    }
}

/// A new object of a class, made by the `__new__` of its base.
pub fn made_as<'py>(
    base: &Bound<'py, PyType>,
    kind: &Bound<'py, PyType>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the slot of a class is null or such a function, which returns a new object, or null
    // with an exception.
    unsafe {
        let new = ffi::PyType_GetSlot(base.as_type_ptr(), ffi::Py_tp_new);
        let new: Option<ffi::newfunc> = std::mem::transmute(new);
        let Some(new) = new else {
            return Err(PyTypeError::new_err(format!("{base} makes no objects")));
        };
        let made = new(kind.as_type_ptr(), arguments.as_ptr(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(kind.py(), made)
    }
}
