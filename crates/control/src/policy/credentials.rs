//! Who asks.

/// Who asks: what the kernel says of the peer of a socket.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Credentials {
    /// Its process.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Whether this is the superuser.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub(super) fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }
}
