//! Record batches of magic 2: the header, and the records with and without compression.
//!
//! Like `records`, this code handles usual batches and leaves all others to Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple, PyType};

use crate::codecs;
use crate::raw::{Class, View};
use crate::records::{CRC_FROM, Frame, PREFIX, Records, SMALLEST_RECORD, exact_int};

const DATA: usize = 0; // numbers of the slots of a batch; those from the third on are its header, in wire order
const POSITION: usize = 1;
const BASE_OFFSET: usize = 2;
const LENGTH: usize = 3;
const LEADER_EPOCH: usize = 4;
const MAGIC: usize = 5;
const CRC: usize = 6;
const ATTRIBUTES: usize = 7;
const LAST_OFFSET_DELTA: usize = 8;
const BASE_TIMESTAMP: usize = 9;
const MAX_TIMESTAMP: usize = 10;
const PRODUCER_ID: usize = 11;
const PRODUCER_EPOCH: usize = 12;
const BASE_SEQUENCE: usize = 13;
const COUNT: usize = 14;
const SLOTS: usize = 15;
const HEADER: usize = 61; // bytes
const CRC_AT: usize = 17;
const MAGIC_AT: usize = 16; // offset of the byte without which the format of a batch is unknown
const CODEC: i64 = 0x07; // bits of the attributes
const LOG_APPEND_TIME: i64 = 0x08;

/// The reader of record batches.
#[pyclass(frozen, module = "kwire_native")]
pub struct Batches {
    batch: Class,
    records: Py<Records>,
    most: usize,
    limit: usize,
    chained: Py<PyAny>,
}

#[pymethods]
impl Batches {
    /// `batch`: class of the batches. `names`: its slots: data, position, and the fields of the header in wire order.
    /// `records`: reader of records. `most`: maximum number of records that are read at once. `limit`: largest size of
    /// decompressed records, in bytes; batches with more are left to Python.
    #[new]
    fn new(
        batch: &Bound<'_, PyType>,
        names: Vec<String>,
        records: Py<Records>,
        most: usize,
        limit: usize,
    ) -> PyResult<Self> {
        if names.len() != SLOTS {
            let given = names.len();
            return Err(PyValueError::new_err(format!("got {given} names for the {SLOTS} slots of a batch")));
        }
        let chained = batch.py().import("itertools")?.getattr("chain")?.getattr("from_iterable")?.unbind();
        Ok(Batches { batch: Class::probe(batch, &names)?, records, most, limit, chained })
    }

    /// Return an iterator over the batches in the data.
    ///
    /// `others`: function of the data and an offset. It yields the batches from this offset on, and is called at the
    /// first batch that is left to Python.
    #[pyo3(signature = (data, others, /))]
    fn read<'py>(
        slf: &Bound<'py, Self>,
        data: &Bound<'py, PyBytes>,
        others: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(batch) = slf.get().only(data)? {
            return Ok(PyTuple::new(py, [batch])?.try_iter()?.into_any());
        }
        let (batches, data) = (slf.clone().unbind(), data.clone().unbind());
        let batches = BatchIterator { batches, data, at: 0, others: others.clone().unbind(), rest: None };
        Ok(Bound::new(py, batches)?.into_any())
    }

    /// Return the batch in the data; None if the data is not exactly one batch, or the batch is left to Python.
    #[pyo3(signature = (data, /))]
    fn only<'py>(&self, data: &Bound<'py, PyBytes>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let bytes = data.as_bytes();
        match batch_in(bytes).filter(|(_, whole)| whole.len() == bytes.len()) {
            Some((head, _)) => self.create(data.clone(), head, 0).map(Some),
            None => Ok(None),
        }
    }

    /// Return the batch in the data if its checksum is right; None if the batch is left to Python.
    #[pyo3(signature = (data, /))]
    fn checked<'py>(&self, data: &Bound<'py, PyBytes>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let bytes = data.as_bytes();
        let Some((head, covered)) = batch_in(bytes)
            .filter(|(_, whole)| whole.len() == bytes.len())
            .and_then(|(head, whole)| Some((head, whole.get(CRC_FROM..)?)))
        else {
            return Ok(None);
        };
        let is_right = u32::from_be_bytes(part(head, CRC_AT)) == ::crc32c::crc32c(covered);
        if is_right { self.create(data.clone(), head, 0).map(Some) } else { Ok(None) }
    }

    /// Return a copy of a batch with another base offset and leader epoch; None if the data has no complete header, or is
    /// not bytes.
    #[pyo3(signature = (data, base_offset, leader_epoch, /))]
    fn rebased<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        base_offset: i64,
        leader_epoch: i32,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Ok(data) = data.cast_exact::<PyBytes>() else { return Ok(None) };
        let bytes = data.as_bytes();
        if bytes.len() < HEADER {
            return Ok(None);
        }
        let copy = PyBytes::new_with(data.py(), bytes.len(), |copy| {
            copy.copy_from_slice(bytes);
            copy[..8].copy_from_slice(&base_offset.to_be_bytes());
            copy[12..MAGIC_AT].copy_from_slice(&leader_epoch.to_be_bytes());
            Ok(())
        })?;
        Ok(Some(copy))
    }

    /// Return an iterator over the records of a batch; None if they are left to Python.
    #[pyo3(signature = (batch, verify_crc, /))]
    fn records<'py>(
        slf: &Bound<'py, Self>,
        batch: &Bound<'py, PyAny>,
        verify_crc: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, this) = (slf.py(), slf.get());
        let Some(head) = this.batch.view(batch.clone()).and_then(|batch| Head::of(&batch)) else { return Ok(None) };
        let data = head.data.as_bytes();
        let Some((covered, body)) = data.get(CRC_FROM..).zip(data.get(HEADER..)) else { return Ok(None) };
        let is_large = head.count > this.most;
        if (is_large && head.codec == 0) || (verify_crc && head.crc != i64::from(::crc32c::crc32c(covered))) {
            return Ok(None);
        }
        if head.codec == 0 {
            return this.whole(py, body, &head);
        }
        let Some(plain) = codecs::decompressed(py, head.codec, body, this.limit) else { return Ok(None) };
        if !is_large || head.count.saturating_mul(SMALLEST_RECORD) > plain.bytes().len() {
            let records = this.whole(py, plain.bytes(), &head);
            plain.give_back();
            return records;
        }
        let (buffer, size) = plain.into_buffer();
        let (batches, batch, at) = (slf.clone().unbind(), batch.clone().unbind(), (0, 0));
        let portions = Portions { batches, batch, buffer, size, count: head.count, frame: head.frame, at, rest: None };
        Ok(Some(this.chained.bind(py).call1((Bound::new(py, portions)?,))?))
    }
}

impl Batches {
    /// Return an iterator over the records in the data; None if they are left to Python.
    fn whole<'py>(&self, py: Python<'py>, data: &[u8], head: &Head) -> PyResult<Option<Bound<'py, PyAny>>> {
        if head.count.saturating_mul(SMALLEST_RECORD) > data.len() {
            return Ok(None);
        }
        let (found, end) = self.records.get().some(py, data, 0, head.count, &head.frame)?;
        if found.len() < head.count || end != data.len() {
            return Ok(None);
        }
        Ok(Some(PyTuple::new(py, found)?.try_iter()?.into_any()))
    }

    /// Create a batch. `data`: its bytes, which begin with the header. `at`: offset of the batch in the data that was read.
    fn create<'py>(&self, data: Bound<'py, PyBytes>, head: &[u8; HEADER], at: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = data.py();
        let batch = self.batch.create(py)?;
        batch.set(DATA, data.into_any());
        batch.set(POSITION, at.into_pyobject(py)?.into_any());
        batch.set(BASE_OFFSET, i64::from_be_bytes(part(head, 0)).into_pyobject(py)?.into_any());
        batch.set(LENGTH, i32::from_be_bytes(part(head, 8)).into_pyobject(py)?.into_any());
        batch.set(LEADER_EPOCH, i32::from_be_bytes(part(head, 12)).into_pyobject(py)?.into_any());
        batch.set(MAGIC, 2_i8.into_pyobject(py)?.into_any());
        batch.set(CRC, u32::from_be_bytes(part(head, CRC_AT)).into_pyobject(py)?.into_any());
        batch.set(ATTRIBUTES, i16::from_be_bytes(part(head, 21)).into_pyobject(py)?.into_any());
        batch.set(LAST_OFFSET_DELTA, i32::from_be_bytes(part(head, 23)).into_pyobject(py)?.into_any());
        let (base, largest) = (i64::from_be_bytes(part(head, 27)), i64::from_be_bytes(part(head, 35)));
        let base_timestamp = base.into_pyobject(py)?.into_any();
        let max_timestamp =
            if base == largest { base_timestamp.clone() } else { largest.into_pyobject(py)?.into_any() };
        batch.set(BASE_TIMESTAMP, base_timestamp);
        batch.set(MAX_TIMESTAMP, max_timestamp);
        batch.set(PRODUCER_ID, i64::from_be_bytes(part(head, 43)).into_pyobject(py)?.into_any());
        batch.set(PRODUCER_EPOCH, i16::from_be_bytes(part(head, 51)).into_pyobject(py)?.into_any());
        batch.set(BASE_SEQUENCE, i32::from_be_bytes(part(head, 53)).into_pyobject(py)?.into_any());
        batch.set(COUNT, i32::from_be_bytes(part(head, 57)).into_pyobject(py)?.into_any());
        Ok(batch.into_object())
    }
}

/// Return the header and the bytes of the batch at the beginning of the data; None if it is left to Python.
fn batch_in(data: &[u8]) -> Option<(&[u8; HEADER], &[u8])> {
    let head = data.first_chunk::<HEADER>()?;
    let length = usize::try_from(i32::from_be_bytes(part(head, 8))).ok()?;
    let whole = data.get(..PREFIX + length)?;
    (head[MAGIC_AT] == 2 && whole.len() >= HEADER).then_some((head, whole))
}

fn part<const N: usize>(head: &[u8; HEADER], at: usize) -> [u8; N] {
    std::array::from_fn(|index| head[at + index])
}

/// The values in the slots of a batch that are needed to read its records.
struct Head<'py> {
    data: Bound<'py, PyBytes>,
    crc: i64,
    codec: i64,
    count: usize,
    frame: Frame,
}

impl<'py> Head<'py> {
    /// Return the values of a batch; None if a slot is empty, or has a value that is left to Python.
    fn of(batch: &View<'_, 'py>) -> Option<Self> {
        let number = |slot| batch.get(slot).as_ref().and_then(exact_int);
        let attributes = number(ATTRIBUTES)?;
        Some(Head {
            data: batch.get(DATA)?.cast_into_exact().ok()?,
            crc: number(CRC)?,
            codec: attributes & CODEC,
            count: usize::try_from(number(COUNT)?).ok()?,
            frame: Frame {
                base_offset: number(BASE_OFFSET)?,
                base_timestamp: number(BASE_TIMESTAMP)?,
                append_time: if attributes & LOG_APPEND_TIME == 0 { None } else { Some(number(MAX_TIMESTAMP)?) },
            },
        })
    }
}

/// An iterator over lists of the records of a large batch. `size`: bytes of the buffer that contain records. `at`: offset
/// and number of the next record. `rest`: Python's iterator over the remaining lists, from the first record that is left
/// to Python on.
#[pyclass(module = "kwire_native")]
pub struct Portions {
    batches: Py<Batches>,
    batch: Py<PyAny>,
    buffer: Vec<u8>,
    size: usize,
    count: usize,
    frame: Frame,
    at: (usize, usize),
    rest: Option<Py<PyAny>>,
}

#[pymethods]
impl Portions {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(mut slf: PyRefMut<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        if slf.rest.is_none() {
            let (begin, index) = slf.at;
            let (batches, data) = (slf.batches.get(), &slf.buffer[..slf.size]);
            if index == slf.count && begin == slf.size {
                return Ok(None);
            }
            let (records, most) = (batches.records.get(), batches.most.min(slf.count - index));
            let (found, end) = records.some(py, data, begin, most, &slf.frame)?;
            if most > 0 && found.len() == most {
                slf.at = (end, index + most);
                return Ok(Some(PyList::new(py, found)?.into_any()));
            }
            let arguments = (PyBytes::new(py, data), begin, records.class(py), index);
            slf.rest = Some(slf.batch.bind(py).call_method1("_some", arguments)?.unbind());
        }
        let rest = slf.rest.as_ref().map(|rest| rest.clone_ref(py));
        drop(slf);
        next_of(py, rest)
    }
}

impl Drop for Portions {
    fn drop(&mut self) {
        codecs::reuse(std::mem::take(&mut self.buffer));
    }
}

/// An iterator over the batches in a records field. `rest`: Python's iterator over the remaining batches, from the first
/// batch that is left to Python on.
#[pyclass(module = "kwire_native")]
pub struct BatchIterator {
    batches: Py<Batches>,
    data: Py<PyBytes>,
    at: usize,
    others: Py<PyAny>,
    rest: Option<Py<PyAny>>,
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(mut slf: PyRefMut<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        if slf.rest.is_none() {
            let left = &slf.data.as_bytes(py)[slf.at..];
            if left.len() <= MAGIC_AT {
                return Ok(None);
            }
            if let Some((head, whole)) = batch_in(left) {
                let batch = slf.batches.get().create(PyBytes::new(py, whole), head, slf.at)?;
                let size = whole.len();
                slf.at += size;
                return Ok(Some(batch));
            }
            slf.rest = Some(slf.others.bind(py).call1((slf.data.bind(py), slf.at))?.unbind());
        }
        let rest = slf.rest.as_ref().map(|rest| rest.clone_ref(py));
        drop(slf);
        next_of(py, rest)
    }
}

/// The next element of a Python iterator; None at its end.
fn next_of<'py>(py: Python<'py>, rest: Option<Py<PyAny>>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match rest {
        Some(rest) => rest.into_bound(py).cast_into::<PyIterator>()?.next().transpose(),
        None => Ok(None),
    }
}
