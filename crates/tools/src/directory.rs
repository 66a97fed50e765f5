//! A temporary directory.

use std::path::PathBuf;

use anyhow::Context as _;

/// A directory that goes with its owner.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// A new directory only for us, named after `what` is done in it.
    pub(crate) fn new(what: &str) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        // Command lines are split at blanks here.
        let base = Some(std::env::temp_dir())
            .filter(|base| !base.to_string_lossy().contains(char::is_whitespace));
        let path = base
            .unwrap_or_else(|| PathBuf::from("/tmp"))
            .join(format!("mtcp-{what}-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make '{}'", path.display()))?;
        Ok(Self(path))
    }

    /// The path of `name` in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Nothing more can be done about what cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
