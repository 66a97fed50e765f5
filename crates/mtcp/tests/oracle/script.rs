//! Scripts: what is done to a listener, a connection and the epoll instances that watch them.

use mtcp::{Events, How};

/// Ends of a script: a listener `L` and accepted `S` on the server, `C` and `D` on the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    C,
    D,
    L,
    S,
}

pub use End::{C, D, L, S};

impl End {
    pub fn is_client(self) -> bool {
        matches!(self, C | D)
    }
}

/// Options that are numbers.
#[derive(Clone, Copy, Debug)]
pub enum Opt {
    RecvLowWater,
    UnsentLowWater,
    Cork,
    NoDelay,
    QuickAck,
    /// Seconds.
    DeferAccept,
    WindowClamp,
    FastOpen,
    FastOpenConnect,
    PacingRate,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Listen,
    Socket(End),
    /// Non-blocking, to the listener's port.
    Connect(End),
    Accept,
    /// The client gets the server's cookie.
    Meet,
    /// Register in the side's first instance.
    Add(End, Events),
    Mod(End, Events),
    Del(End),
    /// In the side's second instance.
    Add2(End, Events),
    /// What the first instance of this end's side reports now, without waiting.
    Wait(End),
    Wait2(End),
    Write(End, usize),
    /// With MSG_FASTOPEN, to the listener's port.
    Send(End, usize),
    Read(End, usize),
    /// Write until it would block.
    Fill(End),
    /// Read until it would block.
    Drain(End),
    Shutdown(End, How),
    Close(End),
    /// Close with RST.
    Reset(End),
    Error(End),
    /// setsockopt.
    Set(End, Opt, i32),
    /// What getsockopt says.
    Get(End, Opt),
    /// SIOCOUTQ.
    Unacked(End),
}

pub use Step::*;

pub type Answer = Result<usize, i32>;

/// Something that scripts run on.
pub trait Net {
    fn step(&mut self, step: Step) -> Answer;
    fn wait(&mut self, end: End, second: bool) -> Vec<(End, Events)>;
    fn settle(&mut self);
}

/// Runs a script and writes down what comes back.
pub fn run(net: &mut dyn Net, script: &[Step]) -> Vec<String> {
    let mut log = Vec::new();
    for &step in script {
        let line = match step {
            Wait(end) => format!("{step:?}: {:?}", net.wait(end, false)),
            Wait2(end) => format!("{step:?}: {:?}", net.wait(end, true)),
            // How much fits in buffers is everyone's own affair.
            Fill(_) | Drain(_) => format!("{step:?}: {:?}", net.step(step).map(|n| n > 0)),
            _ => format!("{step:?}: {:?}", net.step(step)),
        };
        log.push(line);
        net.settle();
    }
    log
}

/// Reports in the order of ends.
pub fn sorted(events: impl Iterator<Item = (u64, Events)>) -> Vec<(End, Events)> {
    let mut events: Vec<(u64, Events)> = events.collect();
    events.sort_by_key(|&(data, _)| data);
    events
        .into_iter()
        .map(|(data, events)| ([C, D, L, S][data as usize], events))
        .collect()
}

/// Reads a script: steps separated by `;`, each a word, perhaps an end, perhaps an argument.
pub fn parse(text: &str) -> Vec<Step> {
    text.split(';')
        .map(|step| parse_step(step).unwrap_or_else(|| panic!("'{step}' is no step")))
        .collect()
}

fn parse_step(text: &str) -> Option<Step> {
    let mut words = text.split_whitespace();
    let (name, end, argument) = (words.next()?, words.next(), words.next());
    let end = end.map(|end| match end {
        "C" => C,
        "D" => D,
        "L" => L,
        "S" => S,
        _ => panic!("'{end}' is no end"),
    });
    let option = || match argument? {
        "rcvlowat" => Some(Opt::RecvLowWater),
        "notsent" => Some(Opt::UnsentLowWater),
        "cork" => Some(Opt::Cork),
        "nodelay" => Some(Opt::NoDelay),
        "quickack" => Some(Opt::QuickAck),
        "defer" => Some(Opt::DeferAccept),
        "clamp" => Some(Opt::WindowClamp),
        "fastopen" => Some(Opt::FastOpen),
        "fastconnect" => Some(Opt::FastOpenConnect),
        "pacing" => Some(Opt::PacingRate),
        _ => None,
    };
    Some(match (name, end, argument) {
        ("set", Some(end), _) => Set(end, option()?, words.next()?.parse().ok()?),
        ("get", Some(end), _) => Get(end, option()?),
        ("unacked", Some(end), None) => Unacked(end),
        ("listen", None, None) => Listen,
        ("accept", None, None) => Accept,
        ("meet", None, None) => Meet,
        ("socket", Some(end), None) => Socket(end),
        ("connect", Some(end), None) => Connect(end),
        ("add", Some(end), Some(events)) => Add(end, parse_events(events)),
        ("add2", Some(end), Some(events)) => Add2(end, parse_events(events)),
        ("mod", Some(end), Some(events)) => Mod(end, parse_events(events)),
        ("del", Some(end), None) => Del(end),
        ("wait", Some(end), None) => Wait(end),
        ("wait2", Some(end), None) => Wait2(end),
        ("write", Some(end), Some(n)) => Write(end, n.parse().ok()?),
        ("send", Some(end), Some(n)) => Send(end, n.parse().ok()?),
        ("read", Some(end), Some(n)) => Read(end, n.parse().ok()?),
        ("fill", Some(end), None) => Fill(end),
        ("drain", Some(end), None) => Drain(end),
        ("shut", Some(end), Some("read")) => Shutdown(end, How::Read),
        ("shut", Some(end), Some("write")) => Shutdown(end, How::Write),
        ("shut", Some(end), Some("both")) => Shutdown(end, How::Both),
        ("close", Some(end), None) => Close(end),
        ("reset", Some(end), None) => Reset(end),
        ("error", Some(end), None) => Error(end),
        _ => return None,
    })
}

fn parse_events(text: &str) -> Events {
    let all = Events::IN | Events::OUT | Events::RDHUP;
    let word = |word: &str| match word {
        "all" => all,
        "edge" => all | Events::ET,
        "shot" => all | Events::ONESHOT,
        "in" => Events::IN,
        "out" => Events::OUT,
        "et" => Events::ET,
        "rdnorm" => Events::RDNORM,
        "wrnorm" => Events::WRNORM,
        "none" => Events::empty(),
        _ => panic!("'{word}' is no event"),
    };
    text.split('+').map(word).collect()
}
