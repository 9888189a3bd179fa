//! Tables that are stored column by column, and their columns as buffers of Apache Arrow.
//!
//! A row comes from the slots of an object, from a tuple, or from both. Numbers are stored as numbers; a cell of another
//! type refers to the object of Python that it came from, which usually belongs to many rows. The schema of a table
//! belongs to Python: this module only knows types of columns.

use std::cmp::Ordering;
use std::collections::HashMap;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyString, PyTuple, PyType};

use crate::raw::Class;

/// The type of a column.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Int,  // 32 bits
    Long, // 64 bits, and times
    Text,
    Bool,
    Other, // has no buffers here
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "int" => Kind::Int,
            "long" | "timestamp" => Kind::Long,
            "string" => Kind::Text,
            "bool" => Kind::Bool,
            _ => Kind::Other,
        }
    }
}

/// The cells of a column. `valid`: whether a row has a number; without one, it has 0 in `values`. `unusual`: objects in a
/// column of numbers that are neither `None` nor an int of 64 bits, by row.
enum Cells {
    Numbers { values: Vec<i64>, valid: Vec<bool>, unusual: HashMap<usize, Py<PyAny>> },
    Objects(Vec<Py<PyAny>>),
}

struct Column {
    kind: Kind,
    slot: Option<usize>, // None for a value from a tuple
    cells: Cells,
}

impl Column {
    fn new(kind: Kind, slot: Option<usize>) -> Self {
        let cells = match kind {
            Kind::Int | Kind::Long => Cells::Numbers { values: Vec::new(), valid: Vec::new(), unusual: HashMap::new() },
            _ => Cells::Objects(Vec::new()),
        };
        Column { kind, slot, cells }
    }

    fn push(&mut self, value: Bound<'_, PyAny>) {
        match &mut self.cells {
            Cells::Objects(objects) => objects.push(value.unbind()),
            Cells::Numbers { values, valid, unusual } => {
                let number = if value.is_exact_instance_of::<PyInt>() { value.extract::<i64>().ok() } else { None };
                if number.is_none() && !value.is_none() {
                    unusual.insert(values.len(), value.unbind());
                }
                values.push(number.unwrap_or_default());
                valid.push(number.is_some());
            }
        }
    }

    fn get<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        Ok(match &self.cells {
            Cells::Objects(objects) => objects[row].bind(py).clone(),
            Cells::Numbers { values, valid, .. } if valid[row] => PyInt::new(py, values[row]).into_any(),
            Cells::Numbers { unusual, .. } => match unusual.get(&row) {
                Some(object) => object.bind(py).clone(),
                None => py.None().into_bound(py),
            },
        })
    }

    /// Return whether `compare` orders the values: there are only numbers, only texts or only booleans.
    fn is_ordered(&self, py: Python<'_>) -> bool {
        match &self.cells {
            Cells::Numbers { unusual, .. } => unusual.is_empty(),
            Cells::Objects(objects) => {
                let mut some = objects.iter().map(|object| object.bind(py)).filter(|object| !object.is_none());
                match self.kind {
                    Kind::Text => some.all(|object| object.is_exact_instance_of::<PyString>()),
                    Kind::Bool => some.all(|object| object.is_exact_instance_of::<PyBool>()),
                    _ => false,
                }
            }
        }
    }

    /// Compare two rows. `None` is before all other values.
    fn compare(&self, py: Python<'_>, one: usize, other: usize) -> PyResult<Ordering> {
        if let Cells::Numbers { values, valid, unusual } = &self.cells {
            if unusual.is_empty() {
                return Ok((valid[one], values[one]).cmp(&(valid[other], values[other])));
            }
        }
        let (one, other) = (self.get(py, one)?, self.get(py, other)?);
        if one.is(&other) {
            return Ok(Ordering::Equal);
        }
        match (one.is_none(), other.is_none()) {
            (false, false) => one.compare(&other),
            (one, other) => Ok(other.cmp(&one)),
        }
    }

    /// Put the rows into another order. `order`: the old number of each row.
    fn reorder(&mut self, py: Python<'_>, order: &[usize]) {
        match &mut self.cells {
            Cells::Objects(objects) => *objects = order.iter().map(|&row| objects[row].clone_ref(py)).collect(),
            Cells::Numbers { values, valid, unusual } => {
                *values = order.iter().map(|&row| values[row]).collect();
                *valid = order.iter().map(|&row| valid[row]).collect();
                if !unusual.is_empty() {
                    let moved = order.iter().enumerate();
                    *unusual = moved.filter_map(|(new, old)| Some((new, unusual.remove(old)?))).collect();
                }
            }
        }
    }

    /// Return the buffers of the column, as in `Columns::buffers`.
    fn buffers<'py>(&self, py: Python<'py>) -> Option<(usize, Vec<Option<Bound<'py, PyBytes>>>)> {
        let mut buffers = Buffers::default();
        match &self.cells {
            Cells::Numbers { unusual, .. } if !unusual.is_empty() => return None,
            Cells::Numbers { values, valid, .. } => {
                for (&value, &is_valid) in values.iter().zip(valid) {
                    buffers.mark(is_valid);
                    match self.kind {
                        Kind::Int => buffers.data.extend(i32::try_from(value).ok()?.to_le_bytes()),
                        _ => buffers.data.extend(value.to_le_bytes()),
                    }
                }
            }
            Cells::Objects(objects) if self.kind == Kind::Text => {
                buffers.end_text()?;
                for object in objects {
                    let object = object.bind(py);
                    buffers.mark(!object.is_none());
                    if !object.is_none() {
                        let text = object.cast::<PyString>().ok()?.to_str().ok()?; // fails for text that is not UTF-8
                        buffers.data.extend_from_slice(text.as_bytes());
                    }
                    buffers.end_text()?;
                }
            }
            Cells::Objects(objects) if self.kind == Kind::Bool => {
                for object in objects {
                    let object = object.bind(py);
                    let value = if object.is_none() { None } else { Some(object.extract::<bool>().ok()?) };
                    set_bit(&mut buffers.data, buffers.rows, value == Some(true));
                    buffers.mark(value.is_some());
                }
            }
            Cells::Objects(_) => return None,
        }
        Some(buffers.finish(py, self.kind))
    }
}

/// The buffers of a column while its cells are added.
#[derive(Default)]
struct Buffers {
    rows: usize,
    nulls: usize,
    valid: Vec<u8>,
    ends: Vec<u8>, // of the texts, as 32 bits
    data: Vec<u8>,
}

impl Buffers {
    /// Add a row to the bits of validity.
    fn mark(&mut self, is_valid: bool) {
        set_bit(&mut self.valid, self.rows, is_valid);
        self.rows += 1;
        self.nulls += usize::from(!is_valid);
    }

    /// Add the end of a text; `None` if it is beyond 32 bits.
    fn end_text(&mut self) -> Option<()> {
        self.ends.extend(i32::try_from(self.data.len()).ok()?.to_le_bytes());
        Some(())
    }

    fn finish<'py>(self, py: Python<'py>, kind: Kind) -> (usize, Vec<Option<Bound<'py, PyBytes>>>) {
        let mut made = vec![(self.nulls > 0).then(|| PyBytes::new(py, &self.valid))];
        if kind == Kind::Text {
            made.push(Some(PyBytes::new(py, &self.ends)));
        }
        made.push(Some(PyBytes::new(py, &self.data)));
        (self.nulls, made)
    }
}

fn set_bit(bits: &mut Vec<u8>, place: usize, value: bool) {
    if place % 8 == 0 {
        bits.push(0);
    }
    bits[place / 8] |= u8::from(value) << (place % 8);
}

/// A table.
#[pyclass(module = "kwire_native")]
pub struct Columns {
    class: Option<Class>,
    columns: Vec<Column>,
    given: usize, // number of columns that come from a tuple
    rows: usize,
}

#[pymethods]
impl Columns {
    /// `types`: type of each column. `class`: class of the objects that rows come from; `None` if all values come from
    /// tuples. `slots`: for each column its slot of the class, or `None` if its value comes from a tuple.
    #[new]
    fn new(types: Vec<String>, class: Option<&Bound<'_, PyType>>, slots: Vec<Option<String>>) -> PyResult<Self> {
        if types.len() != slots.len() {
            return Err(PyValueError::new_err("each column must have a type and a slot, which may be None"));
        }
        let names: Vec<String> = slots.iter().flatten().cloned().collect();
        let class = match class {
            Some(class) => Some(Class::probe(class, &names)?),
            None if names.is_empty() => None,
            None => return Err(PyValueError::new_err("slots need a class")),
        };
        let mut numbers = 0..;
        let columns: Vec<Column> = types
            .iter()
            .zip(&slots)
            .map(|(name, slot)| Column::new(Kind::of(name), slot.as_ref().and_then(|_| numbers.next())))
            .collect();
        let given = columns.iter().filter(|column| column.slot.is_none()).count();
        Ok(Columns { class, columns, given, rows: 0 })
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// Add a row for an object. `given`: values of the columns without a slot, in order.
    fn add(&mut self, object: Bound<'_, PyAny>, given: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.check(given)?;
        let Columns { class: Some(class), columns, .. } = self else {
            return Err(PyTypeError::new_err("the rows come from tuples"));
        };
        let Some(view) = class.view(object) else {
            return Err(PyTypeError::new_err("the object is not of the class of this table"));
        };
        let none = given.py().None().into_bound(given.py());
        let mut given = given.iter();
        for column in columns {
            let value = match column.slot {
                Some(slot) => view.get(slot),
                None => given.next(),
            };
            column.push(value.unwrap_or_else(|| none.clone()));
        }
        self.rows += 1;
        Ok(())
    }

    /// Add a row for each object. `given`: values of the columns without a slot, in order, the same in all rows.
    fn add_all(&mut self, objects: &Bound<'_, PyList>, given: &Bound<'_, PyTuple>) -> PyResult<()> {
        objects.iter().try_for_each(|object| self.add(object, given))
    }

    /// Add a row for each tuple, in a table whose rows come from tuples.
    fn add_tuples(&mut self, tuples: &Bound<'_, PyList>) -> PyResult<()> {
        if self.class.is_some() {
            return Err(PyTypeError::new_err("the rows come from objects"));
        }
        for values in tuples {
            let values = values.cast::<PyTuple>()?;
            self.check(values)?;
            for (column, value) in self.columns.iter_mut().zip(values) {
                column.push(value);
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// Sort the rows. `places`: numbers of the columns to compare. `None` is before all other values; the order of equal
    /// rows is kept. Error: TypeError if Python cannot compare two values.
    fn sort(&mut self, py: Python<'_>, places: Vec<usize>) -> PyResult<()> {
        let order = if places.iter().all(|&place| self.columns[place].is_ordered(py)) {
            self.order(py, &places)?
        } else {
            self.order_of_python(py, &places)?
        };
        self.columns.iter_mut().for_each(|column| column.reorder(py, &order));
        Ok(())
    }

    /// Return the values of a row.
    fn row<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyTuple>> {
        let values: PyResult<Vec<_>> = self.columns.iter().map(|column| column.get(py, number)).collect();
        PyTuple::new(py, values?)
    }

    /// Return the values of a column.
    fn column<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyList>> {
        let values: PyResult<Vec<_>> = (0..self.rows).map(|row| self.columns[place].get(py, row)).collect();
        PyList::new(py, values?)
    }

    /// Return the number of null values in a column, and its buffers: validity (`None` without null values), ends of the
    /// texts in a column of texts, and values. Returns `None` for a column that this module cannot convert, because of
    /// its type or one of its values.
    fn buffers<'py>(&self, py: Python<'py>, place: usize) -> Option<(usize, Vec<Option<Bound<'py, PyBytes>>>)> {
        self.columns[place].buffers(py)
    }
}

impl Columns {
    /// Return the numbers of the rows in sorted order. `places`: numbers of the columns to compare.
    fn order(&self, py: Python<'_>, places: &[usize]) -> PyResult<Vec<usize>> {
        let mut failed = None;
        let mut order: Vec<usize> = (0..self.rows).collect();
        order.sort_by(|&one, &other| {
            for &place in places {
                match self.columns[place].compare(py, one, other) {
                    Ok(Ordering::Equal) => {}
                    Ok(order) => return order,
                    Err(error) => failed = Some(error),
                }
            }
            Ordering::Equal
        });
        failed.map_or(Ok(order), Err)
    }

    /// Return the same for values of any type. Python sorts the rows: Rust's sort panics if the values have no order.
    fn order_of_python(&self, py: Python<'_>, places: &[usize]) -> PyResult<Vec<usize>> {
        let keys = PyList::empty(py);
        for row in 0..self.rows {
            let mut key = Vec::with_capacity(places.len());
            for &place in places {
                let value = self.columns[place].get(py, row)?;
                key.push((!value.is_none(), value));
            }
            keys.append(PyTuple::new(py, key)?)?;
        }
        let order = PyList::new(py, 0..self.rows)?;
        let options = PyDict::new(py);
        options.set_item("key", keys.getattr("__getitem__")?)?;
        order.call_method("sort", (), Some(&options))?;
        order.extract()
    }

    fn check(&self, given: &Bound<'_, PyTuple>) -> PyResult<()> {
        if given.len() == self.given {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!("{} values are needed, not {}", self.given, given.len())))
    }
}
