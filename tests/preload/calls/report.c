#include "calls.h"

#include <stdarg.h>

static const char *current = "?", *current_role = "?";

void begin(const char *name, const char *role)
{
	current = name;
	current_role = role;
	alarm(PATIENCE / 1000 * 2);
}

void say(const char *what, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	printf("%s (%s): %s: ", current, current_role, what);
	vprintf(format, list);
	printf("\n");
	fflush(stdout);
	va_end(list);
}

long result(const char *what, long value)
{
	int error = errno;
	if (value == -1)
		say(what, "-1 %s", strerrorname_np(error));
	else
		say(what, "%ld", value);
	return value;
}

int descriptor(const char *what, int fd)
{
	if (fd == -1)
		result(what, -1);
	else
		say(what, "a descriptor");
	return fd;
}

void holds(const char *what, int condition)
{
	say(what, "%s", condition ? "yes" : "no");
}

void events(const char *what, long ready, uint32_t set)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {{POLLIN, "IN"},         {POLLPRI, "PRI"},       {POLLOUT, "OUT"},       {POLLERR, "ERR"},       {POLLHUP, "HUP"},
				 {POLLNVAL, "NVAL"},     {POLLRDNORM, "RDNORM"}, {POLLRDBAND, "RDBAND"}, {POLLWRNORM, "WRNORM"}, {POLLWRBAND, "WRBAND"},
				 {POLLRDHUP, "RDHUP"}};
	char text[200] = "";
	if (ready == -1) {
		result(what, -1);
		return;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (set & names[i].bit) {
			strcat(text, " ");
			strcat(text, names[i].name);
		}
	say(what, "%ld%s", ready, text);
}

void poll_shows(const char *what, struct pollfd *one, int timeout)
{
	long ready = poll(one, 1, timeout);
	events(what, ready, one->revents);
}

void option(const char *what, int fd, int level, int name)
{
	int value = 0;
	socklen_t length = sizeof value;
	int status = getsockopt(fd, level, name, &value, &length);
	if (status == -1)
		result(what, -1);
	else
		say(what, "%d in %d bytes", value, (int)length);
}

void fail(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	printf("%s (%s): cannot go on: ", current, current_role);
	vprintf(format, list);
	printf("\n");
	fflush(stdout);
	va_end(list);
	_exit(3);
}

long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000L + time.tv_nsec / 1000000;
}
