//! Files that arrive by PUT: written under a name of their own, renamed in one step when they are
//! complete.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use http1::Refusal;

use super::root::{Root, is_partial_upload};

/// A file that is arriving. Dropped before [`Upload::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Upload {
    parent: OwnedFd,
    file: OwnedFd,
    partial: String,
    name: Vec<u8>,
    replaces: bool,
    committed: bool,
}

impl Upload {
    /// Begins the file at `path` (decoded, relative) in `root`; `serial` is new with every call in
    /// this process.
    ///
    /// # Errors
    /// 400: no file name; 403: not allowed; 409: the directory is missing or the name is one; 507:
    /// no space.
    pub(crate) fn begin(root: &Root, path: &[u8], serial: u64) -> Result<Self, Refusal> {
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (
                path.get(..slash).unwrap_or_default(),
                path.get(slash + 1..).unwrap_or_default(),
            ),
            None => (&b""[..], path),
        };
        if name.is_empty() {
            return Err(Refusal(400));
        }
        if is_partial_upload(name) {
            return Err(Refusal(403));
        }
        let parent = root.open_directory(parent).map_err(refusal)?;
        let replaces = exists_as_file(&parent, name)?;
        let partial = format!(".mtcp-{}-{}.part", std::process::id(), serial);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&parent, &*partial, flags, Mode::from_raw_mode(0o644))
            .map_err(refusal)?;
        Ok(Self {
            parent,
            file,
            partial,
            name: name.to_vec(),
            replaces,
            committed: false,
        })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// 507: no space; 500: anything else.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.file, bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(refusal(error)),
            }
        }
        Ok(())
    }

    /// Gives the file its name; whether it replaced another.
    ///
    /// # Errors
    /// As in [`Upload::begin`].
    pub(crate) fn commit(mut self) -> Result<bool, Refusal> {
        rustix::fs::renameat(&self.parent, &*self.partial, &self.parent, &*self.name)
            .map_err(refusal)?;
        self.committed = true;
        Ok(self.replaces)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.committed {
            // It may be gone already; nobody could be told.
            let _ = rustix::fs::unlinkat(&self.parent, &*self.partial, AtFlags::empty());
        }
    }
}

fn exists_as_file(parent: &OwnedFd, name: &[u8]) -> Result<bool, Refusal> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            Err(Refusal(409))
        }
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(refusal(error)),
    }
}

fn refusal(error: Errno) -> Refusal {
    Refusal(match error {
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => 409,
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::ROFS => 403,
        Errno::NAMETOOLONG => 400,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => 507,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => 503,
        _ => 500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &std::path::Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let top = tempfile::tempdir().unwrap();
        let root = Root::new(top.path()).unwrap();
        let mut upload = Upload::begin(&root, b"a", 1).unwrap();
        upload.write(b"hello ").unwrap();
        upload.write(b"world").unwrap();
        assert!(!top.path().join("a").exists());
        assert_eq!(upload.commit(), Ok(false));
        assert_eq!(std::fs::read(top.path().join("a")).unwrap(), b"hello world");
        assert_eq!(Upload::begin(&root, b"a", 1).unwrap().commit(), Ok(true));
        assert_eq!(names(top.path()), ["a"]);
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        let top = tempfile::tempdir().unwrap();
        let root = Root::new(top.path()).unwrap();
        let mut upload = Upload::begin(&root, b"a", 1).unwrap();
        upload.write(b"hello").unwrap();
        assert_eq!(names(top.path()).len(), 1);
        drop(upload);
        assert!(names(top.path()).is_empty());
    }

    #[test]
    fn refusals() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir(top.path().join("dir")).unwrap();
        std::os::unix::fs::symlink("/tmp", top.path().join("out")).unwrap();
        let root = Root::new(top.path()).unwrap();
        for (path, status) in [
            ("", 400),
            ("dir/", 400),
            ("dir", 409),
            ("missing/a", 409),
            ("out/a", 403),
            (".mtcp-x.part", 403),
        ] {
            assert_eq!(
                Upload::begin(&root, path.as_bytes(), 1).map(|_| ()),
                Err(Refusal(status)),
                "{path}"
            );
        }
    }
}
