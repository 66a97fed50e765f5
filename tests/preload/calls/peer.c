/* The plain program at the other end: does what it is told, one line at a time. Sockets are in numbered slots. */
#include "calls.h"

#include <linux/filter.h>
#include <sys/un.h>

enum { SLOTS = 64 };

static struct slot {
	int fd;
	long sent, received;
} slots[SLOTS];
static int listening = -1;
/* Commands that run on threads of their own. */
static int running;
static struct sockaddr_storage mine, other;
static socklen_t mine_length;

static long status(long value)
{
	return value == -1 ? -errno : value;
}

static void drop(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

static void use(struct slot *slot, int fd)
{
	struct timeval limit = {.tv_sec = PATIENCE / 1000};
	drop(&slot->fd);
	*slot = (struct slot){.fd = fd};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static long listen_at(int port)
{
	int on = 1;
	drop(&listening);
	listening = socket(mine.ss_family, SOCK_STREAM, 0);
	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listening, at(&mine, port), mine_length) == -1)
		return status(-1);
	return status(listen(listening, 64));
}

static long connect_to(struct slot *slot, int port)
{
	use(slot, socket(mine.ss_family, SOCK_STREAM, 0));
	return status(connect(slot->fd, at(&other, port), mine_length));
}

static long accept_one(struct slot *slot)
{
	struct pollfd one = {.fd = listening, .events = POLLIN};
	if (poll(&one, 1, PATIENCE) != 1)
		return -ETIMEDOUT;
	int fd = accept(listening, NULL, NULL);
	if (fd == -1)
		return status(-1);
	use(slot, fd);
	return 0;
}

static long send_some(struct slot *slot, long count, int flags)
{
	unsigned char chunk[4096];
	for (long left = count; left > 0;) {
		long part = left < (long)sizeof chunk ? left : (long)sizeof chunk;
		fill(chunk, slot->sent, part);
		ssize_t sent = send(slot->fd, chunk, part, MSG_NOSIGNAL | flags);
		if (sent == -1)
			return status(-1);
		slot->sent += sent;
		left -= sent;
	}
	return count;
}

/* Reads `count` bytes, or to the end: how many. Those that are verified must be right. */
static long receive_some(struct slot *slot, long count, int verified)
{
	unsigned char chunk[65536];
	long total = 0;
	while (total < count) {
		long part = count - total < (long)sizeof chunk ? count - total : (long)sizeof chunk;
		ssize_t got = recv(slot->fd, chunk, part, 0);
		if (got == -1)
			return status(-1);
		if (got == 0)
			break;
		if (verified && !matches(chunk, slot->received, got))
			return -EILSEQ;
		slot->received += got;
		total += got;
	}
	return total;
}

/* The urgent byte, when it is there. */
static long take_urgent(struct slot *slot)
{
	unsigned char byte;
	struct pollfd one = {.fd = slot->fd, .events = POLLPRI};
	if (poll(&one, 1, PATIENCE) != 1)
		return -ETIMEDOUT;
	return recv(slot->fd, &byte, 1, MSG_OOB) == 1 ? byte : status(-1);
}

static long reset(struct slot *slot)
{
	struct linger now_closed = {.l_onoff = 1};
	setsockopt(slot->fd, SOL_SOCKET, SO_LINGER, &now_closed, sizeof now_closed);
	drop(&slot->fd);
	return 0;
}

/* Takes only segments whose IP header has this: others are as if they were lost. */
static long take_only(struct slot *slot, unsigned offset, unsigned mask, unsigned value)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, SKF_NET_OFF + offset), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),         BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	return status(setsockopt(slot->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
}

/* The largest segment that it sends. */
static long segment(struct slot *slot)
{
	int value = 0;
	socklen_t length = sizeof value;
	long failed = status(getsockopt(slot->fd, IPPROTO_TCP, TCP_MAXSEG, &value, &length));
	return failed ? failed : value;
}

/* Waits for an error of the connection, which is returned as such. */
static long error_of(struct slot *slot)
{
	struct pollfd one = {.fd = slot->fd};
	int value = 0;
	socklen_t length = sizeof value;
	poll(&one, 1, PATIENCE);
	getsockopt(slot->fd, SOL_SOCKET, SO_ERROR, &value, &length);
	return -value;
}

/* Until what runs on threads is done. */
static long join(void)
{
	while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) > 0)
		usleep(1000);
	return 0;
}

static long clear(void)
{
	join();
	drop(&listening);
	for (int i = 0; i < SLOTS; i++)
		drop(&slots[i].fd);
	return 0;
}

static long obey(char *line);

static void *obey_later(void *line)
{
	char *rest;
	long milliseconds = strtol(line, &rest, 10);
	usleep(milliseconds * 1000);
	obey(rest + 1);
	free(line);
	__atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* `after MILLISECONDS COMMAND`: on a thread of its own. */
static long start_later(const char *rest)
{
	pthread_t thread;
	__atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
	if (pthread_create(&thread, NULL, obey_later, strdup(rest)) != 0)
		return -EAGAIN;
	pthread_detach(thread);
	return 0;
}

static long obey(char *line)
{
	char verb[20] = "";
	long first = 0, second = 0, third = 0, fourth = 0;
	sscanf(line, "%19s %ld %ld %ld %ld", verb, &first, &second, &third, &fourth);
	struct slot *slot = &slots[first % SLOTS];
	if (!strcmp(verb, "after"))
		return start_later(line + strlen("after "));
	if (!strcmp(verb, "listen"))
		return listen_at(first);
	if (!strcmp(verb, "connect"))
		return connect_to(slot, second);
	if (!strcmp(verb, "accept"))
		return accept_one(slot);
	if (!strcmp(verb, "send"))
		return send_some(slot, second, 0);
	if (!strcmp(verb, "urgent"))
		return send_some(slot, second, MSG_OOB);
	if (!strcmp(verb, "oob"))
		return take_urgent(slot);
	if (!strcmp(verb, "receive"))
		return receive_some(slot, second, 1);
	if (!strcmp(verb, "drain"))
		return receive_some(slot, second, 0);
	if (!strcmp(verb, "shut"))
		return status(shutdown(slot->fd, SHUT_WR));
	if (!strcmp(verb, "reset"))
		return reset(slot);
	if (!strcmp(verb, "only"))
		return take_only(slot, second, third, fourth);
	if (!strcmp(verb, "deaf"))
		return take_only(slot, 0, 0, 1);
	if (!strcmp(verb, "segment"))
		return segment(slot);
	if (!strcmp(verb, "window"))
		return window_of(slot->fd);
	if (!strcmp(verb, "error"))
		return error_of(slot);
	if (!strcmp(verb, "join"))
		return join();
	if (!strcmp(verb, "clear"))
		return clear();
	if (!strcmp(verb, "close")) {
		drop(&slot->fd);
		return 0;
	}
	return -ENOSYS;
}

static void serve(int control)
{
	char line[200];
	FILE *lines = fdopen(control, "r");
	while (fgets(line, sizeof line, lines)) {
		line[strcspn(line, "\n")] = 0;
		dprintf(control, "%ld\n", obey(line));
	}
	fclose(lines);
	clear();
}

static void resolve(const char *text, struct sockaddr_storage *into)
{
	memset(into, 0, sizeof *into);
	into->ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	mine_length = into->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	void *bytes = into->ss_family == AF_INET ? (void *)&((struct sockaddr_in *)into)->sin_addr
											 : (void *)&((struct sockaddr_in6 *)into)->sin6_addr;
	inet_pton(into->ss_family, text, bytes);
}

int run_peer(const char *control, const char *address, const char *others)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	signal(SIGPIPE, SIG_IGN);
	strncpy(name.sun_path, control, sizeof name.sun_path - 1);
	resolve(address, &mine);
	resolve(others, &other);
	for (int i = 0; i < SLOTS; i++)
		slots[i].fd = -1;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(fd, (struct sockaddr *)&name, sizeof name) == -1 || listen(fd, 4) == -1)
		fail("bind: %m");
	/* A host that answers from now on, where that is a stack: one that waits has begun. */
	struct pollfd begun = {.events = POLLIN};
	if (listen_at(1999) < 0)
		fail("listen: %m");
	begun.fd = listening;
	poll(&begun, 1, 0);
	drop(&listening);
	printf("ready\n");
	fflush(stdout);
	for (;;)
		serve(accept(fd, NULL, NULL));
}
