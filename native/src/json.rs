//! JSON text of messages, written from their bytes without Python objects: the same as `json.dumps` writes of the
//! expanded form (`kwire.json.expanded`), and the lines of `kwire capture`.
//!
//! As in the other walkers, the table comes from Python (`kwire.json.native`), and refusals are explained there.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple, PyType};

use crate::Runtime;
use crate::cursor::Cursor;
use crate::raw::{Class, View};
use crate::read::TAG_WEIGHT;
use crate::refusal::{Refusal, Result};
use crate::text;

const MANY_TAGS: usize = 16; // unknown tagged fields of a struct; a message with more is left to Python
const EXACT: u64 = 1_000_000_000_000_000; // below it, microseconds as decimal milliseconds are what Python's repr writes

enum Node {
    Bool,
    Int8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    Float64,
    Uuid,
    Text { compact: bool, null: bool },
    Blob { compact: bool, null: bool },
    List { element: Box<Node>, compact: bool, null: bool, smallest: usize, weight: i64 },
    Maybe { record: Box<Record>, tagged: bool, weight: i64 },
    Record(Box<Record>),
}

struct Record {
    fields: Vec<Field>,
    flexible: bool,
    tagged: Vec<Tagged>,
    has_extras: bool,
}

/// What a field means to its message.
#[derive(PartialEq)]
enum Role {
    None,
    ErrorCode,
    ProtocolType,
    Assignor,
}

/// The key after the fields of a struct that explains one of its fields.
enum Extra {
    None,
    /// The name of the topic whose id the field contains.
    Topic,
    /// The message of this name that the field contains.
    Inside(Py<PyString>),
}

/// A field. `key`: its name and the colon, as in JSON; `extra_key`: that of the key which explains the field.
struct Field {
    key: Vec<u8>,
    node: Node,
    role: Role,
    extra: Extra,
    extra_key: Vec<u8>,
}

/// A field in the tagged section. `initial`: JSON text of its default.
struct Tagged {
    key: Vec<u8>,
    tag: u32,
    node: Node,
    initial: Vec<u8>,
}

fn node(given: &Bound<'_, PyAny>) -> PyResult<Node> {
    let parts = given.cast::<PyTuple>()?;
    let kind: String = parts.get_item(0)?.extract()?;
    let flag = |at: usize| -> PyResult<bool> { parts.get_item(at)?.extract() };
    Ok(match kind.as_str() {
        "bool" => Node::Bool,
        "int8" => Node::Int8,
        "int16" => Node::Int16,
        "uint16" => Node::UInt16,
        "int32" => Node::Int32,
        "uint32" => Node::UInt32,
        "int64" => Node::Int64,
        "float64" => Node::Float64,
        "uuid" => Node::Uuid,
        "text" => Node::Text { compact: flag(1)?, null: flag(2)? },
        "bytes" => Node::Blob { compact: flag(1)?, null: flag(2)? },
        "array" => Node::List {
            element: Box::new(node(&parts.get_item(1)?)?),
            compact: flag(2)?,
            null: flag(3)?,
            smallest: parts.get_item(4)?.extract()?,
            weight: parts.get_item(5)?.extract()?,
        },
        "maybe" => Node::Maybe {
            record: Box::new(record(&parts.get_item(1)?)?),
            tagged: flag(2)?,
            weight: parts.get_item(3)?.extract()?,
        },
        "struct" => Node::Record(Box::new(record(given)?)),
        _ => return Err(PyValueError::new_err(format!("unknown kind of node: {kind}"))),
    })
}

fn record(given: &Bound<'_, PyAny>) -> PyResult<Record> {
    let parts = given.cast::<PyTuple>()?;
    let mut fields = Vec::new();
    for each in parts.get_item(1)?.try_iter()? {
        type Given<'py> = (String, Bound<'py, PyAny>, String, String, Option<Py<PyString>>);
        let (name, inner, role, extra_name, inside): Given<'_> = each?.extract()?;
        let role = match role.as_str() {
            "" => Role::None,
            "error_code" => Role::ErrorCode,
            "protocol_type" => Role::ProtocolType,
            "assignor" => Role::Assignor,
            _ => return Err(PyValueError::new_err(format!("unknown role of a field: {role}"))),
        };
        let extra = match inside {
            _ if extra_name.is_empty() => Extra::None,
            None => Extra::Topic,
            Some(name) => Extra::Inside(name),
        };
        fields.push(Field { key: key(&name), node: node(&inner)?, role, extra, extra_key: key(&extra_name) });
    }
    let mut tagged = Vec::new();
    for each in parts.get_item(3)?.try_iter()? {
        let (name, tag, inner, initial): (String, u32, Bound<'_, PyAny>, String) = each?.extract()?;
        tagged.push(Tagged { key: key(&name), tag, node: node(&inner)?, initial: initial.into_bytes() });
    }
    let has_extras = fields.iter().any(|field| !matches!(field.extra, Extra::None));
    Ok(Record { fields, flexible: parts.get_item(2)?.extract()?, tagged, has_extras })
}

fn key(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    text::string(&mut out, name.as_bytes());
    out.extend_from_slice(b": ");
    out
}

/// The walker over the bytes of a message. If `WRITE` is false, it writes nothing, and only checks the bytes.
struct Walker<'a, 'py, const WRITE: bool> {
    py: Python<'py>,
    at: Cursor<'a>,
    out: Vec<u8>,
    form: &'a Form,
    name_of: Option<&'a Bound<'py, PyAny>>,
    protocol_type: Option<&'a [u8]>,
    assignor: Option<&'a [u8]>,
}

impl<'a, 'py, const WRITE: bool> Walker<'a, 'py, WRITE> {
    #[inline]
    fn put(&mut self, text: &[u8]) {
        if WRITE {
            self.out.extend_from_slice(text);
        }
    }

    #[inline]
    fn int(&mut self, value: i64) {
        if WRITE {
            text::int(&mut self.out, value);
        }
    }

    /// Walk over a number of N bytes.
    #[inline]
    fn number<I: Into<i64>, const N: usize>(&mut self, decode: impl FnOnce([u8; N]) -> I) -> Result<()> {
        let value = decode(self.at.array()?);
        self.int(value.into());
        Ok(())
    }

    /// Walk over a value; return its first error code that is not 0, or 0.
    fn node(&mut self, node: &'a Node) -> Result<i16> {
        match node {
            Node::Bool => {
                let truth = self.at.byte()? != 0;
                self.put(if truth { b"true" } else { b"false" });
            }
            Node::Int8 => self.number(i8::from_be_bytes)?,
            Node::Int16 => self.number(i16::from_be_bytes)?,
            Node::UInt16 => self.number(u16::from_be_bytes)?,
            Node::Int32 => self.number(i32::from_be_bytes)?,
            Node::UInt32 => self.number(u32::from_be_bytes)?,
            Node::Int64 => self.number(i64::from_be_bytes)?,
            Node::Float64 => {
                let v = f64::from_be_bytes(self.at.array()?);
                self.float(v)?
            }
            Node::Uuid => {
                let raw = self.at.array()?;
                if WRITE {
                    text::uuid(&mut self.out, &raw);
                }
            }
            Node::Text { compact, null } => match self.at.content(*compact, *null, true)? {
                Some(content) if WRITE => text::string(&mut self.out, content),
                Some(_) => {}
                None => self.put(b"null"),
            },
            Node::Blob { compact, null } => match self.at.content(*compact, *null, false)? {
                Some(content) if WRITE => self.blob(content),
                Some(_) => {}
                None => self.put(b"null"),
            },
            Node::List { element, compact, null, smallest, weight } => {
                let Some(count) = self.at.count(*compact, *null, *smallest, *weight)? else {
                    self.put(b"null");
                    return Ok(0);
                };
                let mut error = 0;
                self.put(b"[");
                for index in 0..count {
                    if index > 0 {
                        self.put(b", ");
                    }
                    let found = self.node(element)?;
                    error = if error == 0 { found } else { error };
                }
                self.put(b"]");
                return Ok(error);
            }
            Node::Maybe { record, tagged, weight } => {
                if self.at.present(*tagged, *weight)? {
                    return self.record(record);
                }
                self.put(b"null");
            }
            Node::Record(record) => return self.record(record),
        }
        Ok(0)
    }

    /// Write the key of a field. `begin`: place in the text at which the struct begins.
    #[inline]
    fn key(&mut self, begin: usize, key: &[u8]) {
        if WRITE {
            self.out.extend_from_slice(if self.out.len() == begin { b"{" } else { b", " });
            self.out.extend_from_slice(key);
        }
    }

    fn float(&mut self, value: f64) -> Result<()> {
        if WRITE {
            let shown = PyFloat::new(self.py, value).repr()?;
            match value.is_finite() {
                true => self.put(shown.to_str()?.as_bytes()),
                false if value.is_nan() => self.put(b"\"NaN\""),
                false => self.put(if value > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" }),
            }
        }
        Ok(())
    }

    fn blob(&mut self, content: &[u8]) {
        if content == self.form.redacted {
            text::string(&mut self.out, content);
        } else {
            text::base64(&mut self.out, content);
        }
    }

    fn record(&mut self, record: &'a Record) -> Result<i16> {
        let before = (self.protocol_type, self.assignor);
        let (mut own, mut inner) = (0, 0);
        let mut explained: Vec<(&'a Field, &'a [u8])> = Vec::new();
        let begin = self.out.len();
        for field in &record.fields {
            self.key(begin, &field.key);
            let from = self.at.pos;
            let found = self.node(&field.node)?;
            inner = if inner == 0 { found } else { inner };
            if field.role != Role::None {
                let raw = &self.at.data[from..self.at.pos];
                match field.role {
                    Role::ErrorCode if own == 0 => own = i16::from_be_bytes([raw[0], raw[1]]),
                    Role::ProtocolType => self.protocol_type = self.content(&field.node, from)?,
                    Role::Assignor => self.assignor = self.content(&field.node, from)?,
                    _ => {}
                }
            }
            if WRITE && !matches!(field.extra, Extra::None) {
                explained.push((
                    field,
                    match field.extra {
                        Extra::Topic => &self.at.data[from..self.at.pos],
                        _ => self.content(&field.node, from)?.unwrap_or_default(),
                    },
                ));
            }
        }
        let mut unknown = Vec::new();
        if record.flexible {
            let count = self.at.varint()?;
            if count > 0 {
                self.tags(record, count, begin, &mut unknown)?;
            }
        }
        if WRITE {
            if record.has_extras {
                self.extras(&explained)?;
            }
            if !unknown.is_empty() {
                self.key(begin, b"\"_unknown_tags\": {");
                for (index, (tag, content)) in unknown.iter().enumerate() {
                    self.put(if index > 0 { b", \"" } else { b"\"" });
                    self.int(i64::from(*tag));
                    self.put(b"\": ");
                    text::base64(&mut self.out, content);
                }
                self.put(b"}");
            }
            if self.out.len() == begin {
                self.out.push(b'{');
            }
            self.out.push(b'}');
        }
        (self.protocol_type, self.assignor) = before;
        Ok(if own == 0 { inner } else { own })
    }

    /// Return the bytes of a string or bytes field that was read from an offset on; `None` is null.
    fn content(&self, node: &Node, from: usize) -> Result<Option<&'a [u8]>> {
        let mut again = Cursor::new(self.at.data, from, 0);
        match node {
            Node::Text { compact, null } => again.content(*compact, *null, true),
            Node::Blob { compact, null } => again.content(*compact, *null, false),
            _ => Err(Refusal::Value),
        }
    }

    fn tags(&mut self, record: &'a Record, count: u32, begin: usize, unknown: &mut Vec<(u32, &'a [u8])>) -> Result<()> {
        self.at.check_tags(count)?;
        let mut known: Vec<Option<Vec<u8>>> = vec![None; record.tagged.len()];
        for _ in 0..count {
            let (tag, end) = self.at.tag()?;
            if let Some(number) = record.tagged.iter().position(|field| field.tag == tag) {
                let from = self.out.len();
                self.node(&record.tagged[number].node)?;
                self.at.expect(end)?;
                known[number] = WRITE.then(|| self.out.split_off(from));
            } else {
                self.at.spend(TAG_WEIGHT)?;
                let content = self.at.take(end - self.at.pos)?;
                match unknown.iter().position(|field| field.0 == tag) {
                    Some(number) => unknown[number].1 = content,
                    None if unknown.len() == MANY_TAGS => return Err(Refusal::Value),
                    None => unknown.push((tag, content)),
                }
            }
        }
        for (field, written) in record.tagged.iter().zip(&known) {
            if let Some(written) = written.as_ref().filter(|written| **written != field.initial) {
                self.key(begin, &field.key);
                self.put(written);
            }
        }
        Ok(())
    }

    /// Write the keys that explain fields of a struct. `fields`: the fields with their bytes.
    fn extras(&mut self, fields: &[(&'a Field, &'a [u8])]) -> Result<()> {
        for (field, content) in fields {
            let mut explained = Vec::new();
            match &field.extra {
                Extra::Topic => match (self.name_of, <[u8; 16]>::try_from(*content)) {
                    (Some(name_of), Ok(id)) if id != [0; 16] => {
                        let name = name_of.call1((self.form.runtime.uuids.decode(self.py, id)?,))?;
                        if name.is_none() {
                            continue;
                        }
                        let name = name.cast::<PyString>().map_err(|_| Refusal::Value)?;
                        text::string(&mut explained, name.to_str()?.as_bytes());
                    }
                    _ => continue,
                },
                Extra::Inside(_) if content.is_empty() => continue,
                Extra::Inside(name) => {
                    let (py, inside) = (self.py, self.form.inside.bind(self.py));
                    let group = (
                        self.protocol_type.map(|text| PyBytes::new(py, text)),
                        self.assignor.map(|text| PyBytes::new(py, text)),
                    );
                    let shown = inside.call1((PyBytes::new(py, content), name, group.0, group.1))?;
                    if shown.is_none() {
                        continue;
                    }
                    explained.extend_from_slice(shown.cast::<PyBytes>().map_err(|_| Refusal::Value)?.as_bytes());
                }
                Extra::None => continue,
            }
            self.put(b", ");
            self.put(&field.extra_key);
            self.put(&explained);
        }
        Ok(())
    }
}

/// The JSON form of one version of a message.
#[pyclass(frozen, module = "kwire_native")]
pub struct Form {
    layout: Record,
    has_error: bool,
    redacted: Vec<u8>,
    inside: Py<PyAny>,
    runtime: &'static Runtime,
}

#[pymethods]
impl Form {
    /// `has_error`: true if a message can contain an error code. `redacted`: content of redacted bytes fields. `inside`:
    /// function that returns the JSON text of a message in a bytes field.
    #[new]
    fn new(table: &Bound<'_, PyAny>, has_error: bool, redacted: Vec<u8>, inside: Py<PyAny>) -> PyResult<Self> {
        Ok(Form { layout: record(table)?, has_error, redacted, inside, runtime: Runtime::get(table.py())? })
    }

    /// Check the message that begins at an offset of the data, and return it as a Body. Raises: NativeRefused.
    ///
    /// `left`: memory that the decoded message may take, in bytes.
    #[pyo3(signature = (data, offset, left, /))]
    fn body(slf: &Bound<'_, Self>, data: Bound<'_, PyBytes>, offset: usize, left: i64) -> PyResult<Body> {
        let form = slf.get();
        if offset > data.as_bytes().len() {
            return Err(PyIndexError::new_err("the offset is after the data"));
        }
        let mut walker = form.walker::<false>(slf.py(), Cursor::new(data.as_bytes(), offset, left), Vec::new(), None);
        match walker.record(&form.layout) {
            Ok(error) => {
                let error = form.has_error.then_some(error);
                Ok(Body { error, form: slf.clone().unbind(), data: data.clone().unbind(), offset, left })
            }
            Err(refusal) => Err(form.runtime.error(slf.py(), refusal, walker.at.pos)),
        }
    }
}

impl Form {
    fn walker<'a, 'py, const WRITE: bool>(
        &'a self,
        py: Python<'py>,
        at: Cursor<'a>,
        out: Vec<u8>,
        name_of: Option<&'a Bound<'py, PyAny>>,
    ) -> Walker<'a, 'py, WRITE> {
        Walker { py, at, out, form: self, name_of, protocol_type: None, assignor: None }
    }
}

/// The bytes of a valid message, with its first error code; None if it cannot contain one.
#[pyclass(frozen, module = "kwire_native")]
pub struct Body {
    #[pyo3(get)]
    error: Option<i16>,
    #[pyo3(get)]
    data: Py<PyBytes>,
    #[pyo3(get)]
    offset: usize,
    left: i64,
    form: Py<Form>,
}

#[pymethods]
impl Body {
    /// Return the JSON text of the message. `name_of`: function that returns the name of the topic with an id, or None.
    fn text<'py>(&self, py: Python<'py>, name_of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.append(py, Vec::new(), name_of)?))
    }
}

impl Body {
    fn append<'py>(&self, py: Python<'py>, out: Vec<u8>, name_of: &Bound<'py, PyAny>) -> PyResult<Vec<u8>> {
        let form = self.form.get();
        let at = Cursor::new(self.data.as_bytes(py), self.offset, self.left);
        let mut walker = form.walker::<true>(py, at, out, Some(name_of));
        match walker.record(&form.layout) {
            Ok(_) => Ok(walker.out),
            Err(refusal) => Err(form.runtime.error(py, refusal, walker.at.pos)),
        }
    }
}

const SLOTS: [&str; 17] = [
    "file",
    "client",
    "broker",
    "connection",
    "client_id",
    "api_key",
    "api_version",
    "correlation_id",
    "reason",
    "request_us",
    "request_size",
    "request",
    "request_raw",
    "position",
    "response_us",
    "response_size",
    "response",
];
const MORE_SLOTS: [&str; 3] = ["response_raw", "response_file", "response_position"];

/// The writer of the lines of `kwire capture`.
#[pyclass(frozen, module = "kwire_native")]
pub struct Lines {
    call: Class,
    names: Py<PyDict>,
}

/// The slots of a call that differ between its request and its response.
struct Side {
    time: usize,
    file: usize,
    size: usize,
    body: usize,
    raw: usize,
    position: usize,
}

const REQUEST: Side = Side { time: 9, file: 0, size: 10, body: 11, raw: 12, position: 13 };
const RESPONSE: Side = Side { time: 14, file: 18, size: 15, body: 16, raw: 17, position: 19 };

#[pymethods]
impl Lines {
    /// `call`: the class of calls. `names`: name of each API, by its key.
    #[new]
    fn new(call: &Bound<'_, PyType>, names: Py<PyDict>) -> PyResult<Self> {
        let slots: Vec<String> = SLOTS.iter().chain(&MORE_SLOTS).map(|name| (*name).to_owned()).collect();
        Ok(Lines { call: Class::probe(call, &slots)?, names })
    }

    /// Return the line of a frame, with the line break; None if the line is left to Python.
    ///
    /// `name_of`: function that returns the name of the topic with an id, or None.
    fn line<'py>(
        &self,
        call: Bound<'py, PyAny>,
        is_response: bool,
        name_of: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = call.py();
        let Some(call) = self.call.view(call) else { return Ok(None) };
        let side = if is_response { &RESPONSE } else { &REQUEST };
        let mut out = Vec::with_capacity(1_024);
        if self.head(&call, side, is_response, &mut out).is_none() {
            return Ok(None);
        }
        let Some(body) = call.get(side.body) else { return Ok(None) };
        match body.cast_exact::<Body>() {
            Ok(body) => {
                let body = body.get();
                out.extend_from_slice(b", \"error_code\": ");
                match body.error.filter(|_| is_response) {
                    Some(error) => text::int(&mut out, error.into()),
                    None => out.extend_from_slice(b"null"),
                }
                out.extend_from_slice(b", \"body\": ");
                out = body.append(py, out, name_of)?;
            }
            Err(_) if !body.is_none() => return Ok(None),
            Err(_) => out.extend_from_slice(b", \"error_code\": null, \"body\": null"),
        }
        out.extend_from_slice(b", \"connection\": ");
        if string(&call, 3, &mut out).is_none() {
            return Ok(None);
        }
        out.extend_from_slice(b", \"position\": ");
        if number(&call, side.position, &mut out).is_none() {
            return Ok(None);
        }
        out.extend_from_slice(b"}\n");
        Ok(Some(PyBytes::new(py, &out)))
    }
}

impl Lines {
    /// Write a line up to the latency; None if the line is left to Python.
    fn head(&self, call: &View<'_, '_>, side: &Side, is_response: bool, out: &mut Vec<u8>) -> Option<()> {
        if !call.get(8)?.is_none() || !call.get(side.raw)?.is_none() {
            return None;
        }
        let time = exact(call, side.time)??;
        out.extend_from_slice(b"{\"time\": ");
        if !text::time(out, time) {
            return None;
        }
        out.extend_from_slice(b", \"file\": ");
        string(call, side.file, out)?;
        out.extend_from_slice(b", \"client\": ");
        string(call, 1, out)?;
        out.extend_from_slice(b", \"broker\": ");
        string(call, 2, out)?;
        out.extend_from_slice(if is_response {
            b", \"direction\": \"response\""
        } else {
            b", \"direction\": \"request\""
        });
        out.extend_from_slice(b", \"api_key\": ");
        number(call, 5, out)?;
        out.extend_from_slice(b", \"api_name\": ");
        let key = call.get(5)?;
        match self.names.bind(key.py()).get_item(&key).ok()? {
            Some(name) => text::string(out, name.cast::<PyString>().ok()?.to_str().ok()?.as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b", \"api_version\": ");
        number(call, 6, out)?;
        out.extend_from_slice(b", \"correlation_id\": ");
        number(call, 7, out)?;
        out.extend_from_slice(b", \"client_id\": ");
        string(call, 4, out)?;
        out.extend_from_slice(b", \"size\": ");
        number(call, side.size, out)?;
        out.extend_from_slice(b", \"latency_ms\": ");
        match exact(call, REQUEST.time)?.filter(|_| is_response) {
            Some(asked) => milliseconds(out, time.checked_sub(asked)?)?,
            None => out.extend_from_slice(b"null"),
        }
        Some(())
    }
}

/// Return the integer in a slot, or None in it; None if the slot has another value.
fn exact(call: &View<'_, '_>, slot: usize) -> Option<Option<i64>> {
    let value = call.get(slot)?;
    if value.is_none() {
        return Some(None);
    }
    value.cast_exact::<PyInt>().ok()?.extract().ok().map(Some)
}

fn number(call: &View<'_, '_>, slot: usize, out: &mut Vec<u8>) -> Option<()> {
    match exact(call, slot)? {
        Some(number) => text::int(out, number),
        None => out.extend_from_slice(b"null"),
    }
    Some(())
}

fn string(call: &View<'_, '_>, slot: usize, out: &mut Vec<u8>) -> Option<()> {
    let value = call.get(slot)?;
    if value.is_none() {
        out.extend_from_slice(b"null");
    } else {
        text::string(out, value.cast_exact::<PyString>().ok()?.to_str().ok()?.as_bytes());
    }
    Some(())
}

/// Append microseconds as milliseconds, in the form of Python's floats.
fn milliseconds(out: &mut Vec<u8>, microseconds: i64) -> Option<()> {
    if microseconds.unsigned_abs() >= EXACT {
        return None;
    }
    if microseconds < 0 {
        out.push(b'-');
    }
    let size = microseconds.unsigned_abs() as i64;
    text::int(out, size / 1_000);
    out.push(b'.');
    text::padded(out, size % 1_000, 3);
    let zeros = out.iter().rev().take(2).take_while(|digit| **digit == b'0').count();
    out.truncate(out.len() - zeros);
    Some(())
}
