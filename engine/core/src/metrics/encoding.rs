//! Histograms as text: the "V2 compressed" encoding that all HdrHistogram tools read, in base64.
//!
//! The format (HdrHistogram's `AbstractHistogram.java`): cookie, length, then a zlib stream of the
//! plain V2 encoding, which is a 40-byte header and zigzag LEB128 counts. What is read comes from
//! files of other runs, so it is checked before the crate, which trusts lengths, sees it.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::Histogram;
use super::histogram::{HIGHEST_NS, Hdr, LOWEST_NS, SIGNIFICANT_DIGITS};

/// First word of the compressed encoding.
const COMPRESSED_COOKIE: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
/// First word of the plain encoding inside.
const PLAIN_COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
/// Cookie and length, before the zlib stream.
const COMPRESSED_HEADER_BYTES: usize = 8;
/// Cookie, length, offset, digits, lowest, highest, ratio; before the counts.
const PLAIN_HEADER_BYTES: usize = 40;
/// Longest plain encoding of a histogram with our bounds: 24,576 counts of at most 9 bytes.
const PLAIN_BYTES_MAX: usize = PLAIN_HEADER_BYTES + 9 * 24_576;

/// Why a text is not one of our histograms.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HistogramDecodeError {
    /// Not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Base64 of something else, or damaged.
    #[error("the histogram is not in HdrHistogram's V2 compressed encoding: {0}")]
    Format(String),
    /// A histogram of other bounds: merging it would not be exact.
    #[error(
        "the histogram covers {lowest_ns}..{highest_ns} ns at {digits} digits, not {}..{} at {}",
        LOWEST_NS,
        HIGHEST_NS,
        SIGNIFICANT_DIGITS
    )]
    Bounds {
        /// Its lowest value told apart from zero.
        lowest_ns: u64,
        /// Its highest value.
        highest_ns: u64,
        /// Its significant digits.
        digits: u32,
    },
}

impl Histogram {
    /// The counts as base64 of HdrHistogram's V2 compressed encoding. The exact sum and the exact
    /// maximum are not part of it: store [`Histogram::sum_ns`] and [`Histogram::max_ns`] beside it.
    pub fn to_base64_v2(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.to_hdr(), &mut bytes)
            .expect("a Vec takes every write, and no count reaches 2^63");
        STANDARD.encode(bytes)
    }

    /// The histogram that [`Histogram::to_base64_v2`] wrote, with the sum stored beside it.
    ///
    /// # Errors
    /// If the text is not such an encoding, or is one with other bounds than ours.
    pub fn from_base64_v2(text: &str, sum_ns: u128) -> Result<Histogram, HistogramDecodeError> {
        let plain = inflate(&STANDARD.decode(text)?)?;
        check_plain(&plain)?;
        let inner: Hdr = Deserializer::new()
            .deserialize(&mut plain.as_slice())
            .map_err(|error| HistogramDecodeError::Format(error.to_string()))?;
        Ok(Histogram::from_hdr(&inner, sum_ns))
    }
}

fn format_error(what: &str) -> HistogramDecodeError {
    HistogramDecodeError::Format(what.into())
}

/// The plain encoding inside the compressed one; never more memory than a true one needs.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, HistogramDecodeError> {
    let (header, stream) = bytes
        .split_first_chunk::<COMPRESSED_HEADER_BYTES>()
        .ok_or_else(|| format_error("shorter than its header"))?;
    if header[..4] != COMPRESSED_COOKIE {
        return Err(format_error("another cookie"));
    }
    if be_u32(&header[4..]) as usize != stream.len() {
        return Err(format_error("a length that is not its length"));
    }
    let mut plain = Vec::new();
    // One byte more than allowed, to tell a full one from one that goes on.
    ZlibDecoder::new(stream)
        .take(PLAIN_BYTES_MAX as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|error| HistogramDecodeError::Format(error.to_string()))?;
    if plain.len() > PLAIN_BYTES_MAX {
        return Err(format_error("more counts than our bounds have"));
    }
    Ok(plain)
}

/// Whether the header is one of ours, and the counts are safe to give to the crate.
fn check_plain(plain: &[u8]) -> Result<(), HistogramDecodeError> {
    let (header, counts) = plain
        .split_first_chunk::<PLAIN_HEADER_BYTES>()
        .ok_or_else(|| format_error("counts shorter than their header"))?;
    if header[..4] != PLAIN_COOKIE {
        return Err(format_error("another cookie inside"));
    }
    if be_u32(&header[4..8]) as usize != counts.len() {
        return Err(format_error("a length inside that is not its length"));
    }
    let digits = be_u32(&header[12..16]);
    let (lowest_ns, highest_ns) = (be_u64(&header[16..24]), be_u64(&header[24..32]));
    let ours = (LOWEST_NS, HIGHEST_NS, u32::from(SIGNIFICANT_DIGITS));
    if (lowest_ns, highest_ns, digits) != ours {
        return Err(HistogramDecodeError::Bounds { lowest_ns, highest_ns, digits });
    }
    // Nine bytes of ones are the zigzag of i64::MIN, which the crate negates without looking.
    if counts.windows(9).any(|window| window == [0xff; 9]) {
        return Err(format_error("a count out of range"));
    }
    Ok(())
}

fn be_u32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn be_u64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
