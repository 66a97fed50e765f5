#!/bin/sh
# Compiles steer.bpf.c and compares the program and its maps with the committed object.
# Exit: 0 the same, 1 different or does not compile, 77 cannot tell here (says why).
# `check.sh --update` writes the object instead.
set -eu

# Another compiler orders instructions differently: only this one can tell.
clang_major=14

skip() {
    echo "check.sh: skipped: $1" >&2
    exit 77
}

tool() {
    command -v "$1-$clang_major" || command -v "$1" || skip "no $1 (Debian: apt install clang-$clang_major llvm-$clang_major libbpf-dev)"
}

cd "$(dirname "$0")"
clang=$(tool clang)
objcopy=$(tool llvm-objcopy)
strip=$(tool llvm-strip)
found=$("$clang" -dumpversion | cut -d. -f1)
[ "$found" = "$clang_major" ] || skip "clang $found; the committed object was made with clang $clang_major"
include=/usr/include/$(uname -m)-linux-gnu
echo '#include <bpf/bpf_helpers.h>' | "$clang" -target bpf -include linux/types.h -I"$include" -E - >/dev/null 2>&1 ||
    skip "no bpf/bpf_helpers.h (Debian: apt install libbpf-dev linux-libc-dev)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# -mcpu=v2 runs on every kernel that has AF_XDP. The object says nothing of where it was built.
"$clang" -O2 -g -target bpf -mcpu=v2 -Wall -Wextra -Werror -I"$include" \
    -fdebug-compilation-dir=. -c steer.bpf.c -o "$work/new.o"
"$strip" -g "$work/new.o"

if [ "${1:-}" = --update ]; then
    cp "$work/new.o" steer.bpf.o
    echo "check.sh: wrote steer.bpf.o"
    exit 0
fi

for section in xdp .maps license .relxdp; do
    for side in new old; do
        from=$work/new.o
        [ $side = new ] || from=steer.bpf.o
        "$objcopy" --dump-section "$section=$work/$side$section" "$from" "$work/copy"
    done
    if ! cmp -s "$work/new$section" "$work/old$section"; then
        echo "check.sh: section $section of steer.bpf.o does not match steer.bpf.c; run crates/io/bpf/check.sh --update" >&2
        exit 1
    fi
done
echo "check.sh: steer.bpf.o matches steer.bpf.c"
