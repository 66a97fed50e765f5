#!/bin/sh
# Prints the directory where `cargo build --release` leaves programs and libraries, however the target directory is chosen
# (CARGO_TARGET_DIR, build.target-dir). Cargo is asked once per use; who has the answer passes it on in MTCP_LIB_DIR.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=$(${CARGO:-cargo} metadata --manifest-path "$root/Cargo.toml" --format-version 1 --no-deps |
	sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
[ -n "$target" ] || { echo "release.sh: cargo metadata names no target directory" >&2; exit 1; }
echo "$target/release"
