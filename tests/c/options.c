/*
 * Every socket option on a socket of the library and on one of the kernel: the same calls, the same answers.
 *
 *   options CONF
 *
 * CONF says strict_options = yes.
 */
#define _GNU_SOURCE
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <mtcp_api.h>

#include "check.h"

#define MAX_LEN 64

static mctx_t ctx;

/* What one call said. */
struct answer {
	int result, error;
	socklen_t len;
	unsigned char value[MAX_LEN];
};

/* The same kind of socket twice: in the kernel and in the library. */
struct twins {
	int kernel, ours;
};

static struct twins
fresh(int family)
{
	struct twins s = { socket(family, SOCK_STREAM, 0), mtcp_socket(ctx, family, SOCK_STREAM, 0) };

	int one = 1;

	CHECK(s.kernel >= 0 && s.ours >= 0);
	/* Ours begin with it. */
	CHECK(setsockopt(s.kernel, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
	return s;
}

static void
done(struct twins s)
{
	CHECK(close(s.kernel) == 0 && mtcp_close(ctx, s.ours) == 0);
}

static struct answer
ask(struct twins s, int ours, int level, int name, socklen_t len)
{
	struct answer a = { .len = len };

	memset(a.value, 0xa5, sizeof a.value);
	errno = 0;
	a.result = ours ? mtcp_getsockopt(ctx, s.ours, level, name, a.value, &a.len)
	                : getsockopt(s.kernel, level, name, a.value, &a.len);
	a.error = errno;
	return a;
}

static void
show(const char *who, const struct answer *a)
{
	socklen_t i;

	fprintf(stderr, "  %s: %d (%s), %u bytes:", who, a->result, strerror(a->error), a->len);
	for (i = 0; i < a->len && i < MAX_LEN; i++)
		fprintf(stderr, " %02x", a->value[i]);
	fprintf(stderr, "\n");
}

static void
compare(const char *what, const struct answer *kernel, const struct answer *ours)
{
	int same = kernel->result == ours->result && kernel->error == ours->error;

	if (kernel->result == 0)
		same = same && kernel->len == ours->len && memcmp(kernel->value, ours->value, MAX_LEN) == 0;
	if (!same) {
		check_failures++;
		fprintf(stderr, "%s:\n", what);
		show("kernel", kernel);
		show("ours", ours);
	}
}

static void
same_value(struct twins s, const char *name_text, int level, int name, socklen_t len, const char *after)
{
	char what[200];
	struct answer kernel = ask(s, 0, level, name, len), ours = ask(s, 1, level, name, len);

	snprintf(what, sizeof what, "get %s, %u bytes, after %s", name_text, len, after);
	compare(what, &kernel, &ours);
}

/* Sets, says the same, and reads the same afterwards. */
static void
same_set(struct twins s, const char *name_text, int level, int name, const void *value, socklen_t len,
         const char *after)
{
	struct answer kernel = { 0 }, ours = { 0 };
	char what[200];

	snprintf(what, sizeof what, "set %s to %s", name_text, after);
	errno = 0;
	kernel.result = setsockopt(s.kernel, level, name, value, len);
	kernel.error = errno;
	errno = 0;
	ours.result = mtcp_setsockopt(ctx, s.ours, level, name, value, len);
	ours.error = errno;
	compare(what, &kernel, &ours);
	same_value(s, name_text, level, name, len < 8 ? 4 : len, what);
}

static const int VALUES[] = { 0, 1, 2, 3, 5, 60, 64, 87, 88, 100, 119, 120, 127, 128, 255, 256, 536, 1152, 1460, 32767, 32768,
	                      40000, -1, -2, 0x7fffffff, (int)0x80000000 };

/* Integers of all sizes, and values of all lengths. */
static void
integers(int family, const char *text, int level, int name)
{
	struct twins s = fresh(family);
	char after[40];
	size_t i;
	socklen_t len;

	same_value(s, text, level, name, 4, "nothing");
	for (i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
		snprintf(after, sizeof after, "%d", VALUES[i]);
		same_set(s, text, level, name, &VALUES[i], sizeof VALUES[i], after);
	}
	for (len = 1; len < 4; len++) {
		int one = 1;

		snprintf(after, sizeof after, "%u bytes", len);
		same_set(s, text, level, name, &one, len, after);
		same_value(s, text, level, name, len, after);
	}
	same_value(s, text, level, name, 16, "all");
	done(s);
}

#define INTEGERS(family, level, name) integers(family, #name, level, name)

static void
all_integers(void)
{
	INTEGERS(AF_INET, SOL_SOCKET, SO_REUSEADDR);
	INTEGERS(AF_INET, SOL_SOCKET, SO_REUSEPORT);
	INTEGERS(AF_INET, SOL_SOCKET, SO_KEEPALIVE);
	INTEGERS(AF_INET, SOL_SOCKET, SO_ERROR);
	INTEGERS(AF_INET, SOL_SOCKET, SO_TYPE);
	INTEGERS(AF_INET, SOL_SOCKET, SO_PROTOCOL);
	INTEGERS(AF_INET, SOL_SOCKET, SO_DOMAIN);
	INTEGERS(AF_INET6, SOL_SOCKET, SO_DOMAIN);
	INTEGERS(AF_INET, SOL_SOCKET, SO_ACCEPTCONN);
	INTEGERS(AF_INET, SOL_SOCKET, SO_SNDLOWAT);
	INTEGERS(AF_INET, SOL_SOCKET, 9999);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_NODELAY);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_CORK);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_QUICKACK);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_MAXSEG);
	INTEGERS(AF_INET6, IPPROTO_TCP, TCP_MAXSEG);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_KEEPIDLE);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_KEEPINTVL);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_KEEPCNT);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_USER_TIMEOUT);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_DEFER_ACCEPT);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_LINGER2);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_WINDOW_CLAMP);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_NOTSENT_LOWAT);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_FASTOPEN);
	INTEGERS(AF_INET, IPPROTO_TCP, TCP_FASTOPEN_CONNECT);
	INTEGERS(AF_INET, SOL_SOCKET, SO_MAX_PACING_RATE);
	INTEGERS(AF_INET, IPPROTO_IP, IP_TOS);
	INTEGERS(AF_INET, IPPROTO_IP, IP_TTL);
	INTEGERS(AF_INET6, IPPROTO_IP, IP_TTL);
	INTEGERS(AF_INET, IPPROTO_IP, IP_MTU);
	INTEGERS(AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY);
	INTEGERS(AF_INET6, IPPROTO_IPV6, IPV6_TCLASS);
	INTEGERS(AF_INET6, IPPROTO_IPV6, IPV6_UNICAST_HOPS);
	INTEGERS(AF_INET, IPPROTO_IPV6, IPV6_V6ONLY);
	INTEGERS(AF_INET, IPPROTO_IPV6, IPV6_TCLASS);
}

/* What the stack does is taken, what it does not do is refused; nothing is taken to no effect. */
static void
path_mtu_discovery(int family, int level, int name)
{
	static const int DONE[] = { IP_PMTUDISC_WANT, IP_PMTUDISC_DO, 6, 7, -1 };
	static const int NOT_DONE[] = { IP_PMTUDISC_DONT, IP_PMTUDISC_PROBE, IP_PMTUDISC_INTERFACE, IP_PMTUDISC_OMIT };
	struct twins s = fresh(family);
	char after[40];
	size_t i;

	same_value(s, "MTU_DISCOVER", level, name, 4, "nothing");
	for (i = 0; i < sizeof DONE / sizeof *DONE; i++) {
		snprintf(after, sizeof after, "%d", DONE[i]);
		same_set(s, "MTU_DISCOVER", level, name, &DONE[i], sizeof DONE[i], after);
	}
	for (i = 0; i < sizeof NOT_DONE / sizeof *NOT_DONE; i++)
		FAILS(EOPNOTSUPP, mtcp_setsockopt(ctx, s.ours, level, name, &NOT_DONE[i], sizeof NOT_DONE[i]));
	done(s);
}

/* How often a SYN is repeated unless the socket says is everybody's own choice: RFC 9293 wants three minutes. */
static void
syn_count(void)
{
	static const int values[] = { 6, 0, 1, 127, 128, 255, -1 };
	struct twins s = fresh(AF_INET);
	size_t i;

	for (i = 0; i < sizeof values / sizeof *values; i++)
		same_set(s, "TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT, &values[i], sizeof values[i], "a number");
	done(s);
}

/* The processor is the kernel's business, or that of the context, until a program says one. */
static void
incoming_processor(void)
{
	static const int values[] = { 0, 3, -1, 70000 };
	struct twins s = fresh(AF_INET);
	size_t i;

	for (i = 0; i < sizeof values / sizeof *values; i++)
		same_set(s, "SO_INCOMING_CPU", SOL_SOCKET, SO_INCOMING_CPU, &values[i], sizeof values[i], "a number");
	done(s);
}

/* A rate may be a long. */
static void
pacing(void)
{
	static const unsigned long values[] = { 1, 0x123456789, 0, ~0UL };
	struct twins s = fresh(AF_INET);
	size_t i;

	for (i = 0; i < sizeof values / sizeof *values; i++) {
		same_set(s, "SO_MAX_PACING_RATE", SOL_SOCKET, SO_MAX_PACING_RATE, &values[i], sizeof values[i], "a long");
		same_value(s, "SO_MAX_PACING_RATE", SOL_SOCKET, SO_MAX_PACING_RATE, 4, "a long");
		same_value(s, "SO_MAX_PACING_RATE", SOL_SOCKET, SO_MAX_PACING_RATE, 7, "a long");
	}
	done(s);
}

/* What SO_RCVLOWAT can be depends on buffers: small marks do not. */
static void
low_water(void)
{
	static const int values[] = { 1, 0, 2, 100, 1000 };
	struct twins s = fresh(AF_INET);
	size_t i;

	same_value(s, "SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 4, "nothing");
	for (i = 0; i < sizeof values / sizeof *values; i++)
		same_set(s, "SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, &values[i], sizeof values[i], "a small mark");
	done(s);
}

static void
time_outs(void)
{
	static const struct timeval values[] = { { 1, 500000 }, { 0, 0 }, { 3600, 0 }, { -1, 0 }, { 0, 1000000 },
		                                 { 0, -1 }, { 0, 500000 } };
	static const int names[] = { SO_RCVTIMEO, SO_SNDTIMEO };
	size_t i, j;

	for (j = 0; j < 2; j++) {
		struct twins s = fresh(AF_INET);

		same_value(s, "a time-out", SOL_SOCKET, names[j], sizeof *values, "nothing");
		for (i = 0; i < sizeof values / sizeof *values; i++) {
			same_set(s, "a time-out", SOL_SOCKET, names[j], &values[i], sizeof *values, "a value");
			same_set(s, "a time-out", SOL_SOCKET, names[j], &values[i], 8, "half of a value");
			same_value(s, "a time-out", SOL_SOCKET, names[j], sizeof *values, "half of a value");
		}
		done(s);
	}
}

static void
lingering(void)
{
	static const struct linger values[] = { { 1, 5 }, { 0, 5 }, { 1, 0 }, { 7, 1 } };
	struct twins s = fresh(AF_INET);
	size_t i;

	same_value(s, "SO_LINGER", SOL_SOCKET, SO_LINGER, sizeof *values, "nothing");
	for (i = 0; i < sizeof values / sizeof *values; i++) {
		struct answer kernel, ours;

		same_set(s, "SO_LINGER", SOL_SOCKET, SO_LINGER, &values[i], 4, "half of a value");
		CHECK(setsockopt(s.kernel, SOL_SOCKET, SO_LINGER, &values[i], sizeof *values) == 0);
		CHECK(mtcp_setsockopt(ctx, s.ours, SOL_SOCKET, SO_LINGER, &values[i], sizeof *values) == 0);
		kernel = ask(s, 0, SOL_SOCKET, SO_LINGER, sizeof *values);
		ours = ask(s, 1, SOL_SOCKET, SO_LINGER, sizeof *values);
		/* The kernel remembers the time while it does not count. */
		if (values[i].l_onoff)
			compare("SO_LINGER", &kernel, &ours);
		CHECK(((struct linger *)ours.value)->l_onoff == (values[i].l_onoff != 0));
	}
	done(s);
}

static void
congestion(void)
{
	static const char *const names[] = { "reno", "nosuch", "", "reno with more behind it" };
	struct twins s = fresh(AF_INET);
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		same_set(s, "TCP_CONGESTION", IPPROTO_TCP, TCP_CONGESTION, names[i], (socklen_t)strlen(names[i]), names[i]);
		if (i == 0)
			same_value(s, "TCP_CONGESTION", IPPROTO_TCP, TCP_CONGESTION, 16, names[i]);
	}
	same_set(s, "TCP_CONGESTION", IPPROTO_TCP, TCP_CONGESTION, "reno\0junk", 9, "reno and junk");
	done(s);
}

/* How much TCP_INFO says is up to who asks, as far as there is something. */
static void
information(void)
{
	static const socklen_t lengths[] = { 0, 1, 4, 104, 232 };
	struct twins s = fresh(AF_INET);
	unsigned char bytes[512];
	socklen_t len;
	size_t i;

	for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		socklen_t kernel = lengths[i], ours = lengths[i];

		CHECK(getsockopt(s.kernel, IPPROTO_TCP, TCP_INFO, bytes, &kernel) == 0);
		CHECK(mtcp_getsockopt(ctx, s.ours, IPPROTO_TCP, TCP_INFO, bytes, &ours) == 0);
		CHECK(kernel == ours);
	}
	len = sizeof bytes;
	CHECK(mtcp_getsockopt(ctx, s.ours, IPPROTO_TCP, TCP_INFO, bytes, &len) == 0 && len >= 248 && len < sizeof bytes);
	CHECK(bytes[0] == 7 /* TCP_CLOSE */);
	len = (socklen_t)-1;
	FAILS(EINVAL, mtcp_getsockopt(ctx, s.ours, IPPROTO_TCP, TCP_INFO, bytes, &len));
	FAILS(ENOPROTOOPT, mtcp_setsockopt(ctx, s.ours, IPPROTO_TCP, TCP_INFO, bytes, 4));
	done(s);
}

static void
queues(void)
{
	static const int requests[] = { FIONREAD, SIOCOUTQ, SIOCOUTQNSD }, some = 5, one = 1;
	struct twins s = fresh(AF_INET);
	size_t i;

	for (i = 0; i < sizeof requests / sizeof *requests; i++) {
		int kernel = -7, ours = -7;

		CHECK(ioctl(s.kernel, (unsigned long)requests[i], &kernel) == 0);
		CHECK(mtcp_socket_ioctl(ctx, s.ours, requests[i], &ours) == 0);
		CHECK(kernel == ours);
	}
	CHECK(listen(s.kernel, 1) == 0 && mtcp_listen(ctx, s.ours, 1) == 0);
	for (i = 0; i < sizeof requests / sizeof *requests; i++) {
		int n;

		FAILS(EINVAL, ioctl(s.kernel, (unsigned long)requests[i], &n));
		FAILS(EINVAL, mtcp_socket_ioctl(ctx, s.ours, requests[i], &n));
	}
	same_value(s, "SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN, 4, "listen");
	same_value(s, "IP_MTU", IPPROTO_IP, IP_MTU, 4, "listen");
	same_set(s, "TCP_FASTOPEN", IPPROTO_TCP, TCP_FASTOPEN, &some, sizeof some, "5, listening");
	same_set(s, "TCP_FASTOPEN_CONNECT", IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one, "1, listening");
	done(s);
}

int
main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (mtcp_init(argv[1]) < 0 || (ctx = mtcp_create_context(0)) == NULL) {
		fprintf(stderr, "options: %s\n", mtcp_last_error());
		return 1;
	}
	all_integers();
	path_mtu_discovery(AF_INET, IPPROTO_IP, IP_MTU_DISCOVER);
	path_mtu_discovery(AF_INET6, IPPROTO_IPV6, IPV6_MTU_DISCOVER);
	syn_count();
	incoming_processor();
	pacing();
	low_water();
	time_outs();
	lingering();
	congestion();
	information();
	queues();
	mtcp_destroy();
	return check_result("options");
}
