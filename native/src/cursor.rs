//! The position in the bytes of a message, with the checks that all walkers share.

use crate::refusal::{Kind, Refusal, Result};

const MAX_TEXT: i64 = 32_767; // bytes of a string
const MAX_VARINT: u64 = (1 << 31) - 1;

/// The position in the bytes of a message, and the memory that the decoded message may still take, in bytes.
pub struct Cursor<'a> {
    /// The bytes of the message.
    pub data: &'a [u8],
    /// Offset of the next byte to read.
    pub pos: usize,
    left: i64,
}

impl<'a> Cursor<'a> {
    /// Start at offset `pos` of the data, which is inside the data or its end.
    pub fn new(data: &'a [u8], pos: usize, left: i64) -> Self {
        Cursor { data, pos, left }
    }

    /// Return the next `size` bytes.
    #[inline]
    pub fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let end = self.pos.wrapping_add(size);
        match self.data.get(self.pos..end) {
            Some(part) => {
                self.pos = end;
                Ok(part)
            }
            None => Err(Refusal::Data(Kind::Truncated)),
        }
    }

    /// Return the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.data.get(self.pos..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(part) => {
                self.pos += N;
                Ok(*part)
            }
            None => Err(Refusal::Data(Kind::Truncated)),
        }
    }

    /// Return the next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Read an unsigned varint.
    #[inline]
    pub fn varint(&mut self) -> Result<u32> {
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
    pub fn length(&mut self, compact: bool, null: bool, text: bool) -> Result<Option<usize>> {
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

    /// Read the bytes of a string or bytes field; `None` is null.
    #[inline]
    pub fn content(&mut self, compact: bool, null: bool, text: bool) -> Result<Option<&'a [u8]>> {
        match self.length(compact, null, text)? {
            Some(size) => Ok(Some(self.take(size)?)),
            None => Ok(None),
        }
    }

    /// Read the count of an array; `None` is null. The elements must fit into the data and the memory.
    ///
    /// `smallest`: size of the shortest element, in bytes. `weight`: memory of an element, in bytes.
    #[inline]
    pub fn count(&mut self, compact: bool, null: bool, smallest: usize, weight: i64) -> Result<Option<usize>> {
        let Some(count) = self.length(compact, null, false)? else { return Ok(None) };
        if count.saturating_mul(smallest) > self.data.len() - self.pos {
            return Err(Refusal::Data(Kind::Invalid));
        }
        self.spend((count as i64).saturating_mul(weight))?;
        Ok(Some(count))
    }

    /// Read whether a nullable struct is present. `weight`: memory of the struct, in bytes.
    #[inline]
    pub fn present(&mut self, tagged: bool, weight: i64) -> Result<bool> {
        let present = if tagged { self.varint()? > 0 } else { self.byte()? < 0x80 };
        if present {
            self.spend(weight)?;
        }
        Ok(present)
    }

    /// Check the number of fields in a tagged section: each takes at least two bytes.
    pub fn check_tags(&self, count: u32) -> Result<()> {
        if (count as usize).saturating_mul(2) > self.data.len() - self.pos {
            return Err(Refusal::Data(Kind::Invalid));
        }
        Ok(())
    }

    /// Read the tag and the size of a field in a tagged section; return the tag and the offset after the field.
    pub fn tag(&mut self) -> Result<(u32, usize)> {
        let tag = self.varint()?;
        let size = self.varint()? as usize;
        let end = self.pos + size;
        if end > self.data.len() { Err(Refusal::Data(Kind::Truncated)) } else { Ok((tag, end)) }
    }

    /// Refuse a field of a tagged section whose value did not end at the end of the field.
    pub fn expect(&self, end: usize) -> Result<()> {
        if self.pos == end { Ok(()) } else { Err(Refusal::Data(Kind::Invalid)) }
    }

    /// Subtract memory that the decoded message takes, in bytes.
    #[inline]
    pub fn spend(&mut self, weight: i64) -> Result<()> {
        self.left -= weight;
        if self.left < 0 { Err(Refusal::Data(Kind::TooHeavy)) } else { Ok(()) }
    }
}
