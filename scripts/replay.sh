#!/bin/sh
# The load at which a replay's mean extra delay passes 100 ms: mTCP beside the kernel, on the same veth pair and the same two cores (server on
# the first, client on the second), in turn. The client is mTCP's for both. Load is copies of a tenth of the log of the paper's Table 4: the
# same rate of requests, their sizes and redundancy. Needs root.
#   ROUNDS=3 SECONDS_EACH=10 MOST=64 LIMIT_MS=100 MTCP_BIN=target/release/mtcp sh scripts/replay.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
mtcp=${MTCP_BIN:-$(sh "$root/scripts/release.sh")/mtcp}
rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-10}
most=${MOST:-64}
limit=${LIMIT_MS:-100}
[ -x "$mtcp" ] || { echo "replay.sh: $mtcp is not there: run make build" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "replay.sh: needs network namespaces: run it as root" >&2; exit 2; }
[ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || { echo "replay.sh: needs two cores" >&2; exit 2; }

work=$(mktemp -d)
here=mtcp-replay-$$-s
there=mtcp-replay-$$-c
server=
stop() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
		server=
	fi
}
clean() {
	stop
	ip netns del "$here" 2>/dev/null || true
	ip netns del "$there" 2>/dev/null || true
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

ip netns add "$here"
ip netns add "$there"
ip -n "$here" link add server0 type veth peer name client0 netns "$there"
ip -n "$here" link set server0 up
ip -n "$there" link set client0 up
ip -n "$here" addr add 10.99.0.1/24 dev server0
requests=$(awk "BEGIN { print int(2800000 / 180 * $seconds / 10) }")
log=$work/log.jsonl
"$mtcp" replay make --requests "$requests" --seconds "$seconds" --concurrency 1000 --seed 7 --out "$log"

# Starts the server of this side, at the same address.
serve() {
	case $1 in
	kernel) io="--io kernel --addr 10.99.0.1" ;;
	mtcp) io="--io afxdp:server0" ;;
	esac
	: >"$work/server"
	# Words of the option on purpose.
	# shellcheck disable=SC2086
	ip netns exec "$here" "$mtcp" replay server "$log" $io --core 0 >"$work/server" 2>&1 &
	server=$!
	tries=0
	until grep -q 'listening on' "$work/server"; do
		tries=$((tries + 1))
		if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
			echo "replay.sh: the server did not start:" >&2
			cat "$work/server" >&2
			exit 1
		fi
		sleep 0.1
	done
}

# Replays so many copies against this side: whether the mean is below the limit, with a line that says so.
holds() {
	serve "$1"
	ip netns exec "$there" "$mtcp" replay client "$log" http://10.99.0.1/ --io afxdp:client0 --addr 10.99.0.2/24 --core 1 \
		--copies "$2" --json >"$work/report" 2>"$work/said" || true
	stop
	mean=$(sed -n 's/.*"extra_delay_ms":{[^}]*"mean":\([0-9.]*\).*/\1/p' "$work/report")
	late=$(sed -n 's/.*"client_late_ms":{[^}]*"mean":\([0-9.]*\).*/\1/p' "$work/report")
	errors=$(sed -n 's/.*"errors":\([0-9]*\).*/\1/p' "$work/report")
	rate=$(sed -n 's/.*"transactions_per_s":\([0-9]*\).*/\1/p' "$work/report")
	if [ -z "$mean" ]; then
		echo "replay.sh: the client said nothing: $(cat "$work/said")" >&2
		exit 1
	fi
	echo "  $1, $2 copies: mean extra delay $mean ms (client late $late ms), $rate transactions/s, $errors errors"
	awk "BEGIN { exit !($mean <= $limit && $errors == 0) }"
}

# The most copies that hold, into $found.
search() {
	low=0
	high=1
	while [ "$high" -le "$most" ] && holds "$1" "$high"; do
		low=$high
		high=$((high * 2))
	done
	while [ $((high - low)) -gt 1 ] && [ "$low" -lt "$most" ]; do
		middle=$(((low + high) / 2))
		if holds "$1" "$middle"; then low=$middle; else high=$middle; fi
	done
	found=$low
}

ratios=
round=1
while [ "$round" -le "$rounds" ]; do
	search kernel
	kernel=$found
	search mtcp
	ratio=$(awk "BEGIN { printf \"%.2f\", $found / ($kernel > 0 ? $kernel : 1) }")
	echo "round $round: kernel $kernel, mtcp $found copies of a tenth of the log, ratio $ratio"
	ratios="$ratios $ratio"
	round=$((round + 1))
done
# shellcheck disable=SC2086
median=$(printf '%s\n' $ratios | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }')
echo "median of the ratios: $median (the paper: 7 copies against 3, 2.33)"
