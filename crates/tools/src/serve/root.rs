//! A directory that requests cannot leave: opening, versions, listings.

use std::fmt::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use http1::conditional::Version;
use http1::{Refusal, path};

/// The directory.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    /// Whether the kernel has openat2(2) (5.6) and lets us use it.
    openat2: bool,
}

/// What a path names.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A regular file.
    File(OwnedFd, Version),
    /// A directory.
    Directory(OwnedFd),
}

/// O_NONBLOCK: opening a FIFO must not hang the server.
const FLAGS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

impl Root {
    /// Opens the directory itself.
    pub(crate) fn new(directory: &Path) -> Result<Self, Errno> {
        let directory = rustix::fs::open(
            directory,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let openat2 = rustix::fs::openat2(
            &directory,
            ".",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH,
        )
        .is_ok();
        Ok(Self { directory, openat2 })
    }

    /// Opens `path` (decoded, relative; empty is the directory itself) for reading.
    ///
    /// # Errors
    /// 403: no permission, leads outside, or not a file; 404: not there; 503: out of descriptors.
    pub(crate) fn open(&self, path: &[u8]) -> Result<Opened, Refusal> {
        if is_partial_upload(path) {
            return Err(Refusal(404));
        }
        let fd = self
            .open_beneath(path, OFlags::RDONLY | FLAGS)
            .map_err(refusal)?;
        let stat = rustix::fs::fstat(&fd).map_err(refusal)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Opened::File(fd, version(&stat))),
            FileType::Directory => Ok(Opened::Directory(fd)),
            _ => Err(Refusal(403)),
        }
    }

    /// Opens the directory at `path` to create something in it.
    pub(crate) fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open_beneath(path, OFlags::DIRECTORY | OFlags::CLOEXEC)
    }

    fn open_beneath(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        if !self.openat2 {
            return self.walk(path, flags);
        }
        // EAGAIN: something on the way was renamed meanwhile, and the kernel could not be sure.
        for _ in 0..16 {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Without openat2: one component at a time, and no symbolic links at all.
    fn walk(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut at: Option<OwnedFd> = None;
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        let directory = if trimmed.len() < path.len() {
            OFlags::DIRECTORY
        } else {
            OFlags::empty()
        };
        let mut names = trimmed.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            if name == b".." {
                return Err(Errno::XDEV);
            }
            let base = at.as_ref().map_or(self.directory.as_fd(), AsFd::as_fd);
            if names.peek().is_none() {
                return rustix::fs::openat(
                    base,
                    name,
                    flags | directory | OFlags::NOFOLLOW,
                    Mode::empty(),
                );
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = Some(rustix::fs::openat(base, name, flags, Mode::empty())?);
        }
        Err(Errno::NOENT)
    }
}

/// Names that uploads have until they are complete.
pub(crate) fn is_partial_upload(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b".mtcp-") && name.ends_with(b".part")
}

fn refusal(error: Errno) -> Refusal {
    Refusal(match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP => 404,
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::NXIO => 403,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => 503,
        _ => 500,
    })
}

fn version(stat: &Stat) -> Version {
    let length = u64::try_from(stat.st_size).unwrap_or_default();
    Version {
        modified: stat.st_mtime,
        etag: format!(
            "\"{:x}-{:x}-{length:x}\"",
            stat.st_mtime, stat.st_mtime_nsec
        ),
        length,
    }
}

/// Entries of a listing.
const MAX_ENTRIES: usize = 4096;

/// A page that lists `directory`, shown as `title` (a decoded path).
pub(crate) fn listing(directory: OwnedFd, title: &[u8]) -> Result<String, Refusal> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in Dir::new(directory).map_err(refusal)?.take(MAX_ENTRIES) {
        let entry = entry.map_err(refusal)?;
        let mut name = entry.file_name().to_bytes().to_vec();
        if name == b"." || name == b".." || is_partial_upload(&name) {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            name.push(b'/');
        }
        names.push(name);
    }
    names.sort_unstable();
    let title = escape(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>/{title}</title>\n<h1>/{title}</h1>\n<ul>\n"
    );
    if !title.is_empty() {
        page.push_str("<li><a href=\"../\">../</a>\n");
    }
    for name in &names {
        let mut url = b"./".to_vec();
        path::encode(name, &mut url);
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "<li><a href=\"{}\">{}</a>",
            String::from_utf8_lossy(&url),
            escape(name)
        );
    }
    page.push_str("</ul>\n");
    Ok(page)
}

fn escape(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("www");
        std::fs::create_dir_all(dir.join("sub")).unwrap();
        std::fs::write(top.path().join("secret"), "secret").unwrap();
        std::fs::write(dir.join("sub/file"), "hello").unwrap();
        symlink("../secret", dir.join("relative")).unwrap();
        symlink("/etc/passwd", dir.join("absolute")).unwrap();
        symlink("..", dir.join("up")).unwrap();
        symlink("sub/file", dir.join("inside")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        let fifo = std::process::Command::new("mkfifo")
            .arg(dir.join("fifo"))
            .status()
            .unwrap();
        assert!(fifo.success());
        top
    }

    fn opened(root: &Root, path: &str) -> Result<u64, u16> {
        match root.open(path.as_bytes()) {
            Ok(Opened::File(_, version)) => Ok(version.length),
            Ok(Opened::Directory(_)) => Ok(u64::MAX),
            Err(Refusal(status)) => Err(status),
        }
    }

    #[test]
    fn nothing_outside_opens() {
        let top = tree();
        for openat2 in [true, false] {
            let mut root = Root::new(&top.path().join("www")).unwrap();
            root.openat2 &= openat2;
            for path in [
                "relative",
                "absolute",
                "up/secret",
                "up",
                "../secret",
                "sub/../../secret",
            ] {
                assert!(
                    matches!(opened(&root, path), Err(403 | 404)),
                    "{path} with openat2 {openat2}"
                );
            }
            assert_eq!(opened(&root, "sub/file"), Ok(5));
            assert_eq!(opened(&root, "sub"), Ok(u64::MAX));
            assert_eq!(opened(&root, "sub/"), Ok(u64::MAX));
            assert_eq!(opened(&root, ""), Ok(u64::MAX));
            assert_eq!(opened(&root, "sub/file/"), Err(404));
            assert_eq!(opened(&root, "missing"), Err(404));
            assert_eq!(opened(&root, "loop"), Err(404));
            assert_eq!(opened(&root, "fifo"), Err(403));
            assert_eq!(opened(&root, ".mtcp-1-2.part"), Err(404));
        }
    }

    #[test]
    fn links_that_stay_inside_open() {
        let top = tree();
        let root = Root::new(&top.path().join("www")).unwrap();
        if root.openat2 {
            assert_eq!(opened(&root, "inside"), Ok(5));
        }
    }

    #[test]
    fn listings_escape_names() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("<b>&\"x\""), "").unwrap();
        std::fs::create_dir(top.path().join("dir")).unwrap();
        let root = Root::new(top.path()).unwrap();
        let page = listing(root.open_directory(b"").unwrap(), b"a<b").unwrap();
        assert!(
            page.contains("<a href=\"./%3Cb%3E%26%22x%22\">&lt;b&gt;&amp;&quot;x&quot;</a>"),
            "{page}"
        );
        assert!(page.contains("<a href=\"./dir/\">dir/</a>"), "{page}");
        assert!(page.contains("/a&lt;b"), "{page}");
    }
}
