//! Plays a script.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use wire::tcp::TcpFlags;
use wire::time::Instant;

use super::args::{self, Scope};
use super::check::{self, Verdict};
use super::error::ParseError;
use super::flows::Flows;
use super::mode::Mode;
use super::observe::{Seen, SeenBody, in_script, look};
use super::script::{Action, BodySpec, CallSpec, Event, IpSpec, PacketSpec, Script, TcpSpec, Time};
use super::settings::Settings;
use super::{code, compose, cookie, results};
use crate::calls::constants::{MSG_FASTOPEN, by_name};
use crate::calls::{Call, Kind, Process, info_fields};

/// How long `*` waits for a packet.
const PATIENCE: i64 = 3_600_000_000_000;

type Result<T> = std::result::Result<T, String>;

/// A call that waits.
#[derive(Debug)]
struct Waiting<'a> {
    call: Call,
    spec: &'a CallSpec,
    line: usize,
    /// It is to return then.
    end: i64,
}

/// A failure that belongs to another line than the one at hand.
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

#[derive(Debug)]
pub(super) struct Runner<'a> {
    script: &'a Script,
    settings: &'a Settings,
    scope: Scope<'a>,
    process: Process,
    mode: Mode,
    flows: Flows,
    /// Time 0 of the script.
    start: Instant,
    /// When the event before happened.
    last: i64,
    /// What the stack sent and no line took.
    inbox: VecDeque<Seen>,
    waiting: Option<Waiting<'a>>,
    /// The descriptor that assertions speak of.
    subject: i32,
    /// The last packet of the peer brought data, or completed our handshake, and nothing else.
    ack_is_due: bool,
    notices: Vec<String>,
}

impl<'a> Runner<'a> {
    pub fn new(
        script: &'a Script,
        settings: &'a Settings,
        mode: Mode,
    ) -> std::result::Result<Self, ParseError> {
        let process = Process::new(settings.config.clone()).map_err(|error| ParseError {
            line: 1,
            what: error.to_string(),
        })?;
        let mut runner = Self {
            script,
            settings,
            scope: Scope {
                settings,
                fds: HashMap::new(),
                any_error: mode.dialect.leniency().any_error,
            },
            process,
            mode,
            flows: Flows::default(),
            start: Instant::ZERO,
            last: 0,
            inbox: VecDeque::new(),
            waiting: None,
            subject: -1,
            ack_is_due: false,
            notices: settings.notices.clone(),
        };
        runner.begin();
        Ok(runner)
    }

    fn begin(&mut self) {
        self.process.settle_in();
        self.start = self.process.now();
        let mut events = self.script.events.iter();
        if events.any(|event| event.text.contains(cookie::VALID))
            && let Some(cookie) = cookie::valid(self.settings)
        {
            self.flows.cookies.insert(cookie::VALID.into(), cookie);
        }
    }

    /// Plays it all.
    pub fn run(mut self) -> std::result::Result<Vec<String>, ParseError> {
        let script = self.script;
        for event in &script.events {
            let played = self.play(event);
            played.map_err(|trouble| self.explain(event.line, trouble))?;
        }
        let line = script.events.last().map_or(0, |event| event.line);
        self.finish()
            .map_err(|trouble| self.explain(line, trouble))?;
        Ok(self.notices)
    }

    fn explain(&self, line: usize, trouble: Trouble) -> ParseError {
        match trouble {
            Trouble::Here(what) => ParseError { line, what },
            Trouble::At(line, what) => ParseError { line, what },
        }
    }

    fn play(&mut self, event: &'a Event) -> std::result::Result<(), Trouble> {
        let (from, to) = self.when(event.time);
        if let Action::Packet(packet) = &event.action
            && packet.is_outbound()
        {
            let at = self.expect_packet(packet, from, to)?;
            self.last = match event.time {
                Time::Absolute(_) | Time::Relative(_) => from,
                _ => at,
            };
            return Ok(());
        }
        self.run_until(from)?;
        self.last = from;
        match &event.action {
            Action::Packet(packet) => self.inject(packet)?,
            Action::Call(spec) => self.call(event.line, spec, from, event.time)?,
            Action::Code(text) => self.assert(text)?,
            Action::Command(text) => {
                let shown = text.split_whitespace().collect::<Vec<_>>().join(" ");
                self.notices.push(format!("command skipped: {shown}"));
            }
        }
        self.look_around()
    }

    /// First and last moment of an event.
    fn when(&self, time: Time) -> (i64, i64) {
        match time {
            Time::Any => (self.now(), self.now() + PATIENCE),
            Time::Absolute(at) => (at, at),
            Time::Relative(after) => (self.last + after, self.last + after),
            Time::AbsoluteRange(from, to) => (from, to),
            Time::RelativeRange(from, to) => (self.last + from, self.last + to),
        }
    }

    fn now(&self) -> i64 {
        self.since_start(self.process.now())
    }

    fn since_start(&self, at: Instant) -> i64 {
        i64::try_from(at.since(self.start).as_nanos()).unwrap_or(i64::MAX)
    }

    fn instant(&self, at: i64) -> Instant {
        self.start + Duration::from_nanos(u64::try_from(at).unwrap_or(0))
    }

    // ---- time ----------------------------------------------------------------------------------------------------------------------

    /// Moves time on to `end`, one deadline after the other.
    fn run_until(&mut self, end: i64) -> std::result::Result<(), Trouble> {
        while self.step(end)? {}
        self.process.advance(self.instant(end));
        self.look_around()
    }

    /// Moves time on to the next deadline up to `end`; false if there is none.
    fn step(&mut self, end: i64) -> std::result::Result<bool, Trouble> {
        let call = self
            .waiting
            .as_ref()
            .and_then(|waiting| waiting.call.deadline());
        let next = [self.process.next_deadline(), call];
        let Some(next) = next.into_iter().flatten().min() else {
            return Ok(false);
        };
        let end = self.instant(end);
        if next > end || self.process.now() >= end {
            return Ok(false);
        }
        // A deadline in the past must not stop the clock.
        let next = next.max(self.process.now() + Duration::from_nanos(1));
        self.process.advance(next.min(end));
        self.look_around()?;
        Ok(true)
    }

    /// Takes what the stack sent, and lets the call that waits look.
    fn look_around(&mut self) -> std::result::Result<(), Trouble> {
        self.collect()?;
        if let Some(mut waiting) = self.waiting.take() {
            match waiting.call.poll(&mut self.process) {
                None => self.waiting = Some(waiting),
                Some(outcome) => {
                    let now = self.now();
                    let line = waiting.line;
                    self.returned(waiting.spec, &outcome, now, waiting.end)
                        .map_err(|what| Trouble::At(line, what))?;
                    self.collect()?;
                }
            }
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<()> {
        while let Some(sent) = self.process.pop_sent() {
            self.inbox.extend(look(sent.at, &sent.frame)?);
        }
        Ok(())
    }

    // ---- calls ---------------------------------------------------------------------------------------------------------------------

    fn call(
        &mut self,
        line: usize,
        spec: &'a CallSpec,
        at: i64,
        time: Time,
    ) -> std::result::Result<(), Trouble> {
        self.settle_call()?;
        let kind = args::kind(&self.scope, spec)
            .map_err(|what| format!("bad {} call: {what}", spec.name))?;
        self.note_call(&kind);
        let mut call = Call::new(kind);
        let outcome = call.poll(&mut self.process);
        let base = match time {
            Time::Relative(after) => at - after,
            _ => 0,
        };
        let end = spec.end.map(|end| base + end);
        match (outcome, end) {
            (Some(outcome), end) => {
                let now = self.now();
                self.returned(spec, &outcome, now, end.unwrap_or(now))?;
            }
            (None, Some(end)) => {
                self.waiting = Some(Waiting {
                    call,
                    spec,
                    line,
                    end,
                });
            }
            (None, None) => {
                return Err(Trouble::Here(format!(
                    "{} call blocked, and the line does not say until when",
                    spec.name
                )));
            }
        }
        Ok(())
    }

    /// A call that waits has to return before the next is made.
    fn settle_call(&mut self) -> std::result::Result<(), Trouble> {
        let Some(waiting) = &self.waiting else {
            return Ok(());
        };
        let (end, line, name) = (waiting.end, waiting.line, waiting.spec.name.clone());
        let latest = end + self.settings.tolerance;
        while self.waiting.is_some() && self.step(latest)? {}
        if self.waiting.is_some() {
            let what = format!("{name} call did not return by {}", seconds(end));
            return Err(Trouble::At(line, what));
        }
        Ok(())
    }

    fn note_call(&mut self, kind: &Kind) {
        match kind {
            Kind::Listen { .. } => self.flows.on_listen(),
            Kind::Connect { .. } => self.flows.on_connect(),
            Kind::Send { flags, .. } if flags & MSG_FASTOPEN != 0 => self.flows.on_connect(),
            _ => {}
        }
    }

    fn returned(
        &mut self,
        spec: &CallSpec,
        outcome: &crate::calls::Outcome,
        now: i64,
        end: i64,
    ) -> Result<()> {
        let name = &spec.name;
        results::check(&mut self.scope, spec, outcome)
            .map_err(|what| format!("{name} call: {what}"))?;
        if (now - end).abs() > self.settings.tolerance {
            return Err(format!(
                "{name} call: expected to return at {} but did at {}",
                seconds(end),
                seconds(now)
            ));
        }
        if let Ok(reply) = outcome {
            let subject = match name.as_str() {
                "accept" | "accept4" | "socket" => Some(reply.value as i32),
                _ => None,
            };
            self.subject = subject.unwrap_or(self.subject);
        }
        Ok(())
    }

    fn assert(&mut self, text: &str) -> Result<()> {
        let fields = self
            .process
            .info(self.subject)
            .map(|info| info_fields(&info))
            .unwrap_or_default();
        let lookup = |name: &str| {
            let wanted = name.strip_prefix("tcpi_");
            let field = fields.iter().find(|field| Some(field.name) == wanted);
            field
                .map(|field| field.value as i64)
                .or_else(|| by_name(name).map(i64::from))
        };
        code::run(text, &lookup)
    }

    // ---- packets -------------------------------------------------------------------------------------------------------------------

    fn inject(&mut self, packet: &PacketSpec) -> Result<()> {
        let PacketSpec { ip, body, .. } = packet;
        self.ack_is_due = matches!(body, BodySpec::Tcp(tcp) if brings_data(tcp) || opens(tcp));
        let listening = self.settings.bind_port;
        let frame = match body {
            BodySpec::Tcp(tcp) => {
                let syn = tcp.flags.contains(TcpFlags::SYN);
                let ports = self.flows.inbound(tcp.ports, listening, syn);
                let (flow, cookies) = self.flows.with_cookies(ports);
                if syn {
                    flow.see_peer_syn(tcp.seq);
                }
                check::learn_cookie(cookies, tcp);
                compose::tcp(self.settings, ports, (flow, cookies), ip, tcp)?
            }
            BodySpec::Icmp(icmp) => {
                let ports = self.flows.inbound(None, listening, false);
                let flow = self.flows.flow(ports);
                compose::icmp(self.settings, ports, flow, ip, icmp)?
            }
            BodySpec::Udp { ports, len } => {
                let (remote, local) = ports.unwrap_or((40_000, listening));
                compose::udp(self.settings, (local, remote), ip, *len)
            }
        };
        self.process.receive(&frame);
        Ok(())
    }

    /// The next packet of the stack is this one. Returns when it was sent.
    fn expect_packet(
        &mut self,
        packet: &PacketSpec,
        from: i64,
        to: i64,
    ) -> std::result::Result<i64, Trouble> {
        let latest = to + self.settings.tolerance;
        let Some(seen) = self.next_packet(packet, latest)? else {
            let by = seconds(latest.min(to));
            return Err(Trouble::Here(format!(
                "expected a packet by {by}, but nothing was sent\nscript packet: {packet}"
            )));
        };
        let at = self.since_start(seen.at);
        let verdict = self.judge(packet, &seen);
        self.report(packet, &verdict, at)?;
        let early = at < from - self.settings.tolerance && !self.may_be_early(packet);
        if early || at > latest {
            let expected = if from == to {
                seconds(from)
            } else {
                format!("{}~{}", seconds(from), seconds(to))
            };
            return Err(Trouble::Here(format!(
                "timing: expected the packet at {expected} but it was sent at {}; tolerance {}\nscript packet: {packet}",
                seconds(at),
                seconds(self.settings.tolerance)
            )));
        }
        Ok(at)
    }

    /// What the stack sends next, up to `latest`; without ACKs that may be spare.
    fn next_packet(
        &mut self,
        packet: &PacketSpec,
        latest: i64,
    ) -> std::result::Result<Option<Seen>, Trouble> {
        loop {
            while self.inbox.is_empty() && self.step(latest)? {}
            let Some(seen) = self.inbox.pop_front() else {
                return Ok(None);
            };
            if !self.is_spare(packet, &seen) {
                return Ok(Some(seen));
            }
        }
    }

    fn is_spare(&mut self, packet: &PacketSpec, seen: &Seen) -> bool {
        let (BodySpec::Tcp(spec), SeenBody::Tcp(header, options, payload)) =
            (&packet.body, &seen.body)
        else {
            return false;
        };
        let lenient = self.mode.dialect.leniency();
        let ports = (header.src_port, header.dst_port);
        if spec.flags == TcpFlags::SYN && !header.flags.contains(TcpFlags::SYN) {
            return lenient.others;
        }
        if !(lenient.spare_acks && self.ack_is_due && payload.is_empty()) {
            return false;
        }
        let flow = self.flows.flow(ports);
        check::is_spare(&in_script(flow, header, options, 0), spec)
    }

    fn may_be_early(&self, packet: &PacketSpec) -> bool {
        let bare = matches!(&packet.body, BodySpec::Tcp(tcp) if check::is_bare_ack(tcp));
        bare && self.mode.dialect.leniency().spare_acks
    }

    fn report(&self, packet: &PacketSpec, verdict: &Verdict, at: i64) -> Result<()> {
        if verdict.wrong.is_empty() {
            return Ok(());
        }
        Err(format!(
            "wrong {}\nscript packet: {packet}\nactual packet: {} at {}",
            verdict.wrong.join(", "),
            verdict.actual,
            seconds(at)
        ))
    }

    fn judge(&mut self, packet: &PacketSpec, seen: &Seen) -> Verdict {
        let tolerance_us = self.settings.tolerance / 1000;
        let tick = self.settings.ts_tick.map(|tick| (tick, tolerance_us));
        let mut verdict = match (&packet.body, &seen.body) {
            (BodySpec::Tcp(tcp), SeenBody::Tcp(header, options, payload)) => {
                let mut header = *header;
                let len = self.gather(tcp, &mut header, payload.len());
                let actual = (header.src_port, header.dst_port);
                let syn = tcp.flags.contains(TcpFlags::SYN);
                let ports = self.flows.outbound(tcp.ports, actual, syn);
                let state = self.flows.with_cookies(ports);
                let mut verdict = check::tcp(
                    state,
                    seen,
                    (&header, options, len),
                    (&packet.ip, tcp),
                    (tick, self.mode.dialect.leniency()),
                );
                if ports != actual {
                    verdict.wrong.push("ports");
                }
                if (ports != actual || tcp.ports.is_some())
                    && let BodySpec::Tcp(shown) = &mut verdict.actual.body
                {
                    shown.ports = Some(actual);
                }
                verdict
            }
            (BodySpec::Icmp(icmp), SeenBody::Icmp(actual)) => {
                check::icmp(seen, actual, (&packet.ip, icmp))
            }
            _ => Verdict {
                actual: self.show(seen),
                wrong: vec!["protocol"],
            },
        };
        let ends = (self.settings.local_ip, self.settings.remote_ip);
        if (seen.src, seen.dst) != ends {
            verdict.wrong.push("addresses");
        }
        verdict
    }

    /// A line may stand for several segments that follow each other: takes the others, and says how long they are together.
    fn gather(&mut self, tcp: &TcpSpec, header: &mut wire::tcp::TcpHeader, first: usize) -> u16 {
        let mut len = first;
        while !self.settings.strict_segments && len > 0 && len < usize::from(tcp.len) {
            let Some(next) = self.inbox.front() else {
                break;
            };
            let SeenBody::Tcp(more, _, payload) = &next.body else {
                break;
            };
            let follows = more.seq.0 == header.seq.0.wrapping_add(len as u32);
            let ports = (more.src_port, more.dst_port) == (header.src_port, header.dst_port);
            let fits = len + payload.len() <= usize::from(tcp.len);
            let middle =
                header.flags - TcpFlags::PSH == more.flags - (TcpFlags::PSH | TcpFlags::FIN);
            if !(follows && ports && fits && middle && !payload.is_empty()) {
                break;
            }
            len += payload.len();
            header.flags |= more.flags;
            self.inbox.pop_front();
        }
        u16::try_from(len).unwrap_or(u16::MAX)
    }

    /// A packet that no line speaks of.
    fn show(&mut self, seen: &Seen) -> PacketSpec {
        let body = match &seen.body {
            SeenBody::Icmp(icmp) => BodySpec::Icmp(icmp.clone()),
            SeenBody::Tcp(header, options, payload) => {
                let ports = (header.src_port, header.dst_port);
                let current = self.flows.current();
                let flow = self.flows.flow(ports);
                if header.flags.contains(TcpFlags::SYN) {
                    flow.see_syn(0, header.seq.0);
                }
                let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
                let mut tcp = in_script(flow, header, options, len);
                tcp.ports = Some(ports).filter(|_| current != Some(ports));
                BodySpec::Tcp(tcp)
            }
        };
        check::packet(&IpSpec::default(), &seen.ip, body)
    }

    /// Nothing may be left.
    fn finish(&mut self) -> std::result::Result<(), Trouble> {
        self.settle_call()?;
        self.collect()?;
        if self.mode.ignore_rest {
            return Ok(());
        }
        if let Some(seen) = self.inbox.pop_front() {
            let at = seconds(self.since_start(seen.at));
            let shown = self.show(&seen);
            return Err(Trouble::Here(format!(
                "the script ends, but the stack sent another packet at {at}\nactual packet: {shown}"
            )));
        }
        Ok(())
    }
}

fn brings_data(tcp: &TcpSpec) -> bool {
    tcp.len > 0 && (TcpFlags::ACK | TcpFlags::PSH).contains(tcp.flags)
}

fn opens(tcp: &TcpSpec) -> bool {
    tcp.flags == TcpFlags::SYN | TcpFlags::ACK
}

/// Nanoseconds, for people.
fn seconds(nanos: i64) -> String {
    format!(
        "{}.{:06}",
        nanos / 1_000_000_000,
        nanos % 1_000_000_000 / 1000
    )
}
