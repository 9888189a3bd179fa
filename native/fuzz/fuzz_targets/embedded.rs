//! Python inside of a fuzz target. The targets compare kwire-native with the other engines in `fuzzing/native_targets.py`.

use std::process::abort;
use std::sync::OnceLock;

use kwire_native::kwire_native;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

static CHECK: OnceLock<Py<PyAny>> = OnceLock::new();

/// Start Python with this build of kwire-native as a built-in module, and load the check of a target.
///
/// `name`: function of `native_targets.py`. Python must find that module and kwire (PYTHONHOME, PYTHONPATH).
pub fn load(name: &str) {
    pyo3::append_to_inittab!(kwire_native);
    Python::initialize();
    let found = Python::attach(|py| Ok(py.import("native_targets")?.getattr(name)?.unbind()));
    assert!(CHECK.set(found.unwrap_or_else(|error| fail(error))).is_ok());
}

/// Call the check. Ends the process if it raises an exception, so that libFuzzer keeps the input.
///
/// `given`: function that returns the arguments of the check.
pub fn check<'py, A: PyCallArgs<'py>>(py: Python<'py>, given: A) {
    if let Err(error) = CHECK.get().expect("load comes first").bind(py).call1(given) {
        fail(error);
    }
}

fn fail(error: PyErr) -> ! {
    Python::attach(|py| error.print(py));
    abort()
}
