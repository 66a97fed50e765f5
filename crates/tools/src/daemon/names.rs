//! Users and groups, as this machine names them (nsswitch.conf(5)).

use control::policy::Names;
use nix::unistd::{Group, User};

/// This machine's.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfHost;

impl Names for OfHost {
    fn user(&self, name: &str) -> Option<u32> {
        let user = User::from_name(name).ok().flatten()?;
        Some(user.uid.as_raw())
    }

    fn group(&self, name: &str) -> Option<u32> {
        let group = Group::from_name(name).ok().flatten()?;
        Some(group.gid.as_raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known() {
        assert_eq!(
            (OfHost.user("root"), OfHost.group("root")),
            (Some(0), Some(0))
        );
        assert_eq!(OfHost.user("nobody-has-this-name"), None);
    }
}
