#!/usr/bin/env bash
# nginx and lighttpd, unchanged, on the kernel and on mTCP in turn, by pairs: processor time per request of 64-byte files on short
# connections from a kernel client over a veth pair; and Redis with 50 connections, requests per second. As root, on two processors that
# nobody else uses: the server has the first, the client the second. `applications.sh [SECONDS [PAIRS]]`; the medians come last.
set -euo pipefail
seconds=${1:-5} pairs=${2:-5}
export PATH="$PATH:/usr/sbin:/sbin"
mtcp=${MTCP_BIN:-${CARGO_TARGET_DIR:-target}/release/mtcp}
work=$(mktemp -d)
server=apps-s-$$ client=apps-c-$$ running=

cleanup() {
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    ip netns del "$server" 2>/dev/null || true
    ip netns del "$client" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

ip netns add "$server"
ip netns add "$client"
ip link add ours0 netns "$server" type veth peer name peer0 netns "$client"
in_server() { ip netns exec "$server" "$@"; }
in_client() { ip netns exec "$client" "$@"; }
in_server ip addr add 10.78.0.3/24 dev ours0
in_client ip addr add 10.78.0.2/24 dev peer0
in_server ip link set lo up
in_server ip link set ours0 up
in_client ip link set peer0 up
# The kernel leaves checksums to hardware that a veth pair has not, and its end must poll to get frames of AF_XDP.
in_client ethtool -K peer0 tx off gro on >/dev/null

mkdir "$work/www"
head -c 64 /dev/zero | tr '\0' x >"$work/www/small"
cat >"$work/nginx.conf" <<END
daemon off; master_process off; user root; error_log stderr; pid $work/nginx.pid;
events { worker_connections 4096; }
http { access_log off; sendfile on; tcp_nopush on; client_body_temp_path $work/1; proxy_temp_path $work/2; fastcgi_temp_path $work/3;
       uwsgi_temp_path $work/4; scgi_temp_path $work/5;
       server { listen 80 backlog=4096; root $work/www; } }
END
cat >"$work/lighttpd.conf" <<END
server.document-root = "$work/www"
server.port = 80
server.max-connections = 2048
END

# start SIDE WORDS…: a server on the first processor; waits until it answers on $port.
start() {
    local side=$1
    shift
    if [ "$side" = mtcp ]; then
        address=10.78.0.1
        set -- "$mtcp" run --io afxdp:ours0 --addr 10.78.0.1/24 -- "$@"
    else
        address=10.78.0.3
    fi
    # What is started is the server itself, through programs that become it.
    ip netns exec "$server" taskset -c 0 "$@" >"$work/log" 2>&1 &
    running=$!
    for _ in $(seq 200); do
        if in_client bash -c "exec 3<>/dev/tcp/$address/$port" 2>/dev/null; then return; fi
        sleep 0.05
    done
    cat "$work/log" >&2
    exit 1
}

stop() {
    kill "$running"
    wait "$running" 2>/dev/null || true
    running=
}

# Milliseconds that a processor was not idle so far (100 ticks a second).
busy() { awk -v cpu="cpu$1" '$1 == cpu { print ($2 + $3 + $4 + $7 + $8) * 10 }' /proc/stat; }

# web NAME SIDE WORDS…: prints NAME SIDE, requests per second, microseconds per request on the server's processor and on both.
web() {
    local name=$1 side=$2
    shift 2
    port=80
    start "$side" "$@"
    in_client taskset -c 1 wrk -t 1 -c 50 -d 1 -H "Connection: close" "http://$address/small" >/dev/null
    local first=$(busy 0) second=$(busy 1)
    in_client taskset -c 1 wrk -t 1 -c 50 -d "$seconds" -H "Connection: close" "http://$address/small" >"$work/wrk"
    first=$(($(busy 0) - first)) second=$(($(busy 1) - second))
    awk -v name="$name $side" -v first="$first" -v both=$((first + second)) \
        '/requests in/ { printf "%s %.0f %.1f %.1f\n", name, $1 / $4, first * 1000 / $1, both * 1000 / $1 }
         /Socket errors|Non-2xx/ { print name, $0 > "/dev/stderr" }' "$work/wrk"
    stop
}

# The same of Redis: requests of both kinds.
redis() {
    local side=$1
    port=6379
    start "$side" redis-server --port 6379 --save "" --appendonly no --protected-mode no
    local requests=$((seconds * 20000)) first=$(busy 0) second=$(busy 1)
    in_client taskset -c 1 redis-benchmark -h "$address" -c 50 -n "$requests" -t set,get --csv >"$work/redis"
    first=$(($(busy 0) - first)) second=$(($(busy 1) - second))
    awk -F'","' -v name="redis $side" -v first="$first" -v both=$((first + second)) -v n=$((2 * requests)) \
        '/^"(SET|GET)"/ { sum += 1 / $2; count++ }
         END { printf "%s %.0f %.1f %.1f\n", name, count / sum, first * 1000 / n, both * 1000 / n }' "$work/redis"
    stop
}

for _ in $(seq "$pairs"); do
    for side in kernel mtcp; do
        web nginx "$side" nginx -e stderr -c "$work/nginx.conf"
        web lighttpd "$side" lighttpd -D -f "$work/lighttpd.conf"
        redis "$side"
    done
done | tee "$work/all"

echo "--- medians of $pairs: requests/s, us of the server's processor per request, us of both"
cut -d' ' -f1,2 "$work/all" | sort -u | while read -r name side; do
    printf '%s %s' "$name" "$side"
    for column in 3 4 5; do
        awk -v name="$name" -v side="$side" -v column=$column '$1 == name && $2 == side { print $column }' "$work/all" |
            sort -n | awk '{ value[NR] = $1 } END { printf " %s", value[int((NR + 1) / 2)] }'
    done
    echo
done
