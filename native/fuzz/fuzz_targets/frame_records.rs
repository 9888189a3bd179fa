#![no_main]

mod embedded;

use libfuzzer_sys::fuzz_target;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

fuzz_target!(init: embedded::load("frame_records"), |data: &[u8]| {
    Python::attach(|py| embedded::check(py, (PyBytes::new(py, data),)));
});
