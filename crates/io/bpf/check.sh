#!/bin/sh
# Compares the programs with the committed objects: sources and objects are those that were written down together when the
# objects were made (`sums`), which needs no compiler; and, where clang is the one that made them, each is compiled again.
# Exit: 0 the same, 1 different or does not compile, 77 the sums are right and the rest cannot be told here (says why).
# `check.sh --update` writes the objects, and the sums, instead.
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
if [ "${1:-}" != --update ]; then
    sha256sum --check --quiet sums || {
        echo "check.sh: an object or its source was changed without the other; run crates/io/bpf/check.sh --update" >&2
        exit 1
    }
fi
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

# compile NAME CPU: v2 runs on every kernel that has AF_XDP, v3 has 32-bit atomics. The object says nothing of where it was built.
compile() {
    "$clang" -O2 -g -target bpf -mcpu="$2" -Wall -Wextra -Werror -I"$include" \
        -fdebug-compilation-dir=. -c "$1.bpf.c" -o "$work/new.o"
    "$strip" -g "$work/new.o"
}

# compare NAME SECTION...
compare() {
    name=$1
    shift
    for section in "$@"; do
        for side in new old; do
            from=$work/new.o
            [ $side = new ] || from=$name.bpf.o
            "$objcopy" --dump-section "$section=$work/$side$section" "$from" "$work/copy"
        done
        if ! cmp -s "$work/new$section" "$work/old$section"; then
            echo "check.sh: section $section of $name.bpf.o does not match $name.bpf.c; run crates/io/bpf/check.sh --update" >&2
            exit 1
        fi
    done
    echo "check.sh: $name.bpf.o matches $name.bpf.c"
}

for program in steer:xdp,xdp.frags:v2 host:xdp,xdp.frags:v2 tx_batch:classifier:v2 behind_tap:classifier:v2 tc_ring:classifier:v3; do
    name=${program%%:*}
    cpu=${program##*:}
    sections=${program#*:}
    sections=$(echo "${sections%:*}" | tr , ' ')
    compile "$name" "$cpu"
    if [ "${1:-}" = --update ]; then
        cp "$work/new.o" "$name.bpf.o"
        echo "check.sh: wrote $name.bpf.o"
    else
        for section in $sections; do
            compare "$name" "$section" .maps license ".rel$section"
        done
    fi
done

if [ "${1:-}" = --update ]; then
    sha256sum -- *.bpf.c *.h *.bpf.o >sums
    echo "check.sh: wrote sums"
fi
