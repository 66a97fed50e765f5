//! Where a script is: what is to happen next, and when.

use std::sync::Arc;
use std::time::Duration;

use mtcp::posix::tcp_info::LinuxTcpInfo;
use mtcp::{Context, SocketId, VirtualClock};
use wire::time::Instant;

use super::args::{self, Scope};
use super::call::{Kind, Outcome};
use super::constants::{MSG_FASTOPEN, by_name};
use super::error::ParseError;
use super::host::FarEnd;
use super::mode::Mode;
use super::observe::Seen;
use super::packets::Packets;
use super::script::{Action, CallSpec, Event, PacketSpec, Script, Time};
use super::settings::Settings;
use super::{code, cookie, results};

/// How long `*` waits for a packet, nanoseconds.
const DEADLINE: i64 = 3_600_000_000_000;
/// Timers that fire without time passing, one after the other: more is a livelock, and the deadline
/// stays in the past.
const MAX_ROUNDS: u32 = 1000;

type Result<T> = std::result::Result<T, Trouble>;

/// A call under way.
#[derive(Debug)]
struct Waiting {
    /// Its event.
    at: usize,
    /// It is to return then; `None`: at once.
    end: Option<i64>,
}

/// A failure, and the event that it belongs to if that is not the one at hand.
#[derive(Debug)]
enum Trouble {
    Here(String),
    At(usize, String),
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self::Here(what)
    }
}

/// What a script wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Time has moved on, or a packet has come: the stack is to look.
    Stack,
    /// A call is to be made.
    Call,
    /// Nothing.
    Over,
}

#[derive(Debug)]
pub(super) struct Stage {
    script: Arc<Script>,
    scope: Scope,
    clock: VirtualClock,
    far: FarEnd,
    packets: Packets,
    ignore_rest: bool,
    /// Time 0 of the script.
    start: Instant,
    /// When the event before happened.
    last: i64,
    /// The event at hand ...
    at: usize,
    /// ... and its first and last moment, once it is.
    window: Option<(i64, i64)>,
    waiting: Option<Waiting>,
    /// What went wrong while a call waited.
    pub trouble: Option<ParseError>,
    /// How often something was due without time passing.
    rounds: u32,
    /// The socket that assertions speak of.
    subject: i32,
    notices: Vec<String>,
}

impl Stage {
    pub fn new(
        script: Script,
        settings: Settings,
        mode: Mode,
        (clock, far): (VirtualClock, FarEnd),
    ) -> Self {
        let settings = Arc::new(settings);
        let mut events = script.events.iter();
        let has_cookie = events.any(|event| event.text.contains(cookie::VALID));
        Self {
            packets: Packets::new(Arc::clone(&settings), mode, has_cookie),
            notices: settings.notices.clone(),
            scope: Scope::new(settings, mode.dialect.leniency().any_error),
            start: clock.now(),
            clock,
            far,
            script: Arc::new(script),
            ignore_rest: mode.ignore_rest,
            last: 0,
            at: 0,
            window: None,
            waiting: None,
            trouble: None,
            rounds: 0,
            subject: -1,
        }
    }

    /// Goes on until there is something for others to do. Nothing is due in the stack before
    /// `until`.
    pub fn go_on(
        &mut self,
        context: &mut Context,
        until: Option<Instant>,
    ) -> std::result::Result<Next, ParseError> {
        let next = self.next(context, until);
        next.map_err(|trouble| self.explain(trouble))
    }

    /// The same while a call waits; what goes wrong is kept for when it has ended.
    pub fn go_on_waiting(&mut self, context: &mut Context, until: Option<Instant>) {
        self.trouble = self.go_on(context, until).err();
    }

    fn explain(&self, trouble: Trouble) -> ParseError {
        let (at, what) = match trouble {
            Trouble::Here(what) => (self.at, what),
            Trouble::At(at, what) => (at, what),
        };
        let events = &self.script.events;
        let event = events.get(at).or(events.last());
        ParseError {
            line: event.map_or(0, |event| event.line),
            what,
        }
    }

    fn next(&mut self, context: &mut Context, until: Option<Instant>) -> Result<Next> {
        self.collect()?;
        if self.is_behind(until) {
            return Ok(Next::Stack);
        }
        let script = Arc::clone(&self.script);
        while let Some(event) = script.events.get(self.at) {
            if let Some(next) = self.play(context, event, until)? {
                return Ok(next);
            }
            self.at += 1;
            self.window = None;
        }
        match self.waiting {
            Some(_) => self.await_call(until),
            None => Ok(Next::Over),
        }
    }

    /// Whether something is due in the stack now. If that is so for ever it does not stop the
    /// clock.
    fn is_behind(&mut self, until: Option<Instant>) -> bool {
        let behind = until.is_some_and(|until| until <= self.clock.now());
        self.rounds = if behind { self.rounds + 1 } else { 0 };
        behind && self.rounds <= MAX_ROUNDS
    }

    /// Plays an event, if its time has come: `None` if it is over.
    fn play(
        &mut self,
        context: &mut Context,
        event: &Event,
        until: Option<Instant>,
    ) -> Result<Option<Next>> {
        let (from, to) = match self.window {
            Some(window) => window,
            None => self.when(event.time),
        };
        self.window = Some((from, to));
        if let Action::Packet(packet) = &event.action
            && packet.is_outbound()
        {
            return self.expect_packet(packet, (from, to), event.time, until);
        }
        if self.now() < from {
            self.pass(from, until);
            return Ok(Some(Next::Stack));
        }
        match &event.action {
            Action::Call(_) if self.waiting.is_some() => return self.await_call(until).map(Some),
            Action::Call(_) => return Ok(Some(Next::Call)),
            Action::Packet(packet) => {
                let frame = self.packets.frame(packet)?;
                self.far.send(&frame);
                self.step(from);
                return Ok(Some(Next::Stack));
            }
            Action::Code(text) => self.assert(context, text)?,
            Action::Command(text) => {
                let shown = text.split_whitespace().collect::<Vec<_>>().join(" ");
                self.notices.push(format!("command skipped: {shown}"));
            }
        }
        self.last = from;
        Ok(None)
    }

    /// The event at hand happened at `last`, and is over.
    fn step(&mut self, last: i64) {
        self.last = last;
        self.at += 1;
        self.window = None;
    }

    fn collect(&mut self) -> Result<()> {
        while let Some(sent) = self.far.take() {
            self.packets.note(&sent)?;
        }
        Ok(())
    }

    // ---- time -----------------------------------------------------------------------------------

    /// First and last moment of an event.
    fn when(&self, time: Time) -> (i64, i64) {
        match time {
            Time::Any => (self.now(), self.now() + DEADLINE),
            Time::Absolute(at) => (at, at),
            Time::Relative(after) => (self.last + after, self.last + after),
            Time::AbsoluteRange(from, to) => (from, to),
            Time::RelativeRange(from, to) => (self.last + from, self.last + to),
        }
    }

    fn now(&self) -> i64 {
        self.since_start(self.clock.now())
    }

    fn since_start(&self, at: Instant) -> i64 {
        i64::try_from(at.since(self.start).as_nanos()).unwrap_or(i64::MAX)
    }

    /// Moves time on to `end`, or to `until` if that is earlier.
    fn pass(&mut self, end: i64, until: Option<Instant>) {
        let end = self.start + Duration::from_nanos(u64::try_from(end).unwrap_or(0));
        let next = until.map_or(end, |until| until.min(end));
        self.clock
            .advance(next.max(self.clock.now() + Duration::from_nanos(1)));
    }

    // ---- calls ----------------------------------------------------------------------------------

    /// The call at hand begins.
    pub fn begin_call(&mut self) -> std::result::Result<Kind, ParseError> {
        let kind = self.call_at_hand();
        kind.map_err(|trouble| self.explain(trouble))
    }

    fn call_at_hand(&mut self) -> Result<Kind> {
        let script = Arc::clone(&self.script);
        let Some((event, spec)) = script.events.get(self.at).and_then(call_of) else {
            return Err(Trouble::Here("no call".to_owned()));
        };
        let kind = args::kind(&self.scope, spec)
            .map_err(|what| format!("bad {} call: {what}", spec.name))?;
        self.note_call(&kind);
        let (from, _) = self.window.unwrap_or_default();
        let base = match event.time {
            Time::Relative(after) => from - after,
            _ => 0,
        };
        self.waiting = Some(Waiting {
            at: self.at,
            end: spec.end.map(|end| base + end),
        });
        self.step(from);
        Ok(kind)
    }

    fn note_call(&mut self, kind: &Kind) {
        let flows = &mut self.packets.flows;
        match kind {
            Kind::Listen { .. } => flows.on_listen(),
            Kind::Connect { .. } => flows.on_connect(),
            Kind::Send { flags, .. } if flags & MSG_FASTOPEN != 0 => flows.on_connect(),
            _ => {}
        }
    }

    /// A call waits, and has to return before the next is made.
    fn await_call(&mut self, until: Option<Instant>) -> Result<Next> {
        let Some(Waiting { at, end }) = &self.waiting else {
            return Ok(Next::Over);
        };
        let name = self.script.events.get(*at).and_then(call_of);
        let name = name.map_or("", |(_, spec)| spec.name.as_str());
        let Some(end) = *end else {
            let what = format!("{name} call blocked, and the line does not say until when");
            return Err(Trouble::At(*at, what));
        };
        let latest = end + self.scope.settings.tolerance;
        if self.now() >= latest {
            let what = format!("{name} call did not return by {}", seconds(end));
            return Err(Trouble::At(*at, what));
        }
        self.pass(latest, until);
        Ok(Next::Stack)
    }

    /// The call has returned.
    pub fn end_call(&mut self, outcome: &Outcome) -> std::result::Result<(), ParseError> {
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        let checked = self.check_call(&waiting, outcome);
        checked.map_err(|what| self.explain(Trouble::At(waiting.at, what)))
    }

    fn check_call(
        &mut self,
        waiting: &Waiting,
        outcome: &Outcome,
    ) -> std::result::Result<(), String> {
        let script = Arc::clone(&self.script);
        let Some((_, spec)) = script.events.get(waiting.at).and_then(call_of) else {
            return Ok(());
        };
        let name = &spec.name;
        results::check(&mut self.scope, spec, outcome)
            .map_err(|what| format!("{name} call: {what}"))?;
        let now = self.now();
        let end = waiting.end.unwrap_or(now);
        if (now - end).abs() > self.scope.settings.tolerance {
            return Err(format!(
                "{name} call: expected to return at {} but did at {}",
                seconds(end),
                seconds(now)
            ));
        }
        if let Ok(reply) = outcome
            && matches!(name.as_str(), "accept" | "accept4" | "socket")
        {
            self.subject = reply.value as i32;
        }
        Ok(())
    }

    fn assert(&mut self, context: &mut Context, text: &str) -> std::result::Result<(), String> {
        let id = u32::try_from(self.subject).map(SocketId).ok();
        let info = id.and_then(|id| context.info(id).ok());
        let info = info.map(LinuxTcpInfo::from);
        let lookup = |name: &str| {
            let field = name
                .strip_prefix("tcpi_")
                .and_then(|name| info.as_ref()?.field(name));
            field
                .map(|value| value as i64)
                .or_else(|| by_name(name).map(i64::from))
        };
        code::run(text, &lookup)
    }

    // ---- packets --------------------------------------------------------------------------------

    /// The next packet of the stack is this one.
    fn expect_packet(
        &mut self,
        packet: &PacketSpec,
        (from, to): (i64, i64),
        time: Time,
        until: Option<Instant>,
    ) -> Result<Option<Next>> {
        let latest = to + self.scope.settings.tolerance;
        let Some(seen) = self.packets.next(packet) else {
            if self.now() < latest {
                self.pass(latest, until);
                return Ok(Some(Next::Stack));
            }
            let by = seconds(latest.min(to));
            return Err(Trouble::Here(format!(
                "expected a packet by {by}, but nothing was sent\nscript packet: {packet}"
            )));
        };
        let at = self.since_start(seen.at);
        self.judge(packet, &seen, at)?;
        self.check_time(packet, (from, to), at)?;
        self.last = match time {
            Time::Absolute(_) | Time::Relative(_) => from,
            _ => at,
        };
        Ok(None)
    }

    fn judge(&mut self, packet: &PacketSpec, seen: &Seen, at: i64) -> Result<()> {
        let verdict = self.packets.judge(packet, seen);
        if verdict.wrong.is_empty() {
            return Ok(());
        }
        Err(Trouble::Here(format!(
            "wrong {}\nscript packet: {packet}\nactual packet: {} at {}",
            verdict.wrong.join(", "),
            verdict.actual,
            seconds(at)
        )))
    }

    fn check_time(&self, packet: &PacketSpec, (from, to): (i64, i64), at: i64) -> Result<()> {
        let tolerance = self.scope.settings.tolerance;
        let early = at < from - tolerance && !self.packets.may_be_early(packet);
        if !early && at <= to + tolerance {
            return Ok(());
        }
        let expected = if from == to {
            seconds(from)
        } else {
            format!("{}~{}", seconds(from), seconds(to))
        };
        Err(Trouble::Here(format!(
            "timing: expected the packet at {expected} but it was sent at {}; tolerance {}\nscript packet: {packet}",
            seconds(at),
            seconds(tolerance)
        )))
    }

    /// The script is over: nothing may be left. Returns what was to be said.
    pub fn finish(&mut self) -> std::result::Result<Vec<String>, ParseError> {
        let left = self.collect().map(|()| self.packets.left());
        match left.map_err(|trouble| self.explain(trouble))? {
            Some((seen, shown)) if !self.ignore_rest => {
                let at = seconds(self.since_start(seen.at));
                Err(self.explain(Trouble::Here(format!(
                    "the script ends, but the stack sent another packet at {at}\nactual packet: {shown}"
                ))))
            }
            _ => Ok(std::mem::take(&mut self.notices)),
        }
    }
}

/// The call of an event.
fn call_of(event: &Event) -> Option<(&Event, &CallSpec)> {
    match &event.action {
        Action::Call(spec) => Some((event, spec)),
        _ => None,
    }
}

/// Nanoseconds, for people.
fn seconds(nanos: i64) -> String {
    format!(
        "{}.{:06}",
        nanos / 1_000_000_000,
        nanos % 1_000_000_000 / 1000
    )
}
