//! Objects of Python's class UUID.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyType};

use crate::raw::Class;
use crate::refusal::{Refusal, Result};

/// The class UUID, and what its objects share.
pub struct Uuids {
    class: Arc<Class>,
    python_class: Py<PyType>,
    zero: Py<PyAny>,
    unknown: Py<PyAny>,
    from_bytes: Py<PyAny>,
    to_bytes: Py<PyString>,
    big: Py<PyString>,
}

const INT: usize = 0;
const IS_SAFE: usize = 1;

impl Uuids {
    /// `zero`: the object for 16 bytes of zero.
    pub fn new(zero: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = zero.py();
        let class = zero.get_type();
        Ok(Uuids {
            class: Arc::new(Class::probe(&class, &["int".to_owned(), "is_safe".to_owned()])?),
            python_class: class.unbind(),
            zero: zero.clone().unbind(),
            unknown: py.import("uuid")?.getattr("SafeUUID")?.getattr("unknown")?.unbind(),
            from_bytes: py.get_type::<PyInt>().getattr("from_bytes")?.unbind(),
            to_bytes: PyString::intern(py, "to_bytes").unbind(),
            big: PyString::intern(py, "big").unbind(),
        })
    }

    /// Return the UUID of 16 bytes.
    pub fn decode<'py>(&self, py: Python<'py>, data: [u8; 16]) -> PyResult<Bound<'py, PyAny>> {
        if data == [0; 16] {
            return Ok(self.zero.bind(py).clone());
        }
        let number = self.from_bytes.bind(py).call1((PyBytes::new(py, &data), self.big.bind(py)))?;
        let object = self.class.create(py)?;
        object.set(INT, number);
        object.set(IS_SAFE, self.unknown.bind(py).clone());
        Ok(object.into_object())
    }

    /// Append the 16 bytes of a UUID. Refuses a value of another type.
    pub fn append(&self, out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> Result<()> {
        let py = value.py();
        if value.is(&self.zero) {
            out.extend_from_slice(&[0; 16]);
            return Ok(());
        }
        let bytes = match self.class.view(value.clone()).and_then(|object| object.get(INT)) {
            Some(number) => number.call_method1(self.to_bytes.bind(py), (16, self.big.bind(py)))?,
            None if value.is_instance(self.python_class.bind(py))? => value.getattr("bytes")?,
            None => return Err(Refusal::Value),
        };
        out.extend_from_slice(bytes.cast::<PyBytes>().map_err(|_| Refusal::Value)?.as_bytes());
        Ok(())
    }
}
