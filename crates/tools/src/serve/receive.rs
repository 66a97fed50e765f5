//! Request bodies: a file of PUT, or bytes that nobody wants.

use http1::chunked::Decoder;
use http1::{Framing, Refusal};

use super::upload::Upload;

/// As much as comes at once, bytes.
const LAST: u64 = 1 << 20;

#[derive(Debug)]
enum Coding {
    Length(u64),
    Chunked(Decoder),
}

/// A body that is arriving.
#[derive(Debug)]
pub(crate) struct Receiving {
    coding: Coding,
    /// Where it goes; `None`: nowhere.
    pub(crate) upload: Option<Upload>,
    /// Bytes that may still come.
    budget: u64,
    /// Whether the connection goes on after the response to this request.
    pub(crate) keep_alive: bool,
    /// The version of the request, for the response.
    pub(crate) http11: bool,
}

impl Receiving {
    /// A body framed as `framing` of at most `limit` bytes; `None`: there is none.
    pub(crate) fn new(
        framing: Framing,
        upload: Option<Upload>,
        limit: u64,
        keep_alive: bool,
        http11: bool,
    ) -> Option<Self> {
        let coding = match framing {
            Framing::Length(length) => Coding::Length(length),
            Framing::Chunked => Coding::Chunked(Decoder::new()),
            Framing::Empty | Framing::UntilClose => return None,
        };
        Some(Self {
            coding,
            upload,
            budget: limit,
            keep_alive,
            http11,
        })
    }

    /// Whether all has come.
    pub(crate) fn done(&self) -> bool {
        match &self.coding {
            Coding::Length(left) => *left == 0,
            Coding::Chunked(decoder) => decoder.done(),
        }
    }

    /// Whether the rest of an upload may come at once. What is done then can take long, on a disk;
    /// the peer is not to wait for that to hear that all came.
    pub(crate) fn ends_soon(&self) -> bool {
        let left = match &self.coding {
            Coding::Length(left) => *left,
            Coding::Chunked(_) => return false,
        };
        self.upload.is_some() && left <= LAST
    }

    /// Takes what belongs to the body from the start of `input`; returns how many bytes that was.
    ///
    /// # Errors
    /// 400: bad chunks; 413: too long; 507 and 500: it cannot be written.
    pub(crate) fn take(&mut self, input: &[u8]) -> Result<usize, Refusal> {
        let mut used = 0;
        while !self.done() {
            let rest = input.get(used..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            used += self.step(rest)?;
        }
        Ok(used)
    }

    fn step(&mut self, input: &[u8]) -> Result<usize, Refusal> {
        let (used, data) = match &mut self.coding {
            Coding::Length(left) => {
                let used = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= used as u64;
                (used, used)
            }
            Coding::Chunked(decoder) => {
                let piece = decoder.step(input)?;
                (piece.used, piece.data)
            }
        };
        self.budget = self.budget.checked_sub(data as u64).ok_or(Refusal(413))?;
        if let Some(upload) = self.upload.as_mut() {
            upload.write(input.get(used - data..used).unwrap_or_default())?;
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_where_it_says() {
        let mut body = Receiving::new(Framing::Length(5), None, 100, true, true).unwrap();
        assert_eq!(body.take(b"abc"), Ok(3));
        assert!(!body.done());
        assert_eq!(body.take(b"deGET"), Ok(2));
        assert!(body.done());
        let mut body = Receiving::new(Framing::Chunked, None, 100, true, true).unwrap();
        assert_eq!(body.take(b"3\r\nabc\r\n0\r\n\r\nGET"), Ok(13));
        assert!(body.done());
    }

    #[test]
    fn the_last_megabyte_of_an_upload_ends_soon() {
        let top = tempfile::tempdir().unwrap();
        let root = super::super::root::Root::new(top.path()).unwrap();
        let upload = Upload::begin(&root, b"a", 1).unwrap();
        let framing = Framing::Length(LAST + 2);
        let mut body = Receiving::new(framing, Some(upload), u64::MAX, true, true).unwrap();
        assert_eq!((body.take(b"a"), body.ends_soon()), (Ok(1), false));
        assert_eq!((body.take(b"b"), body.ends_soon()), (Ok(1), true));
        let body = Receiving::new(Framing::Length(2), None, 100, true, true).unwrap();
        assert!(!body.ends_soon(), "nothing is written");
    }

    #[test]
    fn too_long_is_413() {
        let mut body = Receiving::new(Framing::Chunked, None, 4, true, true).unwrap();
        assert_eq!(body.take(b"5\r\nabcde\r\n"), Err(Refusal(413)));
        assert!(Receiving::new(Framing::Empty, None, 4, true, true).is_none());
    }
}
