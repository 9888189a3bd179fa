//! Decompression of records, for the usual forms of each codec, and compression with zstd.
//!
//! All other forms, and all invalid data, are left to `kwire.records.compression`: `Tools::decompress` returns None. So
//! each rule about invalid data exists once, in Python. Each codec here uses the same library as Python, or a library
//! that accepts the same data. Data with bytes after the end of its form is left to Python, and the size of a result is
//! limited before its memory is allocated.

use std::cell::Cell;

use flate2::{Crc, Decompress, FlushDecompress, Status};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use xxhash_rust::xxh32::xxh32;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

const GZIP: i64 = 1; // codecs in the attributes of a batch
const SNAPPY: i64 = 2;
const LZ4: i64 = 3;
const ZSTD: i64 = 4;

const GZIP_HEADER: usize = 10; // bytes
const GZIP_TRAILER: usize = 8;
const GZIP_RATIO: usize = 1_032; // largest ratio of DEFLATE
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER: usize = 16;
const SNAPPY_RATIO: usize = 22; // more than the largest ratio: a copy of 64 bytes takes 3 bytes
const LZ4_MAGIC: &[u8] = b"\x04\x22\x4d\x18";
const LZ4_RATIO: usize = 255; // a byte of a length adds up to 255 bytes
const LZ4_SPARE: usize = 64; // more than the bytes that a token adds
const LZ4_STORED: u32 = 1 << 31; // bit of a block's size: the block is not compressed
const ZSTD_MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";
const ZSTD_BLOCK: u64 = 1 << 17; // largest block
const ZSTD_WINDOW: u64 = 1 << 23; // largest window that every decoder must accept
const ZSTD_WRITTEN: usize = 1 << 17; // bytes up to which cramjam writes the same frame: it writes larger data in pieces
const KEPT: usize = 1 << 20; // bytes of the largest buffer that a thread keeps
const FREE_OF_GIL: usize = 1 << 15; // compressed bytes from which on other threads may run during decompression

/// The buffer, the decompressors and the compressor of a thread.
#[derive(Default)]
pub struct Tools {
    buffer: Vec<u8>,
    zstd: Option<Decompressor<'static>>,
    compressor: Option<Compressor<'static>>,
    inflater: Option<Decompress>,
}

thread_local! {
    static TOOLS: Cell<Option<Tools>> = const { Cell::new(None) };
}

/// A result in the buffer of a thread. The tools go back to the thread with `give_back`.
pub struct Output {
    tools: Tools,
    size: usize,
}

impl Output {
    /// Return the bytes of the result.
    pub fn bytes(&self) -> &[u8] {
        &self.tools.buffer[..self.size]
    }

    /// Keep the tools for the next call of this thread.
    pub fn give_back(mut self) {
        if self.tools.buffer.len() > KEPT {
            self.tools.buffer = Vec::new();
        }
        TOOLS.set(Some(self.tools));
    }

    /// Keep the tools, but not the buffer: return it with the size of the result. The buffer goes back with `reuse`.
    pub fn into_buffer(mut self) -> (Vec<u8>, usize) {
        let buffer = std::mem::take(&mut self.tools.buffer);
        TOOLS.set(Some(self.tools));
        (buffer, self.size)
    }
}

/// Keep a buffer for the next call of this thread, unless the thread has one.
pub fn reuse(buffer: Vec<u8>) {
    let _ = TOOLS.try_with(|kept| {
        let mut tools = kept.take().unwrap_or_default();
        if tools.buffer.is_empty() && buffer.len() <= KEPT {
            tools.buffer = buffer;
        }
        kept.set(Some(tools));
    }); // at the end of a thread, nothing is kept
}

/// Return decompressed data; None if it is left to Python.
///
/// `limit`: largest size of the result, in bytes.
pub fn decompressed(py: Python<'_>, codec: i64, data: &[u8], limit: usize) -> Option<Output> {
    output(py, data, |tools| tools.decompress(codec, data, limit))
}

/// Call `work` with the tools of the thread. `work` writes to the buffer and returns the size of the result; None if it
/// returns None.
fn output(py: Python<'_>, data: &[u8], work: impl FnOnce(&mut Tools) -> Option<usize> + Send) -> Option<Output> {
    let mut tools = TOOLS.take().unwrap_or_default(); // taken: Python code may run before they are given back
    let size = if data.len() < FREE_OF_GIL { work(&mut tools) } else { py.detach(|| work(&mut tools)) };
    match size {
        Some(size) => Some(Output { tools, size }),
        None => {
            Output { tools, size: 0 }.give_back();
            None
        }
    }
}

/// Return the decompressed records of a batch; None if they are left to Python.
///
/// `limit`: largest size of the result, in bytes.
#[pyfunction]
#[pyo3(signature = (codec, data, limit, /))]
pub fn decompress<'py>(codec: i64, data: &Bound<'py, PyBytes>, limit: usize) -> Option<Bound<'py, PyBytes>> {
    let plain = decompressed(data.py(), codec, data.as_bytes(), limit)?;
    let result = PyBytes::new(data.py(), plain.bytes());
    plain.give_back();
    Some(result)
}

/// Return data as a zstd frame of the default level; None if it is left to Python.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub fn zstd_frame<'py>(data: &Bound<'py, PyBytes>) -> Option<Bound<'py, PyBytes>> {
    let bytes = data.as_bytes();
    let frame = output(data.py(), bytes, |tools| tools.zstd_frame(bytes))?;
    let result = PyBytes::new(data.py(), frame.bytes());
    frame.give_back();
    Some(result)
}

impl Tools {
    /// Decompress data to the beginning of the buffer, and return the size of the result; None if it is left to Python.
    fn decompress(&mut self, codec: i64, data: &[u8], limit: usize) -> Option<usize> {
        match codec {
            GZIP => self.gunzip(data, limit),
            SNAPPY => self.unsnappy(data, limit),
            LZ4 => self.unlz4(data, limit),
            ZSTD => self.unzstd(data, limit),
            _ => None,
        }
    }

    /// Return `size` bytes of the buffer from the offset `at` on; the buffer grows if necessary.
    fn room(&mut self, at: usize, size: usize) -> &mut [u8] {
        if self.buffer.len() < size && at == 0 {
            self.buffer = vec![0; size]; // pages that are never written take no time
        } else if self.buffer.len() < at + size {
            self.buffer.resize(at + size, 0);
        }
        &mut self.buffer[at..at + size]
    }

    /// Decompress one gzip member without optional fields in its header.
    fn gunzip(&mut self, data: &[u8], limit: usize) -> Option<usize> {
        let (head, rest) = data.split_first_chunk::<GZIP_HEADER>()?;
        let (body, trailer) = rest.split_last_chunk::<GZIP_TRAILER>()?;
        if head[..4] != [0x1F, 0x8B, 8, 0] {
            return None;
        }
        let [a, b, c, d, sizes @ ..] = *trailer;
        let size = usize::try_from(u32::from_le_bytes(sizes)).ok()?;
        if size > limit || size > body.len() * GZIP_RATIO {
            return None;
        }
        self.room(0, size);
        let Tools { buffer, inflater, .. } = self;
        let inflater = inflater.get_or_insert_with(|| Decompress::new(false));
        inflater.reset(false);
        let status = inflater.decompress(body, &mut buffer[..size], FlushDecompress::Finish).ok()?;
        let is_whole = inflater.total_in() == body.len() as u64 && inflater.total_out() == size as u64;
        if !matches!(status, Status::StreamEnd) || !is_whole {
            return None;
        }
        let mut crc = Crc::new();
        crc.update(&buffer[..size]);
        (crc.sum() == u32::from_le_bytes([a, b, c, d])).then_some(size)
    }

    /// Decompress the framing of snappy-java, or one raw block.
    fn unsnappy(&mut self, data: &[u8], limit: usize) -> Option<usize> {
        if !data.starts_with(XERIAL_MAGIC) {
            return self.unsnappy_block(data, 0, limit);
        }
        let (mut rest, mut size) = (data, 0);
        while !rest.is_empty() {
            if rest.starts_with(XERIAL_MAGIC) {
                rest = rest.get(XERIAL_HEADER..)?;
                continue;
            }
            let (length, after) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
            let (block, after) = after.split_at_checked(length)?;
            size += self.unsnappy_block(block, size, limit - size)?;
            rest = after;
        }
        Some(size)
    }

    fn unsnappy_block(&mut self, block: &[u8], at: usize, limit: usize) -> Option<usize> {
        let size = snap::raw::decompress_len(block).ok()?;
        if size > limit || size > block.len() * SNAPPY_RATIO {
            return None;
        }
        snap::raw::Decoder::new().decompress(block, self.room(at, size)).ok()
    }

    /// Decompress one lz4 frame of independent blocks.
    fn unlz4(&mut self, data: &[u8], limit: usize) -> Option<usize> {
        let head = data.strip_prefix(LZ4_MAGIC)?;
        let [flags, blocks, ..] = *head else { return None };
        if flags & 0b1110_0011 != 0b0110_0000 || blocks & 0b1000_1111 != 0 || blocks >> 4 < 4 {
            return None; // another version, dependent blocks, a dictionary, or reserved bits
        }
        let largest = 1 << (8 + 2 * (blocks >> 4)); // bytes of a block
        let (has_block_checksums, has_size, has_checksum) = (flags & 16 != 0, flags & 8 != 0, flags & 4 != 0);
        let (descriptor, rest) = head.split_at_checked(if has_size { 10 } else { 2 })?;
        let (checksum, mut rest) = rest.split_first()?;
        if (xxh32(descriptor, 0) >> 8) as u8 != *checksum {
            return None;
        }
        let mut size = 0;
        loop {
            let (word, after) = rest.split_first_chunk::<4>()?;
            let word = u32::from_le_bytes(*word);
            if word == 0 {
                rest = after;
                break;
            }
            let length = (word & !LZ4_STORED) as usize;
            let (block, after) = after.split_at_checked(length)?;
            if length > largest {
                return None;
            }
            rest = if has_block_checksums { after_checksum(block, after)? } else { after };
            size += if word & LZ4_STORED != 0 {
                if length > limit - size {
                    return None;
                }
                self.room(size, length).copy_from_slice(block);
                length
            } else {
                let room = largest.min(length * LZ4_RATIO + LZ4_SPARE);
                let out = self.room(size, room);
                let count = lz4::block::decompress_to_buffer(block, Some(room as i32), out).ok()?;
                if count > limit - size {
                    return None;
                }
                count
            };
        }
        if has_size && descriptor[2..] != (size as u64).to_le_bytes() {
            return None;
        }
        if has_checksum {
            rest = after_checksum(&self.buffer[..size], rest)?;
        }
        rest.is_empty().then_some(size)
    }

    /// Decompress one zstd frame without a dictionary, with a window of at most `ZSTD_WINDOW` bytes.
    fn unzstd(&mut self, data: &[u8], limit: usize) -> Option<usize> {
        let (window, room) = zstd_sizes(data)?;
        let room = usize::try_from(room).ok().filter(|room| *room <= limit)?;
        self.room(0, room);
        let Tools { buffer, zstd, .. } = self;
        if zstd.is_none() {
            *zstd = Some(Decompressor::new().ok()?);
        }
        let size = zstd.as_mut()?.decompress_to_buffer(data, &mut buffer[..room]).ok()?;
        // In more data than the window, a copy from before the window is invalid, which only Python would find.
        window.is_none_or(|window| size as u64 <= window).then_some(size)
    }

    fn zstd_frame(&mut self, data: &[u8]) -> Option<usize> {
        if data.len() > ZSTD_WRITTEN {
            return None;
        }
        let room = compress_bound(data.len());
        self.room(0, room);
        let Tools { buffer, compressor, .. } = self;
        if compressor.is_none() {
            *compressor = Some(Compressor::new(0).ok()?);
        }
        compressor.as_mut()?.compress_to_buffer(data, &mut buffer[..room]).ok()
    }
}

/// Return the bytes after the lz4 checksum at the beginning of `rest`; None if the checksum is not that of `data`.
fn after_checksum<'a>(data: &[u8], rest: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, after) = rest.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*sum) == xxh32(data, 0)).then_some(after)
}

/// Return the window of the only frame in the data, and the largest size that its blocks can have; None if the data is
/// left to Python. A frame of a single segment has no window. Source: RFC 8878, section 3.1.1.
fn zstd_sizes(data: &[u8]) -> Option<(Option<u64>, u64)> {
    let (descriptor, mut rest) = data.strip_prefix(ZSTD_MAGIC)?.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    if descriptor & 0b0001_1011 != 0 {
        return None; // unused bits, or a dictionary
    }
    let mut window = None;
    if !is_single {
        let (byte, after) = rest.split_first()?;
        let size = u64::from(8 + (byte & 7)) << ((byte >> 3) + 7);
        if size > ZSTD_WINDOW {
            return None;
        }
        (window, rest) = (Some(size), after);
    }
    let (claim, mut rest) = rest.split_at_checked(match descriptor >> 6 {
        0 => usize::from(is_single),
        1 => 2,
        2 => 4,
        _ => 8,
    })?;
    let claimed = claim.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte));
    let claimed = if claim.len() == 2 { claimed + 256 } else { claimed };
    let largest = window.unwrap_or(claimed).min(ZSTD_BLOCK);
    let mut room: u64 = 0;
    loop {
        let ([a, b, c], after) = rest.split_first_chunk::<3>()?;
        let block = u32::from_le_bytes([*a, *b, *c, 0]);
        let size = block >> 3;
        let (length, produced) = match block >> 1 & 3 {
            0 => (size as usize, u64::from(size)),
            1 => (1, u64::from(size)),
            2 => (size as usize, largest),
            _ => return None,
        };
        if produced > largest {
            return None; // the library checks this only in some cases
        }
        room += produced;
        rest = after.get(length..)?;
        if block & 1 != 0 {
            break;
        }
    }
    let checksum = if descriptor & 4 != 0 { 4 } else { 0 };
    if rest.len() != checksum || (!claim.is_empty() && claimed > room) {
        return None;
    }
    Some((window, if claim.is_empty() { room } else { claimed }))
}
