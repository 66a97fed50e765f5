#!/bin/sh
# Installs what the build, the tests and the demonstration need beyond a Rust toolchain.
# As root on Debian or Ubuntu it installs what is missing; otherwise it says what to install and goes on.
# WITH_CLANG=1: also what changes the XDP program. WITH_PROGRAMS=1: also the programs that tests/preload runs, whose services stay off.
# WITH_DENY=1: also cargo-deny, which is compiled.
set -eu

# program:package
needed="cc:gcc make:make pkg-config:pkg-config ip:iproute2 ethtool:ethtool curl:curl ab:apache2-utils objcopy:binutils tcpdump:tcpdump ping:iputils-ping nft:nftables"
[ "${WITH_CLANG:-0}" = 1 ] && needed="$needed clang:clang llvm-objcopy:llvm valgrind:valgrind"
[ "${WITH_PROGRAMS:-0}" = 1 ] && needed="$needed nginx:nginx lighttpd:lighttpd apache2:apache2 haproxy:haproxy
    redis-server:redis-server redis-benchmark:redis-tools
    memcached:memcached node:nodejs wrk:wrk h2load:nghttp2-client iperf3:iperf3 python3:python3 openssl:openssl wget:wget git:git
    qemu-x86_64:qemu-user sshd:openssh-server ssh:openssh-client socat:socat gunicorn:gunicorn"
missing=
for entry in $needed; do
    program=${entry%%:*}
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing ${entry#*:}"
done
if [ "${WITH_CLANG:-0}" = 1 ] && [ ! -e /usr/include/bpf/bpf_helpers.h ]; then
    missing="$missing libbpf-dev"
fi
if [ "${WITH_PROGRAMS:-0}" = 1 ] && [ ! -e /usr/include/liburing.h ]; then
    missing="$missing liburing-dev"
fi
python_tests=
if [ "${WITH_PROGRAMS:-0}" = 1 ] && ! ls /usr/lib/python3.*/test/test_socket.py >/dev/null 2>&1; then
    python_tests=1
fi
if [ "${WITH_DENY:-0}" = 1 ] && ! cargo deny --version >/dev/null 2>&1; then
    # Unoptimised: it runs for seconds.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug cargo-deny --version 0.20.2 ||
        echo "cargo-deny cannot be installed; what needs it is skipped" >&2
fi
[ -n "$missing$python_tests" ] || exit 0

# A server that is installed to be tested shall start neither now nor with the machine.
keep_services_off() {
    policy=/usr/sbin/policy-rc.d
    [ ! -e "$policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
}
disable_services() {
    command -v systemctl >/dev/null 2>&1 || return 0
    for package in $missing; do
        systemctl disable "$package" >/dev/null 2>&1 || true
    done
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    keep_services_off
    apt-get update -qq
    # Its name has the version of the interpreter.
    [ -z "$python_tests" ] || missing="$missing $(apt-cache --names-only search '^libpython3[.0-9]*-testsuite$' | sed -n '1s/ .*//p')"
    echo "installing:$missing"
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
    disable_services
else
    [ -z "$python_tests" ] || missing="$missing libpython3.11-testsuite"
    echo "not installed:$missing (as root: apt-get install$missing); what needs them is skipped" >&2
fi
