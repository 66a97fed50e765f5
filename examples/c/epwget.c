/*
 * epwget: fetches a URL many times at once over mTCP, one epoll loop per core.
 *
 *   epwget URL FLOWS [-N CORES] [-c CONCURRENCY] [-o OUTFILE] [-n CORE] -f CONF
 *
 * URL is [http://]ADDRESS[:PORT][/PATH], with an IPv4 or a bracketed IPv6 address. Each flow is one connection and one request.
 * With -o, what flow N fetched goes to OUTFILE.N. Prints rates once per second, and at the end what each core did.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#define MAX_EVENTS 1024
#define MAX_URL 128
#define MAX_HEADER 4096
#define MAX_REQUEST 512
#define CHUNK (64 << 10)

struct flow
{
	uint64_t started; /* us */
	size_t request_sent;
	char header[MAX_HEADER];
	size_t header_len;
	int in_body;
	long long expected; /* bytes of the body, -1: until the end */
	long long received;
	int fd; /* the output, or -1 */
};

/* Counted by one thread, printed by another. */
struct counters
{
	uint64_t connects, read, written, completes, resp_sum_us, resp_max_us;
};

struct client
{
	int core;
	pthread_t thread;
	mctx_t mctx;
	int ep;
	struct flow **flows; /* by socket id */
	int concurrency, wanted, started, active, first;
	int completes, errors, incompletes;
	struct counters counters;
	int finished;
	char chunk[CHUNK];
};

static char host[MAX_URL], path[MAX_URL] = "/";
static char request[MAX_REQUEST];
static struct sockaddr_storage server;
static socklen_t server_len;
static const char *outfile;
static int max_concurrency;
static volatile sig_atomic_t done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news;

static void
on_signal(int signum)
{
	UNUSED(signum);
	done = 1;
}

static uint64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void
count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* ---- one flow ---- */

/* Ends a flow. Complete: all of the response is there. Failed: the connection broke. */
static void
end_flow(struct client *c, int sockid, int complete, int failed)
{
	struct flow *f = c->flows[sockid];
	uint64_t time = now_us() - f->started;

	if (complete) {
		c->completes++;
		count(&c->counters.completes, 1);
		count(&c->counters.resp_sum_us, time);
		if (time > c->counters.resp_max_us)
			count(&c->counters.resp_max_us, time - c->counters.resp_max_us);
	} else if (failed) {
		c->errors++;
	} else {
		c->incompletes++;
	}
	if (f->fd >= 0)
		close(f->fd);
	free(f);
	c->flows[sockid] = NULL;
	c->active--;
	mtcp_close(c->mctx, sockid);
}

static int
open_output(struct client *c)
{
	char name[4096];

	if (!outfile)
		return -1;
	snprintf(name, sizeof name, "%s.%d", outfile, c->first + c->started);
	return open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

/* Starts a flow. Returns -1 if that is not possible now. */
static int
start_flow(struct client *c)
{
	struct mtcp_epoll_event event = { .events = MTCP_EPOLLOUT };
	struct flow *f = calloc(1, sizeof *f);
	int sockid = mtcp_socket(c->mctx, server.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (!f || sockid < 0) {
		free(f);
		if (sockid >= 0)
			mtcp_close(c->mctx, sockid);
		return -1;
	}
	f->started = now_us();
	f->expected = -1;
	f->fd = open_output(c);
	c->flows[sockid] = f;
	c->started++;
	c->active++;
	event.data.sockid = sockid;
	if ((outfile && f->fd < 0) ||
	    (mtcp_connect(c->mctx, sockid, (struct sockaddr *)&server, server_len) < 0 && errno != EINPROGRESS) ||
	    mtcp_epoll_ctl(c->mctx, c->ep, MTCP_EPOLL_CTL_ADD, sockid, &event) < 0)
		end_flow(c, sockid, 0, 1);
	return 0;
}

/* Connected, or room for more of the request. */
static void
send_request(struct client *c, int sockid, struct flow *f)
{
	struct mtcp_epoll_event event = { .events = MTCP_EPOLLIN, .data.sockid = sockid };
	size_t len = strlen(request);
	ssize_t n;

	if (f->request_sent == 0)
		count(&c->counters.connects, 1);
	n = mtcp_write(c->mctx, sockid, request + f->request_sent, len - f->request_sent);
	if (n < 0) {
		if (errno != EAGAIN)
			end_flow(c, sockid, 0, 1);
		return;
	}
	count(&c->counters.written, (uint64_t)n);
	f->request_sent += (size_t)n;
	if (f->request_sent == len)
		mtcp_epoll_ctl(c->mctx, c->ep, MTCP_EPOLL_CTL_MOD, sockid, &event);
}

/* Takes bytes of the body. Returns -1 if they cannot be kept or are too many. */
static int
take_body(struct flow *f, const char *bytes, size_t len)
{
	f->received += (long long)len;
	if (f->expected >= 0 && f->received > f->expected)
		return -1;
	if (f->fd >= 0 && write(f->fd, bytes, len) != (ssize_t)len)
		return -1;
	return 0;
}

/* Takes bytes of the header and what follows it. Returns -1 if it is no good. */
static int
take_header(struct flow *f, const char *bytes, size_t len)
{
	size_t room = sizeof f->header - 1 - f->header_len;
	size_t had = f->header_len, part = len < room ? len : room, used;
	char *end, *line;
	int status = 0;

	memcpy(f->header + had, bytes, part);
	f->header_len += part;
	f->header[f->header_len] = '\0';
	end = strstr(f->header, "\r\n\r\n");
	if (!end)
		return part == len ? 0 : -1;
	*end = '\0';
	if (sscanf(f->header, "HTTP/%*d.%*d %d", &status) != 1 || status != 200)
		return -1;
	line = strcasestr(f->header, "\r\nContent-Length:");
	if (line)
		f->expected = strtoll(line + strlen("\r\nContent-Length:"), NULL, 10);
	f->in_body = 1;
	used = (size_t)(end + 4 - f->header) - had;
	return take_body(f, bytes + used, len - used);
}

static void
receive(struct client *c, int sockid, struct flow *f)
{
	ssize_t n;

	for (;;) {
		n = mtcp_read(c->mctx, sockid, c->chunk, sizeof c->chunk);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			end_flow(c, sockid, n == 0 && f->in_body && f->expected < 0, n < 0);
			return;
		}
		count(&c->counters.read, (uint64_t)n);
		if ((f->in_body ? take_body(f, c->chunk, (size_t)n) : take_header(f, c->chunk, (size_t)n)) < 0) {
			end_flow(c, sockid, 0, 1);
			return;
		}
		if (f->in_body && f->received == f->expected) {
			end_flow(c, sockid, 1, 0);
			return;
		}
	}
}

/* ---- one core ---- */

static void
handle(struct client *c, const struct mtcp_epoll_event *event)
{
	int sockid = event->data.sockid;
	struct flow *f = c->flows[sockid];

	if (!f)
		return;
	if (event->events & MTCP_EPOLLERR)
		end_flow(c, sockid, 0, 1);
	else if (event->events & MTCP_EPOLLIN)
		receive(c, sockid, f);
	else if (event->events == MTCP_EPOLLOUT)
		send_request(c, sockid, f);
}

static void
work(struct client *c)
{
	struct mtcp_epoll_event *events = calloc(MAX_EVENTS, sizeof *events);
	int i, n;

	while (events && !done && c->completes + c->errors + c->incompletes < c->wanted) {
		while (c->active < c->concurrency && c->started < c->wanted && start_flow(c) == 0)
			;
		/* Flows that failed at once need no event. */
		n = mtcp_epoll_wait(c->mctx, c->ep, events, MAX_EVENTS, c->active ? -1 : 1);
		if (n < 0 && errno != EINTR) {
			fprintf(stderr, "epwget: core %d: %s\n", c->core, strerror(errno));
			break;
		}
		for (i = 0; i < n; i++)
			handle(c, &events[i]);
	}
	/* Interrupted, or the link is gone. */
	for (i = 0; i < max_concurrency; i++) {
		if (c->flows[i])
			end_flow(c, i, 0, 0);
	}
	free(events);
}

static void
run_core(struct client *c)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&server;

	mtcp_core_affinitize(c->core);
	c->mctx = mtcp_create_context(c->core);
	/* The library has said why. */
	if (!c->mctx)
		return;
	if (server.ss_family == AF_INET)
		mtcp_init_rss(c->mctx, INADDR_ANY, 1, v4->sin_addr.s_addr, v4->sin_port);
	c->flows = calloc((size_t)max_concurrency, sizeof *c->flows);
	c->ep = mtcp_epoll_create(c->mctx, MAX_EVENTS);
	if (c->flows && c->ep >= 0)
		work(c);
	free(c->flows);
	mtcp_destroy_context(c->mctx);
}

static void *
run(void *arg)
{
	struct client *c = arg;

	run_core(c);
	pthread_mutex_lock(&lock);
	c->finished = 1;
	pthread_cond_signal(&news);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- all cores ---- */

static void
add_up(struct client *clients, int cores, struct counters *sum)
{
	int i;

	memset(sum, 0, sizeof *sum);
	for (i = 0; i < cores; i++) {
		struct counters *c = &clients[i].counters;
		uint64_t max = __atomic_load_n(&c->resp_max_us, __ATOMIC_RELAXED);

		sum->connects += __atomic_load_n(&c->connects, __ATOMIC_RELAXED);
		sum->read += __atomic_load_n(&c->read, __ATOMIC_RELAXED);
		sum->written += __atomic_load_n(&c->written, __ATOMIC_RELAXED);
		sum->completes += __atomic_load_n(&c->completes, __ATOMIC_RELAXED);
		sum->resp_sum_us += __atomic_load_n(&c->resp_sum_us, __ATOMIC_RELAXED);
		if (max > sum->resp_max_us)
			sum->resp_max_us = max;
	}
}

/* Prints what happened since `before`. */
static void
print_rates(struct client *clients, int cores, struct counters *before)
{
	struct counters now;
	uint64_t completes;

	add_up(clients, cores, &now);
	completes = now.completes - before->completes;
	fprintf(stderr,
	        "[ ALL ] connect: %7llu, read: %4llu MB, write: %4llu MB, completes: %7llu (resp_time avg: %4llu, max: %6llu us)\n",
	        (unsigned long long)(now.connects - before->connects), (unsigned long long)((now.read - before->read) >> 20),
	        (unsigned long long)((now.written - before->written) >> 20), (unsigned long long)completes,
	        (unsigned long long)(completes ? (now.resp_sum_us - before->resp_sum_us) / completes : 0),
	        (unsigned long long)now.resp_max_us);
	*before = now;
}

static int
unfinished(struct client *clients, int cores)
{
	int i, n = 0;

	for (i = 0; i < cores; i++)
		n += !clients[i].finished;
	return n;
}

/* Prints rates until all threads are done. */
static void
watch(struct client *clients, int cores)
{
	struct counters before = { 0 };
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_sec++;
	pthread_mutex_lock(&lock);
	while (unfinished(clients, cores) > 0) {
		if (pthread_cond_timedwait(&news, &lock, &next) == ETIMEDOUT) {
			print_rates(clients, cores, &before);
			next.tv_sec++;
		}
	}
	pthread_mutex_unlock(&lock);
	print_rates(clients, cores, &before);
}

static int
share(int whole, int parts, int index)
{
	return whole / parts + (index < whole % parts);
}

static int
run_all(int first, int cores, int flows, int concurrency)
{
	struct client *clients = calloc((size_t)cores, sizeof *clients);
	int i, offset = 0, started = 0, failed = 0;

	for (i = 0; clients && i < cores; i++, started++) {
		clients[i].core = first + i;
		clients[i].wanted = share(flows, cores, i);
		clients[i].concurrency = share(concurrency, cores, i);
		clients[i].first = offset;
		offset += clients[i].wanted;
		if (pthread_create(&clients[i].thread, NULL, run, &clients[i]) != 0)
			break;
	}
	if (started < cores)
		raise(SIGTERM);
	watch(clients, started);
	for (i = 0; i < started; i++) {
		struct client *c = &clients[i];

		pthread_join(c->thread, NULL);
		printf("[CPU %d] Completed %d connections, errors: %d incompletes: %d\n", c->core, c->completes, c->errors,
		       c->incompletes);
		failed |= c->completes != c->wanted;
	}
	free(clients);
	return failed || started < cores;
}

/* ---- start ---- */

static int
parse_host(const char *text, int port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&server;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&server;
	char address[MAX_URL];

	if (text[0] != '[') {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		server_len = sizeof *v4;
		return inet_pton(AF_INET, text, &v4->sin_addr) == 1;
	}
	snprintf(address, sizeof address, "%.*s", (int)strcspn(text + 1, "]"), text + 1);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	server_len = sizeof *v6;
	return inet_pton(AF_INET6, address, &v6->sin6_addr) == 1;
}

static int
parse_url(const char *url)
{
	size_t len;
	char *colon;
	int port = 80;

	if (strlen(url) >= MAX_URL)
		return 0;
	if (strncmp(url, "http://", 7) == 0)
		url += 7;
	len = strcspn(url, "/");
	memcpy(host, url, len);
	if (url[len])
		strcpy(path, url + len);
	snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nUser-Agent: epwget\r\nAccept: */*\r\nHost: %s\r\nConnection: Close\r\n\r\n",
	         path, host);
	colon = strrchr(host, ':');
	if (colon && !strchr(colon, ']')) {
		*colon = '\0';
		port = atoi(colon + 1);
	}
	return port > 0 && port < 65536 && parse_host(host, port);
}

static void
die(const char *text, const char *what)
{
	fprintf(stderr, "epwget: %s%s\n", text, what);
	exit(2);
}

static int
number(const char *text, int low)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value < low || value > 1000000000)
		die("not a number in range: ", text);
	return (int)value;
}

/* Returns the number of cores. */
static int
start(const char *conf, int cores, int concurrency)
{
	struct mtcp_conf mcfg;
	pthread_condattr_t attr;

	if (cores > 0) {
		mtcp_getconf(&mcfg);
		mcfg.num_cores = cores;
		mtcp_setconf(&mcfg);
	}
	/* The library has said why; so below. */
	if (mtcp_init(conf) < 0)
		exit(2);
	mtcp_getconf(&mcfg);
	cores = mcfg.num_cores;
	/* Each core has an epoll instance too. */
	if (mcfg.max_concurrency < concurrency + 16) {
		mcfg.max_concurrency = mcfg.max_num_buffers = concurrency + 16;
		if (mtcp_setconf(&mcfg) < 0)
			exit(2);
	}
	max_concurrency = mcfg.max_concurrency;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&news, &attr);
	mtcp_register_signal(SIGINT, on_signal);
	mtcp_register_signal(SIGTERM, on_signal);
	return cores;
}

int
main(int argc, char **argv)
{
	const char *usage = "usage: epwget URL FLOWS [-N CORES] [-c CONCURRENCY] [-o OUTFILE] [-n THE_ONLY_CORE] -f CONF";
	const char *conf = NULL;
	int cores = 0, only = -1, concurrency = 100, flows, opt, failed;

	while ((opt = getopt(argc, argv, "N:c:o:n:f:h")) != -1) {
		switch (opt) {
		case 'N': cores = number(optarg, 1); break;
		case 'c': concurrency = number(optarg, 1); break;
		case 'o': outfile = optarg; break;
		case 'n': only = number(optarg, 0); break;
		case 'f': conf = optarg; break;
		case 'h': puts(usage); return 0;
		default: die(usage, "");
		}
	}
	if (argc - optind != 2 || !conf)
		die(usage, "");
	if (!parse_url(argv[optind]))
		die("not a URL of a host by its address: ", argv[optind]);
	flows = number(argv[optind + 1], 1);
	cores = start(conf, cores, concurrency);
	if (only >= 0)
		cores = 1;
	else if (cores > flows || cores > concurrency)
		cores = flows < concurrency ? flows : concurrency;
	if (concurrency > flows)
		concurrency = flows;
	failed = run_all(only >= 0 ? only : 0, cores, flows, concurrency);
	mtcp_destroy();
	return failed;
}
