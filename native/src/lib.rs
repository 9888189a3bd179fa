//! The native engine of kwire. It knows no message: `Message` walks the table of one version of a message, which
//! `kwire.engines.native` makes from the layout. Refusals have no field; kwire's reference engine explains them.

mod batches;
mod calls;
mod codecs;
mod columns;
pub mod cursor;
mod errors;
mod forms;
mod frame_log;
mod frame_records;
mod json;
mod maker;
mod raw;
mod read;
mod records;
pub mod refusal;
mod requests;
mod table;
pub mod text;
mod uuids;
mod wide;
mod write;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::cursor::Cursor;
use crate::raw::Pause;
use crate::read::Reader;
use crate::refusal::Refusal;
use crate::table::{Classes, Record};
use crate::uuids::Uuids;
use crate::write::Writer;

/// Objects of Python that the walkers use.
pub struct Runtime {
    uuids: Uuids,
    bytes: Py<PyType>,
    booleans: Py<PyDict>,
    write_tags: Py<PyAny>,
    refused: Py<PyType>,
}

static RUNTIME: PyOnceLock<Runtime> = PyOnceLock::new();

impl Runtime {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        RUNTIME.get_or_try_init(py, || {
            let runtime = py.import("kwire.engines.runtime")?;
            Ok(Runtime {
                uuids: Uuids::new(&runtime.getattr("ZERO_UUID")?)?,
                bytes: py.get_type::<PyBytes>().unbind(),
                booleans: runtime.getattr("FLAGS")?.cast_into::<PyDict>()?.unbind(),
                write_tags: runtime.getattr("write_tags")?.unbind(),
                refused: runtime.getattr("NativeRefused")?.cast_into::<PyType>()?.unbind(),
            })
        })
    }

    /// Return the boolean that a value equals. Refuses other values.
    fn boolean(&self, value: &Bound<'_, PyAny>) -> refusal::Result<bool> {
        match self.booleans.bind(value.py()).get_item(value)? {
            Some(number) => Ok(number.is_truthy()?),
            None => Err(Refusal::Value),
        }
    }

    fn error(&self, py: Python<'_>, refusal: Refusal, pos: usize) -> PyErr {
        let kind = match refusal {
            Refusal::Python(error) => return *error,
            Refusal::Data(kind) => kind as u8,
            Refusal::Value => 0,
        };
        PyErr::from_type(self.refused.bind(py).clone(), (kind, pos))
    }
}

/// One version of a message.
#[pyclass(frozen, module = "kwire_native")]
pub struct Message {
    layout: Record,
    runtime: &'static Runtime,
}

#[pymethods]
impl Message {
    #[new]
    fn new(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let layout = table::record(table, &mut Classes::default())?;
        Ok(Message { layout, runtime: Runtime::get(table.py())? })
    }

    /// Decode the message that begins at an offset of the data; return it with the offset of the byte after it.
    ///
    /// `left`: memory that the decoded message may take, in bytes.
    #[pyo3(signature = (data, offset, left = i64::MAX, /))]
    fn read<'py>(&self, data: &Bound<'py, PyBytes>, offset: usize, left: i64) -> PyResult<(Bound<'py, PyAny>, usize)> {
        let py = data.py();
        let bytes = data.as_bytes();
        if offset > bytes.len() {
            return Err(PyIndexError::new_err("the offset is after the data"));
        }
        let _pause = Pause::new(py);
        let mut reader = Reader::new(py, &self.runtime.uuids, Cursor::new(bytes, offset, left));
        match reader.record(&self.layout) {
            Ok(value) => Ok((value, reader.at.pos)),
            Err(refusal) => Err(self.runtime.error(py, refusal, reader.at.pos)),
        }
    }

    /// Return the bytes of a message.
    #[pyo3(signature = (value, /))]
    fn write<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = value.py();
        let mut writer = Writer::new(self.runtime);
        match writer.record(&self.layout, value) {
            Ok(()) => Ok(PyBytes::new(py, &writer.out)),
            Err(refusal) => Err(self.runtime.error(py, refusal, 0)),
        }
    }
}

/// The native engine of kwire.
#[pymodule]
pub mod kwire_native {
    #[pymodule_export]
    use super::Message;
    #[pymodule_export]
    use super::batches::Batches;
    #[pymodule_export]
    use super::calls::Calls;
    #[pymodule_export]
    use super::codecs::{decompress, zstd_frame};
    #[pymodule_export]
    use super::columns::Columns;
    #[pymodule_export]
    use super::errors::ErrorCodes;
    #[pymodule_export]
    use super::frame_log::frame_lines;
    #[pymodule_export]
    use super::frame_records::FrameRecords;
    #[pymodule_export]
    use super::json::{Body, Form, Lines};
    #[pymodule_export]
    use super::maker::Maker;
    #[pymodule_export]
    use super::records::{Records, crc32c};
    #[pymodule_export]
    use super::requests::{Frames, Requests};

    /// The form of the tables; kwire uses the engine only if it makes tables of this form.
    #[pymodule_export]
    const TABLES: u32 = 9;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
