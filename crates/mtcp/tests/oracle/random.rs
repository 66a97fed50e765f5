//! Scripts that nobody wrote: a seeded walk over what can be done to a connection.

use crate::both;

/// A small generator: xorshift64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const INTERESTS: [&str; 8] = [
    "all", "edge", "shot", "in", "out", "in+et", "none", "shot+et",
];

/// One walk: both ends are watched, things happen, reports are asked for all the time.
fn walk(seed: u64) -> String {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut script = String::from("listen; socket C; connect C; accept; connect C");
    for end in ["C", "S"] {
        script += &format!("; add {end} {}", dice.pick(&INTERESTS));
        if dice.roll(3) == 0 {
            script += &format!("; add2 {end} {}", dice.pick(&INTERESTS));
        }
    }
    let mut open = vec!["C", "S"];
    // Which directions `C` and `S` have shut. Data to an end that shut both is the one known
    // difference: Linux answers with RST at once.
    let mut shut = [[false; 2]; 2];
    for _ in 0..14 {
        if open.is_empty() {
            break;
        }
        let end = dice.pick(&open);
        let amount = 1 + dice.roll(6);
        let step = match dice.roll(16) {
            0..=3 if shut[usize::from(end == "C")] != [true; 2] => format!("write {end} {amount}"),
            4..=6 => format!("read {end} {amount}"),
            7 => format!("drain {end}"),
            8 | 9 => {
                let how = dice.pick(&["read", "write", "write", "both"]);
                let shut = &mut shut[usize::from(end == "S")];
                shut[0] |= how != "write";
                shut[1] |= how != "read";
                format!("shut {end} {how}")
            }
            10 | 11 => format!("mod {end} {}", dice.pick(&INTERESTS)),
            12 => format!("error {end}"),
            13 => format!("del {end}; add {end} {}", dice.pick(&INTERESTS)),
            14 if dice.roll(2) == 0 => {
                open.retain(|other| *other != end);
                format!("close {end}")
            }
            15 if dice.roll(3) == 0 => {
                open.retain(|other| *other != end);
                format!("reset {end}")
            }
            _ => String::from("wait S"),
        };
        script += &format!("; {step}; wait C; wait S");
        if dice.roll(2) == 0 {
            script += "; wait2 C; wait2 S";
        }
    }
    script
}

#[test]
fn random_walks() {
    for seed in 1..=60 {
        both(&format!("seed {seed}"), &walk(seed));
    }
}
