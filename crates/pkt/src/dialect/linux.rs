//! Google's scripts for Linux.

use super::text::{assigned, lines};

/// What `defaults.sh` and the sizes of Linux's buffers come to.
pub(super) const SETTINGS: &[(&str, &str)] = &[("max_buffer", "8388608"), ("ecn", "off")];

/// Cookies that Linux makes with the key in `defaults.sh`, for the default addresses.
const VALID_COOKIES: &[&str] = &["3021b9d889017eeb", "c1d1e9742a47a9bc"];
/// What the test driver defines.
const CODE: (&str, &str) = ("unreachable CODE", "unreachable host_unreachable");

/// `tcp_fastopen`: servers may, and every listener does.
const ALL_LISTENERS: u32 = 0x402;

pub(super) fn translate(text: &str) -> String {
    let flags = assigned(text, "tcp_fastopen");
    let open = flags.is_none_or(|value| number(value) & ALL_LISTENERS == ALL_LISTENERS);
    lines(text, |line| {
        let mut line = line.replace(CODE.0, CODE.1);
        for cookie in VALID_COOKIES {
            line = line.replace(cookie, "TFO_COOKIE");
        }
        let line = as_much_as_goes(&line).unwrap_or(line);
        match listening(&line).filter(|_| open) {
            Some(fd) => format!("{line} +0 setsockopt({fd}, SOL_TCP, TCP_FASTOPEN, [1024], 4) = 0"),
            None => line,
        }
    })
}

/// `sendto(3, ..., 5000, MSG_FASTOPEN, ..., ...) = 1420`: Linux takes only what goes with the SYN,
/// we what the buffer holds. So no more is offered.
fn as_much_as_goes(line: &str) -> Option<String> {
    let (call, result) = line.split_once(", MSG_FASTOPEN")?;
    let (_, taken) = result.split_once(") = ")?;
    let taken = taken.split_whitespace().next()?;
    let (call, offered) = call.rsplit_once(", ")?;
    let (most, taken): (u32, u32) = (offered.parse().ok()?, taken.parse().ok()?);
    (taken < most).then(|| format!("{call}, {taken}, MSG_FASTOPEN{result}"))
}

fn number(text: &str) -> u32 {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).unwrap_or(0),
        None => text.parse().unwrap_or(0),
    }
}

/// The descriptor in `listen(3, 1) = 0`.
fn listening(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once("listen(")?;
    let succeeds = line.trim_end().ends_with("= 0") && !before.contains("//");
    behind.split(',').next().filter(|_| succeeds)
}

#[cfg(test)]
mod tests {
    use super::translate;

    const LISTEN: &str = "   +0 listen(3, 1) = 0 ";
    const OPENED: &str =
        "   +0 listen(3, 1) = 0  +0 setsockopt(3, SOL_TCP, TCP_FASTOPEN, [1024], 4) = 0";

    #[test]
    fn every_listener_opens_fast_unless_a_setting_says_otherwise() {
        assert_eq!(translate(LISTEN), OPENED);
        let off = format!("`sysctl -q net.ipv4.tcp_fastopen=0x1`\n{LISTEN}");
        assert_eq!(translate(&off), off);
        let on = "`sysctl -q net.ipv4.tcp_fastopen=0x30403`\n";
        assert_eq!(translate(&format!("{on}{LISTEN}")), format!("{on}{OPENED}"));
    }

    #[test]
    fn no_more_is_offered_than_goes_with_the_syn() {
        let result = ", MSG_FASTOPEN, ..., ...) = 1420";
        let (long, short) = ("+0 sendto(3, ..., 5000", "+0 sendto(3, ..., 1420");
        assert_eq!(
            translate(&format!("{long}{result}")),
            format!("{short}{result}")
        );
        let fails = "+0 sendto(3, ..., 5000, MSG_FASTOPEN, ..., ...) = -1 EINPROGRESS";
        assert_eq!(translate(fails), fails);
    }

    #[test]
    fn cookies_of_the_kernel_get_a_name() {
        assert_eq!(
            translate("+0 < S 0:0(0) win 1 <FO 3021b9d889017eeb>"),
            "+0 < S 0:0(0) win 1 <FO TFO_COOKIE>"
        );
    }
}
