//! Objects of a class with slots, created without its constructor.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::raw::Class;

/// A constructor: it stores its arguments in some slots, and a constant in each other slot.
#[pyclass(frozen, module = "kwire_native")]
pub struct Maker {
    class: Class,
    given: usize, // number of arguments; their slots are the first ones
    others: Vec<Py<PyAny>>,
}

#[pymethods]
impl Maker {
    /// `class`: the class. `names`: slots of the arguments. `others`: immutable constants of all other slots, by name.
    #[new]
    fn new(class: &Bound<'_, PyType>, names: Vec<String>, others: &Bound<'_, PyDict>) -> PyResult<Self> {
        let all: Vec<String> = class.getattr("__slots__")?.extract()?;
        let mut slots = names;
        let given = slots.len();
        let mut values = Vec::with_capacity(others.len());
        for (name, value) in others {
            slots.push(name.extract()?);
            values.push(value.unbind());
        }
        let is_complete = slots.len() == all.len() && all.iter().all(|name| slots.contains(name));
        if !is_complete {
            return Err(PyValueError::new_err("each slot must have one argument or one value"));
        }
        Ok(Maker { class: Class::probe(class, &slots)?, given, others: values })
    }

    /// Create an object.
    #[pyo3(signature = (*values))]
    fn __call__<'py>(&self, values: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = values.py();
        if values.len() != self.given {
            return Err(PyTypeError::new_err(format!("{} arguments are needed", self.given)));
        }
        let object = self.class.create(py)?;
        for (slot, value) in values.iter().enumerate() {
            object.set(slot, value);
        }
        for (place, value) in self.others.iter().enumerate() {
            object.set(self.given + place, value.bind(py).clone());
        }
        Ok(object.into_object())
    }
}
