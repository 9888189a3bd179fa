//! The calls of one connection, read from its TCP segments in one call: division into frames, headers, bodies, and the
//! responses of requests.
//!
//! `Calls::read` handles the usual case only: segments in order, each with complete frames of known APIs or without
//! payload. It stops before the first other segment, changes nothing for this segment, and leaves it to
//! `kwire.capture.calls`, which handles every case. So all errors come from the Python code.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PySlice, PyTuple, PyType};

use crate::Message;
use crate::cursor::Cursor;
use crate::forms::Forms;
use crate::raw::{Class, Pause};
use crate::read::Reader;

const ACK: i64 = 0x10;
const NOT_PLAIN: i64 = 0x17; // FIN, SYN, RST and ACK
const MASK: i64 = 0xFFFF_FFFF;
const WINDOW: i64 = 1 << 30; // TCP's largest window
const LEAST_REQUEST: usize = 10;
const LEAST_RESPONSE: usize = 4;

/// One version of an API. `tags`: whether the headers of requests and of responses end with a tagged section.
struct Form {
    request: Py<Message>,
    response: Py<Message>,
    tags: (bool, bool),
}

/// The indexes of the slots of a call that get a value; all others are `None`. `count`: number of all slots.
struct Slots {
    connection: usize,
    client: usize,
    broker: usize,
    number: usize,
    api_key: usize,
    api_version: usize,
    correlation_id: usize,
    client_id: usize,
    request_us: usize,
    response_us: usize,
    request_size: usize,
    response_size: usize,
    request: usize,
    response: usize,
    response_version: usize,
    file: usize,
    position: usize,
    response_file: usize,
    response_position: usize,
    count: usize,
}

/// The state of one direction of a connection. Attributes of `kwire.capture.tcp.stream.Stream`: `next`, the next sequence
/// number, and `acked`, the acknowledged one. Of `kwire.capture.calls.framing.Framer`: `now`, the latest time. `bytes`:
/// size of the payload that was read.
struct Side {
    next: Option<i64>,
    acked: Option<i64>,
    now: i64,
    bytes: i64,
}

/// A segment, as a row of `kwire.capture.calls.conversation`.
struct Segment<'py> {
    upward: bool,
    time_us: i64,
    position: Bound<'py, PyAny>,
    start: i64,
    captured: i64,
    size: i64,
    seq: i64,
    ack: i64,
    flags: i64,
}

/// A decoded response. `id`: correlation id. `size`: size of its frame without the length prefix, in bytes.
struct Answer<'py> {
    id: i32,
    call: Bound<'py, PyAny>,
    body: Bound<'py, PyAny>,
    size: usize,
}

/// The values that do not change while the segments of a connection are read.
struct Context<'py> {
    connection: Bound<'py, PyAny>,
    client: Bound<'py, PyAny>,
    broker: Bound<'py, PyAny>,
    file: Bound<'py, PyAny>,
    client_id: Option<Bound<'py, PyBytes>>,
    client_text: Bound<'py, PyAny>,
    pending: Bound<'py, PyDict>,
}

/// The reader of calls.
#[pyclass(frozen, module = "kwire_native")]
pub struct Calls {
    class: Class,
    slots: Slots,
    most_pending: usize,
    largest: usize,
    kept: usize,
    forms: Forms<Form>,
}

#[pymethods]
impl Calls {
    /// `class`: the class of calls. `form_of`: function of an API key and a version that returns the messages of the
    /// request and the response, and whether their headers end with a tagged section; None for versions that are left to
    /// Python. `most_pending`: number of requests of a connection that may wait for a response. `largest`: size of the
    /// largest body that is read, in bytes: decoded, it cannot exceed its memory limit. `kept`: size of the largest
    /// segment that is returned as the last one, in bytes.
    #[new]
    fn new(
        class: &Bound<'_, PyType>,
        form_of: Py<PyAny>,
        most_pending: usize,
        largest: usize,
        kept: usize,
    ) -> PyResult<Self> {
        let names: Vec<String> = class.getattr("__slots__")?.extract()?;
        let slot = |name: &str| {
            let place = names.iter().position(|one| one == name);
            place.ok_or_else(|| PyValueError::new_err(format!("a call has no slot {name}")))
        };
        let slots = Slots {
            connection: slot("connection")?,
            client: slot("client")?,
            broker: slot("broker")?,
            number: slot("number")?,
            api_key: slot("api_key")?,
            api_version: slot("api_version")?,
            correlation_id: slot("correlation_id")?,
            client_id: slot("client_id")?,
            request_us: slot("request_us")?,
            response_us: slot("response_us")?,
            request_size: slot("request_size")?,
            response_size: slot("response_size")?,
            request: slot("request")?,
            response: slot("response")?,
            response_version: slot("response_version")?,
            file: slot("file")?,
            position: slot("position")?,
            response_file: slot("response_file")?,
            response_position: slot("response_position")?,
            count: names.len(),
        };
        let class = Class::probe(class, &names)?;
        Ok(Calls { class, slots, forms: Forms::new(form_of), most_pending, largest, kept })
    }

    /// Read segments up to the first one that is not usual.
    ///
    /// `rows`: the segments. `begin`: index of the first segment to read. `source`: content of the file. `base`: position
    /// of `source` in the file. `about`: what does not change: id of the connection, client, broker, file, client id as
    /// encoded, client id as text, pending requests by correlation id, and whether upward segments are requests.
    /// `numbers`: number of calls so far and number of pending requests. `sides`: of the requests and the responses: next
    /// sequence number, acknowledged sequence number, and time. `calls`: list to which complete calls are added.
    ///
    /// Returns the index of the first segment that was not read, the number of segments with a payload, the changed
    /// `numbers`, the latest time, and for each direction: next sequence number, acknowledged sequence number, time,
    /// number of bytes, and first sequence number, position and payload of the last segment.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn read<'py>(
        &self,
        rows: &Bound<'py, PyList>,
        begin: usize,
        source: &Bound<'py, PyAny>,
        base: i64,
        about: &Bound<'py, PyTuple>,
        numbers: (i64, usize),
        sides: [(Option<i64>, Option<i64>, i64); 2],
        calls: &Bound<'py, PyList>,
    ) -> PyResult<(usize, usize, (i64, usize), i64, [Bound<'py, PyTuple>; 2])> {
        let py = rows.py();
        let _pause = Pause::new(py);
        let client_id = about.get_item(4)?;
        let context = Context {
            connection: about.get_item(0)?,
            client: about.get_item(1)?,
            broker: about.get_item(2)?,
            file: about.get_item(3)?,
            client_id: if client_id.is_none() { None } else { Some(client_id.cast_into()?) },
            client_text: about.get_item(5)?,
            pending: about.get_item(6)?.cast_into()?,
        };
        let up_is_request: bool = about.get_item(7)?.extract()?;
        let mut state = sides.map(|(next, acked, now)| Side { next, acked, now, bytes: 0 });
        let (mut number, mut waiting) = numbers;
        let (mut at, mut segments, mut last_us) = (begin, 0, 0);
        let whole = source.cast::<PyBytes>().ok();
        let mut asked = Vec::new();
        let mut answers = Vec::new();
        let mut last = [const { None }; 2]; // first sequence number, position and payload
        while at < rows.len() {
            let segment = segment(&rows.get_item(at)?)?;
            let is_request = segment.upward == up_is_request;
            let (own, other) = if is_request { (0, 1) } else { (1, 0) };
            let is_seen = state[other].acked == Some(segment.ack)
                || state[other].next.is_some_and(|next| (segment.ack - next) & MASK == 0);
            let Some(due) = state[own].next else { break };
            if segment.size == 0 {
                let is_acknowledged = state[other].next.is_some_and(|next| (segment.ack - next) & MASK == 0);
                if segment.flags & NOT_PLAIN != ACK || !is_acknowledged || state[own].has_gap() {
                    break;
                }
                state[other].acked = Some(segment.ack);
                last_us = last_us.max(segment.time_us);
                at += 1;
                continue;
            }
            let is_usual = (segment.seq - due) & MASK == 0
                && segment.flags & NOT_PLAIN == ACK
                && segment.size > 0
                && segment.size == segment.captured
                && is_seen;
            let place = usize::try_from(segment.start - base).ok();
            let (true, Some(place)) = (is_usual, place) else { break };
            let end = place.saturating_add(segment.size as usize);
            let payload = match whole {
                Some(whole) => match whole.as_bytes().get(place..end) {
                    Some(payload) => payload,
                    None => break,
                },
                None => &[],
            };
            let cut; // the payload of a file that is not in memory
            let payload = if whole.is_some() {
                payload
            } else {
                cut = source.get_item(PySlice::new(py, place as isize, end as isize, 1))?;
                match cut.cast::<PyBytes>() {
                    Ok(bytes) if bytes.as_bytes().len() == segment.size as usize => bytes.as_bytes(),
                    _ => break,
                }
            };
            let now = state[own].now.max(segment.time_us);
            asked.clear();
            answers.clear();
            let is_read = if is_request {
                self.requests(py, payload, &context, &segment.position, now, number, &mut asked)?
                    && waiting + asked.len() <= self.most_pending
            } else {
                self.responses(py, payload, &context, &mut answers)?
            };
            if !is_read {
                break;
            }
            // No argument has been changed up to here.
            number += asked.len() as i64;
            waiting += asked.len();
            for (id, call) in asked.drain(..) {
                match context.pending.get_item(id)? {
                    Some(waiting) => waiting.cast_into::<PyList>()?.append(call)?,
                    None => context.pending.set_item(id, PyList::new(py, [call])?)?,
                }
            }
            waiting -= answers.len();
            for answer in answers.drain(..) {
                self.complete(py, answer, &context, &segment.position, now, calls)?;
            }
            state[other].acked = Some(segment.ack);
            last_us = last_us.max(segment.time_us);
            let side = &mut state[own];
            side.next = Some(due + segment.size);
            side.now = now;
            side.bytes += segment.size;
            segments += 1;
            at += 1;
            let kept = if payload.len() <= self.kept { payload } else { &[] };
            last[own] = Some((due, segment.position, PyBytes::new(py, kept)));
        }
        let [requests, responses] = state;
        let [asked, answered] = last;
        Ok((at, segments, (number, waiting), last_us, [requests.tuple(py, asked)?, responses.tuple(py, answered)?]))
    }
}

impl Calls {
    /// Return one version of an API; `None` if it is left to Python.
    fn form(&self, py: Python<'_>, key: i16, version: i16) -> PyResult<Option<Arc<Form>>> {
        self.forms.get(py, key, version, |values| {
            let (request, response, first, second) = values.extract()?;
            Ok(Form { request, response, tags: (first, second) })
        })
    }

    /// Decode the body of a frame; `None` if it is invalid, too large, or an exception occurred.
    fn body<'py>(&self, py: Python<'py>, message: &Py<Message>, frame: &[u8], at: usize) -> Option<Bound<'py, PyAny>> {
        if frame.len().checked_sub(at)? > self.largest {
            return None;
        }
        let message = message.get();
        Reader::new(py, &message.runtime.uuids, Cursor::new(frame, at, i64::MAX)).record(&message.layout).ok()
    }

    /// Create the calls of all requests in a payload; return false if not all of it is usual.
    #[allow(clippy::too_many_arguments)]
    fn requests<'py>(
        &self,
        py: Python<'py>,
        payload: &[u8],
        context: &Context<'py>,
        position: &Bound<'py, PyAny>,
        now: i64,
        number: i64,
        asked: &mut Vec<(i32, Bound<'py, PyAny>)>,
    ) -> PyResult<bool> {
        let mut rest = payload;
        while !rest.is_empty() {
            let Some(frame) = frame(&mut rest, LEAST_REQUEST) else { return Ok(false) };
            let Some(header) = Header::read(frame) else { return Ok(false) };
            let client_id = match (header.client_id, &context.client_id) {
                (None, _) => py.None().into_bound(py),
                (Some(given), Some(known)) if given == known.as_bytes() => context.client_text.clone(),
                _ => return Ok(false),
            };
            let Some(form) = self.form(py, header.key, header.version)? else { return Ok(false) };
            let Some(at) = after_tags(frame, header.end, form.tags.0) else { return Ok(false) };
            let Some(body) = self.body(py, &form.request, frame, at) else { return Ok(false) };
            let slots = &self.slots;
            let call = self.class.create(py)?;
            for slot in 0..slots.count {
                call.set(slot, py.None().into_bound(py));
            }
            call.set(slots.connection, context.connection.clone());
            call.set(slots.client, context.client.clone());
            call.set(slots.broker, context.broker.clone());
            call.set(slots.number, int(py, number + asked.len() as i64 + 1));
            call.set(slots.api_key, int(py, i64::from(header.key)));
            call.set(slots.api_version, int(py, i64::from(header.version)));
            call.set(slots.correlation_id, int(py, i64::from(header.id)));
            call.set(slots.client_id, client_id);
            call.set(slots.request_us, int(py, now));
            call.set(slots.request_size, int(py, frame.len() as i64 - 4));
            call.set(slots.request, body);
            call.set(slots.file, context.file.clone());
            call.set(slots.position, position.clone());
            asked.push((header.id, call.into_object()));
        }
        Ok(true)
    }

    /// Decode all responses in a payload; return false if not all of it is usual.
    fn responses<'py>(
        &self,
        py: Python<'py>,
        payload: &[u8],
        context: &Context<'py>,
        answers: &mut Vec<Answer<'py>>,
    ) -> PyResult<bool> {
        let mut rest = payload;
        while !rest.is_empty() {
            let Some(frame) = frame(&mut rest, LEAST_RESPONSE) else { return Ok(false) };
            let Some(id) = frame.get(4..).and_then(|rest| rest.first_chunk()) else { return Ok(false) };
            let id = i32::from_be_bytes(*id);
            let Some(waiting) = context.pending.get_item(id)? else { return Ok(false) };
            if answers.iter().any(|answer| answer.id == id) {
                return Ok(false);
            }
            let call = waiting.get_item(0)?;
            let Some(view) = self.class.view(call.clone()) else { return Ok(false) };
            let (Some(key), Some(version)) = (view.get(self.slots.api_key), view.get(self.slots.api_version)) else {
                return Ok(false);
            };
            let (Ok(key), Ok(version)) = (key.extract(), version.extract()) else { return Ok(false) };
            let Some(form) = self.form(py, key, version)? else { return Ok(false) };
            let Some(at) = after_tags(frame, 8, form.tags.1) else { return Ok(false) };
            let Some(body) = self.body(py, &form.response, frame, at) else { return Ok(false) };
            answers.push(Answer { id, call, body, size: frame.len() - 4 });
        }
        Ok(true)
    }

    /// Complete a call, and move it from the pending requests to `calls`.
    fn complete<'py>(
        &self,
        py: Python<'py>,
        answer: Answer<'py>,
        context: &Context<'py>,
        position: &Bound<'py, PyAny>,
        now: i64,
        calls: &Bound<'py, PyList>,
    ) -> PyResult<()> {
        let slots = &self.slots;
        if let Some(call) = self.class.view(answer.call.clone()) {
            call.set(slots.response_us, int(py, now));
            call.set(slots.response_size, int(py, answer.size as i64));
            call.set(slots.response_file, context.file.clone());
            call.set(slots.response_position, position.clone());
            call.set(slots.response, answer.body);
            if let Some(version) = call.get(slots.api_version) {
                call.set(slots.response_version, version);
            }
        }
        calls.append(answer.call)?;
        if let Some(waiting) = context.pending.get_item(answer.id)? {
            let waiting = waiting.cast_into::<PyList>()?;
            waiting.del_item(0)?;
            if waiting.is_empty() {
                context.pending.del_item(answer.id)?;
            }
        }
        Ok(())
    }
}

impl Side {
    /// Return whether the peer has acknowledged bytes of this direction that were not captured.
    fn has_gap(&self) -> bool {
        match (self.next, self.acked) {
            (Some(next), Some(acked)) => (1..WINDOW).contains(&((acked - next) & MASK)),
            _ => false,
        }
    }

    /// Return the values that Python needs. `last`: first sequence number, position and payload of the last segment.
    fn tuple<'py>(
        self,
        py: Python<'py>,
        last: Option<(i64, Bound<'py, PyAny>, Bound<'py, PyBytes>)>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        (self.next, self.acked, self.now, self.bytes, last).into_pyobject(py)
    }
}

/// A request header. `client_id`: as encoded; `None` is null. `end`: offset in the frame after the client id.
struct Header<'a> {
    key: i16,
    version: i16,
    id: i32,
    client_id: Option<&'a [u8]>,
    end: usize,
}

impl<'a> Header<'a> {
    /// Read the header of a frame with its length prefix.
    fn read(frame: &'a [u8]) -> Option<Self> {
        let [k, y, v, w, a, b, c, d, s, z] = *frame.get(4..)?.first_chunk()?;
        let size = i16::from_be_bytes([s, z]);
        let client_id = match usize::try_from(size) {
            Ok(size) => Some(frame.get(14..14 + size)?),
            Err(_) => None,
        };
        Some(Header {
            key: i16::from_be_bytes([k, y]),
            version: i16::from_be_bytes([v, w]),
            id: i32::from_be_bytes([a, b, c, d]),
            client_id,
            end: 14 + client_id.map_or(0, <[u8]>::len),
        })
    }
}

/// Return the next frame with its length prefix, and remove it from `rest`; `None` if it is incomplete or too short.
fn frame<'a>(rest: &mut &'a [u8], least: usize) -> Option<&'a [u8]> {
    let size = usize::try_from(i32::from_be_bytes(*rest.first_chunk()?)).ok()?;
    let frame = rest.get(..size.checked_add(4)?)?;
    *rest = &rest[frame.len()..];
    (size >= least).then_some(frame)
}

/// Return the offset of a body. `at`: end of the header without its tagged section. `None` if the section has fields.
fn after_tags(frame: &[u8], at: usize, has_tags: bool) -> Option<usize> {
    if !has_tags {
        return Some(at);
    }
    (frame.get(at) == Some(&0)).then_some(at + 1)
}

fn int(py: Python<'_>, value: i64) -> Bound<'_, PyAny> {
    PyInt::new(py, value).into_any()
}

fn segment<'py>(row: &Bound<'py, PyAny>) -> PyResult<Segment<'py>> {
    let row = row.cast::<PyTuple>()?;
    let number = |at: usize| -> PyResult<i64> { row.get_item(at)?.extract() };
    Ok(Segment {
        upward: row.get_item(0)?.is_truthy()?,
        time_us: number(1)?,
        position: row.get_item(2)?,
        start: number(3)?,
        captured: number(4)?,
        size: number(5)?,
        seq: number(6)?,
        ack: number(7)?,
        flags: number(8)?,
    })
}
