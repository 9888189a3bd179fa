//! All unsafe code: access to the slots of Python objects by offset, and the choice of vector instructions.
//!
//! A class with `__slots__` stores each slot as one pointer at a fixed offset of the object. Python's own descriptors
//! write this pointer after a lookup by name; this takes longer than decoding the value. `Class::probe` finds the
//! offsets by experiment: it lets Python's descriptor store a marker in a new object, and searches the object for the
//! marker. So no knowledge about a release of CPython is assumed, and a class whose slots are not found is refused.
//!
//! Why this is sound:
//! - The pointer at a probed offset belongs to the slot, is either null or owns one reference, and lies inside each
//!   object whose type is the probed class. `Class::view` compares the type; `Class::create` sets it.
//! - CPython allows an assignment to `__class__` only if both classes have the same slots at the same offsets.
//! - The search for reference cycles is only switched off and on again (`Pause`).
//! - Every function that accesses objects holds the GIL (the argument `py`, or a `Bound`), so that no other thread
//!   accesses them.
//! - `vectorized` calls code that needs AVX2 only after it has found AVX2.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

/// A class with slots, and the offset of each slot in its objects, in bytes.
pub struct Class {
    class: Py<PyType>,
    offsets: Vec<usize>,
}

impl Class {
    /// Find the offsets of slots.
    ///
    /// All names are interned, because CPython's cache of attributes keeps each name that was looked up.
    ///
    /// `names`: slots in the order of their numbers. Error: TypeError if one of them is not a slot of the class.
    pub fn probe(class: &Bound<'_, PyType>, names: &[String]) -> PyResult<Class> {
        let py = class.py();
        let size: usize = class.getattr(intern!(py, "__basicsize__"))?.extract()?;
        let descriptors = py.import(intern!(py, "types"))?.getattr(intern!(py, "MemberDescriptorType"))?;
        let marker = py.import(intern!(py, "builtins"))?.getattr(intern!(py, "object"))?;
        let object = allocate(class)?;
        let mut markers = Vec::with_capacity(names.len());
        for name in names {
            let descriptor = class.getattr(PyString::intern(py, name))?;
            if !descriptor.get_type().is(&descriptors) {
                return Err(PyTypeError::new_err(format!("{name} is not a slot")));
            }
            markers.push(marker.call0()?);
            descriptor.call_method1(intern!(py, "__set__"), (&object, &markers[markers.len() - 1]))?;
        }
        let width = size_of::<usize>();
        let header = size_of::<ffi::PyObject>();
        let base = object.as_ptr().cast::<u8>();
        // SAFETY: the offsets are aligned and inside the object, which has `__basicsize__` bytes, zero when it was new.
        let words: Vec<(usize, usize)> = (header..size.saturating_sub(width - 1))
            .step_by(width)
            .map(|at| (at, unsafe { base.add(at).cast::<usize>().read() }))
            .collect();
        let mut offsets = Vec::with_capacity(names.len());
        for (name, marker) in names.iter().zip(&markers) {
            let mut found = words.iter().filter(|(_, word)| *word == marker.as_ptr() as usize);
            match (found.next(), found.next()) {
                (Some((at, _)), None) => offsets.push(*at),
                _ => return Err(PyTypeError::new_err(format!("the slot {name} has no offset"))),
            }
        }
        Ok(Class { class: class.clone().unbind(), offsets })
    }

    /// Return the class itself.
    pub fn of<'py>(&self, py: Python<'py>) -> &Bound<'py, PyType> {
        self.class.bind(py)
    }

    /// Create an object whose slots are empty, without calling a constructor.
    #[inline]
    pub fn create<'c, 'py>(&'c self, py: Python<'py>) -> PyResult<View<'c, 'py>> {
        Ok(View { object: allocate(self.class.bind(py))?, class: self })
    }

    /// Access the slots of an object; `None` if its type is another class, or a subclass.
    #[inline]
    pub fn view<'c, 'py>(&'c self, object: Bound<'py, PyAny>) -> Option<View<'c, 'py>> {
        // SAFETY: reads the type of a live object.
        let class = unsafe { ffi::Py_TYPE(object.as_ptr()) };
        (class.cast::<ffi::PyObject>() == self.class.as_ptr()).then_some(View { object, class: self })
    }
}

/// An object of a probed class.
pub struct View<'c, 'py> {
    object: Bound<'py, PyAny>,
    class: &'c Class,
}

impl<'py> View<'_, 'py> {
    /// Store a value in a slot.
    #[inline]
    pub fn set(&self, slot: usize, value: Bound<'py, PyAny>) {
        let place = self.place(slot);
        // SAFETY: see the module. The slot takes over the reference of `value`; the old reference is dropped.
        unsafe {
            let old = place.replace(value.into_ptr());
            drop(Bound::from_owned_ptr_or_opt(self.object.py(), old));
        }
    }

    /// Return the value of a slot; `None` if it is empty.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<Bound<'py, PyAny>> {
        // SAFETY: see the module. The result owns a reference of its own.
        unsafe { Bound::from_borrowed_ptr_or_opt(self.object.py(), self.place(slot).read()) }
    }

    /// Return the object.
    #[inline]
    pub fn into_object(self) -> Bound<'py, PyAny> {
        self.object
    }

    #[inline]
    fn place(&self, slot: usize) -> *mut *mut ffi::PyObject {
        // SAFETY: the offset was probed for the class of the object, so it is inside the object.
        unsafe { self.object.as_ptr().cast::<u8>().add(self.class.offsets[slot]).cast() }
    }
}

fn allocate<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: PyType_GenericAlloc returns a new reference to an object of the class, or null and an exception.
    unsafe { Bound::from_owned_ptr_or_err(class.py(), ffi::PyType_GenericAlloc(class.as_type_ptr(), 0)) }
}

/// A pause of the search for reference cycles, until it is dropped.
///
/// A decoded message consists of many new objects that contain no cycles. Without the pause, CPython searches them again
/// for every 700 of them.
pub struct Pause<'py> {
    py: PhantomData<Python<'py>>, // the GIL is held until the pause ends
    was_enabled: bool,
}

impl<'py> Pause<'py> {
    /// Begin the pause.
    #[inline]
    pub fn new(_: Python<'py>) -> Self {
        // SAFETY: the GIL is held; the function only sets a flag, and returns its old value.
        Pause { py: PhantomData, was_enabled: unsafe { ffi::PyGC_Disable() } != 0 }
    }
}

impl Drop for Pause<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.was_enabled {
            // SAFETY: as above.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// Decode UTF-8; bytes that are not UTF-8 become surrogate escapes.
///
/// Text with other letters than ASCII is decoded here: CPython's decoder starts again whenever a letter needs a wider
/// string. `scratch`: memory to reuse.
#[inline]
pub fn text<'py>(py: Python<'py>, data: &[u8], scratch: &mut Vec<u32>) -> PyResult<Bound<'py, PyAny>> {
    if !cfg!(windows) && !data.is_ascii() && wide(data, scratch) {
        // SAFETY: the pointer and the length are those of a slice; wchar_t has 32 bits.
        return unsafe {
            Bound::from_owned_ptr_or_err(
                py,
                ffi::PyUnicode_FromWideChar(scratch.as_ptr().cast(), scratch.len() as isize),
            )
        };
    }
    // SAFETY: the pointer and the length are those of a slice; the name of the error handler ends with a zero byte.
    unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyUnicode_DecodeUTF8(data.as_ptr().cast(), data.len() as isize, c"surrogateescape".as_ptr()),
        )
    }
}

/// Store the code points of UTF-8 in `out`; return false if the data is not UTF-8.
fn wide(data: &[u8], out: &mut Vec<u32>) -> bool {
    out.clear();
    out.reserve(data.len());
    let more = |byte: u8| (byte & 0xC0 == 0x80).then_some(u32::from(byte & 0x3F));
    let mut rest = data;
    loop {
        let (letter, after) = match rest {
            [] => return true,
            [a @ ..0x80, after @ ..] => (Some(u32::from(*a)), after),
            [a @ 0xC2..0xE0, b, after @ ..] => (more(*b).map(|b| u32::from(a & 0x1F) << 6 | b), after),
            [a @ 0xE0..0xF0, b, c, after @ ..] => {
                let letter = more(*b).zip(more(*c)).map(|(b, c)| u32::from(a & 0x0F) << 12 | b << 6 | c);
                (letter.filter(|letter| *letter >= 0x800 && !(0xD800..0xE000).contains(letter)), after)
            }
            [a @ 0xF0..0xF5, b, c, d, after @ ..] => {
                let letter = more(*b).zip(more(*c)).zip(more(*d));
                let letter = letter.map(|((b, c), d)| u32::from(a & 0x07) << 18 | b << 12 | c << 6 | d);
                (letter.filter(|letter| (0x1_0000..0x11_0000).contains(letter)), after)
            }
            _ => return false,
        };
        let Some(letter) = letter else { return false };
        out.push(letter);
        rest = after;
    }
}

/// Call a function with the widest vector instructions of the processor.
///
/// For x86-64, the function is compiled twice: with the instructions that every processor has (SSE2), and with AVX2.
/// `work`: a function that is marked `#[inline(always)]`, as is everything in it that must be compiled twice.
#[inline]
pub fn vectorized<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2. This is all that the function needs; its body is safe Rust.
        return unsafe { with_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2<T>(work: impl FnOnce() -> T) -> T {
    work()
}
