//! Hex digits, written with the widest instructions of the processor.

use std::cell::Cell;

use crate::raw;

const BLOCK: usize = 32; // bytes that are converted at once
const SMALL_BLOCK: usize = 8; // the same for data of less than BLOCK bytes

/// Write two digits for each byte. `place`: memory of exactly this size.
#[inline]
pub fn hex(data: &[u8], place: &[Cell<u8>]) {
    raw::vectorized(
        #[inline(always)]
        || convert(data, place),
    );
}

#[inline(always)]
fn convert(data: &[u8], place: &[Cell<u8>]) {
    match data.len() {
        0..SMALL_BLOCK => convert_each(data, place),
        SMALL_BLOCK..BLOCK => convert_blocks::<SMALL_BLOCK>(data, place),
        _ => convert_blocks::<BLOCK>(data, place),
    }
}

/// Convert blocks of `N` bytes. The last block ends with the data, so it may overlap the block before it: this is faster
/// than single bytes.
#[inline(always)]
fn convert_blocks<const N: usize>(data: &[u8], place: &[Cell<u8>]) {
    data.chunks_exact(N).zip(place.chunks_exact(2 * N)).for_each(|(block, digits)| convert_each(block, digits));
    let last = data.len() - N;
    convert_each(&data[last..][..N], &place[2 * last..][..2 * N]);
}

#[inline(always)]
fn convert_each(data: &[u8], place: &[Cell<u8>]) {
    for (byte, pair) in data.iter().zip(place.chunks_exact(2)) {
        pair[0].set(digit(byte >> 4));
        pair[1].set(digit(byte & 15));
    }
}

/// Return a digit. The comparison has no branch, so the compiler makes vector instructions of a loop.
#[inline(always)]
fn digit(number: u8) -> u8 {
    number + b'0' + if number > 9 { b'a' - b'9' - 1 } else { 0 }
}
