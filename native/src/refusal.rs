//! Why data or a value is refused.

use pyo3::prelude::*;

/// What is wrong with data; the numbers are those of `kwire.engines.native`.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A value that the layout does not allow.
    Invalid = 0,
    /// The data ends before the message does.
    Truncated = 1,
    /// The decoded message would take more memory than allowed.
    TooHeavy = 2,
}

/// A refusal: of data, of a value, or by an exception of Python.
pub enum Refusal {
    /// The data that a reader got.
    Data(Kind),
    /// The value that a writer got.
    Value,
    /// An exception that Python raised while the walker called it.
    Python(Box<PyErr>),
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Self {
        Refusal::Python(Box::new(error))
    }
}

/// The result of a step of a walker.
pub type Result<T> = std::result::Result<T, Refusal>;
