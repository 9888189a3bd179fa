//! The records of a recording in a topic: one for each recorded frame.

use std::collections::VecDeque;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::frame_log::Stream;

const HEAD: usize = 8; // bytes of API key, version and correlation id of a request
const UNKNOWN: (i16, i16) = (-1, -1); // API key and version of a response without a request
const API_KEY: &[u8] = b"\x0eapi_key"; // names of headers, after their sizes
const API_VERSION: &[u8] = b"\x16api_version";

/// The requests of a connection that wait for a response, and the records of its frames.
#[pyclass(module = "kwire_native")]
pub struct FrameRecords {
    pending: VecDeque<(i32, (i16, i16))>, // correlation id, API key and version
    most: usize,
}

/// The sizes of a frame and of its record, and the index of its last two headers.
struct Planned {
    frame: usize,
    record: usize,
    api: usize,
}

#[pymethods]
impl FrameRecords {
    /// `most`: number of requests that may wait; the oldest is forgotten.
    #[new]
    fn new(most: usize) -> Self {
        FrameRecords { pending: VecDeque::new(), most }
    }

    /// Return API key and version of the next frame, or -1 and -1 for a response whose correlation id is not that of a
    /// request.
    ///
    /// `head`: the first 8 bytes of the frame, or all bytes of a shorter one.
    #[pyo3(signature = (to_broker, head, /))]
    fn api(&mut self, to_broker: bool, head: &[u8]) -> (i16, i16) {
        let number = |at: usize| head.get(at..at + 2).map_or(-1, |two| i16::from_be_bytes([two[0], two[1]]));
        let id = |at: usize| head.get(at..at + 4).map(|it| i32::from_be_bytes([it[0], it[1], it[2], it[3]]));
        if to_broker {
            let Some(id) = id(4) else { return UNKNOWN };
            if self.pending.len() >= self.most {
                self.pending.pop_front();
            }
            let api = (number(0), number(2));
            self.pending.push_back((id, api));
            return api;
        }
        let Some(id) = id(0) else { return UNKNOWN };
        let Some(found) = self.pending.iter().position(|(each, _)| *each == id) else { return UNKNOWN };
        self.pending.drain(..=found).next_back().map_or(UNKNOWN, |(_, api)| api)
    }

    /// Return the records of frames, and their number.
    ///
    /// `data`: buffers with complete frames with their length prefixes. `start`: attributes and timestamp of each record.
    /// `key`: the key with its size. `headers`: number of headers, and all headers before the last two. `first`: offset of
    /// the first record from the beginning of its batch. Error: ValueError if the last frame is incomplete.
    #[pyo3(signature = (to_broker, data, start, key, headers, first, /))]
    #[allow(clippy::too_many_arguments)]
    fn records<'py>(
        &mut self,
        py: Python<'py>,
        to_broker: bool,
        data: Vec<Bound<'py, PyBytes>>,
        start: &[u8],
        key: &[u8],
        headers: &[u8],
        first: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let pieces: Vec<&[u8]> = data.iter().map(|piece| piece.as_bytes()).collect();
        let mut stream = Stream::new(&pieces);
        let mut planned: Vec<Planned> = Vec::new();
        let mut apis: Vec<((i16, i16), Vec<u8>)> = Vec::new();
        let mut total = 0;
        while let Some(frame) = stream.size()? {
            let (mut head, mut known) = ([0; HEAD], 0);
            stream.each(frame, |part| {
                let more = part.len().min(HEAD - known);
                head[known..known + more].copy_from_slice(&part[..more]);
                known += more;
            })?;
            let api = self.api(to_broker, &head[..known]);
            if apis.last().is_none_or(|(each, _)| *each != api) {
                apis.push((api, api_headers(api)));
            }
            let offset = first + planned.len();
            let record = start.len()
                + size_of_varint(offset)
                + key.len()
                + size_of_varint(frame)
                + frame
                + headers.len()
                + apis[apis.len() - 1].1.len();
            total += size_of_varint(record) + record;
            planned.push(Planned { frame, record, api: apis.len() - 1 });
        }
        let records = PyBytes::new_with(py, total, |memory| {
            let mut out = Out { memory, at: 0 };
            let mut stream = Stream::new(&pieces);
            for (number, each) in planned.iter().enumerate() {
                out.varint(each.record);
                out.put(start);
                out.varint(first + number);
                out.put(key);
                out.varint(each.frame);
                stream.size()?;
                stream.each(each.frame, |part| out.put(part))?;
                out.put(headers);
                out.put(&apis[each.api].1);
            }
            Ok(())
        })?;
        Ok((records, planned.len()))
    }
}

/// Return the headers with the API key and the version.
fn api_headers((key, version): (i16, i16)) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number) in [(API_KEY, key), (API_VERSION, version)] {
        let text = number.to_string();
        out.extend_from_slice(name);
        out.push(2 * text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// Return the size of a number that is not negative, as a varint of a record.
#[inline]
fn size_of_varint(number: usize) -> usize {
    (usize::BITS - (number << 1 | 1).leading_zeros()).div_ceil(7) as usize
}

/// Memory that is filled from the beginning.
struct Out<'a> {
    memory: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    #[inline]
    fn put(&mut self, data: &[u8]) {
        self.memory[self.at..][..data.len()].copy_from_slice(data);
        self.at += data.len();
    }

    #[inline]
    fn varint(&mut self, number: usize) {
        let mut rest = number << 1;
        while rest > 0x7F {
            self.put(&[rest as u8 | 0x80]);
            rest >>= 7;
        }
        self.put(&[rest as u8]);
    }
}
