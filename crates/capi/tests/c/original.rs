//! Programs and files of the original, unchanged.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Lab, Running, compile, run};

/// As in the original's samples, and what people write: no `=`, several words, sizes as large as
/// they come.
const CONF: &str = "\
############### mtcp configuration file ###############
#io = psio
io = dpdk
num_cores = 1
num_mem_ch = 4
port = dpdk0 dpdk1
#multiprocess = 1
cc reno ssthresh=4
rcvbuf 99999999999
sndbuf = 8192 bytes
max_concurrency = 100
max_num_buffers = 99999999999
tcp_timeout = -1
tcp_timewait = -1
stat_print = dpdk0 dpdk1
";

fn conf(lab: &Lab) -> PathBuf {
    let file = lab.dir.path().join("mtcp.conf");
    fs::write(&file, CONF).unwrap();
    file
}

/// A program that shows what it has of this file, where it names two cores before.
const PROGRAM: &str = "\
#include <mtcp_api.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	struct mtcp_conf c;

	mtcp_getconf(&c);
	c.num_cores = 2;
	c.tcp_timewait = 9;
	mtcp_setconf(&c);
	if (argc != 2 || mtcp_init(argv[1]))
		return 3;
	mtcp_getconf(&c);
	printf(\"%d %d %d %d %d %d %d\\n\", c.num_cores, c.max_concurrency, c.max_num_buffers, c.rcvbuf_size, c.sndbuf_size, c.tcp_timewait,
	       c.tcp_timeout);
	return mtcp_create_context(0) == NULL;
}
";

fn program(lab: &Lab) -> Command {
    let source = lab.dir.path().join("program.c");
    fs::write(&source, PROGRAM).unwrap();
    lab.command(&compile(source.to_str().unwrap(), lab.dir.path()))
}

#[test]
fn the_environment_says_what_a_file_of_the_original_cannot() {
    let lab = Lab::new();
    let link = format!("shm:{}", lab.dir.path().join("link").display());
    let mut command = program(&lab);
    command
        .arg(conf(&lab))
        .env("MTCP_IO", link)
        .env("MTCP_ADDR", "10.0.0.2/24");
    let output = run(&mut command);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("1 100 {} {} 8192 0 -1\n", 1 << 24, 32 << 20)
    );
}

#[test]
fn failures_are_one_line_unless_the_user_wants_none() {
    let lab = Lab::new();
    let fails = |variables: &[(&str, &str)]| {
        let mut command = program(&lab);
        command.arg(conf(&lab)).envs(variables.iter().copied());
        let output = Running::start(&mut command).finish();
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = fails(&[]);
    assert!(
        said.contains("mtcp.conf:3: io: ") && said.contains("MTCP_IO=afxdp:IFACE"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(fails(&[("MTCP_QUIET", "1")]), "");
    // Nor a word of what was clamped.
    let quiet = [
        ("MTCP_QUIET", "1"),
        ("MTCP_IO", "shm:/nonexistent/link"),
        ("MTCP_ADDR", "10.0.0.2/24"),
    ];
    assert_eq!(fails(&quiet), "");
    let said = fails(&quiet[1..]);
    assert!(said.contains("rcvbuf"), "{said}");
    let said = fails(&[("MTCP_IO", "nonsense:x")]);
    assert!(said.contains("MTCP_IO in the environment"), "{said}");
    let said = fails(&[("MTCP_IO", "shm:/tmp/x")]);
    assert!(
        said.contains("no address") && said.contains("MTCP_ADDR"),
        "{said}"
    );
}
