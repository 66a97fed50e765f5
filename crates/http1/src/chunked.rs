//! The chunked transfer coding (RFC 9112 §7.1), decoded as it arrives.

use super::Refusal;

/// Longest chunk-size line, and longest trailer section.
const MAX_LINE: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the hexadecimal size, with so many digits seen.
    Size {
        value: u64,
        digits: u8,
    },
    /// In a chunk extension, which is ignored.
    Extension {
        value: u64,
    },
    /// After the CR of the size line.
    SizeLf {
        value: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// In the trailer section; `line` bytes of the current line seen.
    Trailer {
        line: u32,
    },
    TrailerLf {
        line: u32,
    },
    Done,
}

/// A decoder of one chunked body.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    line: u32,
}

/// What one step of decoding found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Input bytes used up, data included.
    pub used: usize,
    /// The last so many of them are data.
    pub data: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// At the start of the body.
    pub fn new() -> Self {
        Self {
            state: State::Size {
                value: 0,
                digits: 0,
            },
            line: 0,
        }
    }

    /// Whether the last chunk and the trailer section are over.
    pub fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes until a piece of data, the end of the input or the end of the body. Call it again
    /// until `used` is 0.
    ///
    /// # Errors
    /// 400: not the chunked coding.
    pub fn step(&mut self, input: &[u8]) -> Result<Piece, Refusal> {
        for (at, byte) in input.iter().enumerate() {
            match self.state {
                State::Done => return Ok(Piece { used: at, data: 0 }),
                State::Data { left } => {
                    let rest = input.len() - at;
                    let data = usize::try_from(left).map_or(rest, |left| left.min(rest));
                    let left = left - data as u64;
                    self.state = if left == 0 {
                        State::DataCr
                    } else {
                        State::Data { left }
                    };
                    return Ok(Piece {
                        used: at + data,
                        data,
                    });
                }
                _ => self.state = self.after(*byte)?,
            }
        }
        Ok(Piece {
            used: input.len(),
            data: 0,
        })
    }

    /// The state after a byte that is not data.
    fn after(&mut self, byte: u8) -> Result<State, Refusal> {
        self.line += 1;
        if self.line > MAX_LINE {
            return Err(Refusal(400));
        }
        let next = match (self.state, byte) {
            (State::Size { value, digits }, byte) => size(value, digits, byte)?,
            (State::Extension { value }, b'\r') => State::SizeLf { value },
            (State::Extension { value }, byte) if byte != b'\n' => State::Extension { value },
            (State::SizeLf { value: 0 }, b'\n') => State::Trailer { line: 0 },
            (State::SizeLf { value }, b'\n') => State::Data { left: value },
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size {
                value: 0,
                digits: 0,
            },
            (State::Trailer { line }, b'\r') => State::TrailerLf { line },
            (State::Trailer { line }, byte) if byte != b'\n' => State::Trailer { line: line + 1 },
            (State::TrailerLf { line: 0 }, b'\n') => State::Done,
            (State::TrailerLf { .. }, b'\n') => State::Trailer { line: 0 },
            _ => return Err(Refusal(400)),
        };
        if matches!(next, State::Data { .. } | State::DataLf) {
            self.line = 0;
        }
        Ok(next)
    }
}

fn size(value: u64, digits: u8, byte: u8) -> Result<State, Refusal> {
    match byte {
        b'\r' if digits > 0 => Ok(State::SizeLf { value }),
        b';' | b' ' | b'\t' if digits > 0 => Ok(State::Extension { value }),
        _ => {
            let digit = char::from(byte).to_digit(16).ok_or(Refusal(400))?;
            if digits >= 15 {
                return Err(Refusal(400));
            }
            Ok(State::Size {
                value: value << 4 | u64::from(digit),
                digits: digits + 1,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `input` cut into pieces of `cut` bytes; the bytes after the body come second.
    fn decode(input: &[u8], cut: usize) -> Result<(Vec<u8>, usize), Refusal> {
        let (mut decoder, mut body, mut total) = (Decoder::new(), Vec::new(), 0);
        for part in input.chunks(cut) {
            let mut rest = part;
            loop {
                let piece = decoder.step(rest)?;
                body.extend_from_slice(&rest[piece.used - piece.data..piece.used]);
                total += piece.used;
                rest = &rest[piece.used..];
                if piece.used == 0 || rest.is_empty() {
                    break;
                }
            }
        }
        assert!(decoder.done());
        Ok((body, total))
    }

    const BODY: &[u8] = b"4\r\nWiki\r\n6;a=b\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\nGET /";

    #[test]
    fn every_cut_decodes_to_the_same() {
        for cut in 1..=BODY.len() {
            assert_eq!(
                decode(BODY, cut),
                Ok((b"Wikipedia in \r\n\r\nchunks.".to_vec(), BODY.len() - 5)),
                "cut {cut}"
            );
        }
    }

    #[test]
    fn what_is_not_chunked_is_refused() {
        for bad in [
            &b"\r\n"[..],
            b"x\r\n",
            b"4\nWiki",
            b"4\r\nWikiX",
            b"-1\r\n",
            b"1000000000000000\r\n",
            b"0x4\r\n",
            b"4;\nWiki",
            b"0\r\n\n",
        ] {
            let mut decoder = Decoder::new();
            let mut rest = bad;
            let result = loop {
                match decoder.step(rest) {
                    Ok(piece) if piece.used == 0 || piece.used == rest.len() => break Ok(()),
                    Ok(piece) => rest = &rest[piece.used..],
                    Err(refusal) => break Err(refusal),
                }
            };
            assert_eq!(result, Err(Refusal(400)), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn endless_extensions_and_trailers_are_refused() {
        let long = vec![b'a'; 10_000];
        assert_eq!(
            Decoder::new().step(&[b"4;", &long[..]].concat()),
            Err(Refusal(400))
        );
        assert_eq!(
            Decoder::new().step(&[b"0\r\n", &long[..]].concat()),
            Err(Refusal(400))
        );
    }
}
