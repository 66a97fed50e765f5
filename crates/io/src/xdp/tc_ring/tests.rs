//! What verifiers of kernels that are not this one want of the compiled program.

use std::collections::HashSet;

use object::{Object as _, ObjectSection as _};

use super::OBJECT;

/// `bpf_skb_load_bytes` (`linux/bpf.h`) and the register of its length.
const LOAD_BYTES: i32 = 26;
const LENGTH: u8 = 4;

const LDX: u8 = 1;
const ALU: u8 = 4;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const ALU64: u8 = 7;
const MOV: u8 = 0xb0;
const JA: u8 = 0x05;
const JEQ: u8 = 0x10;
const JGT: u8 = 0x20;
const JLT: u8 = 0xa0;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The operand is a register.
const X: u8 = 0x08;

/// RFC 9669 §3.
#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    destination: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    fn parse(bytes: &[u8]) -> Self {
        Self {
            code: bytes[0],
            destination: bytes[1] & 15,
            source: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            immediate: i32::from_le_bytes(bytes[4..8].try_into().unwrap()),
        }
    }

    fn is_jump(&self) -> bool {
        matches!(self.code & 7, JMP | JMP32)
    }

    fn moves(&self) -> bool {
        matches!(self.code & 7, ALU | ALU64) && self.code & 0xf0 == MOV
    }

    fn writes(&self, register: u8) -> bool {
        match self.code & 7 {
            0 | LDX | ALU | ALU64 => self.destination == register,
            _ => self.code == CALL && register <= 5,
        }
    }

    /// Which bounds of `register` are known behind it: from below, from above.
    fn bounds(&self, register: u8, taken: bool) -> (bool, bool) {
        let compares = self.is_jump() && self.code & X == 0 && self.destination == register;
        match (self.code & 0xf0, taken) {
            _ if !compares || matches!(self.code, JA | CALL | EXIT) => (false, false),
            (JGT, false) | (JLT, true) => (false, true),
            (JLT, false) | (JGT, true) => (true, false),
            (JEQ, false) => (self.immediate == 0, false),
            _ => (false, false),
        }
    }
}

/// Where control comes to each instruction from, and whether by a jump that was taken.
fn origins(program: &[Instruction]) -> Vec<Vec<(usize, bool)>> {
    let mut origins = vec![Vec::new(); program.len() + 1];
    for (at, instruction) in program.iter().enumerate() {
        let jumps = instruction.is_jump() && !matches!(instruction.code, CALL | EXIT);
        if jumps {
            let to = at as isize + 1 + isize::from(instruction.offset);
            origins[usize::try_from(to).unwrap()].push((at, true));
        }
        if !matches!(instruction.code, JA | EXIT) {
            origins[at + 1].push((at, false));
        }
    }
    origins
}

/// The calls whose length is not checked, on some way that leads there, to be more than nothing and
/// not too much, in the very register (or one that it was copied from) that holds it: older
/// verifiers forget what they know of others.
fn unchecked_loads(program: &[Instruction]) -> Vec<usize> {
    let origins = origins(program);
    let is_load = |at: &usize| program[*at].code == CALL && program[*at].immediate == LOAD_BYTES;
    let is_checked = |call: usize| {
        let mut ways = vec![(call, LENGTH, false, false)];
        let mut seen = HashSet::new();
        while let Some(way) = ways.pop() {
            let (at, register, below, above) = way;
            if (below && above) || !seen.insert(way) {
                continue;
            }
            if origins[at].is_empty() {
                return false;
            }
            for &(from, taken) in &origins[at] {
                let before = program[from];
                if before.moves() && before.destination == register {
                    match before.code & X {
                        0 if before.immediate > 0 => {}
                        0 => return false,
                        _ => ways.push((from, before.source, below, above)),
                    }
                } else if before.writes(register) {
                    return false;
                } else {
                    let (more, less) = before.bounds(register, taken);
                    ways.push((from, register, below || more, above || less));
                }
            }
        }
        true
    };
    (0..program.len())
        .filter(is_load)
        .filter(|&call| !is_checked(call))
        .collect()
}

fn program(bytes: &[u8]) -> Vec<Instruction> {
    bytes.chunks_exact(8).map(Instruction::parse).collect()
}

/// Linux 6.12 refused the program ("invalid zero-sized read"), and frames came by the slower way.
#[test]
fn each_length_is_checked_in_the_register_that_holds_it() {
    let file = object::File::parse(OBJECT).unwrap();
    let code = file.section_by_name("classifier").unwrap().data().unwrap();
    let program = program(code);
    let loads = |i: &&Instruction| i.code == CALL && i.immediate == LOAD_BYTES;
    assert!(program.iter().filter(loads).count() >= 3);
    assert_eq!(unchecked_loads(&program), Vec::<usize>::new());
}

/// The length is r1 - 16, of which r1 was checked.
#[test]
fn a_check_of_another_register_is_none() {
    let r1_from_context = [0x61, 0x61, 0, 0, 0, 0, 0, 0];
    let r2_is_r1 = [0xbc, 0x12, 0, 0, 0, 0, 0, 0];
    let r2_less_16 = [0x04, 0x02, 0, 0, 0xf0, 0xff, 0xff, 0xff];
    let exit = [EXIT, 0, 0, 0, 0, 0, 0, 0];
    let load = [CALL, 0, 0, 0, 26, 0, 0, 0];
    let length_is_r2 = [0xbc, 0x24, 0, 0, 0, 0, 0, 0];
    let checked = |register: u8| {
        let few = [0xa6, register, 4, 0, 2, 0, 0, 0];
        let many = [0x26, register, 3, 0, 100, 0, 0, 0];
        let all = [
            r1_from_context,
            r2_is_r1,
            r2_less_16,
            few,
            many,
            length_is_r2,
            load,
            exit,
        ];
        unchecked_loads(&program(&all.concat()))
    };
    assert_eq!(checked(1), [6]);
    assert_eq!(checked(2), []);
}
