//! The lines of a frame log: JSON objects with the bytes of recorded frames as hex digits.

use std::cell::Cell;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::wide;

const END: &[u8] = b"\"}\n";
const PREFIX: usize = 4; // bytes of the length prefix of a frame

/// Write a line for each frame into memory, if the memory is large enough; return the size of all lines.
///
/// `start`: the text of each line before the digits. `data`: buffers with complete frames with their length prefixes; a
/// frame may begin or end anywhere in a buffer. `memory`: writable memory; its content is unchanged if it is too small.
/// Error: ValueError if the last frame is incomplete.
#[pyfunction]
#[pyo3(signature = (start, data, memory, /))]
pub fn frame_lines(
    py: Python<'_>,
    start: &[u8],
    data: Vec<Bound<'_, PyBytes>>,
    memory: PyBuffer<u8>,
) -> PyResult<usize> {
    let pieces: Vec<&[u8]> = data.iter().map(|piece| piece.as_bytes()).collect();
    let (mut frames, mut digits) = (0, 0);
    let mut stream = Stream::new(&pieces);
    while let Some(size) = stream.size()? {
        stream.each(size, |_| ())?;
        frames += 1;
        digits += 2 * size;
    }
    let total = frames * (start.len() + END.len()) + digits;
    // The method is deprecated because other code could use the memory at the same time. No other code runs until this
    // function returns: the thread holds the interpreter's lock, and nothing here calls Python.
    #[allow(deprecated)]
    let cells = memory.as_mut_slice(py).ok_or_else(|| PyTypeError::new_err("the memory is not writable"))?;
    if total <= cells.len() {
        let mut out = Out { cells };
        let mut stream = Stream::new(&pieces);
        while let Some(size) = stream.size()? {
            out.put(start);
            stream.each(size, |part| out.hex(part))?;
            out.put(END);
        }
    }
    Ok(total)
}

/// The bytes of several buffers, from the first to the last.
pub struct Stream<'a> {
    piece: &'a [u8],
    following: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> Stream<'a> {
    /// `pieces`: the buffers.
    pub fn new(pieces: &'a [&'a [u8]]) -> Self {
        Stream { piece: &[], following: pieces.iter() }
    }

    /// Return the size of the next frame without its length prefix; `None` at the end.
    #[inline]
    pub fn size(&mut self) -> PyResult<Option<usize>> {
        while self.piece.is_empty() {
            match self.following.next() {
                Some(piece) => self.piece = piece,
                None => return Ok(None),
            }
        }
        if let Some((prefix, rest)) = self.piece.split_first_chunk::<PREFIX>() {
            self.piece = rest;
            return Ok(Some(u32::from_be_bytes(*prefix) as usize));
        }
        let mut size = 0;
        self.each(PREFIX, |part| part.iter().for_each(|byte| size = size << 8 | usize::from(*byte)))?;
        Ok(Some(size))
    }

    /// Call a function with the next bytes, in one or more parts.
    #[inline]
    pub fn each(&mut self, mut size: usize, mut call: impl FnMut(&[u8])) -> PyResult<()> {
        while size > 0 {
            if self.piece.is_empty() {
                self.piece =
                    self.following.next().ok_or_else(|| PyValueError::new_err("the last frame is incomplete"))?;
            }
            let (part, rest) = self.piece.split_at(size.min(self.piece.len()));
            call(part);
            self.piece = rest;
            size -= part.len();
        }
        Ok(())
    }
}

/// The unused rest of the memory.
struct Out<'a> {
    cells: &'a [Cell<u8>],
}

impl Out<'_> {
    #[inline]
    fn put(&mut self, data: &[u8]) {
        let (used, rest) = self.cells.split_at(data.len());
        used.iter().zip(data).for_each(|(cell, byte)| cell.set(*byte));
        self.cells = rest;
    }

    #[inline]
    fn hex(&mut self, data: &[u8]) {
        let (used, rest) = self.cells.split_at(2 * data.len());
        wide::hex(data, used);
        self.cells = rest;
    }
}
