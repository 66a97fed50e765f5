/*
 * Two processes on a link: every call on connections.
 *
 *   pair SERVER_CONF CLIENT_CONF SERVER_ADDRESS
 *
 * Forks. The server's and the client's part of each scenario stand together and meet on a port of their own.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "check.h"

#define FIRST_PORT 1000
#define NOBODYS_PORT 999
#define BULK 3000000

static mctx_t ctx;
static int is_client;
static struct sockaddr_storage server;
static socklen_t server_len;
static char bulk[BULK];
static int kernel_listener;
static struct sockaddr_in kernel_addr;

static void
set_port(struct sockaddr_storage *addr, int port)
{
	/* Where the port is does not depend on the family. */
	((struct sockaddr_in *)addr)->sin_port = htons((uint16_t)port);
}

static int
socket_of_family(int flags)
{
	int s = mtcp_socket(ctx, server.ss_family, SOCK_STREAM | flags, 0);

	CHECK(s >= 0);
	return s;
}

static int
try_connect(int s, int port)
{
	struct sockaddr_storage addr = server;

	set_port(&addr, port);
	return mtcp_connect(ctx, s, (struct sockaddr *)&addr, server_len);
}

/* Connects, once the other side listens. */
static int
connect_to(int port)
{
	int s, tries;

	for (tries = 0; tries < 200; tries++) {
		s = socket_of_family(0);
		if (try_connect(s, port) == 0)
			return s;
		mtcp_close(ctx, s);
		usleep(20000);
	}
	fprintf(stderr, "pair: cannot connect to port %d: %s\n", port, strerror(errno));
	exit(1);
}

static int
accept_one(int listener)
{
	int s = mtcp_accept(ctx, listener, NULL, NULL);

	CHECK(s >= 0);
	return s;
}

static long
read_all(int s, char *to, long len)
{
	long have = 0, n;

	while (have < len && (n = mtcp_read(ctx, s, to + have, (size_t)(len - have))) > 0)
		have += n;
	return have;
}

/* Waits for the other side to finish: it says nothing more. */
static void
until_eof(int s)
{
	char byte;

	CHECK(mtcp_read(ctx, s, &byte, 1) == 0);
}

static int
epoll_with(int s, uint32_t events)
{
	struct mtcp_epoll_event event = { .events = events, .data.sockid = s };
	int ep = mtcp_epoll_create(ctx, 10);

	CHECK(ep >= 0 && mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, s, &event) == 0);
	return ep;
}

/* The next event; each entry has one bit. */
static uint32_t
next_event(int ep, int s)
{
	struct mtcp_epoll_event event;

	if (mtcp_epoll_wait(ctx, ep, &event, 1, 10000) != 1 || event.data.sockid != s)
		return 0;
	return event.events;
}

static int
so_error(int s)
{
	int error = -1;
	socklen_t len = sizeof error;

	CHECK(mtcp_getsockopt(ctx, s, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && len == sizeof error);
	return error;
}

/* ---- addresses, TCP_INFO ---- */

static void
names(int listener, int port)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 }, accepted = { 0 };
	socklen_t len = sizeof local, peer_len = sizeof peer, accepted_len = sizeof accepted;
	struct tcp_info info;
	socklen_t info_len = sizeof info, short_len = 4;
	int s;

	if (is_client)
		s = connect_to(port);
	else
		s = mtcp_accept(ctx, listener, (struct sockaddr *)&accepted, &accepted_len);
	CHECK(s >= 0);
	CHECK(mtcp_getsockname(ctx, s, (struct sockaddr *)&local, &len) == 0 && len == server_len);
	CHECK(mtcp_getpeername(ctx, s, (struct sockaddr *)&peer, &peer_len) == 0 && peer_len == server_len);
	CHECK(local.ss_family == server.ss_family && peer.ss_family == server.ss_family);
	set_port(&server, port);
	if (is_client) {
		CHECK(memcmp(&peer, &server, server_len) == 0 && memcmp(&local, &server, server_len) != 0);
		FAILS(EISCONN, try_connect(s, port));
	} else {
		/* The local address of an accepted socket is ours: the original gave the peer's. */
		CHECK(memcmp(&local, &server, server_len) == 0);
		CHECK(accepted_len == server_len && memcmp(&accepted, &peer, server_len) == 0);
	}
	CHECK(mtcp_getsockopt(ctx, s, IPPROTO_TCP, TCP_INFO, &info, &info_len) == 0);
	CHECK(info_len <= sizeof info && info.tcpi_snd_mss > 500 && info.tcpi_snd_cwnd >= 2);
	/* ESTABLISHED, or CLOSE_WAIT where the client was quick. */
	CHECK(info.tcpi_state == 1 || (info.tcpi_state == 8 && !is_client));
	CHECK(mtcp_getsockopt(ctx, s, IPPROTO_TCP, TCP_INFO, &info, &short_len) == 0 && short_len == 4);
	if (is_client)
		CHECK(mtcp_shutdown(ctx, s, SHUT_WR) == 0);
	until_eof(s);
	CHECK(mtcp_close(ctx, s) == 0);
}

/* ---- reading and writing ---- */

static void
vectors_client(int s)
{
	struct iovec iov[] = { { "one", 3 }, { NULL, 0 }, { "two", 3 }, { "three", 5 } };
	char buf[8];

	CHECK(mtcp_writev(ctx, s, iov, 4) == 11);
	CHECK(mtcp_read(ctx, s, buf, 1) == 1 && buf[0] == '1');
	CHECK(mtcp_send(ctx, s, "ab", 2, MSG_MORE) == 2);
	CHECK(mtcp_send(ctx, s, "cd", 2, MSG_NOSIGNAL) == 2);
	until_eof(s);
}

static void
vectors_server(int s)
{
	char a[4] = "", b[16] = "";
	struct iovec iov[] = { { a, 4 }, { b, 7 } };
	int unread = 0;

	CHECK(mtcp_recv(ctx, s, b, 11, MSG_PEEK | MSG_WAITALL) > 0 && b[0] == 'o');
	while (unread < 11)
		CHECK(mtcp_socket_ioctl(ctx, s, FIONREAD, &unread) == 0);
	memset(b, 0, sizeof b);
	CHECK(mtcp_readv(ctx, s, iov, 2) == 11);
	CHECK(memcmp(a, "onet", 4) == 0 && memcmp(b, "wothree", 7) == 0);
	FAILS(EAGAIN, mtcp_recv(ctx, s, b, 1, MSG_DONTWAIT));
	CHECK(mtcp_write(ctx, s, "1", 1) == 1);
	CHECK(mtcp_recv(ctx, s, b, 4, MSG_WAITALL) == 4 && memcmp(b, "abcd", 4) == 0);
	CHECK(mtcp_write(ctx, s, NULL, 0) == 0);
}

static void
vectors(int listener, int port)
{
	int s = is_client ? connect_to(port) : accept_one(listener);

	(is_client ? vectors_client : vectors_server)(s);
	CHECK(mtcp_close(ctx, s) == 0);
}

/* Much, in both directions, and half-closed. */
static void
bulk_both_ways(int listener, int port)
{
	int s = is_client ? connect_to(port) : accept_one(listener), i;

	if (is_client) {
		for (i = 0; i < BULK; i++)
			bulk[i] = (char)(i * 7 + (i >> 8));
		CHECK(mtcp_write(ctx, s, bulk, BULK) == BULK);
		CHECK(mtcp_shutdown(ctx, s, SHUT_WR) == 0);
		FAILS(EPIPE, mtcp_write(ctx, s, "x", 1));
		memset(bulk, 0, BULK);
	} else {
		CHECK(read_all(s, bulk, BULK) == BULK);
		until_eof(s);
		CHECK(mtcp_write(ctx, s, bulk, BULK) == BULK);
	}
	if (is_client) {
		CHECK(read_all(s, bulk, BULK) == BULK);
		for (i = 0; i < BULK && bulk[i] == (char)(i * 7 + (i >> 8)); i++)
			;
		CHECK(i == BULK);
		until_eof(s);
	}
	CHECK(mtcp_close(ctx, s) == 0);
}

/* ---- resets ---- */

static void
resets(int listener, int port)
{
	char byte;
	uint32_t event;
	int s = is_client ? connect_to(port) : accept_one(listener), ep;

	if (!is_client) {
		CHECK(mtcp_read(ctx, s, &byte, 1) == 1);
		CHECK(mtcp_abort(ctx, s) == 0);
		FAILS(EBADF, mtcp_close(ctx, s));
		return;
	}
	CHECK(mtcp_write(ctx, s, "x", 1) == 1);
	ep = epoll_with(s, MTCP_EPOLLIN | MTCP_EPOLLOUT | MTCP_EPOLLRDHUP | MTCP_EPOLLET);
	while ((event = next_event(ep, s)) == MTCP_EPOLLOUT)
		;
	/* As in the original it is no ERR; and the read does not hide it. */
	CHECK(event == MTCP_EPOLLRDHUP);
	FAILS(ECONNRESET, mtcp_read(ctx, s, &byte, 1));
	CHECK(mtcp_read(ctx, s, &byte, 1) == 0);
	FAILS(EPIPE, mtcp_write(ctx, s, "x", 1));
	CHECK(so_error(s) == 0);
	CHECK(mtcp_close(ctx, ep) == 0 && mtcp_close(ctx, s) == 0);
}

/* ---- non-blocking ---- */

static void
connects_without_blocking(int listener, int port)
{
	int s, ep, n;

	if (!is_client) {
		s = accept_one(listener);
		until_eof(s);
		CHECK(mtcp_close(ctx, s) == 0);
		return;
	}
	s = socket_of_family(SOCK_NONBLOCK);
	FAILS(EINPROGRESS, try_connect(s, port));
	ep = epoll_with(s, MTCP_EPOLLOUT);
	CHECK(next_event(ep, s) == MTCP_EPOLLOUT);
	CHECK(so_error(s) == 0);
	/* Linux says once that it is connected. */
	n = try_connect(s, port);
	CHECK(n == 0 || errno == EISCONN);
	FAILS(EISCONN, try_connect(s, port));
	CHECK(mtcp_close(ctx, s) == 0);

	/* Nobody there. */
	s = socket_of_family(0);
	FAILS(ECONNREFUSED, try_connect(s, NOBODYS_PORT));
	CHECK(mtcp_setsock_nonblock(ctx, s) == 0);
	FAILS(EINPROGRESS, try_connect(s, NOBODYS_PORT));
	{
		struct mtcp_epoll_event event = { .events = MTCP_EPOLLIN | MTCP_EPOLLOUT, .data.sockid = s };

		CHECK(mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, s, &event) == 0);
	}
	CHECK(next_event(ep, s) == MTCP_EPOLLERR);
	CHECK(so_error(s) == ECONNREFUSED && so_error(s) == 0);
	CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, ep) == 0);
}

static void
accepts_without_blocking(int listener, int port)
{
	int s, ep, off = 0;
	char byte;

	if (is_client) {
		s = connect_to(port);
		until_eof(s);
		CHECK(mtcp_close(ctx, s) == 0);
		return;
	}
	CHECK(mtcp_setsock_nonblock(ctx, listener) == 0);
	ep = epoll_with(listener, MTCP_EPOLLIN);
	CHECK(next_event(ep, listener) == MTCP_EPOLLIN);
	s = mtcp_accept4(ctx, listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	FAILS(EAGAIN, mtcp_read(ctx, s, &byte, 1));
	CHECK(mtcp_socket_ioctl(ctx, s, FIONBIO, &off) == 0);
	CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, ep) == 0);
}

/* Full, then room again. The peer reads only after it is told to. */
static void
fills_up(int listener, int port)
{
	int s = is_client ? connect_to(port) : accept_one(listener), ep;
	long written = 0, n;
	char byte;

	if (!is_client) {
		CHECK(mtcp_read(ctx, s, &byte, 1) == 1);
		for (n = 1; n > 0; written += n)
			n = mtcp_read(ctx, s, bulk, BULK);
		CHECK(n == 0 && written > 10000);
		CHECK(mtcp_close(ctx, s) == 0);
		return;
	}
	CHECK(mtcp_setsock_nonblock(ctx, s) == 0);
	ep = epoll_with(s, MTCP_EPOLLOUT | MTCP_EPOLLET);
	CHECK(next_event(ep, s) == MTCP_EPOLLOUT);
	CHECK(mtcp_write(ctx, s, "x", 1) == 1);
	while (written < BULK) {
		n = mtcp_write(ctx, s, bulk, (size_t)(BULK - written));
		if (n > 0) {
			written += n;
		} else {
			CHECK(n == -1 && errno == EAGAIN);
			CHECK(next_event(ep, s) == MTCP_EPOLLOUT);
		}
	}
	CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, ep) == 0);
}

/* ---- one event bit per entry ---- */

static void
events_one_by_one(int listener, int port)
{
	int s = is_client ? connect_to(port) : accept_one(listener), ep, i;
	uint32_t seen = 0, event;
	char buf[4];

	if (!is_client) {
		CHECK(mtcp_write(ctx, s, "x", 1) == 1);
		CHECK(mtcp_shutdown(ctx, s, SHUT_WR) == 0);
		until_eof(s);
		CHECK(mtcp_close(ctx, s) == 0);
		return;
	}
	ep = epoll_with(s, MTCP_EPOLLIN | MTCP_EPOLLOUT | MTCP_EPOLLRDHUP);
	for (i = 0; i < 100000000 && seen != (MTCP_EPOLLIN | MTCP_EPOLLOUT); i++) {
		event = next_event(ep, s);
		CHECK(event == MTCP_EPOLLIN || event == MTCP_EPOLLOUT);
		seen |= event;
	}
	CHECK(seen == (MTCP_EPOLLIN | MTCP_EPOLLOUT));
	CHECK(mtcp_read(ctx, s, buf, sizeof buf) == 1);
	/* The end of the stream may take a while. As in the original it can be read, and RDHUP is for resets. */
	do
		event = next_event(ep, s);
	while (event == MTCP_EPOLLOUT);
	CHECK(event == MTCP_EPOLLIN && mtcp_read(ctx, s, buf, sizeof buf) == 0);
	CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, ep) == 0);
}

#include "pair_options.h"

/* ---- the end: what was written and closed arrives, though the client is gone ---- */

static void
last_words(int listener, int port)
{
	int s = is_client ? connect_to(port) : accept_one(listener);

	if (is_client) {
		CHECK(mtcp_write(ctx, s, bulk, 200000) == 200000);
		return;
	}
	CHECK(read_all(s, bulk, 200001) == 200000);
	CHECK(mtcp_close(ctx, s) == 0);
}

static void (*const scenarios[])(int listener, int port) = {
	names, information, vectors, bulk_both_ways, resets, connects_without_blocking, accepts_without_blocking, fills_up,
	events_one_by_one, time_outs, low_water, corks, deferred, opens_fast, last_words,
};
#define SCENARIOS (int)(sizeof scenarios / sizeof *scenarios)

static int
listen_on(int port)
{
	struct sockaddr_storage addr = server;
	int s = socket_of_family(0);

	set_port(&addr, port);
	CHECK(mtcp_bind(ctx, s, (struct sockaddr *)&addr, server_len) == 0);
	CHECK(mtcp_listen(ctx, s, 8) == 0);
	return s;
}

static int
run(const char *conf)
{
	int listeners[SCENARIOS] = { 0 }, i;

	alarm(100);
	if (mtcp_init(conf) < 0 || (ctx = mtcp_create_context(0)) == NULL) {
		fprintf(stderr, "pair: %s\n", mtcp_last_error());
		return 1;
	}
	for (i = 0; i < SCENARIOS && !is_client; i++)
		listeners[i] = listen_on(FIRST_PORT + i);
	for (i = 0; i < SCENARIOS; i++)
		scenarios[i](listeners[i], FIRST_PORT + i);
	mtcp_destroy_context(ctx);
	mtcp_destroy();
	return check_result(is_client ? "pair, client" : "pair, server");
}

/* The kernel's listener that both processes know, on a port that nobody else has. */
static int
listen_in_kernel(void)
{
	socklen_t len = sizeof kernel_addr;

	kernel_addr.sin_family = AF_INET;
	kernel_addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	kernel_listener = socket(AF_INET, SOCK_STREAM, 0);
	return bind(kernel_listener, (struct sockaddr *)&kernel_addr, len) == 0 && listen(kernel_listener, 2) == 0
	    && getsockname(kernel_listener, (struct sockaddr *)&kernel_addr, &len) == 0;
}

int
main(int argc, char **argv)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&server;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&server;
	int status = 0, failed;
	pid_t child;

	if (argc != 4)
		return 2;
	server.ss_family = inet_pton(AF_INET, argv[3], &v4->sin_addr) == 1 ? AF_INET : AF_INET6;
	server_len = server.ss_family == AF_INET ? sizeof *v4 : sizeof *v6;
	if (server.ss_family == AF_INET6 && inet_pton(AF_INET6, argv[3], &v6->sin6_addr) != 1)
		return 2;
	if (!listen_in_kernel()) {
		perror("pair: a listener on the loopback");
		return 2;
	}
	child = fork();
	if (child < 0)
		return 2;
	is_client = child == 0;
	failed = run(argv[is_client ? 2 : 1]);
	if (is_client)
		return failed;
	waitpid(child, &status, 0);
	return failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
