#!/usr/bin/env bash
# nginx and lighttpd, unchanged, on the kernel, on mTCP, and on mTCP in a daemon (--shared) in turn: processor time per request of 64-byte files on short
# connections from a kernel client over a veth pair; and Redis with 50 connections, requests per second. As root, on two processors: the
# server has the first, the client the second. What is measured has real-time priority: what else they have to do waits, and does not count.
# `applications.sh [SECONDS [ROUNDS]]`; the medians come last.
#
# A veth pair has what is sent received by the processor that sends it, in the other end's stack: of the server's processor, the client's
# stack takes a part, and of the client's the server's. That is one figure (`crossed`). The other (`apart`) has the frames of either end
# received by a kernel thread on the processor of that end (threaded NAPI), as interrupts of two machines would have it.
set -euo pipefail
seconds=${1:-5} pairs=${2:-5}
export PATH="$PATH:/usr/sbin:/sbin"
mtcp=${MTCP_BIN:-$(sh "$(dirname "$0")/release.sh")/mtcp}
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work
server=apps-s-$$ client=apps-c-$$ ours=o$$ peers=p$$ running= daemon=

cleanup() {
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    ip netns del "$server" 2>/dev/null || true
    ip netns del "$client" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

ip netns add "$server"
ip netns add "$client"
ip link add "$ours" netns "$server" type veth peer name "$peers" netns "$client"
in_server() { ip netns exec "$server" "$@"; }
in_client() { ip netns exec "$client" "$@"; }
in_server ip addr add 10.78.0.3/24 dev "$ours"
in_client ip addr add 10.78.0.2/24 dev "$peers"
in_server ip link set lo up
in_server ip link set "$ours" up
in_client ip link set "$peers" up

# From now on either end receives in a thread of its own. An end polls for frames of another that cuts no segments, if it may put them
# together.
part() {
    in_server ethtool -K "$ours" tso off gro on
    in_client ethtool -K "$peers" tso off gro on
    in_server sh -c "echo 1 >/sys/class/net/$ours/threaded"
    in_client sh -c "echo 1 >/sys/class/net/$peers/threaded"
}

# Pins the threads that receive; they are made anew whenever an end begins to poll.
pin() {
    local thread
    for thread in $(pgrep "^napi/$ours-"); do taskset -pc 0 "$thread" && chrt -f -p 1 "$thread"; done >/dev/null
    for thread in $(pgrep "^napi/$peers-"); do taskset -pc 1 "$thread" && chrt -f -p 1 "$thread"; done >/dev/null
}

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
    case $side in
    mtcp) address=10.78.0.1; set -- "$mtcp" run --io afxdp:$ours --addr 10.78.0.1/24 -- "$@" ;;
    shared) address=10.78.0.1; set -- "$mtcp" run --shared --io afxdp:$ours --addr 10.78.0.1/24 -- "$@" ;;
    kernel) address=10.78.0.3 ;;
    esac
    # What is started is the server itself, through programs that become it.
    ip netns exec "$server" taskset -c 0 chrt -f 1 "$@" >"$work/log" 2>&1 &
    running=$!
    for _ in $(seq 200); do
        if in_client bash -c "exec 3<>/dev/tcp/$address/$port" 2>/dev/null; then
            # A daemon leaves its number in its lock.
            [ "$side" != shared ] || daemon=$(cat "$XDG_RUNTIME_DIR"/mtcp/*.lock)
            pin && return
        fi
        sleep 0.05
    done
    cat "$work/log" >&2
    exit 1
}

stop() {
    kill "$running"
    wait "$running" 2>/dev/null || true
    # The interface is the next server's when the daemon has ended.
    while [ -n "$daemon" ] && kill -0 "$daemon" 2>/dev/null; do sleep 0.05; done
    running= daemon=
}

# worked NUMBER LINK: nanoseconds that the processor has worked for its end: in the server and its daemon, which are on the first, and in the
# kernel's threads.
worked() {
    local task files=()
    for task in $(pgrep "^(ksoftirqd/$1\$|napi/$2-)"); do files+=("/proc/$task/schedstat"); done
    [ "$1" != 0 ] || files+=(/proc/"$running"/task/*/schedstat)
    [ "$1" != 0 ] || [ -z "$daemon" ] || files+=(/proc/"$daemon"/task/*/schedstat)
    awk '{ sum += $1 } END { printf "%.0f\n", sum }' "${files[@]}"
}

# loads WORDS…: runs a client, and notes what both processors did meanwhile, in microseconds, in $first and $second.
loads() {
    local TIMEFORMAT='%U %S'
    first=$(worked 0 "$ours") second=$(worked 1 "$peers")
    { time in_client taskset -c 1 timeout 300 "$@" >"$work/load" 2>"$work/complaints"; } 2>"$work/time"
    first=$((($(worked 0 "$ours") - first) / 1000)) second=$((($(worked 1 "$peers") - second) / 1000))
    second=$((second + $(awk '{ printf "%.0f", ($1 + $2) * 1e6 }' "$work/time")))
}

# web NAME SIDE WORDS…: prints NAME SIDE, requests per second, microseconds per request on the server's processor and on both.
web() {
    local name=$1 side=$2
    shift 2
    port=80
    start "$side" "$@"
    loads chrt -f 1 wrk -t 1 -c 50 -d 1s -H "Connection: close" "http://$address/small"
    loads chrt -f 1 wrk -t 1 -c 50 -d "$seconds" -H "Connection: close" "http://$address/small"
    awk -v name="$name $where $side" -v first="$first" -v both=$((first + second)) \
        '/requests in/ { printf "%s %.0f %.1f %.1f\n", name, $1 / $4, first / $1, both / $1 }
         /Socket errors|Non-2xx/ { print name, $0 > "/dev/stderr" }' "$work/load"
    stop
}

# The same of Redis: requests of both kinds. Its client would keep the thread that receives for it from running, had it the same priority.
redis() {
    local side=$1
    port=6379
    start "$side" redis-server --port 6379 --save "" --appendonly no --protected-mode no
    local requests=$((seconds * 20000))
    loads nice -n -20 redis-benchmark -h "$address" -c 50 -n "$requests" -t set,get --csv
    awk -F'","' -v name="redis $where $side" -v first="$first" -v both=$((first + second)) -v n=$((2 * requests)) \
        '/^"(SET|GET)"/ { sum += 1 / $2; count++ }
         END { printf "%s %.0f %.1f %.1f\n", name, count / sum, first / n, both / n }' "$work/load"
    stop
}

for where in crossed apart; do
    [ $where = crossed ] || part
    for _ in $(seq "$pairs"); do
        for side in kernel mtcp shared; do
            web nginx "$side" nginx -e stderr -c "$work/nginx.conf"
            web lighttpd "$side" lighttpd -D -f "$work/lighttpd.conf"
            redis "$side"
        done
    done
done | tee "$work/all"

echo "--- medians of $pairs, and the range of the server's: requests/s, us of the server's processor per request, us of both"
cut -d' ' -f1-3 "$work/all" | sort -u | while read -r name; do
    printf '%s' "$name"
    for column in 4 5 6; do
        awk -v name="$name" -v column=$column '$1 " " $2 " " $3 == name { print $column }' "$work/all" |
            sort -n | awk -v range=$((column == 5)) '{ value[NR] = $1 }
                END { printf " %s", value[int((NR + 1) / 2)]; if (range) printf " (%s-%s)", value[1], value[NR] }'
    done
    echo
done
