/*
 * What mtcp_epoll_wait says of each thing that can happen, on a link to ourselves: one line for each, "WHAT|EVENTS".
 *
 *   events CONF ADDRESS
 *
 * ADDRESS is ours.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "check.h"

#define IN MTCP_EPOLLIN
#define OUT MTCP_EPOLLOUT
#define RDHUP MTCP_EPOLLRDHUP
#define PORT 80

static mctx_t ctx;
static int listener;
static const char *ours;

static struct sockaddr_in
address(int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	CHECK(inet_pton(AF_INET, ours, &addr.sin_addr) == 1);
	return addr;
}

static int
fresh(void)
{
	int s = mtcp_socket(ctx, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	CHECK(s >= 0);
	return s;
}

static int
opening(int port)
{
	struct sockaddr_in addr = address(port);
	int s = fresh();

	FAILS(EINPROGRESS, mtcp_connect(ctx, s, (struct sockaddr *)&addr, sizeof addr));
	return s;
}

static int
watch(int s, uint32_t asked)
{
	struct mtcp_epoll_event event = { .events = asked, .data.sockid = s };
	int ep = mtcp_epoll_create(ctx, 1);

	CHECK(ep >= 0 && mtcp_epoll_ctl(ctx, ep, MTCP_EPOLL_CTL_ADD, s, &event) == 0);
	return ep;
}

/* What comes in three waits, of which the first may last so long. */
static void
tell(const char *what, int ep, int patience)
{
	struct mtcp_epoll_event event = { .events = 0 };
	uint32_t bits, all = 0;
	int n, i;

	printf("%s|", what);
	for (n = 0; n < 3; n++) {
		if (mtcp_epoll_wait(ctx, ep, &event, 1, n == 0 ? patience : 0) != 1)
			break;
		bits = event.events & ~all;
		all |= event.events;
		for (i = 0; i < 14; i++)
			if (bits & 1u << i)
				printf(" %s", EventToString(1u << i));
	}
	printf("\n");
}

static void
say(const char *what, int s, uint32_t asked, int patience)
{
	int ep = watch(s, asked);

	tell(what, ep, patience);
	CHECK(mtcp_close(ctx, ep) == 0);
}

/* Whether an event comes that is one of these. */
static int
wait_for(int s, uint32_t wanted, int patience)
{
	struct mtcp_epoll_event event = { .events = 0 };
	int ep = watch(s, wanted), n = mtcp_epoll_wait(ctx, ep, &event, 1, patience);

	CHECK(mtcp_close(ctx, ep) == 0);
	return n == 1;
}

static void
until(int s, uint32_t wanted)
{
	CHECK(wait_for(s, wanted, 20000));
}

/* Both ends of a connection: ours, and the peer. */
static int
connection(int *peer)
{
	int s = opening(PORT);

	until(s, OUT);
	until(listener, IN);
	*peer = mtcp_accept4(ctx, listener, NULL, NULL, SOCK_NONBLOCK);
	CHECK(*peer >= 0);
	return s;
}

static void
listening(void)
{
	struct sockaddr_in addr = address(PORT);

	listener = fresh();
	CHECK(mtcp_bind(ctx, listener, (struct sockaddr *)&addr, sizeof addr) == 0);
	CHECK(mtcp_listen(ctx, listener, 8) == 0);
}

static void
openings(void)
{
	int s = opening(PORT), refused = opening(PORT + 1);

	say("connected, OUT", s, OUT, 20000);
	say("a connection waits at a listener, IN", listener, IN, 20000);
	CHECK(mtcp_close(ctx, mtcp_accept(ctx, listener, NULL, NULL)) == 0 && mtcp_close(ctx, s) == 0);
	say("refused with a RST, IN OUT", refused, IN | OUT, 20000);
	CHECK(mtcp_close(ctx, refused) == 0);
	s = fresh();
	say("never connected, IN OUT", s, IN | OUT, 20);
	CHECK(mtcp_close(ctx, s) == 0);
}

/* The peer sends so many bytes and then ends, with a RST or a FIN. */
static void
ends(const char *what, int bytes, int reset, uint32_t asked)
{
	int peer, s = connection(&peer), ep = watch(s, asked);

	if (bytes) {
		CHECK(mtcp_write(ctx, peer, "xxxx", (size_t)bytes) == bytes);
		until(s, IN);
	}
	CHECK((reset ? mtcp_abort : mtcp_close)(ctx, peer) == 0);
	/* Whatever it is called. */
	until(s, RDHUP);
	tell(what, ep, 20000);
	CHECK(mtcp_close(ctx, ep) == 0 && mtcp_close(ctx, s) == 0);
}

static void
bytes(void)
{
	static char much[1 << 16];
	long written = 0, n;
	int peer, s = connection(&peer);

	CHECK(mtcp_write(ctx, peer, "x", 1) == 1);
	say("bytes have come, IN RDHUP", s, IN | RDHUP, 20000);
	/* Until nothing moves any more: waiting runs the stack. */
	do {
		while ((n = mtcp_write(ctx, s, much, sizeof much)) > 0)
			written += n;
	} while (wait_for(s, OUT, 100));
	say("no room to send, OUT", s, OUT, 20);
	while (written > 0) {
		until(peer, IN);
		while ((n = mtcp_read(ctx, peer, much, sizeof much)) > 0)
			written -= n;
	}
	say("room again, OUT", s, OUT, 20000);
	CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, peer) == 0);
}

static void
pipes(void)
{
	int p[2];
	char byte;

	CHECK(mtcp_pipe(ctx, p) == 0 && mtcp_write(ctx, p[1], "x", 1) == 1);
	say("a pipe: bytes to read, IN", p[0], IN, 20);
	say("a pipe: room to write, OUT", p[1], OUT, 20);
	CHECK(mtcp_read(ctx, p[0], &byte, 1) == 1 && mtcp_close(ctx, p[1]) == 0);
	say("a pipe: its writing end is closed, IN", p[0], IN, 20);
	CHECK(mtcp_close(ctx, p[0]) == 0);
	CHECK(mtcp_pipe(ctx, p) == 0 && mtcp_close(ctx, p[0]) == 0);
	say("a pipe: its reading end is closed, OUT", p[1], OUT, 20);
	CHECK(mtcp_close(ctx, p[1]) == 0);
}

/* The last: tcp_timeout is short from here on. */
static void
idles(void)
{
	struct mtcp_conf conf;
	int peer, s;

	mtcp_destroy_context(ctx);
	CHECK(mtcp_getconf(&conf) == 0);
	conf.tcp_timeout = 1;
	CHECK(mtcp_setconf(&conf) == 0);
	ctx = mtcp_create_context(0);
	CHECK(ctx != NULL);
	listening();
	s = connection(&peer);
	say("idle for tcp_timeout, IN RDHUP", s, IN | RDHUP, 20000);
	mtcp_destroy_context(ctx);
}

int
main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	alarm(100);
	ours = argv[2];
	if (mtcp_init(argv[1]) < 0 || (ctx = mtcp_create_context(0)) == NULL) {
		fprintf(stderr, "events: %s\n", mtcp_last_error());
		return 1;
	}
	listening();
	openings();
	bytes();
	ends("FIN, IN RDHUP", 0, 0, IN | RDHUP);
	ends("FIN, RDHUP", 0, 0, RDHUP);
	ends("RST, IN OUT RDHUP", 0, 1, IN | OUT | RDHUP);
	ends("RST, IN OUT", 0, 1, IN | OUT);
	ends("RST, OUT", 0, 1, OUT);
	ends("RST, and bytes before it have not been read, IN RDHUP", 1, 1, IN | RDHUP);
	pipes();
	idles();
	mtcp_destroy();
	return check_result("events");
}
