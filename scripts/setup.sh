#!/bin/sh
# Installs what the build, the tests and the demonstration need beyond a Rust toolchain.
# As root on Debian or Ubuntu it installs what is missing; otherwise it says what to install and goes on.
set -eu

# program:package
needed="cc:gcc make:make pkg-config:pkg-config ip:iproute2 ethtool:ethtool curl:curl ab:apache2-utils objcopy:binutils tcpdump:tcpdump ping:iputils-ping"
[ "${WITH_CLANG:-0}" = 1 ] && needed="$needed clang:clang llvm-objcopy:llvm"
missing=
for entry in $needed; do
    program=${entry%%:*}
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing ${entry#*:}"
done
if [ "${WITH_CLANG:-0}" = 1 ] && [ ! -e /usr/include/bpf/bpf_helpers.h ]; then
    missing="$missing libbpf-dev"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "not installed:$missing (as root: apt-get install$missing); what needs them is skipped" >&2
fi
