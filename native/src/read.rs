//! The walker that decodes a message.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList};

use crate::raw;
use crate::refusal::{Kind, Refusal, Result};
use crate::table::{Initial, List, Node, Record};
use crate::uuids::Uuids;

const MAX_TEXT: i64 = 32_767; // bytes of a string
const MAX_VARINT: u64 = (1 << 31) - 1;
const TAG_WEIGHT: i64 = 320; // memory of an unknown tagged field, in bytes

/// The position in the bytes of a message, and the memory that the decoded message may still take, in bytes.
pub struct Reader<'a, 'py> {
    py: Python<'py>,
    uuids: &'a Uuids,
    data: &'a [u8],
    pub pos: usize,
    left: i64,
    elements: Vec<Bound<'py, PyAny>>, // of all arrays that are being read, the innermost last
    letters: Vec<u32>, // scratch memory of texts
}

impl<'a, 'py> Reader<'a, 'py> {
    /// Start at offset `pos` of the data.
    pub fn new(py: Python<'py>, uuids: &'a Uuids, data: &'a [u8], pos: usize, left: i64) -> Self {
        Reader { py, uuids, data, pos, left, elements: Vec::new(), letters: Vec::new() }
    }

    fn remaining(&self) -> usize {
        self.data.len() - self.pos
    }

    #[inline]
    fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let end = self.pos.wrapping_add(size);
        match self.data.get(self.pos..end) {
            Some(part) => {
                self.pos = end;
                Ok(part)
            }
            None => Err(Refusal::Data(Kind::Truncated)),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.data.get(self.pos..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(part) => {
                self.pos += N;
                Ok(*part)
            }
            None => Err(Refusal::Data(Kind::Truncated)),
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    fn varint(&mut self) -> Result<u32> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u32::from(first));
        }
        let mut value = u64::from(first & 0x7F);
        for shift in [7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return if value > MAX_VARINT { Err(Refusal::Data(Kind::Invalid)) } else { Ok(value as u32) };
            }
        }
        Err(Refusal::Data(Kind::Invalid))
    }

    /// Read a length or count; `None` is null.
    #[inline]
    fn length(&mut self, compact: bool, null: bool, text: bool) -> Result<Option<usize>> {
        let length = if compact {
            i64::from(self.varint()?) - 1
        } else if text {
            i64::from(i16::from_be_bytes(self.array()?))
        } else {
            i64::from(i32::from_be_bytes(self.array()?))
        };
        match usize::try_from(length) {
            Ok(_) if text && length > MAX_TEXT => Err(Refusal::Data(Kind::Invalid)),
            Ok(length) => Ok(Some(length)),
            Err(_) if null => Ok(None),
            Err(_) => Err(Refusal::Data(Kind::Invalid)),
        }
    }

    #[inline]
    fn spend(&mut self, weight: i64) -> Result<()> {
        self.left -= weight;
        if self.left < 0 { Err(Refusal::Data(Kind::TooHeavy)) } else { Ok(()) }
    }

    #[inline]
    fn int<I>(&self, value: I) -> Bound<'py, PyAny>
    where
        I: IntoPyObject<'py, Target = PyInt, Output = Bound<'py, PyInt>, Error = Infallible>,
    {
        let Ok(number) = value.into_pyobject(self.py);
        number.into_any()
    }

    /// Read the value of a node.
    pub fn node(&mut self, node: &Node) -> Result<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match node {
            Node::Bool => PyBool::new(py, self.byte()? != 0).to_owned().into_any(),
            Node::Int8 => { let v = i8::from_be_bytes(self.array()?); self.int(v) }
            Node::Int16 => { let v = i16::from_be_bytes(self.array()?); self.int(v) }
            Node::UInt16 => { let v = u16::from_be_bytes(self.array()?); self.int(v) }
            Node::Int32 => { let v = i32::from_be_bytes(self.array()?); self.int(v) }
            Node::UInt32 => { let v = u32::from_be_bytes(self.array()?); self.int(v) }
            Node::Int64 => { let v = i64::from_be_bytes(self.array()?); self.int(v) }
            Node::Float64 => PyFloat::new(py, f64::from_be_bytes(self.array()?)).into_any(),
            Node::Uuid => { let raw = self.array()?; self.uuids.decode(py, raw)? }
            Node::Text { compact, null } => match self.length(*compact, *null, true)? {
                Some(size) => { let data = self.take(size)?; raw::text(py, data, &mut self.letters)? }
                None => py.None().into_bound(py),
            },
            Node::Blob { compact, null } => match self.length(*compact, *null, false)? {
                Some(size) => PyBytes::new(py, self.take(size)?).into_any(),
                None => py.None().into_bound(py),
            },
            Node::List(list) => self.list(list)?,
            Node::Maybe { record, tagged, weight } => {
                let present = if *tagged { self.varint()? > 0 } else { self.byte()? < 0x80 };
                if !present {
                    return Ok(py.None().into_bound(py));
                }
                self.spend(*weight)?;
                self.record(record)?
            }
            Node::Record(record) => self.record(record)?,
        })
    }

    fn list(&mut self, list: &List) -> Result<Bound<'py, PyAny>> {
        let Some(count) = self.length(list.compact, list.null, false)? else {
            return Ok(self.py.None().into_bound(self.py));
        };
        if count.saturating_mul(list.smallest) > self.remaining() {
            return Err(Refusal::Data(Kind::Invalid));
        }
        self.spend((count as i64).saturating_mul(list.weight))?;
        let begin = self.elements.len();
        self.elements.reserve(count);
        for _ in 0..count {
            let element = match &list.element {
                Node::Record(record) => self.record(record)?,
                other => self.node(other)?,
            };
            self.elements.push(element);
        }
        Ok(PyList::new(self.py, self.elements.drain(begin..))?.into_any())
    }

    /// Read a struct.
    pub fn record(&mut self, record: &Record) -> Result<Bound<'py, PyAny>> {
        let py = self.py;
        let object = record.class.create(py)?;
        for field in &record.fields {
            object.set(field.slot, self.node(&field.node)?);
        }
        for (slot, initial) in &record.missing {
            object.set(*slot, initial.make(py)?);
        }
        let mut unknown = None;
        let count = if record.flexible { self.varint()? } else { 0 };
        if count > 0 {
            unknown = self.tags(record, count, &object)?;
            for field in &record.tagged {
                if object.get(field.slot).is_none() {
                    object.set(field.slot, field.initial.make(py)?);
                }
            }
        } else {
            for field in &record.tagged {
                object.set(field.slot, field.initial.make(py)?);
            }
        }
        object.set(record.unknown, match unknown {
            Some(tags) => tags.into_any(),
            None => py.None().into_bound(py),
        });
        Ok(object.into_object())
    }

    fn tags(&mut self, record: &Record, count: u32, object: &raw::View<'_, 'py>) -> Result<Option<Bound<'py, PyDict>>> {
        if (count as usize).saturating_mul(2) > self.remaining() {
            return Err(Refusal::Data(Kind::Invalid));
        }
        let mut unknown = None;
        for _ in 0..count {
            let tag = self.varint()?;
            let size = self.varint()? as usize;
            let end = self.pos + size;
            if end > self.data.len() {
                return Err(Refusal::Data(Kind::Truncated));
            }
            if let Some(field) = record.tagged.iter().find(|field| field.tag == tag) {
                object.set(field.slot, self.node(&field.node)?);
                if self.pos != end {
                    return Err(Refusal::Data(Kind::Invalid));
                }
            } else {
                self.spend(TAG_WEIGHT)?;
                let content = PyBytes::new(self.py, self.take(size)?);
                unknown.get_or_insert_with(|| PyDict::new(self.py)).set_item(tag, content)?;
            }
        }
        Ok(unknown)
    }
}

impl Initial {
    /// Return the default: a new object if it is mutable.
    #[inline]
    pub fn make<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Initial::Shared(value) => value.bind(py).clone(),
            Initial::List(_) => PyList::empty(py).into_any(),
            Initial::Struct { class, slots, .. } => {
                let object = class.create(py)?;
                for (slot, initial) in slots.iter().enumerate() {
                    object.set(slot, initial.make(py)?);
                }
                object.into_object()
            }
        })
    }
}
