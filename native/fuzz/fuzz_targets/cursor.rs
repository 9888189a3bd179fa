//! The checks that all walkers share, step by step: each step must read, refuse and advance as in the reference engine.

#![no_main]

mod embedded;

use kwire_native::cursor::Cursor;
use kwire_native::refusal::{Refusal, Result};
use libfuzzer_sys::fuzz_target;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

const MOST: usize = 32; // steps

/// Do a step. Its three low bits select the function, the others are its arguments. Returns the value, or -1 for null.
fn done(cursor: &mut Cursor, step: u8) -> Result<i64> {
    let flag = |bit: u8| step >> bit & 1 == 1;
    let number = |value: Option<usize>| value.map_or(-1, |value| value as i64);
    match step & 7 {
        0 => Ok(i64::from(cursor.byte()?)),
        1 => Ok(i64::from(cursor.varint()?)),
        2 => Ok(number(cursor.length(flag(3), flag(4), flag(5))?)),
        3 => Ok(number(cursor.content(flag(3), flag(4), flag(5))?.map(<[u8]>::len))),
        4 => Ok(number(cursor.count(flag(3), flag(4), usize::from(step >> 5), i64::from(step >> 5) * 40)?)),
        5 => Ok(i64::from(cursor.present(flag(3), i64::from(step >> 4) * 40)?)),
        6 => {
            let count = cursor.varint()?;
            cursor.check_tags(count)?;
            Ok(i64::from(count))
        }
        _ => {
            let (tag, end) = cursor.tag()?;
            cursor.take(usize::from(step >> 3 & 3))?;
            cursor.expect(end)?;
            Ok(i64::from(tag))
        }
    }
}

// The first two bytes are the memory of the message, the third is the number of steps.
fuzz_target!(init: embedded::load("cursor"), |data: &[u8]| {
    let [high, low, count, rest @ ..] = data else { return };
    let left = i64::from(*high) << 8 | i64::from(*low);
    let (steps, content) = rest.split_at(usize::from(*count).min(MOST).min(rest.len()));
    let mut cursor = Cursor::new(content, 0, left);
    let mut results: Vec<(Option<i64>, u8, usize)> = Vec::new();
    for step in steps {
        let (value, kind) = match done(&mut cursor, *step) {
            Ok(value) => (Some(value), 0),
            Err(Refusal::Data(kind)) => (None, kind as u8),
            Err(_) => panic!("the bytes are no value of Python"),
        };
        results.push((value, kind, cursor.pos));
        if value.is_none() {
            break;
        }
    }
    Python::attach(|py| {
        let results = PyList::new(py, results).expect("a list");
        embedded::check(py, (PyBytes::new(py, steps), PyBytes::new(py, content), left, results));
    });
});
