//! Congestion control: policy only. Loss detection, recovery and RTT estimation are mechanism and
//! live in `tcp`; an algorithm sees one [`AckSample`] and a few other notifications, never a
//! sequence number. All it sets are the two numbers of [`Window`].

mod bbr;
mod cubic;
mod dctcp;
mod growth;
mod new_reno;
mod sample;
mod slow_start;
#[cfg(test)]
mod testing;

use wire::time::Instant;

use crate::config::CongestionControl;
use crate::side_pool::SidePool;

use bbr::Undo;
use cubic::CubicAtRest;

pub(crate) use bbr::Bbr;
pub(crate) use cubic::Cubic;
pub(crate) use dctcp::Dctcp;
pub(crate) use new_reno::NewReno;
pub(crate) use sample::{AckSample, Loss, RateSample, Window};

/// What an algorithm has to get back when what it reacted to turns out not to have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Saved {
    window: Window,
    cubic: Option<Cubic>,
    bbr: Option<Undo>,
}

/// The states of algorithms that model the path: large, and of few connections.
pub(crate) type Models = SidePool<Bbr>;

/// An algorithm of which little is left while nothing is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtRest {
    Cubic(CubicAtRest),
    NewReno,
}

impl From<AtRest> for Algorithm {
    fn from(rest: AtRest) -> Self {
        match rest {
            AtRest::Cubic(rest) => Self::Cubic(rest.into()),
            AtRest::NewReno => Self::NewReno(NewReno::at_rest()),
        }
    }
}

/// The algorithms, as one enum: no allocation, no indirect call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Algorithm {
    Cubic(Cubic),
    NewReno(NewReno),
    Dctcp(Dctcp),
    /// Which of the [`Models`].
    Bbr(u32),
}

impl Algorithm {
    /// Becomes a new one of this kind, in its place: a value that is written in pieces and then
    /// moved takes as long as all writes before it. `seed` differs between connections.
    #[inline(always)]
    pub fn begin(&mut self, kind: CongestionControl, seed: u32, models: &mut Models) {
        match kind {
            CongestionControl::Cubic => *self = Self::Cubic(Cubic::default()),
            CongestionControl::NewReno => *self = Self::NewReno(NewReno::default()),
            CongestionControl::Dctcp => *self = Self::Dctcp(Dctcp::default()),
            CongestionControl::Bbr => *self = Self::modelled(seed, models),
        }
    }

    #[cfg(test)]
    pub fn new(kind: CongestionControl, seed: u32, models: &mut Models) -> Self {
        let mut algorithm = Self::NewReno(NewReno::default());
        algorithm.begin(kind, seed, models);
        algorithm
    }

    #[cold]
    fn modelled(seed: u32, models: &mut Models) -> Self {
        match models.insert(Bbr::new(seed)) {
            Some(model) => Self::Bbr(model),
            // There is one for each connection.
            None => Self::NewReno(NewReno::default()),
        }
    }

    /// What is left of it after a [pause](Self::pause); `None`: too much.
    pub fn at_rest(&self) -> Option<AtRest> {
        match self {
            Self::Cubic(cubic) => Some(AtRest::Cubic(cubic.at_rest())),
            Self::NewReno(_) => Some(AtRest::NewReno),
            Self::Dctcp(_) | Self::Bbr(_) => None,
        }
    }

    /// Nothing was sent for longer than an RTO: what slow start and CUBIC had measured says nothing
    /// any more, as after [`Self::on_idle`].
    pub fn pause(&mut self) {
        match self {
            Self::Cubic(algorithm) => algorithm.on_idle(),
            Self::NewReno(algorithm) => algorithm.on_idle(),
            Self::Dctcp(_) | Self::Bbr(_) => {}
        }
    }

    fn model<'a>(&self, models: &'a mut Models) -> Option<&'a mut Bbr> {
        match self {
            Self::Bbr(model) => models.at_mut(*model),
            _ => None,
        }
    }

    /// The connection is over: its model goes back.
    pub fn forget(&mut self, models: &mut Models) {
        if let Self::Bbr(model) = *self {
            models.free(model);
            *self = Self::NewReno(NewReno::default());
        }
    }

    /// Whether it is of use only on paths that mark (RFC 3168): ECN is then asked for even if the
    /// configuration does not, and [`AckSample::marked`] should be as exact as the peer can be.
    pub fn wants_ecn(&self) -> bool {
        matches!(self, Self::Dctcp(_))
    }

    /// Whether it models the path: it is told of every ACK by [`Self::on_rate`], decides the window
    /// during recovery too, and paces.
    pub fn models_path(&self) -> bool {
        matches!(self, Self::Bbr(_))
    }

    /// The handshake is over. `srtt` in µs, 0 if it is not known.
    #[inline]
    pub fn on_established(&self, now: Instant, window: &Window, srtt: u32, models: &mut Models) {
        if let Some(model) = self.model(models) {
            model.on_established(now, window, srtt);
        }
    }

    /// An ACK was processed, during recovery or not. For algorithms that model the path.
    pub fn on_rate(&self, window: &mut Window, sample: &RateSample, models: &mut Models) {
        if let Some(model) = self.model(models) {
            model.on_rate(window, sample);
        }
    }

    /// Data was sent after nothing had been in flight. For algorithms that model the path.
    pub fn on_restart(&self, window: &mut Window, now: Instant, models: &mut Models) {
        if let Some(model) = self.model(models) {
            model.on_restart(window, now);
        }
    }

    /// Whether rates measured from what is sent now say nothing about the path.
    pub fn ignores_rate(&self, models: &mut Models) -> bool {
        self.model(models).is_some_and(|model| model.ignores_rate())
    }

    /// Bytes per second, of an algorithm that paces.
    pub fn pacing_rate(&self, models: &mut Models) -> Option<u64> {
        self.model(models).and_then(|model| model.pacing_rate())
    }

    /// New data was acknowledged, outside of fast recovery. RFC 3168 §6.1.2: an ACK that echoes
    /// congestion opens no window; that of DCTCP grows in between all the same (RFC 8257 §3.3).
    /// RFC 3168 §6.1.2-5.
    pub fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        match self {
            Self::Cubic(_) | Self::NewReno(_) if sample.marked > 0 => {}
            Self::Cubic(algorithm) => algorithm.on_ack(window, sample),
            Self::NewReno(algorithm) => algorithm.on_ack(window, sample),
            Self::Dctcp(algorithm) => algorithm.on_ack(window, sample),
            Self::Bbr(_) => {}
        }
    }

    /// A loss was detected without a time-out; at most once per window. `flight` bytes were
    /// outstanding.
    pub fn on_congestion_event(
        &mut self,
        window: &mut Window,
        flight: u32,
        mss: u32,
        models: &mut Models,
    ) {
        if let Some(model) = self.model(models) {
            model.on_congestion_event(window);
        }
        match self {
            Self::Cubic(algorithm) => algorithm.on_congestion_event(window, flight, mss),
            Self::NewReno(algorithm) => algorithm.on_congestion_event(window, flight, mss),
            Self::Dctcp(algorithm) => algorithm.on_congestion_event(window, flight, mss),
            Self::Bbr(_) => {}
        }
    }

    /// The peer says that data of ours met congestion (ECE of RFC 3168 §6.1.2, or more CE counted
    /// by it); at most once per window, and not during recovery. What to do is in `window`
    /// afterwards.
    pub fn on_ecn(&mut self, window: &mut Window, flight: u32, mss: u32, models: &mut Models) {
        if let Some(model) = self.model(models) {
            model.on_ecn(window, flight, mss);
        }
        match self {
            Self::Cubic(algorithm) => algorithm.on_ecn(window, flight, mss),
            Self::NewReno(algorithm) => algorithm.on_ecn(window, flight, mss),
            Self::Dctcp(algorithm) => algorithm.on_ecn(window, mss),
            Self::Bbr(_) => {}
        }
    }

    /// The retransmission timer expired; `first` for this data.
    pub fn on_rto(
        &mut self,
        window: &mut Window,
        flight: u32,
        mss: u32,
        first: bool,
        models: &mut Models,
    ) {
        if let Some(model) = self.model(models) {
            model.on_rto(window, mss);
        }
        match self {
            Self::Cubic(algorithm) => algorithm.on_rto(window, flight, mss, first),
            Self::NewReno(algorithm) => algorithm.on_rto(window, flight, mss, first),
            Self::Dctcp(algorithm) => algorithm.on_rto(window, flight, mss, first),
            Self::Bbr(_) => {}
        }
    }

    /// Data is about to be sent after a silence of more than one RTO.
    pub fn on_idle(&mut self, window: &mut Window, initial_window: u32) {
        match self {
            Self::Cubic(algorithm) => algorithm.on_idle(),
            Self::NewReno(algorithm) => algorithm.on_idle(),
            Self::Dctcp(algorithm) => algorithm.on_idle(),
            // Pacing does what the restart window is for.
            Self::Bbr(_) => return,
        }
        // RFC 5681 §4.1: the restart window is min(IW, cwnd).
        window.cwnd = window.cwnd.min(initial_window);
    }

    /// To be called before `on_congestion_event`, `on_ecn` or `on_rto`, if that may be undone.
    pub fn save(&self, window: &Window, models: &mut Models) -> Saved {
        Saved {
            window: *window,
            cubic: match self {
                Self::Cubic(algorithm) => Some(*algorithm),
                _ => None,
            },
            bbr: self.model(models).map(|model| model.save()),
        }
    }

    /// The loss that `saved` was taken before was none (RFC 5682, RFC 4015): the window is what it
    /// was, or what it has grown to. RFC 9438 §4.9.2-2.
    pub fn undo(&mut self, window: &mut Window, saved: &Saved, models: &mut Models) {
        let Saved {
            window: before,
            cubic,
            bbr,
        } = saved;
        let has_outgrown = window.cwnd > before.cwnd;
        if has_outgrown && cubic.is_some() {
            return;
        }
        window.cwnd = window.cwnd.max(before.cwnd);
        window.ssthresh = before.ssthresh;
        if let (Self::Cubic(algorithm), Some(before)) = (&mut *self, cubic) {
            *algorithm = *before;
        }
        if let (Some(model), Some(before)) = (self.model(models), bbr) {
            model.undo(window, before);
        }
    }
}

/// RFC 6928 §2: `min(segments * MSS, max(2 * MSS, segments * 1460))`, 10 segments by default.
/// RFC 6928 §2-1.
pub(crate) fn initial_window(segments: u8, mss: u32) -> u32 {
    let segments = u32::from(segments.max(1));
    (segments * mss).min((2 * mss).max(segments * 1460))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9438 §4.9.2-2.
    #[test]
    fn what_cubic_has_outgrown_is_not_restored() {
        let mut window = Window {
            cwnd: 100_000,
            ssthresh: 100_000,
        };
        let mut models = Models::new(0).unwrap();
        let mut cubic = Algorithm::new(CongestionControl::Cubic, 0, &mut models);
        let saved = cubic.save(&window, &mut models);
        cubic.on_congestion_event(&mut window, 100_000, 1000, &mut models);
        let mut late = window;
        late.cwnd = 100_001;
        cubic.clone().undo(&mut late, &saved, &mut models);
        assert_eq!((late.cwnd, late.ssthresh), (100_001, 70_000));
        cubic.undo(&mut window, &saved, &mut models);
        assert_eq!((window.cwnd, window.ssthresh), (100_000, 100_000));
    }

    /// RFC 6928 §2-1.
    #[test]
    fn initial_window_of_rfc_6928() {
        assert_eq!(initial_window(10, 1460), 14_600);
        assert_eq!(initial_window(10, 536), 5_360);
        // Jumbo frames: no more bytes than ten ordinary segments, but at least two segments.
        assert_eq!(initial_window(10, 8960), 17_920);
    }
}
