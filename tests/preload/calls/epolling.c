/* epoll: level and edge, one shot, exclusive, nested, over our sockets and the kernel's descriptors together. */
#include "calls.h"

#include <sys/eventfd.h>

static unsigned char buffer[1 << 20];

static int control(int set, int operation, int fd, uint32_t wanted, uint64_t mark)
{
	struct epoll_event event = {.events = wanted, .data.u64 = mark};
	return epoll_ctl(set, operation, fd, &event);
}

static int new_set(int fd, uint32_t wanted)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	if (set == -1)
		fail("epoll_create1: %m");
	if (fd != -1 && control(set, EPOLL_CTL_ADD, fd, wanted, 0xfedcba9876543210) == -1)
		fail("epoll_ctl: %m");
	return set;
}

static void look(const char *what, int set, int timeout)
{
	struct epoll_event ready[8] = {0};
	int count = epoll_wait(set, ready, 8, timeout);
	events(what, count, count > 0 ? ready[0].events : 0);
	if (count > 0 && ready[0].data.u64 != 0xfedcba9876543210)
		say(what, "mark %llx", (unsigned long long)ready[0].data.u64);
}

static void level(void)
{
	int fd = pair(0), set = new_set(fd, EPOLLIN | EPOLLRDHUP);
	look("nothing", set, 0);
	peer("after 40 send 0 10");
	look("data", set, PATIENCE);
	look("still", set, 0);
	result("read a part", read(fd, buffer, 5));
	look("still", set, 0);
	result("read the rest", read(fd, buffer, 5));
	look("no more", set, 0);
	result("EPOLL_CTL_MOD", control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 0xfedcba9876543210));
	look("room to write", set, 0);
	result("EPOLL_CTL_DEL", epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
	look("nothing watched", set, 0);
	close(set);
	close(fd);
}

static void edge(void)
{
	int fd = pair(0), set = new_set(fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
	look("nothing", set, 0);
	peer("send 0 10");
	look("data", set, PATIENCE);
	look("once only", set, 0);
	peer("after 30 send 0 10");
	look("more data", set, PATIENCE);
	look("once only", set, 0);
	result("EPOLL_CTL_MOD arms again", control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 0xfedcba9876543210));
	look("data", set, 0);
	result("read", read(fd, buffer, 100));
	look("once only", set, 0);
	control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 0xfedcba9876543210);
	look("room to write", set, 0);
	look("once only", set, 0);
	peer("shut 0");
	look("the end", set, PATIENCE);
	look("once only", set, 0);
	close(set);
	close(fd);
}

/* Room to write comes back once the peer has read. */
static void edge_of_room(void)
{
	int fd = pair(0), set = new_set(fd, EPOLLOUT | EPOLLET);
	set_blocking(fd, 0);
	look("room at first", set, 0);
	for (long end = now() + 300; now() < end; usleep(10000))
		while (send(fd, buffer, sizeof buffer, MSG_NOSIGNAL) > 0)
			;
	struct epoll_event ready;
	while (epoll_wait(set, &ready, 1, 0) > 0)
		;
	look("full", set, 0);
	peer("after 0 drain 0 100000000");
	look("room again", set, PATIENCE);
	shutdown(fd, SHUT_RDWR);
	close(set);
	close(fd);
}

static void one_shot(void)
{
	int fd = pair(0), set = new_set(fd, EPOLLIN | EPOLLONESHOT);
	peer("send 0 10");
	look("data", set, PATIENCE);
	look("disarmed", set, 0);
	peer("send 0 10");
	arrived(fd, 20);
	look("still disarmed", set, 0);
	result("armed again", control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 0xfedcba9876543210));
	look("data", set, PATIENCE);
	look("disarmed", set, 0);
	close(set);
	close(fd);
}

static void one_shot_edge(void)
{
	int fd = pair(0), set = new_set(fd, EPOLLIN | EPOLLET | EPOLLONESHOT);
	peer("send 0 10");
	look("data", set, PATIENCE);
	peer("send 0 10");
	arrived(fd, 20);
	look("disarmed", set, 0);
	result("armed again", control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET | EPOLLONESHOT, 0xfedcba9876543210));
	look("data", set, PATIENCE);
	close(set);
	close(fd);
}

static void exclusive(void)
{
	int fd = pair(0), set = new_set(-1, 0), second = new_set(-1, 0);
	result("EPOLLEXCLUSIVE", control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLEXCLUSIVE, 0xfedcba9876543210));
	result("in two sets", control(second, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLEXCLUSIVE, 0xfedcba9876543210));
	result("EPOLL_CTL_MOD is refused", control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 1));
	result("with EPOLLRDHUP it is refused", control(new_set(-1, 0), EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP | EPOLLEXCLUSIVE, 1));
	peer("send 0 10");
	arrived(fd, 10);
	look("data", set, PATIENCE);
	close(set);
	close(second);
	close(fd);
}

static void errors(void)
{
	int fd = pair(0), set = new_set(fd, EPOLLIN), file = open("/proc/self/exe", O_RDONLY);
	struct epoll_event ready[2];
	result("twice", control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
	result("not there", control(set, EPOLL_CTL_MOD, set + 50, EPOLLIN, 1));
	int other = pair(1);
	result("MOD of one not watched", control(set, EPOLL_CTL_MOD, other, EPOLLIN, 1));
	result("DEL of one not watched", control(set, EPOLL_CTL_DEL, other, EPOLLIN, 1));
	result("itself", control(set, EPOLL_CTL_ADD, set, EPOLLIN, 1));
	result("a file", control(set, EPOLL_CTL_ADD, file, EPOLLIN, 1));
	result("an unknown operation", control(set, 77, fd, EPOLLIN, 1));
	result("on a socket", control(fd, EPOLL_CTL_ADD, other, EPOLLIN, 1));
	result("wait on a socket", epoll_wait(fd, ready, 1, 0));
	result("wait for none", epoll_wait(set, ready, 0, 0));
	result("wait on what is closed", epoll_wait(999, ready, 1, 0));
	descriptor("epoll_create of none", epoll_create(0));
	descriptor("epoll_create1 with wrong flags", epoll_create1(1));
	int old = descriptor("epoll_create", epoll_create(5));
	result("its flags", fcntl(old, F_GETFD));
	result("read of a set", read(set, buffer, 1));
	close(old);
	close(file);
	close(other);
	close(set);
	close(fd);
}

static void together(void)
{
	int fd = pair(0), counter = eventfd(0, EFD_NONBLOCK), pipes[2], set = new_set(-1, 0);
	struct epoll_event ready[8];
	uint64_t one = 1;
	if (pipe(pipes) == -1)
		fail("pipe: %m");
	control(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
	control(set, EPOLL_CTL_ADD, counter, EPOLLIN, 2);
	control(set, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 4);
	result("none", epoll_wait(set, ready, 8, 20));
	if (write(counter, &one, 8) != 8 || write(pipes[1], "x", 1) != 1)
		fail("write: %m");
	peer("send 0 1");
	arrived(fd, 1);
	int count = epoll_wait(set, ready, 8, PATIENCE), marks = 0;
	for (int i = 0; i < count; i++)
		marks |= (int)ready[i].data.u64;
	say("all three", "%d, %x", count, marks);
	marks = 0;
	for (int i = 0; i < 12; i++) {
		if (epoll_wait(set, ready, 1, 0) != 1)
			break;
		marks |= (int)ready[0].data.u64;
	}
	say("each gets its turn when one fits", "%x", marks);
	close(fd);
	close(counter);
	close(pipes[0]);
	close(pipes[1]);
	result("closed ones are not watched", epoll_wait(set, ready, 8, 0));
	close(set);
}

static void woken(void)
{
	int fd = pair(0), pipes[2], set = new_set(fd, EPOLLIN);
	if (pipe(pipes) == -1)
		fail("pipe: %m");
	control(set, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 7);
	long start = now();
	look("with a timeout", set, 60);
	holds("waited", now() - start >= 50);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		usleep(50000);
		_exit(write(pipes[1], "x", 1) == 1 ? 0 : 1);
	}
	look("by a pipe", set, PATIENCE);
	result("read", read(pipes[0], buffer, 1));
	peer("after 50 send 0 1");
	look("by data", set, PATIENCE);
	interrupt_after(40, SA_RESTART);
	result("read", read(fd, buffer, 1));
	look("by a signal", set, 5000);
	sigset_t some, none;
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, &none);
	struct epoll_event ready;
	interrupt_after(20, 0);
	result("blocked", epoll_wait(set, &ready, 1, 60));
	result("epoll_pwait lets it in", epoll_pwait(set, &ready, 1, 5000, &none));
	no_interrupts();
	sigprocmask(SIG_SETMASK, &none, NULL);
	result("epoll_pwait2", epoll_pwait2(set, &ready, 1, &(struct timespec){.tv_nsec = 20000000}, NULL));
	close(pipes[0]);
	close(pipes[1]);
	close(set);
	close(fd);
}

static void nested(void)
{
	int fd = pair(0), inner = new_set(fd, EPOLLIN), outer = new_set(inner, EPOLLIN);
	struct pollfd one = {.fd = inner, .events = POLLIN};
	look("nothing", outer, 0);
	poll_shows("poll of the inner", &one, 0);
	peer("after 40 send 0 1");
	look("outer", outer, PATIENCE);
	look("inner", inner, 0);
	poll_shows("poll of the inner", &one, 0);
	result("read", read(fd, buffer, 1));
	look("outer", outer, 0);
	peer("after 40 send 0 1");
	poll_shows("poll waits for the inner", &one, PATIENCE);
	result("a circle", control(inner, EPOLL_CTL_ADD, outer, EPOLLIN, 1));
	close(outer);
	close(inner);
	close(fd);
}

static void ends(void)
{
	int fd = pair(0), set = new_set(fd, 0);
	look("connected", set, 0);
	control(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 0xfedcba9876543210);
	peer("shut 0");
	settled(fd, POLLRDHUP);
	look("half closed", set, 0);
	shutdown(fd, SHUT_WR);
	settled(fd, POLLHUP);
	look("closed", set, 0);
	close(fd);
	look("gone", set, 0);
	fd = pair(0);
	control(set, EPOLL_CTL_ADD, fd, 0, 0xfedcba9876543210);
	peer("reset 0");
	look("reset", set, PATIENCE);
	close(fd);
	fd = tcp(0);
	control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 0xfedcba9876543210);
	look("not connected", set, 0);
	close(fd);
	close(set);
}

static void connects(void)
{
	int port = fresh_port(), fd = tcp(SOCK_NONBLOCK), set = new_set(fd, EPOLLIN | EPOLLOUT | EPOLLET);
	struct epoll_event ready;
	peer("listen %d", port);
	while (epoll_wait(set, &ready, 1, 0) > 0)
		;
	connect(fd, at(&theirs, port), address_length);
	look("connected", set, PATIENCE);
	close(fd);
	fd = tcp(SOCK_NONBLOCK);
	connect(fd, at(&theirs, fresh_port()), address_length);
	control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 0xfedcba9876543210);
	look("refused", set, PATIENCE);
	close(fd);
	close(set);
}

static void listens(void)
{
	int port = fresh_port(), fd = listener(SOCK_NONBLOCK, port), set = new_set(fd, EPOLLIN | EPOLLET);
	look("nobody", set, 0);
	peer("after 30 connect 0 %d", port);
	look("somebody", set, PATIENCE);
	look("once only", set, 0);
	peer("after 30 connect 1 %d", port);
	look("somebody else", set, PATIENCE);
	close(accept(fd, NULL, NULL));
	close(accept(fd, NULL, NULL));
	control(set, EPOLL_CTL_MOD, fd, EPOLLIN, 0xfedcba9876543210);
	look("nobody", set, 0);
	peer("connect 2 %d", port);
	look("somebody", set, PATIENCE);
	look("still", set, 0);
	close(fd);
	close(set);
}

/* A set watches what is behind a descriptor: a copy keeps it (epoll(7)). */
static void copies(void)
{
	int fd = pair(0), copy = dup(fd), set = new_set(fd, EPOLLIN);
	peer("send 0 1");
	arrived(fd, 1);
	result("the copy can be added too", control(set, EPOLL_CTL_ADD, copy, EPOLLIN, 0xfedcba9876543210));
	struct epoll_event ready[4];
	result("both are ready", epoll_wait(set, ready, 4, 0));
	epoll_ctl(set, EPOLL_CTL_DEL, copy, NULL);
	close(fd);
	look("still watched", set, 0);
	close(copy);
	look("gone", set, 0);
	close(set);
}

const struct test epolling[] = {{"level", level},
								{"edge", edge},
								{"edge of room", edge_of_room},
								{"one shot", one_shot},
								{"one shot, edge", one_shot_edge},
								{"exclusive", exclusive},
								{"errors", errors},
								{"together", together},
								{"woken", woken},
								{"nested", nested},
								{"ends", ends},
								{"connects", connects},
								{"listens", listens},
								{"copies", copies},
								{0}};
