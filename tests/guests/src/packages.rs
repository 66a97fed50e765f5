//! What a guest is made of, from packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::programs::repository;
use rustix::fs::{FlockOperation, flock};

/// What `apt-get` is asked for besides a kernel.
const EMULATOR: [&str; 2] = ["qemu-system-x86", "busybox-static"];
/// Depends on the newest kernel of a release.
const KERNEL: &str = "linux-image-amd64";

/// Which packages of the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Its own.
    Own,
    /// Newer ones, made for it (`-backports`).
    Backports,
}

/// Unpacked packages.
#[derive(Debug)]
pub struct Packages {
    /// Where all of it is.
    directory: PathBuf,
    /// Options of `apt-get` and `apt-cache`.
    options: Vec<String>,
}

impl Packages {
    /// Downloads and unpacks what is not there.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn get(release: Release) -> Result<Self, String> {
        let all = repository().join("target/guests");
        let mut packages = Self {
            directory: all.join(match release {
                Release::Own => "own",
                Release::Backports => "backports",
            }),
            options: Vec::new(),
        };
        make(&packages.directory.join("partial"))?;
        // One test program at a time.
        let lock = File::create(all.join("lock")).map_err(|error| error.to_string())?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| error.to_string())?;
        let done = packages.directory.join("unpacked");
        if !done.exists() {
            packages.configure(release)?;
            packages.download()?;
            File::create(done).map_err(|error| error.to_string())?;
        }
        Ok(packages)
    }

    /// Tells `apt-get` where to put what, and where backports are.
    fn configure(&mut self, release: Release) -> Result<(), String> {
        let directory = self.directory.display();
        let mut settings = vec![
            format!("Dir::Cache::archives={directory}"),
            "Debug::NoLocking=true".to_owned(),
        ];
        if release == Release::Backports {
            let (mirror, codename) = repository_of_debian()?;
            make(&self.directory.join("lists/partial"))?;
            let sources =
                format!("deb {mirror} {codename} main\ndeb {mirror} {codename}-backports main\n");
            fs::write(self.directory.join("sources"), sources)
                .map_err(|error| error.to_string())?;
            settings.extend([
                format!("Dir::State::Lists={directory}/lists"),
                format!("Dir::Etc::SourceList={directory}/sources"),
                "Dir::Etc::SourceParts=/dev/null".to_owned(),
                format!("Dir::Cache={directory}/cache"),
                format!("APT::Default-Release={codename}-backports"),
            ]);
            make(&self.directory.join("cache"))?;
        }
        let options = settings
            .into_iter()
            .flat_map(|setting| ["-o".to_owned(), setting]);
        self.options = options.collect();
        match release {
            Release::Own => Ok(()),
            Release::Backports => succeed(self.apt("apt-get").arg("update")),
        }
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options);
        command
    }

    fn download(&self) -> Result<(), String> {
        let mut emulator = self.apt("apt-get");
        // What this machine has already is not downloaded, and found where it is.
        emulator.args([
            "install",
            "--download-only",
            "--no-install-recommends",
            "-y",
        ]);
        succeed(emulator.args(EMULATOR))?;
        let mut kernel = self.apt("apt-get");
        kernel.args(["download", &self.newest_kernel()?]);
        succeed(kernel.current_dir(&self.directory))?;
        for entry in fs::read_dir(&self.directory).map_err(|error| error.to_string())? {
            let file = entry.map_err(|error| error.to_string())?.path();
            if file.extension().is_some_and(|extension| extension == "deb") {
                let is_kernel = file
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("linux-image"));
                let to = if is_kernel { "kernel" } else { "root" };
                let mut unpack = Command::new("dpkg");
                unpack.arg("-x").arg(&file).arg(self.directory.join(to));
                succeed(&mut unpack)?;
                fs::remove_file(file).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// The package of the newest kernel.
    fn newest_kernel(&self) -> Result<String, String> {
        let output = self.apt("apt-cache").args(["depends", KERNEL]).output();
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

    /// The emulator, with its libraries.
    pub fn emulator(&self) -> Command {
        let root = self.directory.join("root");
        let unpacked = root.join("usr/bin/qemu-system-x86_64");
        if !unpacked.exists() {
            return Command::new("/usr/bin/qemu-system-x86_64");
        }
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]
            .map(|path| root.join(path).display().to_string());
        let mut command = Command::new(unpacked);
        command.env("LD_LIBRARY_PATH", libraries.join(":"));
        command.env(
            "QEMU_MODULE_DIR",
            root.join("usr/lib/x86_64-linux-gnu/qemu"),
        );
        for name in ["qemu", "seabios", "ipxe-qemu"] {
            command.arg("-L").arg(root.join("usr/share").join(name));
        }
        command
    }

    /// A shell and its tools in one file that needs no libraries.
    pub fn busybox(&self) -> PathBuf {
        let unpacked =
            ["root/bin/busybox", "root/usr/bin/busybox"].map(|path| self.directory.join(path));
        let found = unpacked.into_iter().find(|path| path.exists());
        found.unwrap_or_else(|| PathBuf::from("/bin/busybox"))
    }

    /// The kernel.
    pub fn kernel(&self) -> PathBuf {
        the_only(&self.directory.join("kernel/boot"), "vmlinuz-")
    }

    /// Its modules.
    pub fn modules(&self) -> PathBuf {
        let places = ["kernel/lib/modules", "kernel/usr/lib/modules"];
        let mut places = places.map(|path| self.directory.join(path)).into_iter();
        the_only(&places.find(|path| path.exists()).expect("unpacked"), "")
    }
}

/// Where this machine has its packages from, and of which release they are.
fn repository_of_debian() -> Result<(String, String), String> {
    let mut ask = Command::new("apt-get");
    ask.args(["indextargets", "--format", "$(REPO_URI) $(CODENAME)"]);
    let output = ask.arg("Created-By: Packages").output();
    let output = output.map_err(|error| format!("apt-get: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut all = text.lines().filter_map(|line| line.split_once(' '));
    let found = all.find(|(uri, codename)| {
        uri.trim_end_matches('/').ends_with("/debian") && !codename.contains('-')
    });
    found
        .map(|(uri, codename)| (uri.to_owned(), codename.to_owned()))
        .ok_or_else(|| "this machine has no packages of Debian".to_owned())
}

/// The only entry of a directory whose name begins so.
fn the_only(directory: &Path, prefix: &str) -> PathBuf {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    found.next().expect("unpacked").path()
}

fn make(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
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
