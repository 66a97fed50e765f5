//! Several full segments in one frame, for links that cut it themselves or carry it whole
//! (segmentation offload): their headers are written once, and they pass the link as one.
//!
//! A GSO frame counts as one segment in the counters of segments; all else (windows, pacing, the
//! log of the flight) goes by its bytes.

use ring::stream::Pieces;
use wire::frame::{FrameSink, HEADERS};
use wire::tcp::TcpHeader;

use crate::ip::Net;
use crate::tcp::frame::write_frame;
use crate::tcp::send::Plan;
use crate::tcp::target::Target;

/// Writes as much of a GSO frame as the frame that `sink` lends holds; its length in bytes, `None`
/// if there was no frame. `plan` says afterwards what went.
pub(crate) fn send_gso(
    sink: &mut impl FrameSink,
    net: &Net,
    target: &Target<'_>,
    header: &mut TcpHeader,
    plan: &mut Plan,
    payload: Pieces<'_>,
) -> Option<usize> {
    let mut written = 0;
    let sent = sink.send_gso(HEADERS + plan.len as usize, |frame| {
        let flags = plan.flags;
        plan.fit(frame.len());
        header.flags.remove(flags.difference(plan.flags));
        let payload = payload.truncated(plan.len as usize);
        let mut meta = write_frame(frame, net, target, header, payload);
        if plan.segments() > 1 {
            meta.segment = plan.cut;
        }
        written = meta.len;
        meta
    });
    sent.then_some(written)
}
