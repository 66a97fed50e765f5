#!/usr/bin/env bash
# libevent's own tests, built from Debian's source package, on the kernel's loopback and on one of mTCP: prints the verdicts that differ and
# how many do not. `libevent.sh [DIRECTORY]`: where the package is built, or has been. Needs a C compiler and the network.
set -euo pipefail
work=$(realpath "${1:-$(mktemp -d)}")
root=$(cd "$(dirname "$0")/../.." && pwd)
mtcp=${MTCP_BIN:-$(sh "$root/scripts/release.sh")/mtcp}
groups="bufferevent/.. et/.. evbuffer/.. finalize/.. http/.. listener/.. main/.. rpc/.. signal/.. thread/.. util/.."

fetch() {
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    echo "deb-src http://deb.debian.org/debian $(. /etc/os-release && echo "$VERSION_CODENAME") main" >"$work/sources"
    options=(-qq -o "Dir::Etc::sourcelist=$work/sources" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
        -o "Dir::Cache=$work" -o "Dir::Cache::archives=$work/archives")
    apt-get "${options[@]}" update
    # Debian's patches touch what automake makes the build from: without them automake need not be there.
    (cd "$work" && apt-get "${options[@]}" source --download-only libevent && tar xzf libevent_*.orig.tar.gz)
}

build() {
    cd "$work"/libevent-*/
    ./configure -q --disable-openssl --disable-samples --disable-shared
    make -s include/event2/event-config.h
    make -s -j"$(nproc)" test/regress
}

# A line per test: its name and what became of it.
verdicts() {
    awk '/^[a-z]+\/[a-z0-9_]+:/ { name = $1 } match($0, /(OK|SKIPPED|DISABLED|FAILED\])$/) { print name, substr($0, RSTART) }'
}

compgen -G "$work/libevent-*/" >/dev/null || fetch >&2
compgen -G "$work/libevent-*/test/regress" >/dev/null || (build) >"$work/log" 2>&1 || { tail "$work/log" >&2; exit 1; }
regress=$(compgen -G "$work/libevent-*/test/regress")
cd "$work"
# shellcheck disable=SC2086
"$regress" $groups 2>&1 | verdicts >kernel || true
# shellcheck disable=SC2086
"$mtcp" run --io loop:lo --addr 127.0.0.1/8,::1/128 -- "$regress" $groups 2>&1 | verdicts >mtcp || true
diff kernel mtcp && echo "the same: $(sort kernel | awk '{ count[$2]++ } END { for (what in count) printf "%s %d ", what, count[what] }')"
