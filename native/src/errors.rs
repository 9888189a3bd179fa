//! The search for error codes in decoded responses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::raw::Class;

/// The slots of a class that are searched: first error codes, then structs or lists of structs.
struct Places {
    class: Class,
    codes: usize,
    count: usize,
}

/// A search for error codes.
#[pyclass(frozen, module = "kwire_native")]
pub struct ErrorCodes {
    fields_of: Py<PyAny>,
    python: Py<PyAny>,
    known: Mutex<HashMap<usize, Arc<Places>>>, // by address of the class
}

#[pymethods]
impl ErrorCodes {
    /// `fields_of`: function of a class that returns the names of the fields with error codes, and of the fields with
    /// structs to search. `python`: function with the result of `__call__`, for classes whose slots cannot be accessed.
    #[new]
    fn new(fields_of: Py<PyAny>, python: Py<PyAny>) -> Self {
        ErrorCodes { fields_of, python, known: Mutex::default() }
    }

    /// Return whether a message, or a struct in it, contains an error code other than 0.
    #[pyo3(signature = (message, /))]
    fn __call__(&self, message: Bound<'_, PyAny>) -> PyResult<bool> {
        let py = message.py();
        let Some(places) = self.places(&message.get_type())? else {
            return self.python.call1(py, (message,))?.extract(py);
        };
        let Some(view) = places.class.view(message) else { return Ok(false) };
        for slot in 0..places.count {
            let Some(value) = view.get(slot) else { continue };
            let is_found = if slot < places.codes {
                value.is_truthy()?
            } else if let Ok(structs) = value.cast::<PyList>() {
                structs
                    .iter()
                    .map(|one| self.__call__(one))
                    .find(|found| !matches!(found, Ok(false)))
                    .unwrap_or(Ok(false))?
            } else {
                !value.is_none() && self.__call__(value)?
            };
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl ErrorCodes {
    fn places(&self, class: &Bound<'_, PyType>) -> PyResult<Option<Arc<Places>>> {
        let address = class.as_ptr() as usize;
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return Ok(Some(known.clone()));
        }
        let (mut names, inside): (Vec<String>, Vec<String>) =
            self.fields_of.call1(class.py(), (class,))?.extract(class.py())?;
        let codes = names.len();
        names.extend(inside);
        let count = names.len();
        let found = Class::probe(class, &names).ok().map(|class| Arc::new(Places { class, codes, count }));
        if let Some(places) = &found {
            // The places keep the class, so that no other class can get its address.
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(address, places.clone());
        }
        Ok(found)
    }
}
