//! Where control sockets are: `/run/mtcp` for the host's daemons, a directory of the user's own for
//! private ones. Abstract names would be anybody's.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::geteuid;

use crate::Error;

/// The directory of the host's daemons, which root owns.
pub const SYSTEM: &str = "/run/mtcp";
/// The name of a daemon that was given none.
pub const DEFAULT_NAME: &str = "default";
/// Longest name of a daemon, bytes.
pub const NAME_MAX: usize = 32;
/// Daemons that are looked at in one directory.
const DAEMONS_MAX: usize = 64;

/// A directory of control sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    directory: PathBuf,
    /// Others may reach what is in it.
    shared: bool,
}

impl Place {
    /// That of the host's daemons.
    pub fn system() -> Self {
        Self::shared(SYSTEM)
    }

    /// One that others may reach.
    pub fn shared(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            shared: true,
        }
    }

    /// One that only this user can reach.
    pub fn private(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            shared: false,
        }
    }

    /// Where this user's private daemons may be, the first that can be used first:
    /// `$XDG_RUNTIME_DIR/mtcp`, `/run/user/UID/mtcp`, `/tmp/mtcp-UID`. Programs without that
    /// variable (cron, sudo) look at the same places.
    pub fn own() -> Vec<Self> {
        let uid = geteuid().as_raw();
        let of_session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let of_user = PathBuf::from(format!("/run/user/{uid}"));
        let is_ours = |path: &PathBuf| {
            fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == uid)
        };
        let mut runtime: Vec<PathBuf> = of_session
            .into_iter()
            .chain([of_user])
            .filter(|path| path.is_absolute() && is_ours(path))
            .collect();
        runtime.dedup();
        runtime
            .into_iter()
            .map(|path| Self::private(path.join("mtcp")))
            .chain([Self::private(format!("/tmp/mtcp-{uid}"))])
            .collect()
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether others may reach what is in it.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Makes it, unless it is there, and checks it. Of directories that are there only `/run/mtcp`
    /// is opened to others: any other is as its owner wants it.
    ///
    /// # Errors
    /// It cannot be made, or cannot be trusted.
    pub fn make(&self) -> Result<(), Error> {
        let mode = if self.shared { 0o755 } else { 0o700 };
        let is_new = match DirBuilder::new().mode(mode).create(&self.directory) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(self.error("cannot be made", &error)),
        };
        self.check()?;
        if is_new || self.directory == Path::new(SYSTEM) {
            // Whatever the umask is, or whoever made it for root alone.
            fs::set_permissions(&self.directory, Permissions::from_mode(mode))
                .map_err(|error| self.error("cannot be given its mode", &error))?;
        }
        Ok(())
    }

    /// Whether what is in it can be trusted: root or this user made it, and nobody else writes to
    /// it. `Ok(false)`: it is not there.
    ///
    /// # Errors
    /// It is somebody else's.
    pub fn check(&self) -> Result<bool, Error> {
        let found = match fs::symlink_metadata(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.error("cannot be looked at", &error)),
            Ok(found) => found,
        };
        let own = geteuid().as_raw();
        let owner_fits = found.uid() == own || self.shared && found.uid() == 0;
        if found.is_dir() && owner_fits && found.mode() & 0o022 == 0 {
            Ok(true)
        } else {
            Err(self.foreign(&found))
        }
    }

    /// The socket of the daemon of this name.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.sock"))
    }

    /// What the daemon of this name holds a lock on while it lives.
    pub fn lock(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.lock"))
    }

    /// What whoever starts or joins a private daemon holds a lock on meanwhile.
    pub fn start_lock(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.start"))
    }

    /// Where a private daemon says what it has to say.
    pub fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// The names of all daemons that are or were here, the default one first.
    pub fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return Vec::new();
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            let file = entry.ok()?.file_name();
            let name = file.to_str()?.strip_suffix(".sock")?;
            check_name(name).ok().map(|()| name.to_owned())
        };
        let mut names: Vec<String> = entries.filter_map(name).take(DAEMONS_MAX).collect();
        names.sort_by_key(|name| (name != DEFAULT_NAME, name.clone()));
        names
    }

    fn foreign(&self, found: &fs::Metadata) -> Error {
        let path = self.directory.display();
        let cause = if found.is_dir() {
            format!(
                "the directory '{path}' of control sockets is of user {}, with mode {:o}",
                found.uid(),
                found.mode() & 0o7777
            )
        } else {
            format!("'{path}', where control sockets belong, is no directory")
        };
        Error::new(
            Errno::PERM,
            cause,
            "name another, or have its owner remove it",
        )
    }

    fn error(&self, what: &str, error: &io::Error) -> Error {
        Error::new(
            Errno::from_io_error(error).unwrap_or(Errno::IO),
            format!(
                "the directory '{}' of control sockets {what}: {error}",
                self.directory.display()
            ),
            if self.shared {
                "start the daemon as root, or with --private"
            } else {
                "check the permissions of what is above it"
            },
        )
    }
}

/// Whether a daemon may have this name, which becomes one of files.
///
/// # Errors
/// What names look like.
pub fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty()
        || name.len() > NAME_MAX
        || name.starts_with('.')
        || !name.bytes().all(is_plain)
    {
        return Err(Error::new(
            Errno::INVAL,
            format!("'{name}' is no name of a daemon"),
            format!("use at most {NAME_MAX} of a-z, A-Z, 0-9, '-', '_' and '.'"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_private_directory_is_this_users_alone() {
        let base = tempfile::tempdir().unwrap();
        let place = Place::private(base.path().join("mtcp"));
        assert_eq!(place.check(), Ok(false));
        place.make().unwrap();
        assert_eq!(place.check(), Ok(true));
        let mode = fs::metadata(place.directory()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::set_permissions(place.directory(), Permissions::from_mode(0o777)).unwrap();
        let error = place.check().unwrap_err().to_string();
        assert!(
            error.contains("with mode 777: name another, or have its owner remove it"),
            "{error}"
        );
        // It may be somebody's for whom that is right, as /tmp is.
        assert_eq!(place.make().unwrap_err().to_string(), error);
        let mode = fs::metadata(place.directory()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o777);
    }

    #[test]
    fn no_symbolic_link_is_followed() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("mtcp");
        symlink(base.path(), &link).unwrap();
        for place in [Place::private(&link), Place::shared(&link)] {
            assert!(
                place
                    .make()
                    .unwrap_err()
                    .to_string()
                    .contains("is no directory")
            );
            assert!(
                place
                    .check()
                    .unwrap_err()
                    .to_string()
                    .contains("is no directory")
            );
        }
    }

    #[test]
    fn names_are_those_of_files() {
        for name in ["default", "web-1", "a.b_c"] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", ".hidden", "a/b", "..", "ü", &"x".repeat(33)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_default_daemon_comes_first() {
        let base = tempfile::tempdir().unwrap();
        for file in ["a.sock", "default.sock", "b.sock", "default.lock"] {
            let _ = fs::write(base.path().join(file), "");
        }
        assert_eq!(Place::private(base.path()).names(), ["default", "a", "b"]);
    }
}
