/*
 * The API without a peer: order of calls, wrong arguments, unconnected sockets, options, pipes, epoll, threads, signals.
 *
 *   alone CONF [modern]
 *
 * modern: CONF says strict_options = yes and one_event_per_entry = no.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "check.h"

static mctx_t ctx;
static int modern;

static struct sockaddr_in
v4(const char *text, int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	addr.sin_addr.s_addr = 0;
	if (text) {
		unsigned a, b, c, d;

		if (sscanf(text, "%u.%u.%u.%u", &a, &b, &c, &d) == 4)
			addr.sin_addr.s_addr = htonl(a << 24 | b << 16 | c << 8 | d);
	}
	return addr;
}

static int
bind_v4(int s, const char *text, int port)
{
	struct sockaddr_in addr = v4(text, port);

	return mtcp_bind(ctx, s, (struct sockaddr *)&addr, sizeof addr);
}

static int
fresh(void)
{
	int s = mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0);

	CHECK(s >= 0);
	return s;
}

/* ---- the process ---- */

static void
before_init(void)
{
	struct mtcp_conf conf;

	CHECK(mtcp_getconf(&conf) == 0);
	CHECK(conf.num_cores == 0 && conf.max_concurrency == 10000 && conf.tcp_timeout == 30 && conf.tcp_timewait == 0);
	FAILS(EFAULT, mtcp_getconf(NULL));
	FAILS(EFAULT, mtcp_setconf(NULL));
	errno = 0;
	CHECK(mtcp_create_context(0) == NULL && errno == EPERM);
	CHECK(strstr(mtcp_last_error(), "mtcp_init"));
	FAILS(EINVAL, mtcp_core_affinitize(-1));
	FAILS(EINVAL, mtcp_core_affinitize(100000));
	/* Call order 1: the number of cores before mtcp_init. */
	conf.num_cores = 1;
	CHECK(mtcp_setconf(&conf) == 0);
	CHECK(mtcp_getconf(&conf) == 0 && conf.num_cores == 1);
}

static void
write_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	CHECK(file != NULL);
	fputs(text, file);
	fclose(file);
}

static void
init(const char *file)
{
	struct mtcp_conf conf;

	FAILS(EFAULT, mtcp_init(NULL));
	FAILS(ENOENT, mtcp_init("/nonexistent/mtcp.conf"));
	CHECK(strstr(mtcp_last_error(), "/nonexistent/mtcp.conf"));
	write_file("wrong.conf", "rcvbuf = 8192\nrecvbuf = 1\n");
	FAILS(EINVAL, mtcp_init("wrong.conf"));
	CHECK(strstr(mtcp_last_error(), "wrong.conf:2: unknown key 'recvbuf'"));
	write_file("wrong.conf", "io = dpdk\n");
	FAILS(EINVAL, mtcp_init("wrong.conf"));
	CHECK(strstr(mtcp_last_error(), "afxdp"));
	write_file("wrong.conf", "io = shm:/nonexistent/link\naddr = 10.0.0.2/24\n");
	FAILS(ENODEV, mtcp_init("wrong.conf"));
	CHECK(strstr(mtcp_last_error(), "/nonexistent/link"));

	CHECK(mtcp_init(file) == 0);
	FAILS(EALREADY, mtcp_init(file));
	CHECK(mtcp_getconf(&conf) == 0 && conf.num_cores == 1 && conf.rcvbuf_size == 65536);
	/* Call order 2: sizes after mtcp_init. */
	conf.max_concurrency = 64;
	conf.tcp_timeout = -1;
	CHECK(mtcp_setconf(&conf) == 0);
	CHECK(mtcp_getconf(&conf) == 0 && conf.max_concurrency == 64 && conf.tcp_timeout == 30);
	conf.rcvbuf_size = 1;
	FAILS(EINVAL, mtcp_setconf(&conf));
	conf.rcvbuf_size = 0;
	/* What cannot change does not keep the rest from it. */
	conf.num_cores = 2;
	conf.tcp_timewait = 3;
	FAILS(EINVAL, mtcp_setconf(&conf));
	CHECK(strstr(mtcp_last_error(), "num_cores"));
	CHECK(mtcp_getconf(&conf) == 0 && conf.num_cores == 1 && conf.tcp_timewait == 3);
}

static void
contexts(void)
{
	errno = 0;
	CHECK(mtcp_create_context(-1) == NULL && errno == EINVAL);
	CHECK(mtcp_create_context(1) == NULL && errno == EINVAL);
	CHECK(mtcp_core_affinitize(0) == 0);
	FAILS(EINVAL, mtcp_core_affinitize(1));
	ctx = mtcp_create_context(0);
	CHECK(ctx != NULL);
	if (!ctx) {
		fprintf(stderr, "%s\n", mtcp_last_error());
		exit(1);
	}
	errno = 0;
	CHECK(mtcp_create_context(0) == NULL && errno == EEXIST);
}

/* ---- wrong contexts and sockets ---- */

/* Every call with this context and socket id fails so. */
static void
all_fail(int error, mctx_t c, int s)
{
	struct sockaddr_in addr = v4("10.0.0.3", 80);
	socklen_t len = sizeof addr;
	struct mtcp_epoll_event event = { 0 };
	struct iovec iov = { &addr, sizeof addr };
	char buf[16] = "";
	int value = 1;

	FAILS(error, mtcp_bind(c, s, (struct sockaddr *)&addr, len));
	FAILS(error, mtcp_listen(c, s, 5));
	FAILS(error, mtcp_accept(c, s, NULL, NULL));
	FAILS(error, mtcp_accept4(c, s, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK));
	FAILS(error, mtcp_connect(c, s, (struct sockaddr *)&addr, len));
	FAILS(error, mtcp_close(c, s));
	FAILS(error, mtcp_abort(c, s));
	FAILS(error, mtcp_shutdown(c, s, SHUT_WR));
	FAILS(error, mtcp_getsockname(c, s, (struct sockaddr *)&addr, &len));
	FAILS(error, mtcp_getpeername(c, s, (struct sockaddr *)&addr, &len));
	FAILS(error, mtcp_getsockopt(c, s, SOL_SOCKET, SO_ERROR, &value, &len));
	FAILS(error, mtcp_setsockopt(c, s, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value));
	FAILS(error, mtcp_setsock_nonblock(c, s));
	FAILS(error, mtcp_socket_ioctl(c, s, FIONREAD, &value));
	FAILS(error, mtcp_read(c, s, buf, sizeof buf));
	FAILS(error, mtcp_recv(c, s, buf, sizeof buf, MSG_PEEK));
	FAILS(error, mtcp_readv(c, s, &iov, 1));
	FAILS(error, mtcp_write(c, s, buf, sizeof buf));
	FAILS(error, mtcp_send(c, s, buf, sizeof buf, MSG_NOSIGNAL));
	FAILS(error, mtcp_writev(c, s, &iov, 1));
	FAILS(error, mtcp_epoll_ctl(c, s, MTCP_EPOLL_CTL_ADD, s, &event));
	FAILS(error, mtcp_epoll_wait(c, s, &event, 1, 0));
	/* NULLs do not hide it. */
	FAILS(error, mtcp_read(c, s, NULL, 1));
	FAILS(error, mtcp_write(c, s, NULL, 1));
	FAILS(error, mtcp_connect(c, s, NULL, 0));
	FAILS(error, mtcp_epoll_wait(c, s, NULL, 0, 0));
}

static void
wrong_contexts(void)
{
	char junk[256];
	mctx_t wrong[] = { NULL, (mctx_t)junk, (mctx_t)1, (mctx_t)-1, (mctx_t)((char *)ctx + 1), (mctx_t)((char *)ctx + 128),
		           (mctx_t)((char *)ctx - 128) };
	size_t i;
	int pipes[2];

	for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		all_fail(EINVAL, wrong[i], 0);
		FAILS(EINVAL, mtcp_socket(wrong[i], AF_INET, SOCK_STREAM, 0));
		FAILS(EINVAL, mtcp_pipe(wrong[i], pipes));
		FAILS(EINVAL, mtcp_epoll_create(wrong[i], 1));
		FAILS(EINVAL, mtcp_epoll_create1(wrong[i], 0));
		FAILS(EINVAL, mtcp_init_rss(wrong[i], 0, 1, 0, 0));
		mtcp_destroy_context(wrong[i]);
	}
}

static void
wrong_sockets(void)
{
	all_fail(EBADF, ctx, -1);
	all_fail(EBADF, ctx, 0);
	all_fail(EBADF, ctx, 63);
	all_fail(EBADF, ctx, 64);
	all_fail(EBADF, ctx, 2147483647);
	all_fail(EBADF, ctx, -2147483647 - 1);
}

static void
sockets(void)
{
	int ids[64], i;

	FAILS(EAFNOSUPPORT, mtcp_socket(ctx, AF_UNIX, SOCK_STREAM, 0));
	FAILS(EAFNOSUPPORT, mtcp_socket(ctx, -1, SOCK_STREAM, 0));
	FAILS(EINVAL, mtcp_socket(ctx, AF_INET, SOCK_DGRAM, 0));
	FAILS(EINVAL, mtcp_socket(ctx, AF_INET, -1, 0));
	/* Small, dense, max_concurrency of them; then the one that was closed first. */
	for (i = 0; i < 64; i++) {
		ids[i] = mtcp_socket(ctx, i % 2 ? AF_INET : AF_INET6, MTCP_SOCK_STREAM, IPPROTO_TCP);
		CHECK(ids[i] == i);
	}
	FAILS(ENFILE, mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0));
	FAILS(ENFILE, mtcp_epoll_create(ctx, 1));
	FAILS(ENFILE, mtcp_pipe(ctx, ids));
	for (i = 63; i >= 0; i--)
		CHECK(mtcp_close(ctx, i) == 0);
	CHECK(fresh() == 63 && mtcp_close(ctx, 63) == 0);
	for (i = 62; i >= 0; i--)
		CHECK(fresh() == i);
	for (i = 0; i < 63; i++)
		CHECK(mtcp_close(ctx, i) == 0);
	FAILS(EBADF, mtcp_close(ctx, 5));
}

/* ---- unconnected sockets ---- */

static void
binding(void)
{
	struct sockaddr_in addr = v4("10.0.0.2", 8080), got;
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(8081) }, got6;
	socklen_t len;
	int s = fresh(), t = fresh(), s6 = mtcp_socket(ctx, AF_INET6, SOCK_STREAM, 0);

	FAILS(EINVAL, mtcp_bind(ctx, s, NULL, sizeof addr));
	FAILS(EINVAL, mtcp_bind(ctx, s, (struct sockaddr *)&addr, sizeof addr - 1));
	FAILS(EINVAL, mtcp_bind(ctx, s, (struct sockaddr *)&addr, 0));
	addr.sin_family = AF_UNIX;
	FAILS(EINVAL, mtcp_bind(ctx, s, (struct sockaddr *)&addr, sizeof addr));
	FAILS(EADDRNOTAVAIL, bind_v4(s, "10.9.9.9", 80));
	CHECK(bind_v4(s, "10.0.0.2", 8080) == 0);
	FAILS(EINVAL, bind_v4(s, "10.0.0.2", 8082));
	FAILS(EADDRINUSE, bind_v4(t, NULL, 8080));
	CHECK(bind_v4(t, NULL, 0) == 0);

	len = sizeof got;
	CHECK(mtcp_getsockname(ctx, s, (struct sockaddr *)&got, &len) == 0);
	addr = v4("10.0.0.2", 8080);
	CHECK(len == sizeof got && got.sin_family == AF_INET && got.sin_port == addr.sin_port);
	CHECK(got.sin_addr.s_addr == addr.sin_addr.s_addr);
	CHECK(mtcp_getsockname(ctx, t, (struct sockaddr *)&got, &len) == 0 && got.sin_port != 0);
	FAILS(EFAULT, mtcp_getsockname(ctx, s, NULL, &len));
	FAILS(EFAULT, mtcp_getsockname(ctx, s, (struct sockaddr *)&got, NULL));
	len = (socklen_t)-1;
	FAILS(EINVAL, mtcp_getsockname(ctx, s, (struct sockaddr *)&got, &len));
	FAILS(ENOTCONN, mtcp_getpeername(ctx, s, (struct sockaddr *)&got, &len));

	CHECK(mtcp_bind(ctx, s6, (struct sockaddr *)&any6, sizeof any6) == 0);
	len = sizeof got6;
	CHECK(mtcp_getsockname(ctx, s6, (struct sockaddr *)&got6, &len) == 0);
	CHECK(len == sizeof got6 && got6.sin6_family == AF_INET6 && got6.sin6_port == any6.sin6_port);
	len = 2;
	memset(&got6, 0xff, sizeof got6);
	CHECK(mtcp_getsockname(ctx, s6, (struct sockaddr *)&got6, &len) == 0);
	CHECK(len == sizeof got6 && got6.sin6_family == AF_INET6 && got6.sin6_port == 0xffff);
	mtcp_close(ctx, s);
	mtcp_close(ctx, t);
	mtcp_close(ctx, s6);
}

static void
listening(void)
{
	int s = fresh(), t = fresh();
	struct sockaddr_in addr = v4("10.0.0.3", 80);

	FAILS(EINVAL, mtcp_accept(ctx, s, NULL, NULL));
	CHECK(bind_v4(s, NULL, 8080) == 0);
	FAILS(EINVAL, mtcp_listen(ctx, s, 0));
	FAILS(EINVAL, mtcp_listen(ctx, s, -1));
	FAILS(EINVAL, mtcp_listen(ctx, s, 65));
	CHECK(mtcp_listen(ctx, s, 64) == 0);
	FAILS(EADDRINUSE, bind_v4(t, NULL, 8080));
	FAILS(EINVAL, mtcp_accept4(ctx, s, NULL, NULL, 1));
	FAILS(EFAULT, mtcp_accept(ctx, s, (struct sockaddr *)&addr, NULL));
	CHECK(mtcp_setsock_nonblock(ctx, s) == 0);
	FAILS(EAGAIN, mtcp_accept(ctx, s, NULL, NULL));
	FAILS(ENOTCONN, mtcp_read(ctx, s, (char *)&addr, 1));
	CHECK(mtcp_connect(ctx, s, (struct sockaddr *)&addr, sizeof addr) == -1);
	CHECK(mtcp_close(ctx, s) == 0);
	CHECK(bind_v4(t, NULL, 8080) == 0);
	CHECK(mtcp_close(ctx, t) == 0);
}

static void
unconnected(void)
{
	struct sockaddr_in addr = v4("10.0.0.3", 80);
	struct iovec iov[2] = { { NULL, 0 }, { NULL, 1 } };
	char buf[8];
	int s = fresh(), value;

	FAILS(EFAULT, mtcp_connect(ctx, s, NULL, sizeof addr));
	FAILS(EINVAL, mtcp_connect(ctx, s, (struct sockaddr *)&addr, 3));
	addr.sin_family = AF_UNIX;
	FAILS(EAFNOSUPPORT, mtcp_connect(ctx, s, (struct sockaddr *)&addr, sizeof addr));
	addr = v4("192.168.7.7", 80);
	FAILS(ENETUNREACH, mtcp_connect(ctx, s, (struct sockaddr *)&addr, sizeof addr));
	FAILS(ENOTCONN, mtcp_read(ctx, s, buf, sizeof buf));
	FAILS(ENOTCONN, mtcp_write(ctx, s, buf, sizeof buf));
	FAILS(EFAULT, mtcp_read(ctx, s, NULL, 1));
	FAILS(EFAULT, mtcp_write(ctx, s, NULL, 1));
	FAILS(EFAULT, mtcp_readv(ctx, s, NULL, 1));
	FAILS(EFAULT, mtcp_writev(ctx, s, iov, 2));
	FAILS(EFAULT, mtcp_readv(ctx, s, iov, 2));
	FAILS(EINVAL, mtcp_readv(ctx, s, iov, -1));
	FAILS(EINVAL, mtcp_writev(ctx, s, iov, 1025));
	FAILS(EINVAL, mtcp_recv(ctx, s, buf, sizeof buf, MSG_OOB));
	FAILS(ENOTCONN, mtcp_send(ctx, s, buf, sizeof buf, MSG_OOB));
	FAILS(ENOTCONN, mtcp_shutdown(ctx, s, SHUT_WR));
	FAILS(EINVAL, mtcp_shutdown(ctx, s, 3));
	FAILS(EFAULT, mtcp_socket_ioctl(ctx, s, FIONREAD, NULL));
	FAILS(EINVAL, mtcp_socket_ioctl(ctx, s, TIOCGWINSZ, &value));
	FAILS(EINVAL, mtcp_init_rss(ctx, INADDR_ANY, 0, 0, 0));
	CHECK(mtcp_init_rss(ctx, INADDR_ANY, 1, addr.sin_addr.s_addr, addr.sin_port) == 0);
	FAILS(EADDRNOTAVAIL, mtcp_init_rss(ctx, addr.sin_addr.s_addr, 2, 0, 0));
	CHECK(mtcp_init_rss(ctx, INADDR_ANY, 5, addr.sin_addr.s_addr, addr.sin_port) == 0);
	FAILS(ENOTCONN, mtcp_abort(ctx, s));
	FAILS(EBADF, mtcp_close(ctx, s));
}

/* ---- options ---- */

static void
int_option(int s, int level, int name, int value)
{
	int got = -7;
	socklen_t len = sizeof got;

	CHECK(mtcp_setsockopt(ctx, s, level, name, &value, sizeof value) == 0);
	CHECK(mtcp_getsockopt(ctx, s, level, name, &got, &len) == 0);
	CHECK(got == value && len == sizeof got);
	FAILS(EINVAL, mtcp_setsockopt(ctx, s, level, name, &value, sizeof value - 1));
	FAILS(EFAULT, mtcp_setsockopt(ctx, s, level, name, NULL, sizeof value));
	FAILS(EFAULT, mtcp_getsockopt(ctx, s, level, name, NULL, &len));
	FAILS(EFAULT, mtcp_getsockopt(ctx, s, level, name, &got, NULL));
}

static void
read_only_option(int s, int level, int name, int value)
{
	int got = -7;
	socklen_t len = sizeof got;

	CHECK(mtcp_getsockopt(ctx, s, level, name, &got, &len) == 0);
	CHECK(got == value);
	FAILS(ENOPROTOOPT, mtcp_setsockopt(ctx, s, level, name, &got, sizeof got));
}

static void
options(void)
{
	struct linger linger = { 1, 3 }, got = { 0, 0 };
	struct tcp_info info;
	socklen_t len = sizeof got;
	char name[16];
	int s = fresh(), s6 = mtcp_socket(ctx, AF_INET6, SOCK_STREAM, 0), wrong = -1, one = 1;

	int_option(s, SOL_SOCKET, SO_REUSEADDR, 1);
	int_option(s, SOL_SOCKET, SO_REUSEPORT, 1);
	int_option(s, SOL_SOCKET, SO_KEEPALIVE, 1);
	int_option(s, SOL_SOCKET, SO_RCVBUF, 32768);
	int_option(s, SOL_SOCKET, SO_SNDBUF, 32768);
	int_option(s, IPPROTO_TCP, TCP_NODELAY, 1);
	int_option(s, IPPROTO_TCP, TCP_MAXSEG, 1000);
	int_option(s, IPPROTO_TCP, TCP_KEEPIDLE, 10);
	int_option(s, IPPROTO_TCP, TCP_KEEPINTVL, 11);
	int_option(s, IPPROTO_TCP, TCP_KEEPCNT, 12);
	int_option(s, IPPROTO_TCP, TCP_USER_TIMEOUT, 1300);
	int_option(s6, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	read_only_option(s, SOL_SOCKET, SO_ERROR, 0);
	read_only_option(s, SOL_SOCKET, SO_TYPE, SOCK_STREAM);
	read_only_option(s, SOL_SOCKET, SO_PROTOCOL, IPPROTO_TCP);
	read_only_option(s, SOL_SOCKET, SO_ACCEPTCONN, 0);
	read_only_option(s, SOL_SOCKET, SO_DOMAIN, AF_INET);
	read_only_option(s6, SOL_SOCKET, SO_DOMAIN, AF_INET6);
	FAILS(EINVAL, mtcp_setsockopt(ctx, s, IPPROTO_TCP, TCP_KEEPIDLE, &wrong, sizeof wrong));
	FAILS(EINVAL, mtcp_setsockopt(ctx, s, IPPROTO_TCP, TCP_MAXSEG, &one, sizeof one));
	FAILS(EINVAL, mtcp_setsockopt(ctx, s, IPPROTO_TCP, TCP_NODELAY, &one, (socklen_t)-1));

	CHECK(mtcp_setsockopt(ctx, s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
	CHECK(mtcp_getsockopt(ctx, s, SOL_SOCKET, SO_LINGER, &got, &len) == 0);
	CHECK(len == sizeof got && got.l_onoff == 1 && got.l_linger == 3);
	CHECK(mtcp_setsockopt(ctx, s, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
	FAILS(ENOENT, mtcp_setsockopt(ctx, s, IPPROTO_TCP, TCP_CONGESTION, "nosuch", 6));
	len = sizeof name;
	CHECK(mtcp_getsockopt(ctx, s, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0 && strcmp(name, "reno") == 0);
	len = sizeof info;
	CHECK(mtcp_getsockopt(ctx, s, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
	CHECK(info.tcpi_state == 7 && len >= 104);

	/* Others: set to no effect, not to be asked for. */
	if (modern) {
		FAILS(ENOPROTOOPT, mtcp_setsockopt(ctx, s, SOL_SOCKET, 9999, &one, sizeof one));
		FAILS(ENOPROTOOPT, mtcp_setsockopt(ctx, s, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
	} else {
		CHECK(mtcp_setsockopt(ctx, s, SOL_SOCKET, 9999, &one, sizeof one) == 0);
		CHECK(mtcp_setsockopt(ctx, s, 9999, 1, NULL, 0) == 0);
	}
	FAILS(ENOPROTOOPT, mtcp_getsockopt(ctx, s, SOL_SOCKET, 9999, &one, &len));
	mtcp_close(ctx, s);
	mtcp_close(ctx, s6);
}

/* ---- pipes and epoll ---- */

static void
pipes(void)
{
	static char big[200000];
	struct iovec iov[2] = { { "ab", 2 }, { "c", 1 } };
	char buf[8] = "";
	int p[2], n, unread = 0, off = 0, on = 1;

	FAILS(EFAULT, mtcp_pipe(ctx, NULL));
	CHECK(mtcp_pipe(ctx, p) == 0 && p[0] != p[1]);
	CHECK(mtcp_setsock_nonblock(ctx, p[0]) == 0 && mtcp_socket_ioctl(ctx, p[1], FIONBIO, &on) == 0);
	FAILS(EAGAIN, mtcp_read(ctx, p[0], buf, sizeof buf));
	CHECK(mtcp_writev(ctx, p[1], iov, 2) == 3);
	CHECK(mtcp_socket_ioctl(ctx, p[0], FIONREAD, &unread) == 0 && unread == 3);
	CHECK(mtcp_read(ctx, p[0], buf, 2) == 2 && memcmp(buf, "ab", 2) == 0);
	CHECK(mtcp_read(ctx, p[0], buf, sizeof buf) == 1 && buf[0] == 'c');
	n = (int)mtcp_write(ctx, p[1], big, sizeof big);
	CHECK(n >= 10240 && n < (int)sizeof big);
	FAILS(EAGAIN, mtcp_write(ctx, p[1], big, 1));
	FAILS(ENOTSOCK, mtcp_listen(ctx, p[0], 5));
	FAILS(ENOTSOCK, mtcp_setsockopt(ctx, p[0], SOL_SOCKET, 9999, &on, sizeof on));
	/* Blocking again: at the end of the file it does not block. */
	CHECK(mtcp_socket_ioctl(ctx, p[0], FIONBIO, &off) == 0);
	CHECK(mtcp_close(ctx, p[1]) == 0);
	while (n > 0)
		n -= (int)mtcp_read(ctx, p[0], big, sizeof big);
	CHECK(n == 0 && mtcp_read(ctx, p[0], buf, sizeof buf) == 0);
	CHECK(mtcp_close(ctx, p[0]) == 0);
	CHECK(mtcp_pipe(ctx, p) == 0 && mtcp_close(ctx, p[0]) == 0);
	FAILS(EPIPE, mtcp_write(ctx, p[1], "x", 1));
	CHECK(mtcp_close(ctx, p[1]) == 0);
}

static long long
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void
epolls(void)
{
	struct mtcp_epoll_event event = { .events = MTCP_EPOLLIN, .data.u64 = 0x1122334455667788 }, got[4];
	long long before;
	int p[2], ep, other, s;

	FAILS(EINVAL, mtcp_epoll_create(ctx, 0));
	FAILS(EINVAL, mtcp_epoll_create1(ctx, 1));
	ep = mtcp_epoll_create(ctx, 1);
	other = mtcp_epoll_create1(ctx, O_CLOEXEC);
	CHECK(ep >= 0 && other >= 0 && ep != other && mtcp_pipe(ctx, p) == 0);
	FAILS(EINVAL, mtcp_epoll_ctl(ctx, p[0], MTCP_EPOLL_CTL_ADD, p[0], &event));
	FAILS(EINVAL, mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, ep, &event));
	FAILS(EINVAL, mtcp_epoll_ctl(ctx, ep, 7, p[0], &event));
	FAILS(EFAULT, mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, p[0], NULL));
	FAILS(ENOENT, mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_MOD, p[0], &event));
	FAILS(ENOENT, mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_DEL, p[0], NULL));
	CHECK(mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, p[0], &event) == 0);
	FAILS(EEXIST, mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, p[0], &event));
	FAILS(EINVAL, mtcp_epoll_wait(ctx, ep, NULL, 4, 0));
	FAILS(EINVAL, mtcp_epoll_wait(ctx, ep, got, 0, 0));
	FAILS(EINVAL, mtcp_epoll_wait(ctx, ep, got, -1, 0));
	FAILS(EINVAL, mtcp_epoll_wait(ctx, p[0], got, 4, 0));
	CHECK(mtcp_epoll_wait(ctx, ep, got, 4, 0) == 0);
	before = now_ms();
	CHECK(mtcp_epoll_wait(ctx, ep, got, 4, 30) == 0 && now_ms() - before >= 29);

	CHECK(mtcp_write(ctx, p[1], "x", 1) == 1);
	CHECK(mtcp_epoll_wait(ctx, ep, got, 4, -1) == 1);
	CHECK(got[0].events == MTCP_EPOLLIN && got[0].data.u64 == 0x1122334455667788);
	CHECK(mtcp_epoll_wait(ctx, ep, got, 2147483647, 0) == 1);
	event.events = MTCP_EPOLLIN | MTCP_EPOLLET;
	CHECK(mtcp_epoll_ctl(ctx, other, MTCP_EPOLL_CTL_ADD, p[0], &event) == 0);
	CHECK(mtcp_epoll_wait(ctx, other, got, 4, 0) == 1 && mtcp_epoll_wait(ctx, other, got, 4, 0) == 0);
	CHECK(mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_DEL, p[0], NULL) == 0);
	CHECK(mtcp_epoll_wait(ctx, ep, got, 4, 0) == 0);

	/* A socket that is not connected is writable and hung up, as Linux has it; the original says nothing. */
	event.events = MTCP_EPOLLOUT | MTCP_EPOLLONESHOT;
	s = fresh();
	CHECK(mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, s, &event) == 0);
	CHECK(mtcp_epoll_wait(ctx, ep, got, 4, 0) == modern);
	if (modern)
		CHECK(got[0].events == (MTCP_EPOLLOUT | MTCP_EPOLLHUP));
	CHECK(mtcp_epoll_wait(ctx, ep, got, 4, 0) == 0);
	CHECK(mtcp_close(ctx, s) == 0);
	CHECK(strcmp(EventToString(MTCP_EPOLLIN), "IN") == 0 && strcmp(EventToString(0xffffffff), "UNKNOWN") == 0);
	CHECK(mtcp_close(ctx, p[0]) == 0 && mtcp_close(ctx, p[1]) == 0);
	CHECK(mtcp_close(ctx, ep) == 0 && mtcp_close(ctx, other) == 0);
}

int
main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	modern = argc > 2;
	before_init();
	init(argv[1]);
	contexts();
	wrong_contexts();
	wrong_sockets();
	sockets();
	binding();
	listening();
	unconnected();
	options();
	pipes();
	epolls();
	mtcp_destroy_context(ctx);
	all_fail(EINVAL, ctx, 0);
	mtcp_destroy_context(ctx);
	mtcp_destroy();
	mtcp_destroy();
	/* All over again. */
	CHECK(mtcp_init(argv[1]) == 0);
	ctx = mtcp_create_context(0);
	CHECK(ctx != NULL && fresh() == 0);
	mtcp_destroy();
	FAILS(EINVAL, mtcp_close(ctx, 0));
	return check_result("alone");
}
