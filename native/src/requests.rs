//! The requests of a client connection: division into frames, headers and bodies, in one call for each request.
//!
//! `Requests::next` handles the usual case only: a complete frame of a served API version, with the client id of the
//! previous request and without tagged fields in its header. It changes nothing in any other case, and leaves the bytes
//! to Python, which handles every case. So the limits and all errors are those of the Python code.

use std::collections::HashSet;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyTuple, PyType};

use crate::Message;
use crate::cursor::Cursor;
use crate::forms::Forms;
use crate::raw::{Class, Pause};
use crate::read::Reader;
use crate::records::exact_int;

const PREFIX: usize = 4; // bytes of the length prefix
const FIXED: usize = 8; // bytes of a request header before the client id

/// One version of an API. `has_tags`: whether the headers of requests and of responses end with a tagged section.
/// `is_repeated`: whether clients repeat the same request.
struct Form {
    key: Py<PyAny>,
    version: Py<PyAny>,
    message: Py<Message>,
    has_tags: (bool, bool),
    is_repeated: bool,
}

// The numbers of the slots that are used, of `kwire.frames.FrameBuffer`, tickets and calls.
const DATA: usize = 0;
const AT: usize = 1;
const HELD: usize = 2;
const LARGE: usize = 3;
const LIMIT: usize = 4;
const CONNECTION: usize = 0;
const CORRELATION_ID: usize = 1;
const API_KEY: usize = 2;
const API_VERSION: usize = 3;
const LOGGED: usize = 4;
const FAULT: usize = 5;
const TICKET: usize = 0;
const CLIENT: usize = 1;
const REQUEST: usize = 2;
const FRAME: usize = 3;

/// The reader of requests.
#[pyclass(frozen, module = "kwire_native")]
pub struct Requests {
    buffers: Class,
    tickets: Class,
    calls: Class,
    largest: usize,
    repeated: usize,
    forms: Forms<Form>,
    empty: Py<PyAny>,
    no: Py<PyAny>,
    fault: Py<PyAny>,
}

/// The class and the names of its slots.
type Slots<'py> = (Bound<'py, PyType>, Vec<String>);

#[pymethods]
impl Requests {
    /// `buffers`: class of the buffers of received bytes, and its slots: bytes, offset of the next frame, number of bytes
    /// that are held, large frame, maximum size of a frame. `tickets`: class of the tickets, and its slots: connection,
    /// correlation id, API key, version, whether it is logged, fault. `calls`: class of the calls, and its slots: ticket,
    /// client, request, frame. `form_of`: function of an API key and a version that returns both, the message of the
    /// request, whether its header and the header of its response end with a tagged section, and whether clients repeat
    /// the request; None for versions that are left to Python. `largest`: size of the largest frame that is read, in
    /// bytes. `repeated`: size of the largest request that is kept to recognize its repetition.
    #[new]
    fn new(
        buffers: Slots<'_>,
        tickets: Slots<'_>,
        calls: Slots<'_>,
        form_of: Py<PyAny>,
        largest: usize,
        repeated: usize,
    ) -> PyResult<Self> {
        let py = buffers.0.py();
        if (buffers.1.len(), tickets.1.len(), calls.1.len()) != (LIMIT + 1, FAULT + 1, FRAME + 1) {
            return Err(PyValueError::new_err("a class has another number of slots"));
        }
        Ok(Requests {
            buffers: Class::probe(&buffers.0, &buffers.1)?,
            tickets: Class::probe(&tickets.0, &tickets.1)?,
            calls: Class::probe(&calls.0, &calls.1)?,
            largest,
            repeated,
            forms: Forms::new(form_of),
            empty: PyBytes::new(py, b"").into_any().unbind(),
            no: false.into_pyobject(py)?.to_owned().into_any().unbind(),
            fault: "".into_pyobject(py)?.into_any().unbind(),
        })
    }

    /// Return the next request as a call, and remove its frame from the buffer; None if Python must read it.
    ///
    /// `buffer`: the received bytes. `name`: client id of the previous request, as encoded in its header. `client`: the
    /// client with this client id. `connection`: number of the connection. `recent`: requests that may be repeated, with
    /// their frames, by a number of the API version; new requests are added.
    #[pyo3(signature = (buffer, name, client, connection, recent, /))]
    fn next<'py>(
        &self,
        buffer: Bound<'py, PyAny>,
        name: &Bound<'py, PyBytes>,
        client: Bound<'py, PyAny>,
        connection: Bound<'py, PyAny>,
        recent: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = name.py();
        let Some(buffer) = self.buffers.view(buffer) else { return Ok(None) };
        let number = |slot| buffer.get(slot).as_ref().and_then(exact_int);
        let data = buffer.get(DATA).and_then(|data| data.cast_into_exact::<PyBytes>().ok());
        let (Some(data), Some(at), Some(held), Some(limit)) = (data, number(AT), number(HELD), number(LIMIT)) else {
            return Ok(None);
        };
        let is_large = !buffer.get(LARGE).is_some_and(|large| large.is_none());
        let Some(split) = usize::try_from(at).ok().and_then(|at| Frame::split(data.as_bytes(), at)) else {
            return Ok(None);
        };
        let Frame { bytes, end } = split;
        if is_large || bytes.len() > self.largest || bytes.len() as i64 > limit {
            return Ok(None);
        }
        let (Some(first), name) = (bytes.first_chunk::<4>(), name.as_bytes()) else { return Ok(None) };
        if name.is_empty() || !bytes.get(FIXED..).is_some_and(|rest| rest.starts_with(name)) {
            return Ok(None);
        }
        let [a, b, c, d] = *first;
        let (key, version) = (i16::from_be_bytes([a, b]), i16::from_be_bytes([c, d]));
        let Some(form) = self.form(py, key, version)? else { return Ok(None) };
        let mut body = FIXED + name.len();
        if form.has_tags.0 {
            if bytes.get(body) != Some(&0) {
                return Ok(None);
            }
            body += 1;
        }
        let may_repeat = form.is_repeated && bytes.len() <= self.repeated;
        let known = if may_repeat { repetition(recent, first, bytes)? } else { None };
        let is_known = known.is_some();
        let request = match known {
            Some(request) => request,
            None => {
                let _pause = Pause::new(py);
                let message = form.message.get();
                let mut reader = Reader::new(py, &message.runtime.uuids, Cursor::new(bytes, body, i64::MAX));
                match reader.record(&message.layout) {
                    Ok(request) => request,
                    Err(_) => return Ok(None),
                }
            }
        };
        let frame = PyBytes::new(py, bytes).into_any();
        if may_repeat && !is_known {
            recent.set_item(u32::from_be_bytes(*first), PyTuple::new(py, [&frame, &request])?)?;
        }
        let ticket = self.tickets.create(py)?;
        ticket.set(CONNECTION, connection);
        ticket.set(CORRELATION_ID, int(py, i64::from(correlation_id(bytes))));
        ticket.set(API_KEY, form.key.bind(py).clone());
        ticket.set(API_VERSION, form.version.bind(py).clone());
        ticket.set(LOGGED, self.no.bind(py).clone());
        ticket.set(FAULT, self.fault.bind(py).clone());
        let call = self.calls.create(py)?;
        call.set(TICKET, ticket.into_object());
        call.set(CLIENT, client);
        call.set(REQUEST, request);
        call.set(FRAME, frame);
        buffer.set(HELD, int(py, held - (PREFIX + bytes.len()) as i64));
        if end == data.as_bytes().len() {
            buffer.set(DATA, self.empty.bind(py).clone());
            buffer.set(AT, int(py, 0));
        } else {
            buffer.set(AT, int(py, end as i64));
        }
        Ok(Some(call.into_object()))
    }

    /// Return the frame of a response, with its length prefix; None if Python must create it.
    ///
    /// `ticket`: ticket of the request. `body`: the encoded response.
    #[pyo3(signature = (ticket, body, /))]
    fn response<'py>(
        &self,
        ticket: Bound<'py, PyAny>,
        body: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = body.py();
        let Some(ticket) = self.tickets.view(ticket) else { return Ok(None) };
        let number = |slot| ticket.get(slot).as_ref().and_then(exact_int);
        let key = number(API_KEY).and_then(|key| i16::try_from(key).ok());
        let version = number(API_VERSION).and_then(|version| i16::try_from(version).ok());
        let id = number(CORRELATION_ID).and_then(|id| i32::try_from(id).ok());
        let (Some(key), Some(version), Some(id)) = (key, version, id) else { return Ok(None) };
        let Some(form) = self.form(py, key, version)? else { return Ok(None) };
        let body = body.as_bytes();
        let head = if form.has_tags.1 { 5 } else { 4 };
        let Ok(size) = i32::try_from(head + body.len()) else { return Ok(None) };
        let frame = PyBytes::new_with(py, PREFIX + head + body.len(), |frame| {
            frame[..PREFIX].copy_from_slice(&size.to_be_bytes());
            frame[PREFIX..PREFIX + 4].copy_from_slice(&id.to_be_bytes());
            frame[PREFIX + head..].copy_from_slice(body);
            Ok(())
        })?;
        Ok(Some(frame))
    }
}

/// The search for frames that a proxy does not inspect.
#[pyclass(frozen, module = "kwire_native")]
pub struct Frames {
    inspected: HashSet<u32>,
    least: u32,
    most: u32,
}

#[pymethods]
impl Frames {
    /// `inspected`: API keys and versions of the inspected requests, each as one number. `least`: bytes of the smallest
    /// request. `most`: bytes of the largest frame. Both without the length prefix.
    #[new]
    fn new(inspected: HashSet<u32>, least: u32, most: u32) -> Self {
        Frames { inspected, least, most }
    }

    /// Return the offset of the next request that is inspected, whose size is out of range, or whose first bytes are
    /// missing; and the number of requests before it. A request before it may be incomplete.
    ///
    /// `data`: received bytes. `at`: offset of a request.
    #[pyo3(signature = (data, at, /))]
    fn requests(&self, data: &[u8], mut at: usize) -> (usize, usize) {
        let mut count = 0;
        while let Some([size, api]) = head(data, at, self.least) {
            if self.inspected.contains(&api) || !(self.least..=self.most).contains(&size) {
                break;
            }
            at += PREFIX + size as usize;
            count += 1;
        }
        (at, count)
    }

    /// Return the offset of the response with a number, or of the response before it whose size is out of range or
    /// missing; and the number of responses before it. A response before it may be incomplete.
    ///
    /// `data`: received bytes. `at`: offset of a response, whose number is 0. `number`: number of the response.
    #[pyo3(signature = (data, at, number, /))]
    fn responses(&self, data: &[u8], mut at: usize, number: usize) -> (usize, usize) {
        let mut count = 0;
        while count < number {
            let Some(size) = number_at(data, at).filter(|size| *size <= self.most) else { break };
            at += PREFIX + size as usize;
            count += 1;
        }
        (at, count)
    }
}

/// Return the length prefix of a frame, and API key and version as one number; None if a byte of the head is missing.
///
/// `least`: bytes of the head after the length prefix.
fn head(data: &[u8], at: usize, least: u32) -> Option<[u32; 2]> {
    data.get(at..)?.get(..PREFIX + least as usize)?;
    Some([number_at(data, at)?, number_at(data, at + PREFIX)?])
}

fn number_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

impl Requests {
    /// Return one version of an API; `None` if it is left to Python.
    fn form(&self, py: Python<'_>, key: i16, version: i16) -> PyResult<Option<Arc<Form>>> {
        self.forms.get(py, key, version, |values| {
            let (key, version, message, has_tags, is_repeated) = values.extract()?;
            Ok(Form { key, version, message, has_tags, is_repeated })
        })
    }
}

/// A complete frame. `bytes`: the frame without its length prefix. `end`: offset after the frame.
struct Frame<'a> {
    bytes: &'a [u8],
    end: usize,
}

impl<'a> Frame<'a> {
    /// Return the frame whose length prefix is at an offset; `None` if it is incomplete, or its length is negative.
    fn split(data: &'a [u8], at: usize) -> Option<Self> {
        let size = usize::try_from(i32::from_be_bytes(*data.get(at..)?.first_chunk()?)).ok()?;
        let begin = at + PREFIX;
        let end = begin.checked_add(size)?;
        Some(Frame { bytes: data.get(begin..end)?, end })
    }
}

/// Return the request that a frame repeats: the last one of its API version, if only the correlation id is different.
fn repetition<'py>(recent: &Bound<'py, PyDict>, first: &[u8; 4], frame: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(known) = recent.get_item(u32::from_be_bytes(*first))? else { return Ok(None) };
    let known = known.cast_into::<PyTuple>()?;
    let bytes = known.get_item(0)?.cast_into::<PyBytes>()?;
    if bytes.as_bytes().get(FIXED..) != frame.get(FIXED..) {
        return Ok(None);
    }
    known.get_item(1).map(Some)
}

fn correlation_id(frame: &[u8]) -> i32 {
    frame.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |id| i32::from_be_bytes(*id))
}

fn int(py: Python<'_>, value: i64) -> Bound<'_, PyAny> {
    PyInt::new(py, value).into_any()
}
