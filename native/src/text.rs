//! The text of JSON values, the same as that of Python's module json: ASCII, with escapes.

const DIGITS: &[u8; 16] = b"0123456789abcdef";
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Append an integer.
#[inline]
pub fn int(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let (mut at, mut left) = (digits.len(), value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Append a number with leading zeros.
pub fn padded(out: &mut Vec<u8>, value: i64, width: usize) {
    let begin = out.len();
    out.resize(begin + width, b'0');
    let mut left = value.unsigned_abs();
    for place in out[begin..].iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

/// Append a string. Bytes that are not UTF-8 become the surrogates of Python's error handler `surrogateescape`.
pub fn string(out: &mut Vec<u8>, data: &[u8]) {
    out.push(b'"');
    let plain = data.iter().take_while(|byte| is_plain(**byte)).count();
    out.extend_from_slice(&data[..plain]);
    for chunk in data[plain..].utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' | '\\' => out.extend_from_slice(&[b'\\', letter as u8]),
                ' '..='~' => out.push(letter as u8),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\x08' => out.extend_from_slice(b"\\b"),
                '\x0c' => out.extend_from_slice(b"\\f"),
                _ => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escape(out, *unit)),
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(out, 0xDC00 | u16::from(*byte)));
    }
    out.push(b'"');
}

#[inline]
fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}

fn escape(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(b"\\u");
    [12, 8, 4, 0].iter().for_each(|shift| out.push(DIGITS[usize::from(unit >> shift & 15)]));
}

/// Append bytes as base64, in quotes.
pub fn base64(out: &mut Vec<u8>, data: &[u8]) {
    out.reserve(data.len().div_ceil(3) * 4 + 2);
    out.push(b'"');
    let rest = groups(out, data, STANDARD);
    if rest > 0 {
        out.extend_from_slice(&b"=="[..3 - rest]);
    }
    out.push(b'"');
}

/// Append a UUID in Kafka's form: base64 for URLs, without padding, in quotes.
pub fn uuid(out: &mut Vec<u8>, data: &[u8; 16]) {
    out.push(b'"');
    groups(out, data, URL);
    out.push(b'"');
}

/// Append the digits of base64, without padding; return how many bytes the last, incomplete group has.
fn groups(out: &mut Vec<u8>, data: &[u8], alphabet: &[u8; 64]) -> usize {
    let digit = |bits: u32| alphabet[(bits & 63) as usize];
    let mut whole = data.chunks_exact(3);
    for group in &mut whole {
        let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        out.extend_from_slice(&[digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), digit(bits)]);
    }
    match whole.remainder() {
        [a] => out.extend_from_slice(&[digit(u32::from(*a) >> 2), digit(u32::from(*a) << 4)]),
        [a, b] => {
            let bits = u32::from(*a) << 8 | u32::from(*b);
            out.extend_from_slice(&[digit(bits >> 10), digit(bits >> 4), digit(bits << 2)]);
        }
        _ => {}
    }
    whole.remainder().len()
}

// Microseconds since 1970 of the first and the last second that Python's datetime has, as in `kwire.capture.rows`.
const FIRST: i64 = -62_135_596_800_000_000;
const LAST: i64 = 253_402_300_799_000_000;

/// Append a time in UTC, such as "2026-01-31T12:00:00.000001Z" in quotes; return false for a time that Python lacks.
///
/// `time`: microseconds since 1970.
pub fn time(out: &mut Vec<u8>, time: i64) -> bool {
    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 86_400;
    if !(FIRST..=LAST).contains(&time) {
        return false;
    }
    let (seconds, part) = (time.div_euclid(SECOND), time.rem_euclid(SECOND));
    // days since March 1 of the year 0, in eras of 400 years (Howard Hinnant, chrono-compatible date algorithms)
    let (days, second) = (seconds.div_euclid(DAY) + 719_468, seconds.rem_euclid(DAY));
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    out.push(b'"');
    let parts = [(year, 4, b'-'), (month, 2, b'-'), (day, 2, b'T'), (second / 3_600, 2, b':')];
    for (value, width, then) in parts.into_iter().chain([(second / 60 % 60, 2, b':'), (second % 60, 2, b'.')]) {
        padded(out, value, width);
        out.push(then);
    }
    padded(out, part, 6);
    out.extend_from_slice(b"Z\"");
    true
}
