//! What would go next, asked of the part alone.

use ring::stream::{AppStreams, Limits, StackStreams, StreamsConfig, streams};
use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::command::Options;
use crate::info::State;
use crate::tcp::flags::SendFlags;
use crate::tcp::option_sets::{OptionSets, SetId};
use crate::tcp::ranges::Range;
use crate::tcp::send::plan::{Kind, Plan};
use crate::tcp::send::state::{Cold, Hot};
use crate::tcp::send::view::SendView;

/// SND.UNA, near the wrap.
const UNA: SeqNumber = SeqNumber(u32::MAX - 500);
const MSS: u32 = 1000;

/// A send part with nothing in flight, and a window of ten segments.
struct Bench {
    hot: Hot,
    cold: Cold,
    flags: SendFlags,
    stack: StackStreams,
    app: AppStreams,
    options: OptionSets,
    set: SetId,
}

impl Bench {
    fn new(written: usize) -> Self {
        let config = StreamsConfig {
            slots: 1,
            recv_pool_bytes: 1 << 20,
            send_pool_bytes: 1 << 20,
            max_buffer: 1 << 16,
            prefault: 0,
        };
        let (mut stack, mut app) = streams(&config).unwrap();
        let limits = Limits {
            recv: 1 << 16,
            send: 1 << 16,
        };
        stack.open(0, limits).unwrap();
        assert_eq!(app.write(0, &vec![7; written]), written);
        let mut options = OptionSets::new(1).unwrap();
        let set = options.take(&Options::default());
        let mut hot = Hot::new(UNA);
        (hot.wnd, hot.max_wnd) = (10 * MSS, 10 * MSS);
        Self {
            hot,
            cold: Cold::new(Instant::from_millis(1), UNA, 1 << 16),
            flags: SendFlags::empty(),
            stack,
            app,
            options,
            set,
        }
    }

    fn view(&self) -> SendView<'_> {
        SendView {
            hot: &self.hot,
            cold: &self.cold,
            flags: self.flags,
            streams: &self.stack,
            slot: 0,
            options: &self.options,
            set: self.set,
            state: State::Established,
        }
    }

    /// The next segment of new data.
    fn next(&self) -> Option<Plan> {
        let unsent = self.view().unsent()?;
        let len = self.view().new_len(&unsent, MSS)?;
        Some(self.view().new_segment(&unsent, len))
    }

    /// Behind what was written, the FIN.
    fn shut(&mut self) {
        self.hot.fin_seq = self.view().stream_end();
        self.flags |= SendFlags::FIN_QUEUED;
    }
}

#[test]
fn nothing_is_next_where_nothing_was_written() {
    let mut bench = Bench::new(0);
    assert_eq!(bench.next(), None);
    bench.shut();
    let fin = bench.next().unwrap();
    assert_eq!((fin.len, fin.flags), (0, TcpFlags::ACK | TcpFlags::FIN));
    bench.hot.nxt = fin.end();
    assert_eq!(bench.next(), None);
    assert!(bench.view().fin_sent() && !bench.view().fin_acked());
}

#[test]
fn a_small_segment_waits_for_another_small_one_only() {
    let mut bench = Bench::new(2 * MSS as usize + 1);
    bench.hot.nxt = UNA + 2 * MSS;
    assert_eq!(bench.next().unwrap().len, 1);
    bench.cold.small_end = UNA + MSS;
    assert_eq!(bench.next(), None);
    bench.flags |= SendFlags::NODELAY;
    assert_eq!(bench.next().unwrap().len, 1);
    bench.cold.more_follows = true;
    assert_eq!(bench.next(), None);
    bench.shut();
    assert_eq!(bench.next().unwrap().len, 1);
}

#[test]
fn the_window_decides_and_a_closed_one_is_probed() {
    let mut bench = Bench::new(3 * MSS as usize);
    bench.hot.wnd = MSS / 2;
    // Less than half of the largest window that there was.
    assert_eq!(bench.next(), None);
    bench.hot.max_wnd = MSS;
    assert_eq!(bench.next().unwrap().len, MSS / 2);
    bench.hot.wnd = 0;
    assert_eq!(bench.next(), None);
    assert!(bench.view().is_blocked_by_window());
    let probe = bench.view().window_probe(MSS).unwrap();
    assert_eq!((probe.kind, probe.seq, probe.len), (Kind::Probe, UNA, 1));
}

#[test]
fn the_fin_fits_the_window_or_waits() {
    let mut bench = Bench::new(MSS as usize);
    bench.shut();
    bench.hot.wnd = MSS;
    let full = bench.next().unwrap();
    assert_eq!((full.len, full.flags), (MSS, TcpFlags::ACK | TcpFlags::PSH));
    assert!(!bench.view().is_last(&full));
    bench.hot.wnd = MSS + 1;
    let last = bench.next().unwrap();
    assert!(last.flags.contains(TcpFlags::FIN) && bench.view().is_last(&last));
}

#[test]
fn what_is_sent_again_takes_new_data_along_but_not_beyond_the_window() {
    let mut bench = Bench::new(600);
    bench.hot.nxt = UNA + 100;
    let range = Range::new(UNA, UNA + 90);
    let again = bench.view().retransmission(range, MSS).unwrap();
    assert_eq!((again.seq, again.len), (UNA, 90));
    let range = Range::new(UNA, UNA + 100);
    let again = bench.view().retransmission(range, MSS).unwrap();
    assert_eq!((again.seq, again.len), (UNA, 600));
    bench.hot.wnd = 50;
    let again = bench.view().retransmission(range, MSS).unwrap();
    assert_eq!(again.len, 50);
    bench.hot.wnd = 10 * MSS;
    let probe = bench.view().tail_probe_again(range, MSS).unwrap();
    assert_eq!((probe.kind, probe.len), (Kind::TailProbe, 600));
    assert_eq!(bench.app.write(0, &[1; 900]), 900);
    let probe = bench.view().tail_probe_again(range, MSS).unwrap();
    assert_eq!(probe.len, MSS);
}

#[test]
fn what_would_not_go_alone_does_not_go_with_others() {
    let mut bench = Bench::new(3 * MSS as usize + 1);
    let gather = |bench: &Bench| {
        let unsent = bench.view().unsent().unwrap();
        let first = bench.view().new_segment(&unsent, MSS);
        bench.view().gather(first, &unsent, 1 << 16, 1 << 16)
    };
    let all = gather(&bench);
    assert_eq!((all.len, u32::from(all.cut)), (3 * MSS + 1, MSS));
    bench.cold.more_follows = true;
    assert_eq!(gather(&bench).len, 3 * MSS);
    bench.flags |= SendFlags::RECOVERY;
    assert_eq!(gather(&bench).cut, 0);
}
