//! Records of magic 2: the fields of a batch after its header, and the batch with its checksum.
//!
//! Like the fast path of `kwire.records.record`, this code handles usual records and leaves all others to Python: the
//! reader stops before them, and the writer returns None. So each rule about invalid records exists once, in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple, PyType};

use crate::raw::{self, Class, Pause, View};

const OFFSET: usize = 0; // numbers of the slots, in the order of the names that Python hands over
const TIMESTAMP: usize = 1;
const KEY: usize = 2;
const VALUE: usize = 3;
const HEADERS: usize = 4;
const SLOTS: usize = 5;

const FEW_HEADERS: i32 = 63; // a record with more headers ends a step, which is left to Python
const SMALLEST_HEADER: usize = 2; // bytes
pub const SMALLEST_RECORD: usize = 7; // bytes
const MAX_DELTA: i64 = (1 << 31) - 1; // of an offset
const LAST_CODEC: i16 = 4; // zstd
const TAIL: usize = 40; // bytes of the header of a batch that the checksum covers
pub const CRC_FROM: usize = 21; // offset of these bytes
pub const PREFIX: usize = 12; // base offset and length, which the length does not count

/// The function of Python that compresses records.
static COMPRESS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Return the CRC-32C of bytes from an offset on; `before` is the CRC of the bytes before them.
#[pyfunction]
#[pyo3(signature = (data, start = 0, before = 0, /))]
pub fn crc32c(data: &Bound<'_, PyBytes>, start: usize, before: u32) -> u32 {
    ::crc32c::crc32c_append(before, data.as_bytes().get(start..).unwrap_or_default())
}

/// A class of records: `Record`, or a subclass of it.
#[pyclass(frozen, module = "kwire_native")]
pub struct Records {
    class: Class,
    no_headers: Py<PyTuple>,
}

#[pymethods]
impl Records {
    /// `names`: the slots offset, timestamp, key, value and headers.
    #[new]
    fn new(class: &Bound<'_, PyType>, names: Vec<String>) -> PyResult<Self> {
        if names.len() != SLOTS {
            return Err(PyValueError::new_err("a record has five slots"));
        }
        Ok(Records { class: Class::probe(class, &names)?, no_headers: PyTuple::empty(class.py()).unbind() })
    }

    /// Read up to `most` records; return them with the offset after the last one. Fewer records: the next one is left to
    /// Python.
    #[pyo3(signature = (data, at, most, base_offset, base_timestamp, /))]
    fn read<'py>(
        &self,
        data: &Bound<'py, PyBytes>,
        at: usize,
        most: usize,
        base_offset: i64,
        base_timestamp: i64,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        let frame = Frame { base_offset, base_timestamp, append_time: None };
        let (found, end) = self.some(data.py(), data.as_bytes(), at, most, &frame)?;
        Ok((PyList::new(data.py(), found)?, end))
    }

    /// Return the bytes of records; None if one of them is left to Python.
    ///
    /// `deltas`: offset of each record in the batch; None for 0, 1, 2 ... `batch`: base offset, leader epoch and the last
    /// 40 bytes of the header, to return the whole batch.
    #[pyo3(signature = (records, deltas, base_timestamp, batch, /))]
    fn write<'py>(
        &self,
        records: &Bound<'py, PyList>,
        deltas: Option<&Bound<'py, PyList>>,
        base_timestamp: i64,
        batch: Option<(i64, i32, Bound<'py, PyBytes>)>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let tail = match &batch {
            Some((base_offset, leader_epoch, tail)) => match <&[u8; TAIL]>::try_from(tail.as_bytes()) {
                Ok(tail) => Some((*base_offset, *leader_epoch, tail)),
                Err(_) => return Err(PyValueError::new_err("the header of a batch has another size")),
            },
            None => None,
        };
        self.written(records, deltas, base_timestamp, tail)
    }

    /// Return a batch; None if it is left to Python. For the arguments, see `build_batch`.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (
        records, codec, base_offset, last_offset, keep_offsets, leader_epoch, producer_id, producer_epoch, base_sequence,
        log_append_time, transactional, control, delete_horizon, max_timestamp, /
    ))]
    fn build<'py>(
        &self,
        records: Bound<'py, PyAny>,
        codec: i16,
        base_offset: Option<i64>,
        last_offset: Option<i64>,
        keep_offsets: bool,
        leader_epoch: i32,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        log_append_time: Option<i64>,
        transactional: bool,
        control: bool,
        delete_horizon: Option<i64>,
        max_timestamp: Option<i64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Ok(records) = records.cast_into_exact::<PyList>() else { return Ok(None) };
        if records.is_empty() || keep_offsets || last_offset.is_some() || !(0..=LAST_CODEC).contains(&codec) {
            return Ok(None);
        }
        let (mut first, mut most) = (None, i64::MIN);
        for record in records.iter() {
            let stamp = self.class.view(record).and_then(|record| exact_int(&record.get(TIMESTAMP)?));
            let Some(stamp) = stamp else { return Ok(None) };
            first.get_or_insert(stamp);
            most = most.max(stamp);
        }
        let base_timestamp = delete_horizon.or(first).unwrap_or(-1);
        let most = max_timestamp.or(log_append_time).unwrap_or(most);
        let Ok(count) = i32::try_from(records.len()) else { return Ok(None) };
        let flags = [
            (0x08, log_append_time.is_some()),
            (0x10, transactional),
            (0x20, control),
            (0x40, delete_horizon.is_some()),
        ];
        let attributes = codec + flags.iter().filter(|(_, is_set)| *is_set).map(|(bit, _)| bit).sum::<i16>();
        let mut tail = [0; TAIL];
        let mut place = Place { out: &mut tail, at: 0 };
        place.put(&attributes.to_be_bytes());
        place.put(&(count - 1).to_be_bytes());
        place.put(&base_timestamp.to_be_bytes());
        place.put(&most.to_be_bytes());
        place.put(&producer_id.to_be_bytes());
        place.put(&producer_epoch.to_be_bytes());
        place.put(&base_sequence.to_be_bytes());
        place.put(&count.to_be_bytes());
        let base_offset = base_offset.unwrap_or(0);
        if codec == 0 {
            return self.written(&records, None, base_timestamp, Some((base_offset, leader_epoch, &tail)));
        }
        let Some(plain) = self.written(&records, None, base_timestamp, None)? else { return Ok(None) };
        let compress = COMPRESS.get_or_try_init(plain.py(), || {
            Ok::<_, PyErr>(plain.py().import("kwire.records.compression")?.getattr("compress")?.unbind())
        })?;
        let body = compress.bind(plain.py()).call1((codec, plain))?;
        let Ok(body) = body.cast_exact::<PyBytes>() else { return Ok(None) };
        batch(body, base_offset, leader_epoch, &tail)
    }
}

/// What the header of a batch says about all of its records. `append_time`: the timestamp of all records, if the broker
/// set it.
pub struct Frame {
    pub base_offset: i64,
    pub base_timestamp: i64,
    pub append_time: Option<i64>,
}

impl Records {
    /// Return the class of the records.
    pub fn class<'py>(&self, py: Python<'py>) -> &Bound<'py, PyType> {
        self.class.of(py)
    }

    /// Read up to `most` records; return them with the offset after the last one. Fewer records: the next one is left to
    /// Python.
    pub fn some<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        at: usize,
        most: usize,
        frame: &Frame,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, usize)> {
        let (mut found, mut end) = (Vec::with_capacity(most.min(data.len() / SMALLEST_RECORD + 1)), at);
        let mut cursor = Cursor { py, data, at, names: Vec::new(), letters: Vec::new() };
        let mut last: Option<(i64, Bound<'py, PyAny>)> = None; // records often have the timestamp of the record before them
        let _pause = Pause::new(py);
        while found.len() < most {
            let Some(fields) = cursor.record()? else { break };
            let record = self.class.create(py)?;
            let timestamp = frame.append_time.unwrap_or_else(|| frame.base_timestamp.wrapping_add(fields.timestamp));
            record.set(OFFSET, frame.base_offset.wrapping_add(i64::from(fields.offset)).into_pyobject(py)?.into_any());
            let stamp = match &last {
                Some((same, stamp)) if *same == timestamp => stamp.clone(),
                _ => timestamp.into_pyobject(py)?.into_any(),
            };
            last = Some((timestamp, stamp.clone()));
            record.set(TIMESTAMP, stamp);
            record.set(KEY, bytes_or_none(py, fields.key));
            record.set(VALUE, bytes_or_none(py, fields.value));
            record.set(
                HEADERS,
                match fields.headers {
                    Some(headers) => headers.into_any(),
                    None => self.no_headers.bind(py).clone().into_any(),
                },
            );
            found.push(record.into_object());
            end = cursor.at;
        }
        Ok((found, end))
    }

    fn written<'py>(
        &self,
        records: &Bound<'py, PyList>,
        deltas: Option<&Bound<'py, PyList>>,
        base_timestamp: i64,
        batch: Option<(i64, i32, &[u8; TAIL])>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = records.py();
        let (mut plans, mut headers) = (Vec::with_capacity(records.len()), Vec::new());
        let mut size = 0;
        for (index, record) in records.iter().enumerate() {
            let delta = match deltas {
                None => Some(index as i64),
                Some(deltas) => deltas.get_item(index).ok().and_then(|delta| exact_int(&delta)),
            };
            let Some(plan) = delta.and_then(|delta| self.plan(record, delta, base_timestamp, &mut headers)) else {
                return Ok(None);
            };
            size += zigzag_size(plan.size as i64) + plan.size;
            plans.push(plan);
        }
        let begin = if batch.is_some() { CRC_FROM + TAIL } else { 0 };
        let Ok(length) = i32::try_from(begin + size) else { return Ok(None) };
        let out = PyBytes::new_with(py, begin + size, |out| {
            let mut place = Place { out: &mut out[begin..], at: 0 };
            let mut from = 0;
            for plan in &plans {
                place.record(plan, &headers[from..plan.headers_end]);
                from = plan.headers_end;
            }
            if let Some((base_offset, leader_epoch, tail)) = batch {
                put_header(out, length, base_offset, leader_epoch, tail);
            }
            Ok(())
        })?;
        Ok(Some(out))
    }

    /// Return what is to be written for a record, and append its encoded headers; None if it is left to Python.
    fn plan<'py>(
        &self,
        record: Bound<'py, PyAny>,
        delta: i64,
        base_timestamp: i64,
        headers: &mut Vec<u8>,
    ) -> Option<Plan<'py>> {
        let object = self.class.view(record)?;
        let timestamp = exact_int(&object.get(TIMESTAMP)?)?.wrapping_sub(base_timestamp);
        if !(-MAX_DELTA..=MAX_DELTA).contains(&delta) {
            return None;
        }
        let before = headers.len();
        append_headers(&object, headers)?;
        let (key, value) = (exact_bytes(object.get(KEY)?)?, exact_bytes(object.get(VALUE)?)?);
        let size = 1 + zigzag_size(timestamp) + zigzag_size(delta) + blob_size(&key) + blob_size(&value);
        let size = size + headers.len() - before;
        Some(Plan { size, timestamp, delta, key, value, headers_end: headers.len() })
    }
}

/// Return a batch whose records are already encoded; None if it is too large.
fn batch<'py>(
    body: &Bound<'py, PyBytes>,
    base_offset: i64,
    leader_epoch: i32,
    tail: &[u8; TAIL],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let content = body.as_bytes();
    let Ok(length) = i32::try_from(CRC_FROM + TAIL + content.len()) else { return Ok(None) };
    let out = PyBytes::new_with(body.py(), length as usize, |out| {
        out[CRC_FROM + TAIL..].copy_from_slice(content);
        put_header(out, length, base_offset, leader_epoch, tail);
        Ok(())
    })?;
    Ok(Some(out))
}

/// Write the header of a batch before its records. `length`: size of the batch, in bytes.
fn put_header(out: &mut [u8], length: i32, base_offset: i64, leader_epoch: i32, tail: &[u8; TAIL]) {
    out[CRC_FROM..CRC_FROM + TAIL].copy_from_slice(tail);
    let crc = ::crc32c::crc32c(&out[CRC_FROM..]);
    out[..8].copy_from_slice(&base_offset.to_be_bytes());
    out[8..12].copy_from_slice(&(length - PREFIX as i32).to_be_bytes());
    out[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    out[16] = 2;
    out[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// A record to write: its size without its own length, and its fields.
struct Plan<'py> {
    size: usize,
    timestamp: i64,
    delta: i64,
    key: Option<Bound<'py, PyBytes>>,
    value: Option<Bound<'py, PyBytes>>,
    headers_end: usize,
}

pub fn exact_int(value: &Bound<'_, PyAny>) -> Option<i64> {
    value.cast_exact::<PyInt>().ok()?.extract().ok()
}

/// Return bytes or null; None for a value of another type.
fn exact_bytes(value: Bound<'_, PyAny>) -> Option<Option<Bound<'_, PyBytes>>> {
    if value.is_none() {
        return Some(None);
    }
    value.cast_into_exact::<PyBytes>().ok().map(Some)
}

fn append_headers(object: &View<'_, '_>, out: &mut Vec<u8>) -> Option<()> {
    let headers = object.get(HEADERS)?;
    if let Ok(headers) = headers.cast_exact::<PyTuple>() {
        append_zigzag(out, headers.len() as i64);
        for header in headers.iter() {
            append_header(&header, out)?;
        }
    } else {
        let headers = headers.cast_exact::<PyList>().ok()?;
        append_zigzag(out, headers.len() as i64);
        for header in headers.iter() {
            append_header(&header, out)?;
        }
    }
    Some(())
}

fn append_header(header: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Option<()> {
    let pair = header.cast_exact::<PyTuple>().ok()?;
    if pair.len() != 2 {
        return None;
    }
    let name = pair.get_item(0).ok()?;
    let name = name.cast_exact::<PyString>().ok()?.to_str().ok()?;
    append_zigzag(out, name.len() as i64);
    out.extend_from_slice(name.as_bytes());
    match exact_bytes(pair.get_item(1).ok()?)? {
        Some(content) => {
            append_zigzag(out, content.as_bytes().len() as i64);
            out.extend_from_slice(content.as_bytes());
        }
        None => append_zigzag(out, -1),
    }
    Some(())
}

fn blob_size(blob: &Option<Bound<'_, PyBytes>>) -> usize {
    match blob {
        Some(blob) => zigzag_size(blob.as_bytes().len() as i64) + blob.as_bytes().len(),
        None => 1,
    }
}

#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
fn zigzag_size(value: i64) -> usize {
    (64 - (zigzag(value) | 1).leading_zeros() as usize).div_ceil(7)
}

fn append_zigzag(out: &mut Vec<u8>, value: i64) {
    let mut left = zigzag(value);
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// The bytes to fill, and the place of the next one.
struct Place<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Place<'_> {
    fn put(&mut self, data: &[u8]) {
        self.out[self.at..self.at + data.len()].copy_from_slice(data);
        self.at += data.len();
    }

    #[inline]
    fn zigzag(&mut self, value: i64) {
        let mut left = zigzag(value);
        while left >= 0x80 {
            self.out[self.at] = left as u8 | 0x80;
            self.at += 1;
            left >>= 7;
        }
        self.out[self.at] = left as u8;
        self.at += 1;
    }

    fn blob(&mut self, blob: &Option<Bound<'_, PyBytes>>) {
        match blob {
            Some(blob) => {
                self.zigzag(blob.as_bytes().len() as i64);
                self.put(blob.as_bytes());
            }
            None => self.zigzag(-1),
        }
    }

    fn record(&mut self, plan: &Plan<'_>, headers: &[u8]) {
        self.zigzag(plan.size as i64);
        self.put(&[0]);
        self.zigzag(plan.timestamp);
        self.zigzag(plan.delta);
        self.blob(&plan.key);
        self.blob(&plan.value);
        self.put(headers);
    }
}

fn bytes_or_none<'py>(py: Python<'py>, data: Option<&[u8]>) -> Bound<'py, PyAny> {
    match data {
        Some(data) => PyBytes::new(py, data).into_any(),
        None => py.None().into_bound(py),
    }
}

/// The fields of a record, as they are in the bytes; `headers` is None if there are no headers.
struct Fields<'a, 'py> {
    timestamp: i64,
    offset: i32,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Option<Bound<'py, PyTuple>>,
}

/// The position in the bytes of records. `names`: header keys of the last record that had headers.
struct Cursor<'a, 'py> {
    py: Python<'py>,
    data: &'a [u8],
    at: usize,
    names: Vec<(&'a [u8], Bound<'py, PyAny>)>,
    letters: Vec<u32>,
}

impl<'a, 'py> Cursor<'a, 'py> {
    /// Read the fields of a record; None if the record is left to Python.
    fn record(&mut self) -> PyResult<Option<Fields<'a, 'py>>> {
        let Some(size) = self.size() else { return Ok(None) };
        let end = self.at + size;
        self.at += 1; // attributes of a record are unused
        let Some((timestamp, offset)) = self.long().zip(self.int()) else { return Ok(None) };
        let Some((key, value)) = self.blob().zip(self.blob()) else { return Ok(None) };
        let Some(count) = self.int() else { return Ok(None) };
        let headers = match count {
            0 => None,
            _ => {
                let Some(headers) = self.headers(count, end)? else { return Ok(None) };
                Some(headers)
            }
        };
        Ok((self.at == end).then_some(Fields { timestamp, offset, key, value, headers }))
    }

    fn headers(&mut self, count: i32, end: usize) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let left = end.saturating_sub(self.at);
        if !(0..=FEW_HEADERS).contains(&count) || count as usize * SMALLEST_HEADER > left {
            return Ok(None);
        }
        let mut headers = Vec::with_capacity(count as usize);
        for index in 0..count as usize {
            let Some(Some(raw)) = self.blob() else { return Ok(None) };
            let Some(content) = self.blob() else { return Ok(None) };
            let name = match self.names.get(index) {
                Some((known, name)) if *known == raw => name.clone(),
                _ => {
                    let name = raw::text(self.py, raw, &mut self.letters)?;
                    self.names.truncate(index);
                    self.names.push((raw, name.clone()));
                    name
                }
            };
            headers.push((name, bytes_or_none(self.py, content)));
        }
        Ok(Some(PyTuple::new(self.py, headers)?))
    }

    /// Read the length of a record; None if fewer bytes remain.
    fn size(&mut self) -> Option<usize> {
        let size = usize::try_from(self.int()?).ok()?;
        (size <= self.data.len() - self.at).then_some(size)
    }

    /// Read bytes or null.
    #[inline]
    fn blob(&mut self) -> Option<Option<&'a [u8]>> {
        let Ok(size) = usize::try_from(self.int()?) else { return Some(None) };
        let part = self.data.get(self.at..self.at + size)?;
        self.at += size;
        Some(Some(part))
    }

    #[inline]
    fn int(&mut self) -> Option<i32> {
        let raw = self.varint(5)? as u32; // as in Java, bits that do not fit are dropped
        Some((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    #[inline]
    fn long(&mut self) -> Option<i64> {
        let raw = self.varint(10)?;
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    #[inline]
    fn varint(&mut self, longest: u32) -> Option<u64> {
        let mut value = 0;
        for index in 0..longest {
            let byte = *self.data.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
