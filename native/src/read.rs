//! The walker that decodes a message.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList};

use crate::cursor::Cursor;
use crate::raw;
use crate::refusal::Result;
use crate::table::{Initial, List, Node, Record};
use crate::uuids::Uuids;

pub const TAG_WEIGHT: i64 = 320; // memory of an unknown tagged field, in bytes

/// The position in the bytes of a message, and the objects of its values so far.
pub struct Reader<'a, 'py> {
    py: Python<'py>,
    uuids: &'a Uuids,
    pub at: Cursor<'a>,
    elements: Vec<Bound<'py, PyAny>>, // of all arrays that are being read, the innermost last
    letters: Vec<u32>,                // scratch memory of texts
}

impl<'a, 'py> Reader<'a, 'py> {
    /// Start at the position of the cursor.
    pub fn new(py: Python<'py>, uuids: &'a Uuids, at: Cursor<'a>) -> Self {
        Reader { py, uuids, at, elements: Vec::new(), letters: Vec::new() }
    }

    /// Read a number of N bytes.
    #[inline]
    fn number<I, const N: usize>(&mut self, decode: impl FnOnce([u8; N]) -> I) -> Result<Bound<'py, PyAny>>
    where
        I: IntoPyObject<'py, Target = PyInt, Output = Bound<'py, PyInt>, Error = Infallible>,
    {
        let Ok(number) = decode(self.at.array()?).into_pyobject(self.py);
        Ok(number.into_any())
    }

    /// Read the value of a node.
    pub fn node(&mut self, node: &Node) -> Result<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match node {
            Node::Bool => PyBool::new(py, self.at.byte()? != 0).to_owned().into_any(),
            Node::Int8 => self.number(i8::from_be_bytes)?,
            Node::Int16 => self.number(i16::from_be_bytes)?,
            Node::UInt16 => self.number(u16::from_be_bytes)?,
            Node::Int32 => self.number(i32::from_be_bytes)?,
            Node::UInt32 => self.number(u32::from_be_bytes)?,
            Node::Int64 => self.number(i64::from_be_bytes)?,
            Node::Float64 => PyFloat::new(py, f64::from_be_bytes(self.at.array()?)).into_any(),
            Node::Uuid => {
                let raw = self.at.array()?;
                self.uuids.decode(py, raw)?
            }
            Node::Text { compact, null } => match self.at.content(*compact, *null, true)? {
                Some(data) => raw::text(py, data, &mut self.letters)?,
                None => py.None().into_bound(py),
            },
            Node::Blob { compact, null } => match self.at.content(*compact, *null, false)? {
                Some(data) => PyBytes::new(py, data).into_any(),
                None => py.None().into_bound(py),
            },
            Node::List(list) => self.list(list)?,
            Node::Maybe { record, tagged, weight } => {
                if !self.at.present(*tagged, *weight)? {
                    return Ok(py.None().into_bound(py));
                }
                self.record(record)?
            }
            Node::Record(record) => self.record(record)?,
        })
    }

    fn list(&mut self, list: &List) -> Result<Bound<'py, PyAny>> {
        let Some(count) = self.at.count(list.compact, list.null, list.smallest, list.weight)? else {
            return Ok(self.py.None().into_bound(self.py));
        };
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
        let count = if record.flexible { self.at.varint()? } else { 0 };
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
        object.set(
            record.unknown,
            match unknown {
                Some(tags) => tags.into_any(),
                None => py.None().into_bound(py),
            },
        );
        Ok(object.into_object())
    }

    fn tags(&mut self, record: &Record, count: u32, object: &raw::View<'_, 'py>) -> Result<Option<Bound<'py, PyDict>>> {
        self.at.check_tags(count)?;
        let mut unknown = None;
        for _ in 0..count {
            let (tag, end) = self.at.tag()?;
            if let Some(field) = record.tagged.iter().find(|field| field.tag == tag) {
                object.set(field.slot, self.node(&field.node)?);
                self.at.expect(end)?;
            } else {
                self.at.spend(TAG_WEIGHT)?;
                let content = PyBytes::new(self.py, self.at.take(end - self.at.pos)?);
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
