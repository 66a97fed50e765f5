#include "calls.h"

#include <stdarg.h>
#include <sys/time.h>
#include <sys/un.h>

struct sockaddr_storage ours, theirs;
socklen_t address_length;
static int control = -1;
static int is_server;
/* Each group has ports of its own: those of an earlier one may still be in TIME_WAIT. */
static int last_port;

struct sockaddr *at(const struct sockaddr_storage *host, int port)
{
	static struct sockaddr_storage address;
	address = *host;
	if (host->ss_family == AF_INET)
		((struct sockaddr_in *)&address)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
	return (struct sockaddr *)&address;
}

int port_of(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)address)->sin_port);
	return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
}

int fresh_port(void)
{
	return ++last_port;
}

int serving(void)
{
	return is_server;
}

int tcp(int flags)
{
	int fd = socket(ours.ss_family, SOCK_STREAM | flags, 0);
	if (fd == -1)
		fail("socket: %m");
	return fd;
}

int listener(int flags, int port)
{
	int fd = tcp(flags), on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, at(&ours, port), address_length) == -1)
		fail("bind: %m");
	if (listen(fd, 16) == -1)
		fail("listen: %m");
	return fd;
}

int dialed(int slot)
{
	int port = fresh_port(), fd = tcp(0);
	peer("listen %d", port);
	if (connect(fd, at(&theirs, port), address_length) == -1)
		fail("connect: %m");
	peer("accept %d", slot);
	return fd;
}

int accepted(int slot)
{
	int port = fresh_port(), waiting_fd = listener(0, port);
	peer("connect %d %d", slot, port);
	int fd = accept(waiting_fd, NULL, NULL);
	if (fd == -1)
		fail("accept: %m");
	close(waiting_fd);
	return fd;
}

int pair(int slot)
{
	return is_server ? accepted(slot) : dialed(slot);
}

long peer(const char *format, ...)
{
	char text[200];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text - 1, format, list);
	va_end(list);
	strcat(text, "\n");
	if (write(control, text, strlen(text)) != (ssize_t)strlen(text))
		fail("the peer is gone");
	size_t length = 0;
	while (length == 0 || text[length - 1] != '\n') {
		ssize_t got = read(control, text + length, sizeof text - 1 - length);
		if (got == -1 && errno == EINTR)
			continue;
		if (got <= 0)
			fail("no answer from the peer");
		length += got;
	}
	text[length] = 0;
	return atol(text);
}

void arrived(int fd, int count)
{
	static char scratch[1 << 16];
	long end = now() + PATIENCE;
	while (recv(fd, scratch, count, MSG_PEEK | MSG_DONTWAIT) < count) {
		if (now() > end)
			fail("%d bytes did not arrive", count);
		usleep(1000);
	}
}

void settled(int fd, int set)
{
	long end = now() + PATIENCE;
	for (;;) {
		struct pollfd one = {.fd = fd, .events = set};
		poll(&one, 1, 0);
		if ((one.revents & set) == set)
			return;
		if (now() > end) {
			events("settled", 1, one.revents);
			fail("poll does not show %x", set);
		}
		usleep(1000);
	}
}

unsigned char pattern(long place)
{
	return (unsigned char)(place * 7 + (place >> 8) * 13 + (place >> 16));
}

void fill(void *buffer, long from, long count)
{
	for (long i = 0; i < count; i++)
		((unsigned char *)buffer)[i] = pattern(from + i);
}

int matches(const void *buffer, long from, long count)
{
	for (long i = 0; i < count; i++)
		if (((const unsigned char *)buffer)[i] != pattern(from + i))
			return 0;
	return 1;
}

void send_all(int fd, long from, long count)
{
	static unsigned char chunk[1 << 16];
	while (count > 0) {
		long now_count = count < (long)sizeof chunk ? count : (long)sizeof chunk;
		fill(chunk, from, now_count);
		ssize_t sent = send(fd, chunk, now_count, MSG_NOSIGNAL);
		if (sent <= 0)
			fail("send: %m");
		from += sent;
		count -= sent;
	}
}

void set_blocking(int fd, int blocking)
{
	int flags = fcntl(fd, F_GETFL);
	fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static void nothing(int signal)
{
	(void)signal;
}

static timer_t interrupts;
static int has_interrupts;

void interrupt_after(int milliseconds, int flags)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = flags};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	struct itimerspec repeated = {time, time};
	no_interrupts();
	sigaction(SIGUSR1, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &interrupts) == -1 || timer_settime(interrupts, 0, &repeated, NULL) == -1)
		fail("timer: %m");
	has_interrupts = 1;
}

void no_interrupts(void)
{
	if (has_interrupts)
		timer_delete(interrupts);
	has_interrupts = 0;
}

static void parse(const char *text, struct sockaddr_storage *into)
{
	struct sockaddr_in *four = (struct sockaddr_in *)into;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)into;
	memset(into, 0, sizeof *into);
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		into->ss_family = AF_INET;
		address_length = sizeof *four;
	} else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
		into->ss_family = AF_INET6;
		address_length = sizeof *six;
	} else
		fail("no address: %s", text);
}

static void open_control(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	strncpy(name.sun_path, path, sizeof name.sun_path - 1);
	control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(control, (struct sockaddr *)&name, sizeof name) == -1)
		fail("connect to %s: %m", path);
}

/* Whether one of the words, whose list ends with NULL, is this. */
static int has(char **words, const char *name)
{
	for (; *words; words++)
		if (!strcmp(*words, name))
			return 1;
	return 0;
}

static void run_group(const struct test *group, char **skipped)
{
	for (is_server = 0; is_server < 2; is_server++)
		for (const struct test *test = group; test->name; test++) {
			if (has(skipped, test->name))
				continue;
			begin(test->name, is_server ? "server" : "client");
			test->run();
			no_interrupts();
			peer("clear");
		}
}

static const struct {
	const char *name;
	const struct test *cases;
} groups[] = {{"connecting", connecting}, {"accepting", accepting},     {"data", data},           {"messages", messages},
			  {"closing", closing},       {"descriptors", descriptors}, {"processes", processes}, {"waiting", waiting},
			  {"epolling", epolling},     {"options", options},         {"effects", effects},     {"threads", threads},
			  {"rings", rings},           {"urgent", urgent},         {"jumping", jumping}};

/* calls peer SOCKET PEERS OURS | calls run SOCKET OURS PEERS GROUP [SKIPPED-CASE…] */
int main(int count, char **words)
{
	if (count == 5 && !strcmp(words[1], "peer"))
		return run_peer(words[2], words[3], words[4]);
	if (count < 6)
		fail("wrong words");
	parse(words[3], &ours);
	parse(words[4], &theirs);
	open_control(words[2]);
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		if (!strcmp(groups[i].name, words[5])) {
			last_port = 2000 + (int)i * 500;
			run_group(groups[i].cases, words + 6);
		}
	printf("done\n");
	return 0;
}
