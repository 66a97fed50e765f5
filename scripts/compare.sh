#!/bin/sh
# Short connections per second: mTCP over shared memory beside the kernel over loopback. The same two programs, the same cores (server
# on the first, client on the second), one 64-byte request and response per connection, in turn; medians and their ratio at the end.
#   ROUNDS=5 SECONDS_EACH=3 CONNECTIONS=1000 MODE=inline MTCP_BIN=target/release/mtcp sh scripts/compare.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
mtcp=${MTCP_BIN:-$(sh "$root/scripts/release.sh")/mtcp}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-3}
connections=${CONNECTIONS:-1000}
mode=${MODE:-inline}
[ -x "$mtcp" ] || { echo "compare.sh: $mtcp is not there: run make build" >&2; exit 2; }
[ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || { echo "compare.sh: needs two cores" >&2; exit 2; }

work=$(mktemp -d)
server=
clean() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts a server; what it prints says where it listens.
serve() {
	: >"$work/server"
	"$mtcp" serve --raw 64/64 --core 0 "$@" >"$work/server" 2>&1 &
	server=$!
	tries=0
	until grep -q 'listening on' "$work/server"; do
		tries=$((tries + 1))
		if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
			echo "compare.sh: the server did not start:" >&2
			cat "$work/server" >&2
			exit 1
		fi
		sleep 0.1
	done
}

stop() {
	kill "$server"
	wait "$server" || true
	server=
}

# Runs a client to its end and leaves its rate in $work/rates.NAME.
load() {
	name=$1
	shift
	if ! "$mtcp" load --raw 64/64 --core 1 --reset --json -c "$connections" -d "$seconds" "$@" >"$work/report" 2>"$work/errors"; then
		echo "compare.sh: the client failed:" >&2
		cat "$work/errors" "$work/report" >&2
		exit 1
	fi
	sed 's/.*"connections_per_s":\([0-9.]*\).*/\1/' "$work/report" >"$work/rate"
	cat "$work/rate" >>"$work/rates.$name"
}

kernel() {
	serve --io kernel --addr 0.0.0.0 --port 0
	port=$(sed -n 's/.*listening on [0-9.]*:\([0-9]*\).*/\1/p' "$work/server")
	# Many addresses, so that ports do not run out.
	load kernel --io kernel --spread 32 "127.0.0.1:$port"
	stop
}

shm() {
	serve --io "shm:$work/link" --mode "$mode" --addr 10.9.0.1/24 --port 80
	load shm --io "shm:$work/link" --mode "$mode" --addr 10.9.0.2/24 10.9.0.1:80
	stop
}

median() {
	sort -n "$1" | awk '{ value[NR] = $1 } END { print NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'
}

echo "short connections per second, 64-byte request and response, one connection each; server on core 0, client on core 1; mTCP $mode"
printf '%-8s %14s %14s\n' round "kernel (lo)" "mTCP (shm)"
round=1
while [ "$round" -le "$rounds" ]; do
	kernel
	theirs=$(cat "$work/rate")
	shm
	printf '%-8s %14.0f %14.0f\n' "$round" "$theirs" "$(cat "$work/rate")"
	round=$((round + 1))
done
theirs=$(median "$work/rates.kernel")
ours=$(median "$work/rates.shm")
printf '%-8s %14.0f %14.0f\n' median "$theirs" "$ours"
awk -v ours="$ours" -v theirs="$theirs" 'BEGIN { printf "ratio %.2f\n", ours / theirs }'
