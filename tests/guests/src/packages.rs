//! What a guest is made of, from packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::programs::repository;
use rustix::fs::{FlockOperation, flock};

/// What `apt-get` is asked for besides a kernel.
const EMULATOR: [&str; 2] = ["qemu-system-x86", "busybox-static"];
/// Depends on the newest kernel of the distribution.
const KERNEL: &str = "linux-image-amd64";

/// Unpacked packages.
#[derive(Debug)]
pub struct Packages {
    /// Where the files of the emulator are: `usr/bin`, `usr/lib`.
    root: PathBuf,
    /// Where the files of the kernel are: `boot`, `lib/modules`.
    kernel: PathBuf,
}

impl Packages {
    /// Downloads and unpacks what is not there.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn get() -> Result<Self, String> {
        let all = repository().join("target/guests");
        fs::create_dir_all(all.join("partial")).map_err(|error| error.to_string())?;
        // One test program at a time.
        let lock = File::create(all.join("lock")).map_err(|error| error.to_string())?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| error.to_string())?;
        let packages = Self {
            root: all.join("root"),
            kernel: all.join("kernel"),
        };
        let done = all.join("unpacked");
        if !done.exists() {
            packages.download(&all)?;
            File::create(done).map_err(|error| error.to_string())?;
        }
        Ok(packages)
    }

    fn download(&self, into: &Path) -> Result<(), String> {
        let archives = format!("Dir::Cache::archives={}", into.display());
        let mut emulator = Command::new("apt-get");
        // What this machine has already is not downloaded, and found where it is.
        emulator.args([
            "install",
            "--download-only",
            "--no-install-recommends",
            "-y",
        ]);
        emulator.args(["-o", &archives, "-o", "Debug::NoLocking=true"]);
        succeed(emulator.args(EMULATOR))?;
        let version = newest_kernel()?;
        let mut kernel = Command::new("apt-get");
        kernel.args(["download", &version]).current_dir(into);
        succeed(&mut kernel)?;
        for entry in fs::read_dir(into).map_err(|error| error.to_string())? {
            let file = entry.map_err(|error| error.to_string())?.path();
            if file.extension().is_some_and(|extension| extension == "deb") {
                let is_kernel = file
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("linux-image"));
                let to = if is_kernel { &self.kernel } else { &self.root };
                succeed(Command::new("dpkg").arg("-x").arg(&file).arg(to))?;
                fs::remove_file(file).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// The emulator, with its libraries.
    pub fn emulator(&self) -> Command {
        let share = |name: &str| self.root.join("usr/share").join(name);
        let installed = Path::new("/usr/bin/qemu-system-x86_64");
        let unpacked = self.root.join("usr/bin/qemu-system-x86_64");
        if !unpacked.exists() {
            return Command::new(installed);
        }
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]
            .map(|path| self.root.join(path).display().to_string());
        let mut command = Command::new(unpacked);
        command.env("LD_LIBRARY_PATH", libraries.join(":"));
        for name in ["qemu", "seabios", "ipxe-qemu"] {
            command.arg("-L").arg(share(name));
        }
        command
    }

    /// A shell and its tools in one file that needs no libraries.
    pub fn busybox(&self) -> PathBuf {
        let unpacked = self.root.join("bin/busybox");
        match unpacked.exists() {
            true => unpacked,
            false => PathBuf::from("/bin/busybox"),
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> PathBuf {
        the_only(&self.kernel.join("boot"), "vmlinuz-")
    }

    /// Its modules.
    pub fn modules(&self) -> PathBuf {
        the_only(&self.kernel.join("lib/modules"), "")
    }
}

/// The package of the newest kernel.
fn newest_kernel() -> Result<String, String> {
    let output = Command::new("apt-cache").args(["depends", KERNEL]).output();
    let output = output.map_err(|error| format!("apt-cache: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut depends = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    depends
        .next()
        .map(str::to_owned)
        .ok_or_else(|| format!("apt-cache knows no {KERNEL}"))
}

/// The only entry of a directory whose name begins so.
fn the_only(directory: &Path, prefix: &str) -> PathBuf {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    found.next().expect("unpacked").path()
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or_default();
    Err(format!("{:?}: {last}", command.get_program()))
}
