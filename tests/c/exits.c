/*
 * The end of a program that does not end its contexts: what it wrote arrives.
 *
 *   exits CONF HOW
 *
 * Listens, accepts one connection, reads a byte, writes 20,000 and ends. HOW: "closed" and "open" say whether it closes the connection before;
 * "elsewhere" has another thread do all that and wait for events, "busy" one that makes no calls any more, while main ends the program.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "check.h"

static char bytes[20000];
static const char *how;
static pthread_barrier_t written;

static mctx_t
serve(int *connection)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(80) };
	mctx_t ctx = mtcp_create_context(0);
	int listener;
	char byte;

	if (!ctx)
		exit(1);
	listener = mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0);
	CHECK(mtcp_bind(ctx, listener, (struct sockaddr *)&addr, sizeof addr) == 0);
	CHECK(mtcp_listen(ctx, listener, 8) == 0);
	*connection = mtcp_accept(ctx, listener, NULL, NULL);
	CHECK(*connection >= 0 && mtcp_read(ctx, *connection, &byte, 1) == 1);
	CHECK(mtcp_setsock_nonblock(ctx, *connection) == 0);
	CHECK(mtcp_write(ctx, *connection, bytes, sizeof bytes) == sizeof bytes);
	return ctx;
}

static void *
elsewhere(void *unused)
{
	struct mtcp_epoll_event event = { 0 };
	volatile unsigned turns = 0;
	int connection, ep;
	mctx_t ctx = serve(&connection);

	ep = mtcp_epoll_create(ctx, 1);
	pthread_barrier_wait(&written);
	while (strcmp(how, "busy") == 0)
		turns++;
	for (;;) {
		mtcp_epoll_wait(ctx, ep, &event, 1, -1);
		mtcp_close(ctx, 63);
	}
	return unused;
}

int
main(int argc, char **argv)
{
	pthread_t thread;
	mctx_t ctx;
	int connection;

	if (argc != 3)
		return 2;
	alarm(100);
	how = argv[2];
	if (mtcp_init(argv[1]) < 0)
		return 1;
	if (strcmp(how, "elsewhere") == 0 || strcmp(how, "busy") == 0) {
		pthread_barrier_init(&written, NULL, 2);
		CHECK(pthread_create(&thread, NULL, elsewhere, NULL) == 0);
		pthread_barrier_wait(&written);
		exit(check_result("exits"));
	}
	ctx = serve(&connection);
	if (strcmp(how, "closed") == 0)
		CHECK(mtcp_close(ctx, connection) == 0);
	return check_result("exits");
}
