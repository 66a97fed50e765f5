//! Several full segments in one frame, for links that cut it themselves or carry it whole
//! (segmentation offload): their headers are written once, and they pass the link as one.
//!
//! A GSO frame counts as one segment in the counters of segments; all else (windows, pacing, the
//! log of the flight) goes by its bytes.

use std::time::Duration;

use wire::frame::{FrameSink, HEADERS};
use wire::tcp::{TcpFlags, TcpHeader};

use crate::ip::Net;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::frame::write_frame;
use crate::tcp::plan::{Kind, Plan};
use crate::tcp::target::Target;

/// What makes each segment matter by itself.
const UNFIT: Flags = Flags::SACKED
    .union(Flags::RECOVERY)
    .union(Flags::LOSS)
    .union(Flags::HOLES)
    .union(Flags::DUPLICATE);
/// Of a paced connection, a GSO frame holds what may leave in this time, as on Linux: more at once
/// would be the burst that pacing prevents.
const PACED: Duration = Duration::from_millis(1);

impl Conn<'_> {
    /// As many segments like `plan`, a full one of new data, as may go together with it: of
    /// `available` bytes of data that the peer's window has `usable` bytes of room for.
    pub fn plan_gso(&self, plan: Plan, available: u32, usable: u32) -> Plan {
        let most = self.gso_limit();
        let cut = plan.len;
        if most < 2 * cut || self.has(UNFIT) || self.has_urgent() {
            return plan;
        }
        let congestion = self
            .hot
            .loss
            .window
            .cwnd
            .saturating_sub(self.loss_view().pipe());
        let limit = available.min(usable).min(most).min(congestion);
        // Behind the last full segment nothing goes that would not go by itself.
        let len = if limit == available && self.may_send_small() {
            limit
        } else {
            limit - limit % cut
        };
        // CWR is the first segment's alone (RFC 3168 §6.1.2), and one of the bits of a counter
        // (RFC 9768 §3.2.2): no link is trusted with it.
        if len <= cut || self.ecn_bits(&plan).contains(TcpFlags::CWR) {
            return plan;
        }
        Plan {
            cut: cut as u16,
            ..self.segment(Kind::New, plan.seq, len)
        }
    }

    /// Bytes that the link takes at a time, and pacing lets go.
    fn gso_limit(&self) -> u32 {
        let port = usize::from(self.hot.port.0);
        let interface = self.sh.config.interfaces.get(port);
        let most = interface.map_or(0, |interface| interface.capabilities.tx_gso);
        match self.cold.loss.pacing.rate() {
            Some(rate) => {
                most.min((rate / (1000 / PACED.as_millis() as u64)).min(u32::MAX.into()) as u32)
            }
            None => most,
        }
    }
}

/// Writes as much of a GSO frame as the frame that `sink` lends holds; its length in bytes, `None`
/// if there was no frame. `plan` says afterwards what went.
pub(crate) fn send_gso(
    sink: &mut impl FrameSink,
    net: &Net,
    target: &Target<'_>,
    header: &mut TcpHeader,
    plan: &mut Plan,
    (first, second): (&[u8], &[u8]),
) -> Option<usize> {
    let mut written = 0;
    let sent = sink.send_gso(HEADERS + plan.len as usize, |frame| {
        let flags = plan.flags;
        plan.fit(frame.len());
        header.flags.remove(flags.difference(plan.flags));
        let len = plan.len as usize;
        let first = first.get(..len).unwrap_or(first);
        let second = second.get(..len - first.len()).unwrap_or(second);
        let mut meta = write_frame(frame, net, target, header, (first, second));
        if plan.segments() > 1 {
            meta.segment = plan.cut;
        }
        written = meta.len;
        meta
    });
    sent.then_some(written)
}
