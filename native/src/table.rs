//! The table of one message version: the tree that `kwire.layout.resolve` returns, as `kwire.engines.native` hands it
//! over. Each node is a tuple whose first element is its kind.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::raw::Class;

/// A node of the layout.
pub enum Node {
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
    List(Box<List>),
    Maybe { record: Box<Record>, tagged: bool, weight: i64 },
    Record(Box<Record>),
}

/// An array.
///
/// `smallest`: size of the shortest element, in bytes. `weight`: memory of an element, in bytes.
pub struct List {
    pub element: Node,
    pub compact: bool,
    pub null: bool,
    pub smallest: usize,
    pub weight: i64,
}

/// A struct: fields in wire order, then the tagged section if `flexible`.
///
/// `missing`: fields that the version does not have, with their defaults. `absent`: those of them that must have their
/// default when the struct is encoded. `unknown`: number of the slot `unknown_tags`.
pub struct Record {
    pub class: Arc<Class>,
    pub fields: Vec<Field>,
    pub flexible: bool,
    pub tagged: Vec<Tagged>,
    pub missing: Vec<(usize, Initial)>,
    pub absent: Vec<(usize, Initial)>,
    pub unknown: usize,
}

/// A field outside the tagged section, with the number of its slot.
pub struct Field {
    pub slot: usize,
    pub node: Node,
}

/// A field in the tagged section.
pub struct Tagged {
    pub slot: usize,
    pub tag: u32,
    pub node: Node,
    pub initial: Initial,
}

/// The default of a field.
pub enum Initial {
    /// An immutable object that all messages share.
    Shared(Py<PyAny>),
    /// A new empty list.
    List(Py<PyAny>),
    /// A new struct whose fields have their defaults. `like`: such a struct. `plain`: the class compares by fields.
    Struct { class: Arc<Class>, slots: Vec<Initial>, like: Py<PyAny>, plain: bool },
}

/// The classes that one table uses, each probed once.
#[derive(Default)]
pub struct Classes(HashMap<usize, Arc<Class>>);

impl Classes {
    fn get(&mut self, class: &Bound<'_, PyType>, names: &[String]) -> PyResult<Arc<Class>> {
        let key = class.as_ptr() as usize;
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let probed = Arc::new(Class::probe(class, names)?);
        self.0.insert(key, probed.clone());
        Ok(probed)
    }
}

/// Build a node from its tuple.
pub fn node(given: &Bound<'_, PyAny>, classes: &mut Classes) -> PyResult<Node> {
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
        "array" => Node::List(Box::new(List {
            element: node(&parts.get_item(1)?, classes)?,
            compact: flag(2)?,
            null: flag(3)?,
            smallest: parts.get_item(4)?.extract()?,
            weight: parts.get_item(5)?.extract()?,
        })),
        "maybe" => Node::Maybe {
            record: Box::new(record(&parts.get_item(1)?, classes)?),
            tagged: flag(2)?,
            weight: parts.get_item(3)?.extract()?,
        },
        "struct" => Node::Record(Box::new(record(given, classes)?)),
        _ => return Err(PyValueError::new_err(format!("unknown kind of node: {kind}"))),
    })
}

/// Build a struct from its tuple.
pub fn record(given: &Bound<'_, PyAny>, classes: &mut Classes) -> PyResult<Record> {
    let parts = given.cast::<PyTuple>()?;
    let part = |at: usize| parts.get_item(at);
    let names: Vec<String> = part(2)?.extract()?;
    let class = classes.get(part(1)?.cast::<PyType>()?, &names)?;
    let mut fields = Vec::new();
    for each in part(3)?.try_iter()? {
        let (slot, inner): (usize, Bound<'_, PyAny>) = each?.extract()?;
        fields.push(Field { slot, node: node(&inner, classes)? });
    }
    let mut tagged = Vec::new();
    for each in part(5)?.try_iter()? {
        let (slot, tag, inner, default): (usize, u32, Bound<'_, PyAny>, Bound<'_, PyAny>) = each?.extract()?;
        tagged.push(Tagged { slot, tag, node: node(&inner, classes)?, initial: initial(&default, classes)? });
    }
    let mut defaults = |at: usize| -> PyResult<Vec<(usize, Initial)>> {
        let mut found = Vec::new();
        for each in part(at)?.try_iter()? {
            let (slot, default): (usize, Bound<'_, PyAny>) = each?.extract()?;
            found.push((slot, initial(&default, classes)?));
        }
        Ok(found)
    };
    let (missing, absent) = (defaults(6)?, defaults(7)?);
    let last = names.len() - 1;
    let slots = fields.iter().map(|field| field.slot).chain(tagged.iter().map(|field| field.slot));
    if slots.chain(missing.iter().chain(&absent).map(|field| field.0)).any(|slot| slot >= last) {
        return Err(PyValueError::new_err("a slot has no name"));
    }
    Ok(Record { class, fields, flexible: part(4)?.extract()?, tagged, missing, absent, unknown: last })
}

fn initial(given: &Bound<'_, PyAny>, classes: &mut Classes) -> PyResult<Initial> {
    let parts = given.cast::<PyTuple>()?;
    let kind: String = parts.get_item(0)?.extract()?;
    let value = parts.get_item(1)?;
    Ok(match kind.as_str() {
        "shared" => Initial::Shared(value.unbind()),
        "list" => Initial::List(value.unbind()),
        "struct" => {
            let names: Vec<String> = parts.get_item(2)?.extract()?;
            let class = classes.get(&value.get_type(), &names)?;
            let mut slots = Vec::with_capacity(names.len());
            for each in parts.get_item(3)?.try_iter()? {
                slots.push(initial(&each?, classes)?);
            }
            if slots.len() != names.len() {
                return Err(PyValueError::new_err("a slot has no default"));
            }
            Initial::Struct { class, slots, like: value.unbind(), plain: parts.get_item(4)?.extract()? }
        }
        _ => return Err(PyValueError::new_err(format!("unknown kind of default: {kind}"))),
    })
}
