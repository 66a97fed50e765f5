//! Names for things: small integers with a generation, never pointers.

/// A network port (interface queue) of the stack: index into [`crate::Config::interfaces`].
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct PortId(pub u8);

impl PortId {
    /// The link to the other stacks with the same addresses: see [`crate::config::Seat`]. Its
    /// frames end with [`wire::handed::Handed`].
    pub const SIBLINGS: Self = Self(u8::MAX);
    /// No port of this stack: packets that leave there are the kernel's.
    pub const ELSEWHERE: Self = Self(u8::MAX - 1);
}

/// A name that the application gives to a listener or connection and gets back with every event
/// (mtcp: its socket id).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Token(pub u32);

impl Token {
    /// An accepted connection that the application has not taken yet.
    pub const NONE: Self = Self(u32::MAX);
}

/// A connection. `slot` is also its index in `ring::stream`; a stale generation is refused
/// everywhere.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct ConnId {
    /// Index in the connection arena and in the byte streams.
    pub slot: u32,
    /// How often the slot had been used before.
    pub generation: u32,
}

/// A record of options, as [`crate::Opened`] names it: they are the same as long as it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct OptionsId {
    /// Index in the table of records.
    pub slot: u32,
    /// How often the slot had been used before.
    pub generation: u32,
}

impl OptionsId {
    /// No record.
    pub const NONE: Self = Self {
        slot: u32::MAX,
        generation: u32::MAX,
    };
}

/// A listener.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct ListenerId {
    /// Index in the listener table.
    pub slot: u32,
    /// How often the slot had been used before.
    pub generation: u32,
}
