//! The text of JSON values must equal that of Python. The first byte selects the kind of value.

#![no_main]

mod embedded;

use kwire_native::text;
use libfuzzer_sys::fuzz_target;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

fn number(data: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(data).for_each(|(place, byte)| *place = *byte);
    i64::from_be_bytes(bytes)
}

fuzz_target!(init: embedded::load("text"), |data: &[u8]| {
    let [kind, rest @ ..] = data else { return };
    let mut out = b"before".to_vec();
    let mut is_valid = true;
    match kind % 6 {
        0 => text::string(&mut out, rest),
        1 => text::base64(&mut out, rest),
        2 => text::uuid(&mut out, &std::array::from_fn(|place| rest.get(place).copied().unwrap_or_default())),
        3 => is_valid = text::time(&mut out, number(rest)),
        4 => text::int(&mut out, number(rest)),
        _ => text::padded(&mut out, number(rest), usize::from(kind / 6)),
    }
    assert_eq!(&out[..6], b"before");
    Python::attach(|py| {
        let written = is_valid.then(|| PyBytes::new(py, &out[6..]));
        embedded::check(py, (kind % 6, PyBytes::new(py, rest), kind / 6, written));
    });
});
