//! Requests of programs.

use super::envelope::{BUILD, Build, Envelope, seal};
use super::words::{Malformed, Reader, Writer};
use crate::NetNamespace;

const HELLO: u16 = 1;
const ATTACH: u16 = 2;
const STATUS: u16 = 3;
const SOCKETS: u16 = 4;
const SETTINGS: u16 = 5;
const INTRODUCE: u16 = 6;

/// The first thing that a program says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its build.
    pub build: String,
    /// Its network namespace.
    pub namespace: NetNamespace,
}

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Who it is; answered with [`super::Reply::Welcome`]. The same in all versions.
    Hello(Hello),
    /// A channel to each stack.
    Attach,
    /// The programs that are attached, from this id on.
    Status {
        /// The lowest id wanted.
        from: u64,
    },
    /// The program's user's sockets, from this place on.
    Sockets {
        /// 0, or what the answer before said.
        from: u64,
    },
    /// What programs have to know of the stack before they attach, from this place on.
    Settings {
        /// 0, or what the answer before said.
        from: u64,
    },
    /// The socket that comes with this is one of another program, or of another process of this
    /// one, as if that had connected. It is answered there, not here.
    Introduce,
}

impl Request {
    /// The message.
    pub fn emit(&self, build: &Build) -> Vec<u8> {
        let mut body = Writer::default();
        let kind = match self {
            Self::Hello(hello) => {
                body.text(&hello.build, BUILD);
                body.u64(hello.namespace.device);
                body.u64(hello.namespace.inode);
                HELLO
            }
            Self::Attach => ATTACH,
            Self::Status { from } => {
                body.u64(*from);
                STATUS
            }
            Self::Sockets { from } => {
                body.u64(*from);
                SOCKETS
            }
            Self::Settings { from } => {
                body.u64(*from);
                SETTINGS
            }
            Self::Introduce => INTRODUCE,
        };
        seal(build, kind, &body.bytes)
    }

    /// What the message says. Of another build only a hello is to be believed
    /// ([`Envelope::fits`]).
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(envelope: &Envelope<'_>) -> Result<Self, Malformed> {
        let mut body = Reader::new(envelope.body);
        let request = match envelope.kind {
            HELLO => Self::Hello(Hello {
                build: body.text(BUILD)?,
                namespace: NetNamespace {
                    device: body.u64()?,
                    inode: body.u64()?,
                },
            }),
            ATTACH => Self::Attach,
            STATUS => Self::Status { from: body.u64()? },
            SOCKETS => Self::Sockets { from: body.u64()? },
            SETTINGS => Self::Settings { from: body.u64()? },
            INTRODUCE => Self::Introduce,
            _ => return Err(Malformed::Kind),
        };
        body.end()?;
        Ok(request)
    }
}
