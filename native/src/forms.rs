//! How Python wants the versions of APIs to be read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

const MANY: usize = 4_096; // versions of APIs in a cache, also of unknown ones in hostile frames

type ByVersion<F> = HashMap<(i16, i16), Option<Arc<F>>>; // by API key and version

/// The forms of API versions, each made when its version is first read.
pub struct Forms<F> {
    form_of: Py<PyAny>,
    known: Mutex<ByVersion<F>>,
}

impl<F> Forms<F> {
    /// `form_of`: function of an API key and a version that returns the values of a form; None if the version is left to
    /// Python.
    pub fn new(form_of: Py<PyAny>) -> Self {
        Forms { form_of, known: Mutex::default() }
    }

    /// Return the form of an API version; `None` if it is left to Python. `make`: makes a form of its values.
    pub fn get<'py>(
        &self,
        py: Python<'py>,
        key: i16,
        version: i16,
        make: impl FnOnce(Bound<'py, PyAny>) -> PyResult<F>,
    ) -> PyResult<Option<Arc<F>>> {
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&(key, version)) {
            return Ok(known.clone());
        }
        let values = self.form_of.bind(py).call1((key, version))?; // without the lock: Python may run other threads
        let form = if values.is_none() { None } else { Some(Arc::new(make(values)?)) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MANY {
            known.clear();
        }
        known.insert((key, version), form.clone());
        Ok(form)
    }
}
