#!/bin/sh
# Prints the directory where `cargo build --release` leaves programs and libraries, however the target directory is chosen
# (CARGO_TARGET_DIR, build.target-dir). Cargo is asked once per use; who has the answer passes it on in MTCP_LIB_DIR.
set -eu
CARGO=${CARGO:-cargo}
root=$(cd "$(dirname "$0")/.." && pwd)
target=$($CARGO metadata --manifest-path "$root/Cargo.toml" --format-version 1 --no-deps |
	sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
# `make install CARGO=true` takes what is built as it is, and has nobody to ask.
if [ -z "$target" ]; then
	target=${CARGO_TARGET_DIR:-$root/target}
	[ -d "$target/release" ] || { echo "release.sh: $CARGO names no target directory, and nothing is built in $target" >&2; exit 1; }
fi
echo "$target/release"
