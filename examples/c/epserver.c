/*
 * epserver: a web server on mTCP, one epoll loop per core.
 *
 *   epserver -p WWW_DIR -f CONF [-N CORES] [-c CORE] [-b BACKLOG] [-h]
 *
 * Serves the regular files of WWW_DIR on port 80 with GET and HEAD, over IPv4 and IPv6, with keep-alive for clients that ask for
 * it. The first 30 files that are small enough stay in memory; all others are read when asked for.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#define PORT 80
#define MAX_EVENTS 1024
#define MAX_CACHED 30
#define MAX_CACHED_SIZE (16 << 20)
#define MAX_REQUEST 8192
#define MAX_HEADER 512
/* Most bytes that one connection sends before the others get their turn. */
#define SHARE (1 << 20)
#define CHUNK (64 << 10)

struct cached
{
	char *name;
	char *data;
	size_t size;
};

struct connection
{
	char request[MAX_REQUEST];
	size_t received;
	char header[MAX_HEADER];
	size_t header_len, header_sent;
	const char *data; /* the body, if it is in memory */
	int fd;           /* the file that it comes from, or else -1 */
	off_t sent, size; /* of the body */
	int keep_alive;
	int sending; /* a response is under way */
	int eof;     /* nothing more will be received */
	uint32_t watched;
};

struct server
{
	int core;
	pthread_t thread;
	mctx_t mctx;
	int ep, listener;
	struct connection **connections; /* by socket id */
	unsigned long served;
	char chunk[CHUNK];
	int failed;
};

static struct cached cache[MAX_CACHED];
static int cached_files;
static int www_dir = -1;
static int backlog = 4096;
static int max_concurrency;
static volatile sig_atomic_t done;

static void
on_signal(int signum)
{
	UNUSED(signum);
	done = 1;
}

/* ---- files ---- */

static char *
read_file(int fd, size_t size)
{
	char *data = malloc(size ? size : 1);

	if (data && read(fd, data, size) != (ssize_t)size) {
		free(data);
		return NULL;
	}
	return data;
}

static void
cache_file(const char *name)
{
	struct cached *entry = &cache[cached_files];
	struct stat st;
	int fd = openat(www_dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MAX_CACHED_SIZE) {
		entry->size = (size_t)st.st_size;
		entry->data = read_file(fd, entry->size);
		entry->name = strdup(name);
		if (entry->data && entry->name)
			cached_files++;
	}
	close(fd);
}

static int
fill_cache(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	www_dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!dir || www_dir < 0)
		return -1;
	while (cached_files < MAX_CACHED && (entry = readdir(dir)) != NULL)
		cache_file(entry->d_name);
	closedir(dir);
	return 0;
}

/* Finds the body of a response. Returns the status. */
static int
open_body(struct connection *c, const char *path)
{
	struct stat st;
	int i;

	for (i = 0; i < cached_files; i++) {
		if (strcmp(cache[i].name, path) == 0) {
			c->data = cache[i].data;
			c->size = (off_t)cache[i].size;
			return 200;
		}
	}
	c->fd = openat(www_dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (c->fd < 0)
		return errno == EACCES ? 403 : 404;
	if (fstat(c->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 404;
	c->size = st.st_size;
	return 200;
}

/* ---- requests ---- */

static const char *
reason(int status)
{
	switch (status) {
	case 200: return "OK";
	case 400: return "Bad Request";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	default: return "Not Implemented";
	}
}

/* The path of a target: decoded, without query, relative. Returns a status if it is none of ours. */
static int
decode_path(const char *target, char *path, size_t room)
{
	size_t n = 0;

	while (*target == '/')
		target++;
	for (; *target && *target != '?' && *target != '#'; target++) {
		if (n + sizeof "index.html" >= room)
			return 404;
		if (*target == '%') {
			if (!isxdigit((unsigned char)target[1]) || !isxdigit((unsigned char)target[2]))
				return 400;
			path[n++] = (char)strtol((char[]){ target[1], target[2], '\0' }, NULL, 16);
			target += 2;
		} else {
			path[n++] = *target;
		}
		if (path[n - 1] == '\0')
			return 400;
	}
	path[n] = '\0';
	/* No way out of the directory. */
	if (path[0] == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 || strstr(path, "/../") ||
	    (n >= 3 && strcmp(path + n - 3, "/..") == 0))
		return 403;
	if (n == 0 || path[n - 1] == '/')
		memcpy(path + n, "index.html", sizeof "index.html");
	return 0;
}

/* Whether the first header line of this name begins with this value. */
static int
has_header(const char *request, const char *name, const char *value)
{
	const char *line = request;
	size_t len = strlen(name);

	while ((line = strstr(line, "\r\n")) != NULL) {
		line += 2;
		if (strncasecmp(line, name, len) == 0 && line[len] == ':')
			return strncasecmp(line + len + 1 + strspn(line + len + 1, " \t"), value, strlen(value)) == 0;
	}
	return 0;
}

/* Prepares the response to the request, which a NUL ends. */
static void
answer(struct connection *c)
{
	char method[8] = "", target[1024] = "", version[12] = "", path[1024];
	int status, head, fields;

	c->data = NULL;
	c->fd = -1;
	c->sent = c->size = 0;
	fields = sscanf(c->request, "%7s %1023s %11s", method, target, version);
	head = strcmp(method, "HEAD") == 0;
	c->keep_alive = has_header(c->request, "Connection", "keep-alive") ||
	                (strcmp(version, "HTTP/1.1") == 0 && !has_header(c->request, "Connection", "close"));
	if (fields != 3 || strncmp(version, "HTTP/1.", 7) != 0) {
		status = 400;
		c->keep_alive = 0;
	} else if (!head && strcmp(method, "GET") != 0) {
		/* It may have a body, which we would take for the next request. */
		status = 501;
		c->keep_alive = 0;
	} else {
		status = decode_path(target, path, sizeof path);
		if (status == 0)
			status = open_body(c, path);
	}
	if (status != 200)
		c->size = 0;
	c->header_len = (size_t)snprintf(c->header, sizeof c->header,
	                                 "HTTP/1.1 %d %s\r\nServer: epserver\r\nContent-Length: %lld\r\nConnection: %s\r\n\r\n",
	                                 status, reason(status), (long long)c->size, c->keep_alive ? "keep-alive" : "close");
	c->header_sent = 0;
	if (head)
		c->size = 0;
	c->sending = 1;
}

/* ---- connections ---- */

static void
end_response(struct connection *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->sending = 0;
}

static void
drop(struct server *s, int sockid)
{
	struct connection *c = s->connections[sockid];

	if (c) {
		end_response(c);
		free(c);
		s->connections[sockid] = NULL;
	}
	mtcp_close(s->mctx, sockid);
}

static void
watch(struct server *s, int sockid, uint32_t events)
{
	struct mtcp_epoll_event event = { .events = events, .data.sockid = sockid };

	if (s->connections[sockid]->watched == events)
		return;
	s->connections[sockid]->watched = events;
	mtcp_epoll_ctl(s->mctx, s->ep, MTCP_EPOLL_CTL_MOD, sockid, &event);
}

/* Sends what comes next of the response. Returns what mtcp_writev returns, or 0 if the file has become shorter. */
static int
send_piece(struct server *s, int sockid, struct connection *c)
{
	size_t header = c->header_len - c->header_sent;
	size_t body = (size_t)(c->size - c->sent);
	const char *from = c->data ? c->data + c->sent : s->chunk;
	struct iovec iov[2];
	ssize_t n;
	int sent;

	if (body > CHUNK)
		body = CHUNK;
	if (body > 0 && !c->data) {
		n = pread(c->fd, s->chunk, body, c->sent);
		if (n <= 0)
			return 0;
		body = (size_t)n;
	}
	iov[0].iov_base = c->header + c->header_sent;
	iov[0].iov_len = header;
	iov[1].iov_base = (char *)from;
	iov[1].iov_len = body;
	sent = mtcp_writev(s->mctx, sockid, iov, 2);
	if (sent > 0) {
		size_t of_header = (size_t)sent < header ? (size_t)sent : header;

		c->header_sent += of_header;
		c->sent += sent - (off_t)of_header;
	}
	return sent;
}

/* Returns -1 if the connection is to be dropped, 0 if it waits for room, 1 if the response is complete. */
static int
respond(struct server *s, int sockid, struct connection *c)
{
	int total = 0, n;

	while (c->header_sent < c->header_len || c->sent < c->size) {
		if (total >= SHARE)
			return 0;
		n = send_piece(s, sockid, c);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		total += n;
	}
	s->served++;
	end_response(c);
	return c->keep_alive ? 1 : -1;
}

/* Answers the requests that are complete, in turn. Returns as respond does; 1: more of a request is needed. */
static int
process(struct server *s, int sockid, struct connection *c)
{
	char *end;
	size_t len;
	int state;

	for (;;) {
		if (c->sending) {
			state = respond(s, sockid, c);
			if (state <= 0)
				return state;
		}
		end = memmem(c->request, c->received, "\r\n\r\n", 4);
		if (!end)
			return c->eof || c->received == sizeof c->request ? -1 : 1;
		*end = '\0';
		answer(c);
		len = (size_t)(end + 4 - c->request);
		c->received -= len;
		memmove(c->request, c->request + len, c->received);
	}
}

/* Takes what has arrived. Returns -1 if the connection has failed. */
static int
take(struct server *s, int sockid, struct connection *c)
{
	ssize_t n;

	while (c->received < sizeof c->request && !c->eof) {
		n = mtcp_read(s->mctx, sockid, c->request + c->received, sizeof c->request - c->received);
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		c->received += (size_t)n;
		c->eof = n == 0;
	}
	return 0;
}

static void
handle(struct server *s, int sockid, uint32_t events)
{
	struct connection *c = s->connections[sockid];
	int state;

	if (!c)
		return;
	if (events & MTCP_EPOLLERR || (!c->sending && take(s, sockid, c) < 0)) {
		drop(s, sockid);
		return;
	}
	state = process(s, sockid, c);
	if (state < 0)
		drop(s, sockid);
	else
		watch(s, sockid, state == 0 ? MTCP_EPOLLOUT : MTCP_EPOLLIN);
}

static void
accept_all(struct server *s)
{
	struct mtcp_epoll_event event = { .events = MTCP_EPOLLIN };
	struct connection *c;
	int sockid;

	while ((sockid = mtcp_accept(s->mctx, s->listener, NULL, NULL)) >= 0) {
		c = calloc(1, sizeof *c);
		if (!c || mtcp_setsock_nonblock(s->mctx, sockid) < 0) {
			free(c);
			mtcp_close(s->mctx, sockid);
			continue;
		}
		c->fd = -1;
		c->watched = MTCP_EPOLLIN;
		s->connections[sockid] = c;
		event.data.sockid = sockid;
		mtcp_epoll_ctl(s->mctx, s->ep, MTCP_EPOLL_CTL_ADD, sockid, &event);
	}
}

/* ---- threads ---- */

static int
start_listening(struct server *s)
{
	struct mtcp_epoll_event event = { .events = MTCP_EPOLLIN };
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };

	/* IPv6 takes IPv4 along. */
	s->listener = mtcp_socket(s->mctx, AF_INET6, SOCK_STREAM, 0);
	s->ep = mtcp_epoll_create(s->mctx, MAX_EVENTS);
	if (s->listener < 0 || s->ep < 0 || mtcp_setsock_nonblock(s->mctx, s->listener) < 0 ||
	    mtcp_bind(s->mctx, s->listener, (struct sockaddr *)&addr, sizeof addr) < 0 ||
	    mtcp_listen(s->mctx, s->listener, backlog) < 0)
		return -1;
	event.data.sockid = s->listener;
	return mtcp_epoll_ctl(s->mctx, s->ep, MTCP_EPOLL_CTL_ADD, s->listener, &event);
}

static void
serve(struct server *s)
{
	struct mtcp_epoll_event *events = calloc(MAX_EVENTS, sizeof *events);
	int i, n;

	while (events && !done) {
		n = mtcp_epoll_wait(s->mctx, s->ep, events, MAX_EVENTS, -1);
		if (n < 0 && errno != EINTR) {
			fprintf(stderr, "epserver: core %d: %s\n", s->core, strerror(errno));
			s->failed = 1;
			break;
		}
		for (i = 0; i < n; i++) {
			if (events[i].data.sockid == s->listener)
				accept_all(s);
			else
				handle(s, events[i].data.sockid, events[i].events);
		}
	}
	free(events);
}

static void *
run(void *arg)
{
	struct server *s = arg;
	int i;

	s->failed = 1;
	mtcp_core_affinitize(s->core);
	s->mctx = mtcp_create_context(s->core);
	/* The library has said why. */
	if (!s->mctx)
		return NULL;
	s->connections = calloc((size_t)max_concurrency, sizeof *s->connections);
	if (!s->connections || start_listening(s) < 0) {
		fprintf(stderr, "epserver: core %d: cannot listen: %s\n", s->core, strerror(errno));
	} else {
		printf("[CPU %d] listening on port %d\n", s->core, PORT);
		fflush(stdout);
		s->failed = 0;
		serve(s);
		printf("[CPU %d] served %lu requests\n", s->core, s->served);
	}
	for (i = 0; s->connections && i < max_concurrency; i++) {
		if (s->connections[i])
			drop(s, i);
	}
	free(s->connections);
	mtcp_destroy_context(s->mctx);
	return NULL;
}

static int
run_all(int first, int count)
{
	struct server *servers = calloc((size_t)count, sizeof *servers);
	int started, i, failed = 0;

	for (started = 0; servers && started < count; started++) {
		servers[started].core = first + started;
		if (pthread_create(&servers[started].thread, NULL, run, &servers[started]) != 0)
			break;
	}
	if (!servers || started < count) {
		fprintf(stderr, "epserver: cannot start %d threads\n", count);
		failed = 1;
		raise(SIGTERM);
	}
	for (i = 0; servers && i < started; i++) {
		pthread_join(servers[i].thread, NULL);
		failed |= servers[i].failed;
	}
	free(servers);
	return failed;
}

/* ---- start ---- */

static void
usage(FILE *to)
{
	fprintf(to, "usage: epserver -p WWW_DIR -f CONF [-N CORES] [-c THE_ONLY_CORE] [-b BACKLOG] [-h]\n");
}

static int
number(const char *text, int low)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text && !*end && value >= low && value <= INT_MAX)
		return (int)value;
	fprintf(stderr, "epserver: '%s' is not a number from %d\n", text, low);
	exit(2);
}

static void
start(const char *conf, int cores)
{
	struct mtcp_conf mcfg;

	if (cores > 0) {
		mtcp_getconf(&mcfg);
		mcfg.num_cores = cores;
		mtcp_setconf(&mcfg);
	}
	/* The library has said why. */
	if (mtcp_init(conf) < 0)
		exit(2);
	mtcp_getconf(&mcfg);
	max_concurrency = mcfg.max_concurrency;
	if (backlog > max_concurrency)
		backlog = max_concurrency;
	mtcp_register_signal(SIGINT, on_signal);
	mtcp_register_signal(SIGTERM, on_signal);
}

int
main(int argc, char **argv)
{
	const char *dir = NULL, *conf = NULL;
	struct mtcp_conf mcfg;
	int cores = 0, only = -1, opt, failed;

	while ((opt = getopt(argc, argv, "p:f:N:c:b:h")) != -1) {
		switch (opt) {
		case 'p': dir = optarg; break;
		case 'f': conf = optarg; break;
		case 'N': cores = number(optarg, 1); break;
		case 'c': only = number(optarg, 0); break;
		case 'b': backlog = number(optarg, 1); break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (!dir || !conf || optind < argc) {
		usage(stderr);
		return 2;
	}
	if (fill_cache(dir) < 0) {
		fprintf(stderr, "epserver: %s: %s\n", dir, strerror(errno));
		return 2;
	}
	start(conf, cores);
	mtcp_getconf(&mcfg);
	failed = only >= 0 ? run_all(only, 1) : run_all(0, mcfg.num_cores);
	mtcp_destroy();
	return failed;
}
