/* getsockopt and setsockopt with Linux's constants and sizes. */
#include "calls.h"

static void set_and_look(const char *name, int fd, int level, int option_name, int value)
{
	char what[100];
	snprintf(what, sizeof what, "set %s to %d", name, value);
	result(what, setsockopt(fd, level, option_name, &value, sizeof value));
	option(name, fd, level, option_name);
}

static void every_option(int fd)
{
	static const struct {
		const char *name;
		int level, option, value, other;
	} table[] = {
		{"SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1, 0},
		{"SO_REUSEPORT", SOL_SOCKET, SO_REUSEPORT, 1, 0},
		{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1, 0},
		{"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1, 0},
		{"SO_DONTROUTE", SOL_SOCKET, SO_DONTROUTE, 1, 0},
		{"SO_BROADCAST", SOL_SOCKET, SO_BROADCAST, 1, 0},
		{"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 50000, 100000},
		{"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 50000, 100000},
		{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 1, 1},
		{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 3, 0},
		{"SO_TIMESTAMP", SOL_SOCKET, SO_TIMESTAMP, 1, 0},
		{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1, 0},
		{"TCP_CORK", IPPROTO_TCP, TCP_CORK, 1, 0},
		{"TCP_QUICKACK", IPPROTO_TCP, TCP_QUICKACK, 1, 1},
		{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 100, 0},
		{"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 20, 99999},
		{"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 5, 200},
		{"TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT, 3, 1000},
		{"TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2, 30, -1},
		{"TCP_DEFER_ACCEPT", IPPROTO_TCP, TCP_DEFER_ACCEPT, 0, 0},
		{"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 5000, -1},
		{"TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 10000, 0},
		{"an unknown one of TCP", IPPROTO_TCP, 250, 1, 0},
		{"an unknown one of sockets", SOL_SOCKET, 1250, 1, 0},
		{"an unknown level", 250, 1, 1, 0},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		set_and_look(table[i].name, fd, table[i].level, table[i].option, table[i].value);
		set_and_look(table[i].name, fd, table[i].level, table[i].option, table[i].other);
	}
}

static void before(void)
{
	int fd = tcp(0);
	every_option(fd);
	close(fd);
}

static void connected(void)
{
	int fd = pair(0);
	every_option(fd);
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	option("SO_TYPE", fd, SOL_SOCKET, SO_TYPE);
	option("SO_PROTOCOL", fd, SOL_SOCKET, SO_PROTOCOL);
	option("SO_DOMAIN", fd, SOL_SOCKET, SO_DOMAIN);
	set_and_look("SO_TYPE", fd, SOL_SOCKET, SO_TYPE, 1);
	close(fd);
}

static void of_ip(void)
{
	int fd = pair(0);
	if (ours.ss_family == AF_INET) {
		set_and_look("IP_TOS", fd, IPPROTO_IP, IP_TOS, 0x10);
		set_and_look("IP_TTL", fd, IPPROTO_IP, IP_TTL, 33);
		set_and_look("IP_TTL", fd, IPPROTO_IP, IP_TTL, 333);
		option("IP_OPTIONS", fd, IPPROTO_IP, 250);
	} else {
		set_and_look("IPV6_UNICAST_HOPS", fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 33);
		set_and_look("IPV6_TCLASS", fd, IPPROTO_IPV6, IPV6_TCLASS, 0x10);
		set_and_look("IPV6_V6ONLY when bound", fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	}
	close(fd);
}

static void sizes(void)
{
	int fd = pair(0), value = 1;
	char room[200];
	socklen_t length = 2;
	result("a short value", setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, 3));
	result("no value", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, 0));
	result("a long value", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (char[16]){1}, 16));
	memset(room, 0x55, sizeof room);
	result("into two bytes", getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, room, &length));
	say("length", "%d", (int)length);
	length = 100;
	result("into many", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, room, &length));
	say("length", "%d", (int)length);
	length = (socklen_t)-1;
	result("into less than none", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, room, &length));
	result("on what is no socket", setsockopt(0, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof value));
	close(fd);
}

static void structures(void)
{
	int fd = pair(0);
	struct linger linger = {.l_onoff = 1, .l_linger = 7};
	struct timeval limit = {.tv_sec = 3, .tv_usec = 500000};
	socklen_t length = sizeof linger;
	result("set SO_LINGER", setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
	result("SO_LINGER", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length));
	say("value", "%d %d in %d bytes", linger.l_onoff, linger.l_linger, (int)length);
	result("a short SO_LINGER", setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4));
	linger.l_onoff = 0;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	for (int name = SO_RCVTIMEO; name <= SO_SNDTIMEO; name++) {
		length = sizeof limit;
		limit = (struct timeval){.tv_sec = 3, .tv_usec = 500000};
		result("set a limit", setsockopt(fd, SOL_SOCKET, name, &limit, sizeof limit));
		result("look", getsockopt(fd, SOL_SOCKET, name, &limit, &length));
		say("value", "%ld.%06ld in %d bytes", (long)limit.tv_sec, (long)limit.tv_usec, (int)length);
		limit.tv_usec = 2000000;
		result("a wrong one", setsockopt(fd, SOL_SOCKET, name, &limit, sizeof limit));
		result("a short one", setsockopt(fd, SOL_SOCKET, name, &limit, 8));
	}
	struct tcp_info info;
	length = sizeof info;
	memset(&info, 0, sizeof info);
	result("TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
	say("state", "%d in %d bytes", info.tcpi_state, (int)length);
	holds("a maximum segment size", info.tcpi_snd_mss > 500 && info.tcpi_snd_mss <= 1460);
	length = 1;
	result("TCP_INFO into one byte", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
	say("length", "%d", (int)length);
	option("TCP_MAXSEG", fd, IPPROTO_TCP, TCP_MAXSEG);
	close(fd);
}

static void congestion(void)
{
	char name[20] = "";
	socklen_t length = sizeof name;
	int fd = pair(0);
	result("look", getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length));
	say("length", "%d", (int)length);
	result("reno", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
	length = sizeof name;
	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length);
	say("value", "%s in %d bytes", name, (int)length);
	result("cubic", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 6));
	result("an unknown one", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "nonsuch", 7));
	length = 3;
	result("into three bytes", getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length));
	say("length", "%d", (int)length);
	close(fd);
}

/* What a listener was told holds for its connections. */
static void inherited(void)
{
	static const struct {
		const char *name;
		int level, option, value;
	} table[] = {
		{"SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1},
		{"SO_REUSEPORT", SOL_SOCKET, SO_REUSEPORT, 1},
		{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1},
		{"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1},
		{"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 60000},
		{"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 70000},
		{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 9},
		{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 4},
		{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1},
		{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 77},
		{"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 17},
		{"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 7},
		{"TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2, 20},
		{"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 30000},
		{"TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 20000},
	};
	int port = fresh_port(), waiting_fd = listener(0, port);
	struct linger linger = {.l_onoff = 1, .l_linger = 3};
	struct timeval limit = {.tv_sec = 7};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		setsockopt(waiting_fd, table[i].level, table[i].option, &table[i].value, sizeof(int));
	setsockopt(waiting_fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	setsockopt(waiting_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	peer("connect 0 %d", port);
	int fd = accept(waiting_fd, NULL, NULL);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		option(table[i].name, fd, table[i].level, table[i].option);
	memset(&linger, 0, sizeof linger);
	result("SO_LINGER", getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &(socklen_t){sizeof linger}));
	say("value", "%d %d", linger.l_onoff, linger.l_linger);
	limit.tv_sec = 0;
	result("SO_RCVTIMEO", getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &(socklen_t){sizeof limit}));
	say("value", "%ld", (long)limit.tv_sec);
	close(fd);
	close(waiting_fd);
}

static void cork(void)
{
	int fd = pair(0), on = 1, off = 0;
	setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
	send_all(fd, 0, 100);
	send_all(fd, 100, 100);
	setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
	result("peer receives", peer("receive 0 200"));
	close(fd);
}

/* A connection is announced when its first data is there. */
static void deferred(void)
{
	int port = fresh_port(), waiting_fd = listener(SOCK_NONBLOCK, port), seconds = 5;
	result("TCP_DEFER_ACCEPT", setsockopt(waiting_fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds));
	peer("connect 0 %d", port);
	peer("send 0 3");
	settled(waiting_fd, POLLIN);
	int fd = descriptor("accept", accept(waiting_fd, NULL, NULL));
	char three[3];
	result("read", recv(fd, three, 3, MSG_DONTWAIT));
	close(fd);
	close(waiting_fd);
}

const struct test options[] = {{"before", before},         {"connected", connected},   {"of IP", of_ip}, {"sizes", sizes},
							   {"structures", structures}, {"congestion", congestion}, {"inherited", inherited},
							   {"cork", cork},             {"deferred", deferred},     {0}};
