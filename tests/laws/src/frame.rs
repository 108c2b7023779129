//! Files of one message: as they were written, or refused.

use nero_journal::frame::{FrameKind, decode, encode};
use nero_journal::v1::{GpuPage, HostSeen, Lease, Notice, Plan};
use prost::Message;

use crate::Choices;

pub fn law(bytes: &[u8]) {
    law_of::<Lease>(FrameKind::Lease, bytes);
    law_of::<HostSeen>(FrameKind::HostSeen, bytes);
    law_of::<Plan>(FrameKind::Plan, bytes);
    law_of::<GpuPage>(FrameKind::GpuPage, bytes);
    let mut choices = Choices(bytes);
    let notice = Notice::of(String::from_utf8_lossy(choices.bytes(200)));
    let whole = encode(FrameKind::Spec, &notice);
    let mut changed = whole.clone();
    for _ in 0..choices.below(4) {
        let bit = choices.below(changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
    }
    changed.truncate(choices.below(changed.len() + 1));
    match decode::<Notice>(FrameKind::Spec, &changed) {
        Ok(read) => assert!(changed == whole && read == notice, "a message is invented"),
        Err(_) => assert!(changed != whole, "a whole file is refused"),
    }
}

/// A message of foreign bytes is read, written and read again alike.
fn law_of<M: Message + Default + PartialEq>(kind: FrameKind, bytes: &[u8]) {
    let Ok(message) = decode::<M>(kind, bytes).or_else(|_| M::decode(bytes)) else {
        return;
    };
    let again = encode(kind, &message);
    let read: M = decode(kind, &again).expect("what was written is read");
    assert!(encode(kind, &read) == again, "it is read otherwise");
}
