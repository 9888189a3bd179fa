//! The walker that encodes a message.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyList, PyMemoryView, PyString, PyTuple};

use crate::Runtime;
use crate::raw::View;
use crate::refusal::{Refusal, Result};
use crate::table::{Initial, List, Node, Record};

const MAX_TEXT: usize = 32_767; // bytes of a string

/// The bytes of a message.
pub struct Writer<'a> {
    runtime: &'a Runtime,
    pub out: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Start with no bytes.
    pub fn new(runtime: &'a Runtime) -> Self {
        Writer { runtime, out: Vec::with_capacity(256) }
    }

    #[inline]
    fn varint(&mut self, value: usize) -> Result<()> {
        let Ok(mut value) = u32::try_from(value) else { return Err(Refusal::Value) };
        if value > i32::MAX as u32 {
            return Err(Refusal::Value);
        }
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
        Ok(())
    }

    /// Write the length of bytes or the count of an array.
    #[inline]
    fn length(&mut self, compact: bool, length: usize) -> Result<()> {
        if compact {
            return self.varint(length + 1);
        }
        let Ok(length) = i32::try_from(length) else { return Err(Refusal::Value) };
        self.out.extend_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn null(&mut self, compact: bool, null: bool, width: usize) -> Result<()> {
        match (null, compact) {
            (false, _) => return Err(Refusal::Value),
            (true, true) => self.out.push(0),
            (true, false) => self.out.extend_from_slice(&[0xFF; 4][..width]),
        }
        Ok(())
    }

    /// Write the value of a node.
    pub fn node(&mut self, node: &Node, value: Bound<'_, PyAny>) -> Result<()> {
        match node {
            Node::Bool => {
                let flag = match value.cast_exact::<PyBool>() {
                    Ok(flag) => flag.is_true(),
                    Err(_) => self.runtime.boolean(&value)?,
                };
                self.out.push(u8::from(flag));
            }
            Node::Int8 => self.out.extend_from_slice(&i8::try_from(integer(&value)?).map_err(refused)?.to_be_bytes()),
            Node::Int16 => self.out.extend_from_slice(&i16::try_from(integer(&value)?).map_err(refused)?.to_be_bytes()),
            Node::UInt16 => {
                self.out.extend_from_slice(&u16::try_from(integer(&value)?).map_err(refused)?.to_be_bytes())
            }
            Node::Int32 => self.out.extend_from_slice(&i32::try_from(integer(&value)?).map_err(refused)?.to_be_bytes()),
            Node::UInt32 => {
                self.out.extend_from_slice(&u32::try_from(integer(&value)?).map_err(refused)?.to_be_bytes())
            }
            Node::Int64 => self.out.extend_from_slice(&integer(&value)?.to_be_bytes()),
            Node::Float64 => {
                let number = match value.cast_exact::<PyFloat>() {
                    Ok(number) => number.value(),
                    Err(_) => value.extract::<f64>()?,
                };
                self.out.extend_from_slice(&number.to_be_bytes());
            }
            Node::Uuid => self.runtime.uuids.append(&mut self.out, &value)?,
            Node::Text { compact, null } => self.text(*compact, *null, &value)?,
            Node::Blob { compact, null } => self.blob(*compact, *null, &value)?,
            Node::List(list) => self.list(list, &value)?,
            Node::Maybe { record, tagged, .. } => {
                if value.is_none() {
                    self.out.push(if *tagged { 0 } else { 0xFF });
                } else {
                    self.out.push(1);
                    self.record(record, value)?;
                }
            }
            Node::Record(record) => self.record(record, value)?,
        }
        Ok(())
    }

    fn text(&mut self, compact: bool, null: bool, value: &Bound<'_, PyAny>) -> Result<()> {
        if value.is_none() {
            return self.null(compact, null, 2);
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            if let Ok(text) = text.to_str() {
                return self.encoded_text(compact, text.as_bytes());
            }
        }
        // Surrogate escapes become the bytes that they were decoded from; other surrogates raise.
        let encoded = value.call_method1("encode", ("utf-8", "surrogateescape"))?;
        self.encoded_text(compact, self.copy(&encoded)?.as_bytes())
    }

    #[inline]
    fn encoded_text(&mut self, compact: bool, text: &[u8]) -> Result<()> {
        if text.len() > MAX_TEXT {
            return Err(Refusal::Value);
        }
        if compact {
            self.varint(text.len() + 1)?;
        } else {
            self.out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        }
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn blob(&mut self, compact: bool, null: bool, value: &Bound<'_, PyAny>) -> Result<()> {
        if value.is_none() {
            return self.null(compact, null, 4);
        }
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            self.length(compact, bytes.as_bytes().len())?;
            self.out.extend_from_slice(bytes.as_bytes());
            return Ok(());
        }
        let copy = self.copy(value)?;
        self.length(compact, copy.as_bytes().len())?;
        self.out.extend_from_slice(copy.as_bytes());
        Ok(())
    }

    /// Return a bytes-like object as bytes. Refuses a value of another type: Python's `bytes` also takes a size.
    fn copy<'py>(&self, value: &Bound<'py, PyAny>) -> Result<Bound<'py, PyBytes>> {
        let like = value.is_instance_of::<PyBytes>()
            || value.is_instance_of::<PyByteArray>()
            || value.is_instance_of::<PyMemoryView>();
        if !like {
            return Err(Refusal::Value);
        }
        let copy = self.runtime.bytes.bind(value.py()).call1((value,))?;
        copy.cast_into::<PyBytes>().map_err(|_| Refusal::Value)
    }

    fn list(&mut self, list: &List, value: &Bound<'_, PyAny>) -> Result<()> {
        if value.is_none() {
            return self.null(list.compact, list.null, 4);
        }
        if let Ok(elements) = value.cast::<PyList>() {
            let count = elements.len();
            self.length(list.compact, count)?;
            for at in 0..count {
                self.node(&list.element, elements.get_item(at)?)?;
            }
        } else if let Ok(elements) = value.cast::<PyTuple>() {
            self.length(list.compact, elements.len())?;
            for element in elements.iter() {
                self.node(&list.element, element)?;
            }
        } else {
            return Err(Refusal::Value);
        }
        Ok(())
    }

    /// Write a struct. Refuses a value of another class.
    pub fn record(&mut self, record: &Record, value: Bound<'_, PyAny>) -> Result<()> {
        let Some(object) = record.class.view(value) else { return Err(Refusal::Value) };
        for (slot, initial) in &record.absent {
            if initial.differs(&held(&object, *slot)?)? {
                return Err(Refusal::Value);
            }
        }
        for field in &record.fields {
            self.node(&field.node, held(&object, field.slot)?)?;
        }
        let unknown = held(&object, record.unknown)?;
        let has_unknown = !unknown.is_none() && unknown.is_truthy()?;
        if !record.flexible {
            return if has_unknown { Err(Refusal::Value) } else { Ok(()) };
        }
        self.tags(record, &object, has_unknown.then_some(unknown))
    }

    fn tags(&mut self, record: &Record, object: &View<'_, '_>, unknown: Option<Bound<'_, PyAny>>) -> Result<()> {
        let mut known: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in &record.tagged {
            let value = held(object, field.slot)?;
            if field.initial.differs(&value)? {
                let mut content = Writer { runtime: self.runtime, out: Vec::new() };
                content.node(&field.node, value)?;
                known.push((field.tag, content.out));
            }
        }
        if let Some(unknown) = unknown {
            return self.all_tags(record, known, &unknown);
        }
        self.varint(known.len())?;
        for (tag, content) in known {
            self.varint(tag as usize)?;
            self.varint(content.len())?;
            self.out.extend_from_slice(&content);
        }
        Ok(())
    }

    /// Write a tagged section with fields that are not declared: they are rare, and written by Python.
    fn all_tags(&mut self, record: &Record, known: Vec<(u32, Vec<u8>)>, unknown: &Bound<'_, PyAny>) -> Result<()> {
        let py = unknown.py();
        let fields = PyDict::new(py);
        for (tag, content) in known {
            fields.set_item(tag, PyBytes::new(py, &content))?;
        }
        let declared = PyTuple::new(py, record.tagged.iter().map(|field| field.tag))?;
        let written = self.runtime.write_tags.bind(py).call1((fields, unknown, declared))?;
        self.out.extend_from_slice(written.cast::<PyBytes>().map_err(|_| Refusal::Value)?.as_bytes());
        Ok(())
    }
}

impl Initial {
    /// Return whether a value differs from the default.
    fn differs(&self, value: &Bound<'_, PyAny>) -> Result<bool> {
        let py = value.py();
        Ok(match self {
            Initial::Shared(initial) => {
                let initial = initial.bind(py);
                !value.is(initial) && value.ne(initial)?
            }
            Initial::List(empty) => match value.cast_exact::<PyList>() {
                Ok(list) => !list.is_empty(),
                Err(_) => value.ne(empty.bind(py))?,
            },
            Initial::Struct { class, slots, like, plain } => match class.view(value.clone()) {
                Some(object) if *plain => {
                    for (slot, initial) in slots.iter().enumerate() {
                        if initial.differs(&held(&object, slot)?)? {
                            return Ok(true);
                        }
                    }
                    false
                }
                _ => value.ne(like.bind(py))?,
            },
        })
    }
}

fn held<'py>(object: &View<'_, 'py>, slot: usize) -> Result<Bound<'py, PyAny>> {
    object.get(slot).ok_or_else(|| PyAttributeError::new_err("a field has no value").into())
}

#[inline]
fn integer(value: &Bound<'_, PyAny>) -> Result<i64> {
    match value.extract::<i64>() {
        Ok(number) => Ok(number),
        Err(_) => Err(Refusal::Value),
    }
}

fn refused(_: std::num::TryFromIntError) -> Refusal {
    Refusal::Value
}
