/*
 * echo: sends back what it receives, one connection after the other.
 *
 *   echo CONF [PORT]
 *
 * The smallest program on mTCP: one core, blocking calls.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mtcp_api.h>

static int
fail(const char *what)
{
	fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
	return 1;
}

static int
serve(mctx_t mctx, int client)
{
	char buf[16384];
	ssize_t n;

	while ((n = mtcp_read(mctx, client, buf, sizeof buf)) > 0) {
		/* A blocking write returns when all is written. */
		if (mtcp_write(mctx, client, buf, (size_t)n) != n)
			return -1;
	}
	return (int)n;
}

int
main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	mctx_t mctx;
	int listener, client;

	if (argc < 2) {
		fprintf(stderr, "usage: echo CONF [PORT]\n");
		return 2;
	}
	addr.sin_port = htons((uint16_t)(argc > 2 ? atoi(argv[2]) : 7));

	/* The library says why. */
	if (mtcp_init(argv[1]) < 0 || (mctx = mtcp_create_context(0)) == NULL)
		return 2;
	listener = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
	if (mtcp_bind(mctx, listener, (struct sockaddr *)&addr, sizeof addr) < 0)
		return fail("bind");
	if (mtcp_listen(mctx, listener, 16) < 0)
		return fail("listen");

	while ((client = mtcp_accept(mctx, listener, NULL, NULL)) >= 0) {
		if (serve(mctx, client) < 0)
			fail("connection");
		mtcp_close(mctx, client);
	}
	return fail("accept");
}
