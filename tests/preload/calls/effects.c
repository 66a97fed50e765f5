/* What each socket option does, each case named after its option. What an option returns is the group `options`. */
#include "calls.h"

#include <linux/sockios.h>

static unsigned char buffer[1 << 20];

static void set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof value) == -1)
		fail("setsockopt %d %d: %m", level, name);
}

/* A connection whose socket, or whose listener, had the option before. */
static int pair_with(int slot, int level, int name, int value)
{
	int port = fresh_port(), fd;
	if (!serving()) {
		fd = tcp(0);
		set(fd, level, name, value);
		peer("listen %d", port);
		if (connect(fd, at(&theirs, port), address_length) == -1)
			fail("connect: %m");
		peer("accept %d", slot);
		return fd;
	}
	int waiting_fd = tcp(0);
	set(waiting_fd, level, name, value);
	set(waiting_fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(waiting_fd, at(&ours, port), address_length) == -1 || listen(waiting_fd, 16) == -1)
		fail("listen: %m");
	peer("connect %d %d", slot, port);
	fd = accept(waiting_fd, NULL, NULL);
	close(waiting_fd);
	return fd;
}

static int count_of(int fd, int request)
{
	int count = -1;
	if (ioctl(fd, request, &count) == -1)
		fail("ioctl %d: %m", request);
	return count;
}

/* Whether a count of the socket becomes `wanted`. */
static void becomes(const char *what, int fd, int request, int wanted)
{
	long end = now() + PATIENCE / 2;
	while (count_of(fd, request) != wanted && now() < end)
		usleep(1000);
	say(what, "%d", count_of(fd, request));
}

/* Writes until nothing is taken for a while: how much that was. */
static long fill_up(int fd)
{
	long total = 0, last = now();
	while (now() < last + 200) {
		ssize_t sent = send(fd, buffer, sizeof buffer, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent > 0) {
			total += sent;
			last = now();
		} else
			usleep(1000);
	}
	return total;
}

/* --- SOL_SOCKET --- */

static int bound(int reuse, int port)
{
	int fd = tcp(0);
	if (reuse)
		set(fd, SOL_SOCKET, reuse, 1);
	result(reuse ? "bind with it" : "bind without", bind(fd, at(&ours, port), address_length));
	return fd;
}

/* An address that another socket has, and one of a connection in TIME_WAIT. */
static void reuse_address(void)
{
	int first = fresh_port(), one = bound(SO_REUSEADDR, first);
	close(bound(0, first));
	close(bound(SO_REUSEADDR, first));
	close(one);
	int port = fresh_port(), waiting_fd = listener(0, port);
	peer("connect 0 %d", port);
	int fd = accept(waiting_fd, NULL, NULL);
	close(waiting_fd);
	close(fd);
	result("peer at the end", peer("receive 0 1"));
	peer("close 0");
	close(bound(SO_REUSEADDR, port));
}

static void reuse_port(void)
{
	int port = fresh_port();
	int one = bound(SO_REUSEPORT, port), other = bound(0, port), third = bound(SO_REUSEPORT, port);
	result("listen", listen(one, 5));
	result("listen beside", listen(third, 5));
	close(one);
	close(other);
	close(third);
}

/* Who hears nothing any more: what each of the options makes of it, all at once since each takes its time. */
static void of_a_silent_peer(void)
{
	int asking = pair(0), limited = pair(1), lingering = pair(2);
	struct linger linger = {.l_onoff = 1, .l_linger = 1};
	set(asking, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(asking, IPPROTO_TCP, TCP_KEEPIDLE, 1);
	set(asking, IPPROTO_TCP, TCP_KEEPINTVL, 1);
	set(asking, IPPROTO_TCP, TCP_KEEPCNT, 1);
	set(limited, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000);
	setsockopt(lingering, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	for (int slot = 0; slot < 3; slot++)
		peer("deaf %d", slot);
	long start = now();
	send_all(limited, 0, 10);
	send_all(lingering, 0, 10);
	result("close", close(lingering));
	holds("SO_LINGER waits", now() >= start + 950);
	result("read with TCP_USER_TIMEOUT", recv(limited, buffer, 1, 0));
	holds("after that time", now() >= start + 950);
	result("read with SO_KEEPALIVE", recv(asking, buffer, 1, 0));
	holds("after the idle time and one interval", now() >= start + 1900);
	close(limited);
	close(asking);
}

static void linger_none(void)
{
	int fd = pair(0);
	struct linger none = {.l_onoff = 1};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(fd);
	result("peer reads", peer("receive 0 1"));
}

static void receive_buffer(void)
{
	close(pair(0));
	int plain = pair(1), small = pair_with(2, SOL_SOCKET, SO_RCVBUF, 4000);
	holds("a large window without", peer("window 1") > 8000);
	holds("a small one", peer("window 2") <= 8000);
	close(plain);
	close(small);
}

static void send_buffer(void)
{
	int plain = pair(0), small = pair_with(1, SOL_SOCKET, SO_SNDBUF, 5000);
	set(plain, SOL_SOCKET, SO_SNDBUF, 100000);
	peer("deaf 0");
	peer("deaf 1");
	holds("much is taken", fill_up(plain) >= 100000);
	holds("little is taken", fill_up(small) < 50000);
	close(plain);
	close(small);
}

static void look(const char *what, int fd, int set)
{
	struct pollfd one = {.fd = fd, .events = set};
	poll_shows(what, &one, 0);
}

static void receive_low_water(void)
{
	int fd = pair(0);
	set(fd, SOL_SOCKET, SO_RCVLOWAT, 100);
	peer("send 0 60");
	arrived(fd, 60);
	look("60 bytes of 100", fd, POLLIN);
	result("read of what is there", recv(fd, buffer, 60, MSG_DONTWAIT));
	peer("after 50 send 0 60");
	peer("after 100 send 0 60");
	result("read waits", recv(fd, buffer, 100, 0));
	close(fd);
}

static void time_limits(void)
{
	int fd = pair(0);
	struct timeval limit = {.tv_usec = 200000};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	long start = now();
	result("read with SO_RCVTIMEO", recv(fd, buffer, 1, 0));
	holds("after that time", now() >= start + 190);
	peer("deaf 0");
	fill_up(fd);
	start = now();
	result("write with SO_SNDTIMEO", send(fd, buffer, 1000, MSG_NOSIGNAL));
	holds("after that time", now() >= start + 190);
	close(fd);
}

static void pacing(void)
{
	int fd = pair(0);
	set(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 250000);
	long start = now();
	send_all(fd, 0, 150000);
	result("peer receives", peer("receive 0 150000"));
	holds("in its time", now() >= start + 300);
	close(fd);
}

static void incoming_processor(void)
{
	int fd = tcp(0), value = -5;
	set(fd, SOL_SOCKET, SO_INCOMING_CPU, 0);
	option("SO_INCOMING_CPU", fd, SOL_SOCKET, SO_INCOMING_CPU);
	close(fd);
	fd = pair(0);
	getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &value, &(socklen_t){sizeof value});
	holds("a processor", value >= -1);
	close(fd);
}

static void what_it_is(void)
{
	int port = fresh_port(), waiting_fd = listener(SOCK_NONBLOCK, port), fd = tcp(SOCK_NONBLOCK);
	option("SO_ACCEPTCONN of a listener", waiting_fd, SOL_SOCKET, SO_ACCEPTCONN);
	option("SO_ACCEPTCONN of another", fd, SOL_SOCKET, SO_ACCEPTCONN);
	option("SO_TYPE", fd, SOL_SOCKET, SO_TYPE);
	option("SO_PROTOCOL", fd, SOL_SOCKET, SO_PROTOCOL);
	option("SO_SNDLOWAT", fd, SOL_SOCKET, SO_SNDLOWAT);
	int domain = -1;
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain});
	holds("SO_DOMAIN", domain == ours.ss_family);
	result("connect where nobody listens", connect(fd, at(&theirs, fresh_port()), address_length));
	settled(fd, POLLERR);
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	option("SO_ERROR once read", fd, SOL_SOCKET, SO_ERROR);
	close(fd);
	close(waiting_fd);
}

/* --- IPPROTO_TCP --- */

/* Sends two small segments to who does not acknowledge them: what has not been sent of that. The moment counts: after a probe's time it is
 * sent in any case, so a run that was interrupted tries again. */
static void two_small_ones(const char *what, int level, int name, int value)
{
	for (int attempt = 0; attempt < 100; attempt++) {
		int fd = pair(0);
		if (name)
			set(fd, level, name, value);
		peer("deaf 0");
		long start = now();
		send_all(fd, 0, 1);
		/* A stack that runs beside the program could put both into one segment: before it answers, what was written before is sent. */
		count_of(fd, SIOCOUTQNSD);
		send_all(fd, 1, 1);
		int held = count_of(fd, SIOCOUTQNSD);
		if (now() > start + 2 && held != (name == TCP_NODELAY ? 0 : 1)) {
			close(fd);
			continue;
		}
		say(what, "%d not sent", held);
		set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
		becomes("not sent when TCP_NODELAY is set", fd, SIOCOUTQNSD, 0);
		close(fd);
		return;
	}
	fail("always interrupted");
}

static void no_delay(void)
{
	two_small_ones("without", 0, 0, 0);
	two_small_ones("with it", IPPROTO_TCP, TCP_NODELAY, 1);
}

static void cork(void)
{
	int held = 0;
	for (int attempt = 0; attempt < 20 && held == 0; attempt++) {
		int fd = pair(0);
		set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
		set(fd, IPPROTO_TCP, TCP_CORK, 1);
		send_all(fd, 0, 100);
		held = count_of(fd, SIOCOUTQNSD);
		set(fd, IPPROTO_TCP, TCP_CORK, 0);
		result("peer receives", peer("receive 0 100"));
		close(fd);
	}
	say("held back", "%d", held);
}

static void max_segment(void)
{
	int fd = pair_with(0, IPPROTO_TCP, TCP_MAXSEG, 500), own = 0;
	long theirs_is = peer("segment 0");
	getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &own, &(socklen_t){sizeof own});
	holds("what the peer may send", theirs_is > 0 && theirs_is <= 500);
	holds("what we send", own > 0 && own <= 500);
	close(fd);
}

/* Who has sent its FIN, and had it acknowledged, does not wait for the peer's. */
static void linger_in_fin_wait_2(void)
{
	int fd = pair(0);
	set(fd, IPPROTO_TCP, TCP_LINGER2, -1);
	shutdown(fd, SHUT_WR);
	result("peer at the end", peer("receive 0 1"));
	becomes("not acknowledged", fd, SIOCOUTQ, 0);
	close(fd);
	result("peer's error", peer("error 0"));
}

static void deferred(void)
{
	int port = fresh_port(), waiting_fd = listener(SOCK_NONBLOCK, port);
	set(waiting_fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
	peer("connect 0 %d", port);
	usleep(50000);
	look("without data", waiting_fd, POLLIN);
	peer("send 0 3");
	settled(waiting_fd, POLLIN);
	int fd = accept(waiting_fd, NULL, NULL);
	result("read", recv(fd, buffer, 3, MSG_DONTWAIT));
	close(fd);
	close(waiting_fd);
}

static void window_clamp(void)
{
	int fd = pair_with(0, IPPROTO_TCP, TCP_WINDOW_CLAMP, 3000);
	holds("a small window", peer("window 0") <= 3000);
	close(fd);
}

static void not_sent_low_water(void)
{
	int fd = pair(0);
	set(fd, SOL_SOCKET, SO_SNDBUF, 500000);
	set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 4096);
	peer("deaf 0");
	fill_up(fd);
	holds("little that is not sent", count_of(fd, SIOCOUTQNSD) <= 70000);
	look("poll", fd, POLLOUT);
	close(fd);
}

/* --- IP --- */

/* Where the halfword at `offset` of the packet's IP header has to be `value` under `mask`: what comes with `good`, and with `bad`. */
static void seen(int level, int name, int good, int bad, int offset, int mask, int value)
{
	int fd = pair(0);
	set(fd, level, name, good);
	peer("only 0 %d %d %d", offset, mask, value);
	send_all(fd, 0, 10);
	result("peer receives", peer("receive 0 10"));
	if (bad >= 0) {
		set(fd, level, name, bad);
		send_all(fd, 10, 10);
		usleep(100000);
		say("not acknowledged", "%d", count_of(fd, SIOCOUTQ));
		set(fd, level, name, good);
		result("peer receives", peer("receive 0 10"));
	}
	close(fd);
}

static void hops(void)
{
	if (ours.ss_family == AF_INET)
		seen(IPPROTO_IP, IP_TTL, 77, 33, 8, 0xff00, 77 << 8);
	else
		seen(IPPROTO_IPV6, IPV6_UNICAST_HOPS, 77, 33, 6, 0xff, 77);
}

static void service(void)
{
	if (ours.ss_family == AF_INET)
		seen(IPPROTO_IP, IP_TOS, 0x48, 0x10, 0, 0xfc, 0x48);
	else
		seen(IPPROTO_IPV6, IPV6_TCLASS, 0x48, 0x10, 0, 0xfc0, 0x480);
}

/* The path's MTU, and that packets may not be cut up on it. */
static void path(void)
{
	int fd = pair(0), four = ours.ss_family == AF_INET;
	option("MTU", fd, four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_MTU : IPV6_MTU);
	close(fd);
	if (four)
		seen(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, -1, 6, 0x4000, 0x4000);
	else
		/* TCP follows at once: there is no fragment header. */
		seen(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, -1, 6, 0xff00, IPPROTO_TCP << 8);
}

static void only_six(void)
{
	for (int only = 0; only < 2; only++) {
		struct sockaddr_in6 any = {.sin6_family = AF_INET6};
		int port = fresh_port(), fd = socket(AF_INET6, SOCK_STREAM, 0);
		any.sin6_port = htons(port);
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, only);
		if (bind(fd, (struct sockaddr *)&any, sizeof any) == -1 || listen(fd, 5) == -1)
			fail("listen: %m");
		result(only ? "peer connects with it" : "peer connects without", peer("connect 0 %d", port));
		close(fd);
	}
}

const struct test effects[] = {{"SO_REUSEADDR", reuse_address},
							   {"SO_REUSEPORT", reuse_port},
							   {"SO_KEEPALIVE TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_USER_TIMEOUT SO_LINGER", of_a_silent_peer},
							   {"SO_LINGER of no time", linger_none},
							   {"SO_RCVBUF", receive_buffer},
							   {"SO_SNDBUF", send_buffer},
							   {"SO_RCVLOWAT", receive_low_water},
							   {"SO_RCVTIMEO SO_SNDTIMEO", time_limits},
							   {"SO_MAX_PACING_RATE", pacing},
							   {"SO_INCOMING_CPU", incoming_processor},
							   {"SO_ERROR SO_TYPE SO_PROTOCOL SO_DOMAIN SO_ACCEPTCONN SO_SNDLOWAT", what_it_is},
							   {"TCP_NODELAY", no_delay},
							   {"TCP_CORK", cork},
							   {"TCP_MAXSEG", max_segment},
							   {"TCP_LINGER2", linger_in_fin_wait_2},
							   {"TCP_DEFER_ACCEPT", deferred},
							   {"TCP_WINDOW_CLAMP", window_clamp},
							   {"TCP_NOTSENT_LOWAT", not_sent_low_water},
							   {"IP_TTL IPV6_UNICAST_HOPS", hops},
							   {"IP_TOS IPV6_TCLASS", service},
							   {"IP_MTU IPV6_MTU IP_MTU_DISCOVER IPV6_MTU_DISCOVER", path},
							   {"IPV6_V6ONLY", only_six},
							   {0}};
