//! Encoding into a buffer of the caller; nothing is allocated.

use crate::SegmentId;
use crate::{
    HEADER_BYTES, MAGIC, PAYLOAD_BYTES_MAX, RECORD_HEAD, RECORD_OVERHEAD, VERSION, Writer,
};

/// The record does not fit into the buffer, or is longer than the format
/// allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {payload} payload bytes does not fit")]
pub struct TooLong {
    /// Bytes of the record's payload.
    pub payload: usize,
}

/// Position of a writer, from which the next record continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoder {
    /// Chain value after the last record.
    pub chain: u32,
    /// Sequence number of the next record, from 0.
    pub sequence: u32,
}

/// Encodes a header; the encoder stands behind it.
#[expect(clippy::too_many_arguments, reason = "one per field, called twice")]
pub fn encode_header(
    out: &mut [u8; HEADER_BYTES],
    writer: Writer,
    segment: SegmentId,
    token: &[u8; 16],
    incarnation: u32,
    boot_id: &[u8; 16],
    wall_ns: i64,
    mono_ns: u64,
) -> Encoder {
    out.fill(0);
    out[0..8].copy_from_slice(MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    out[10] = writer.byte();
    out[12..16].copy_from_slice(&incarnation.to_le_bytes());
    out[16..24].copy_from_slice(&segment.0);
    out[24..40].copy_from_slice(token);
    out[40..56].copy_from_slice(boot_id);
    out[56..64].copy_from_slice(&wall_ns.to_le_bytes());
    out[64..72].copy_from_slice(&mono_ns.to_le_bytes());
    let chain = crc32c::crc32c(&out[..HEADER_BYTES - 4]);
    out[HEADER_BYTES - 4..].copy_from_slice(&chain.to_le_bytes());
    Encoder { chain, sequence: 0 }
}

impl Encoder {
    /// Encodes one record into `out`; `fill` writes its payload and returns the
    /// payload's length. Returns the record's length and moves the encoder
    /// behind the record.
    ///
    /// # Errors
    /// When the record does not fit; the encoder does not move.
    pub fn record(
        &mut self,
        out: &mut [u8],
        kind: i32,
        wall_ns: i64,
        mono_ns: u64,
        payload: &impl prost::Message,
    ) -> Result<usize, TooLong> {
        let length = payload.encoded_len();
        let refuse = TooLong { payload: length };
        let total = length + RECORD_OVERHEAD;
        if length > PAYLOAD_BYTES_MAX || total > out.len() {
            return Err(refuse);
        }
        let kind = u16::try_from(kind).map_err(|_| refuse)?;
        out[0..4].copy_from_slice(&(length as u32).to_le_bytes());
        out[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        out[8..10].copy_from_slice(&kind.to_le_bytes());
        out[10..12].fill(0);
        out[12..20].copy_from_slice(&mono_ns.to_le_bytes());
        out[20..28].copy_from_slice(&wall_ns.to_le_bytes());
        payload
            .encode(&mut &mut out[RECORD_HEAD..RECORD_HEAD + length])
            .map_err(|_| refuse)?;
        let crc = crc32c::crc32c_append(self.chain, &out[..RECORD_HEAD + length]);
        out[RECORD_HEAD + length..total].copy_from_slice(&crc.to_le_bytes());
        self.chain = crc;
        self.sequence = self.sequence.wrapping_add(1);
        Ok(total)
    }
}
