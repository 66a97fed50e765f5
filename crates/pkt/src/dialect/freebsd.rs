//! The TCP test suite of FreeBSD.

use super::text::{assigned, lines, own};

/// Its receive buffer of 65536 bytes, rounded up to segments; ACKs at once, since those that are
/// spare do not matter.
const SETTINGS: &[(&str, &str)] = &[("recv_buffer", "65700"), ("quick_acks", "255")];

/// The branch of an `#ifdef` that follows the RFC.
const STANDARD: &str = "STANDARD";

pub(super) fn translate(text: &str) -> String {
    let opens_fast = text.contains("IPPROTO_TCP, TCP_FASTOPEN, [1]");
    let all: Vec<&str> = text.split('\n').collect();
    let mut behind = all.as_slice();
    let mut branches = Vec::new();
    lines(text, |line| {
        behind = behind.get(1..).unwrap_or_default();
        let word = line.split_whitespace().next().unwrap_or_default();
        match word {
            "#ifdef" => branches.push(line.contains(STANDARD)),
            "#else" => branches
                .iter_mut()
                .rev()
                .take(1)
                .for_each(|kept| *kept = !*kept),
            "#endif" => {
                branches.pop();
            }
            _ => {
                let kept = branches.iter().all(|kept| *kept) && !sizes_a_buffer(line);
                return if kept {
                    event(line, opens_fast, behind)
                } else {
                    out(line)
                };
            }
        }
        out(line)
    })
}

fn out(line: &str) -> String {
    format!("//{line}")
}

/// Buffers are of other sizes here.
fn sizes_a_buffer(line: &str) -> bool {
    let option = line.contains("SOL_SOCKET, SO_RCVBUF") || line.contains("SOL_SOCKET, SO_SNDBUF");
    option && line.contains("etsockopt(")
}

/// States have other names.
const STATES: &[(&str, &str)] = &[
    ("TCPI_SYN_RECEIVED", "TCP_SYN_RECV"),
    ("TCPI_FIN_WAIT_1", "TCP_FIN_WAIT1"),
    ("TCPI_FIN_WAIT_2", "TCP_FIN_WAIT2"),
    ("TCPI_CLOSED", "TCP_CLOSE"),
    ("TCPI_OPT", "TCPI_OPT"),
    ("TCPI_", "TCP_"),
];

/// A socket with TCP_FASTOPEN sends its first bytes with `sendto`, which does not wait; here it
/// takes a flag, and it waits for a peer that has not given a cookie yet. `behind` is the rest of
/// the script.
fn event(line: &str, opens_fast: bool, behind: &[&str]) -> String {
    if opens_fast && let Some((time, call)) = line.split_once("sendto(") {
        let call = call.replace(", 0, ..., ...)", ", MSG_FASTOPEN, ..., ...)");
        return match answered(behind) {
            Some(at) => format!("{}...{at} sendto({call}", time.trim_end()),
            None => format!("{time}sendto({call}"),
        };
    }
    match line
        .split_once("%{")
        .zip(STATES.iter().find(|(name, _)| line.contains(name)))
    {
        Some((_, (name, ours))) => line.replace(name, ours),
        None => line.to_owned(),
    }
}

/// How long after an empty SYN its answer comes.
fn answered<'a>(behind: &[&'a str]) -> Option<&'a str> {
    let syn = behind.iter().position(|line| is_packet(line, [">", "S"]))?;
    let (syn, rest) = behind.get(syn..)?.split_first()?;
    let answer = rest.iter().find(|line| is_packet(line, ["<", "S."]))?;
    let time = answer.split('<').next()?.trim().trim_start_matches('+');
    syn.contains("(0)").then_some(time)
}

/// Whether a packet of this direction and these flags is on the line.
fn is_packet(line: &str, packet: [&str; 2]) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| *pair == packet)
}

/// Leaves open what is not compared: window and options of what the stack sends.
pub(super) fn open(text: &str) -> String {
    lines(text, |line| {
        let line = line.replace("O_RDWR | O_NONBLOCK)", "O_RDWR|O_NONBLOCK)");
        let Some((time, packet)) = line.split_once('>') else {
            return line;
        };
        let is_time = |c: char| c.is_ascii_digit() || matches!(c, ' ' | '+' | '.' | '~' | '*');
        if !time.chars().all(is_time) || packet.contains("icmp") {
            return line;
        }
        let (header, options) = match packet.split_once('<') {
            Some((header, options)) => {
                let behind = options.rsplit_once('>').map_or("", |(_, behind)| behind);
                (header, format!("<...>{behind}"))
            }
            None => (packet, String::new()),
        };
        format!("{time}>{}{options}", without_window(header))
    })
}

fn without_window(header: &str) -> String {
    let Some((before, behind)) = header.split_once(" win ") else {
        return header.to_owned();
    };
    let rest = behind
        .trim_start()
        .trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}{rest}")
}

/// What it sets before its first socket.
pub(super) fn settings(text: &str) -> Vec<(String, String)> {
    let mut settings = own(SETTINGS);
    let head = text.split("socket(...").next().unwrap_or_default();
    let value = |name: &str| assigned(head, &format!("net.inet.tcp.{name}"));
    let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
    if value("rfc1323") == Some("0") {
        set("timestamps", "0".to_owned());
        set("window_scaling", "0".to_owned());
    }
    match value("ecn.enable") {
        Some("0") => set("ecn", "off".to_owned()),
        Some("1") => set("ecn", "on".to_owned()),
        _ => {}
    }
    if value("syncookies_only") == Some("1") {
        set("syn_cookies", "always".to_owned());
    }
    if let Some(time) = value("delacktime") {
        set("delayed_ack", format!("{time}ms"));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_branch_stays() {
        let text = "a\n#ifdef STANDARD\nb\n#endif\n#ifdef FreeBSD\nc\n#else\nd\n#endif\ne";
        let kept =
            "a\n//#ifdef STANDARD\nb\n//#endif\n//#ifdef FreeBSD\n//c\n//#else\nd\n//#endif\ne";
        assert_eq!(translate(text), kept);
    }

    #[test]
    fn what_is_sent_is_opened_for_the_tool() {
        assert_eq!(
            open("+0.00 > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK> // so"),
            "+0.00 > S. 0:0(0) ack 1 <...> // so"
        );
        assert_eq!(
            open("+0.00 >  . 1:1(0) ack 1 win 9"),
            "+0.00 >  . 1:1(0) ack 1"
        );
        let received = "+0.00 < . 1:1(0) ack 1 win 9 <nop>";
        assert_eq!(open(received), received);
    }

    #[test]
    fn settings_before_the_first_socket_count() {
        let text = "0 `sysctl -w net.inet.tcp.rfc1323=0`\n+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 `sysctl -w net.inet.tcp.ecn.enable=0`";
        let names: Vec<String> = settings(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["recv_buffer", "quick_acks", "timestamps", "window_scaling"]
        );
    }

    #[test]
    fn first_bytes_go_with_the_syn_or_wait_for_a_cookie() {
        let option = "+0 setsockopt(3, IPPROTO_TCP, TCP_FASTOPEN, [1], 4) = 0\n";
        let call = "sendto(3, ..., 100, 0, ..., ...) = 100";
        let ours = "sendto(3, ..., 100, MSG_FASTOPEN, ..., ...) = 100";
        let cookie = "+0 > S 0:100(100)\n+.05 < S. 0:0(0)";
        let sent = format!("{option}+0 {call}\n{cookie}");
        assert_eq!(translate(&sent), format!("{option}+0 {ours}\n{cookie}"));
        let none = "+0 > S 0:0(0)\n+.05 < S. 0:0(0)";
        let waits = format!("{option}+0 {call}\n{none}");
        assert_eq!(
            translate(&waits),
            format!("{option}+0....05 {ours}\n{none}")
        );
    }

    #[test]
    fn states_get_our_names() {
        assert_eq!(
            translate("+0 %{ assert tcpi_state == TCPI_CLOSE_WAIT }%"),
            "+0 %{ assert tcpi_state == TCP_CLOSE_WAIT }%"
        );
    }
}
