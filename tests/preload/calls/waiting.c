/* select, pselect, poll, ppoll: over our sockets and the kernel's descriptors together. */
#include "calls.h"

#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static unsigned char buffer[4096];

static void look(const char *what, int fd, int wanted, int timeout)
{
	struct pollfd one = {.fd = fd, .events = wanted};
	poll_shows(what, &one, timeout);
}

static void with_poll(void)
{
	int fd = pair(0);
	look("nothing to read", fd, POLLIN, 0);
	look("room to write", fd, POLLOUT, 0);
	look("both", fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0);
	look("all kinds", fd, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND, 0);
	long start = now();
	look("with a timeout", fd, POLLIN, 60);
	holds("waited", now() - start >= 50);
	start = now();
	peer("after 50 send 0 10");
	look("until data comes", fd, POLLIN | POLLRDNORM, PATIENCE);
	holds("waited", now() - start >= 30);
	look("nothing wanted", fd, 0, 0);
	peer("after 50 close 0");
	look("until the end", fd, POLLRDHUP, PATIENCE);
	close(fd);
	look("when closed", fd, POLLIN, 0);
	look("minus one", -1, POLLIN, 10);
	result("no descriptors", poll(NULL, 0, 10));
}

static void together(void)
{
	int fd = pair(0), other = pair(1), counter = eventfd(0, 0);
	struct pollfd all[4] = {{fd, POLLIN, 0}, {counter, POLLIN, 0}, {other, POLLIN, 0}, {-1, POLLIN, 0}};
	result("none ready", poll(all, 4, 10));
	uint64_t one = 1;
	if (write(counter, &one, sizeof one) != sizeof one)
		fail("eventfd: %m");
	result("the kernel's", poll(all, 4, PATIENCE));
	say("which", "%x %x %x", all[0].revents, all[1].revents, all[2].revents);
	peer("send 0 1");
	arrived(fd, 1);
	result("both", poll(all, 4, PATIENCE));
	say("which", "%x %x %x", all[0].revents, all[1].revents, all[2].revents);
	if (read(counter, &one, sizeof one) != sizeof one)
		fail("eventfd: %m");
	result("ours", poll(all, 4, PATIENCE));
	say("which", "%x %x %x", all[0].revents, all[1].revents, all[2].revents);
	result("read", read(fd, buffer, 1));
	all[1] = (struct pollfd){fd, POLLIN | POLLOUT, 0};
	peer("after 40 send 1 1");
	result("the same twice", poll(all, 4, PATIENCE));
	say("which", "%x %x %x", all[0].revents, all[1].revents, all[2].revents);
	close(fd);
	close(other);
	close(counter);
}

/* A descriptor of the kernel ends a wait for ours, and the other way round. */
static void woken(void)
{
	int fd = pair(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec soon = {.it_value.tv_nsec = 50000000};
	struct pollfd all[2] = {{fd, POLLIN, 0}, {timer, POLLIN, 0}};
	timerfd_settime(timer, 0, &soon, NULL);
	result("by a timer", poll(all, 2, PATIENCE));
	say("which", "%x %x", all[0].revents, all[1].revents);
	soon.it_value.tv_sec = 100;
	timerfd_settime(timer, 0, &soon, NULL);
	peer("after 50 send 0 1");
	result("by data", poll(all, 2, PATIENCE));
	say("which", "%x %x", all[0].revents, all[1].revents);
	close(timer);
	close(fd);
}

static void interrupted(void)
{
	int fd = pair(0);
	struct pollfd one = {.fd = fd, .events = POLLIN};
	struct timespec limit = {.tv_sec = 5};
	sigset_t none, usual;
	interrupt_after(40, 0);
	result("poll", poll(&one, 1, 5000));
	interrupt_after(40, SA_RESTART);
	result("poll is never restarted", poll(&one, 1, 5000));
	sigemptyset(&none);
	sigaddset(&none, SIGUSR1);
	sigprocmask(SIG_BLOCK, &none, &usual);
	interrupt_after(20, 0);
	result("poll with the signal blocked", poll(&one, 1, 60));
	sigemptyset(&none);
	result("ppoll lets it in", ppoll(&one, 1, &limit, &none));
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	interrupt_after(20, 0);
	result("pselect lets it in", pselect(fd + 1, &set, NULL, NULL, &limit, &none));
	sigprocmask(SIG_SETMASK, &usual, NULL);
	interrupt_after(40, 0);
	struct timeval patient = {.tv_sec = 5};
	FD_ZERO(&set);
	FD_SET(fd, &set);
	result("select", select(fd + 1, &set, NULL, NULL, &patient));
	close(fd);
}

static void with_select(void)
{
	int fd = pair(0), counter = eventfd(1, 0), most = fd > counter ? fd : counter;
	fd_set in, out, odd;
	struct timeval none = {0}, soon = {.tv_usec = 60000};
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&odd);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	FD_SET(fd, &odd);
	FD_SET(counter, &in);
	result("select", select(most + 1, &in, &out, &odd, &none));
	say("which", "%d %d %d, %d", !!FD_ISSET(fd, &in), !!FD_ISSET(fd, &out), !!FD_ISSET(fd, &odd), !!FD_ISSET(counter, &in));
	FD_ZERO(&in);
	FD_SET(fd, &in);
	long start = now();
	result("with a timeout", select(fd + 1, &in, NULL, NULL, &soon));
	holds("waited", now() - start >= 50);
	holds("no time is left", soon.tv_sec == 0 && soon.tv_usec == 0);
	holds("the set is empty", !FD_ISSET(fd, &in));
	FD_SET(fd, &in);
	peer("after 40 send 0 5");
	struct timespec long_enough = {.tv_sec = PATIENCE / 1000};
	result("pselect", pselect(fd + 1, &in, NULL, NULL, &long_enough, NULL));
	holds("ours", FD_ISSET(fd, &in));
	peer("close 0");
	settled(fd, POLLRDHUP);
	result("read", read(fd, buffer, 100));
	FD_ZERO(&in);
	FD_SET(fd, &in);
	result("at the end", select(fd + 1, &in, NULL, NULL, &none));
	close(fd);
	FD_ZERO(&in);
	FD_SET(fd, &in);
	result("when closed", select(fd + 1, &in, NULL, NULL, &none));
	result("a negative count", select(-1, &in, NULL, NULL, &none));
	close(counter);
}

static void listeners(void)
{
	int port = fresh_port(), waiting_fd = listener(SOCK_NONBLOCK, port);
	look("nobody", waiting_fd, POLLIN | POLLOUT, 0);
	peer("after 50 connect 0 %d", port);
	look("somebody", waiting_fd, POLLIN | POLLOUT, PATIENCE);
	peer("connect 1 %d", port);
	int fd = accept(waiting_fd, NULL, NULL);
	settled(waiting_fd, POLLIN);
	look("another", waiting_fd, POLLIN, 0);
	close(fd);
	close(accept(waiting_fd, NULL, NULL));
	look("nobody", waiting_fd, POLLIN, 0);
	close(waiting_fd);
}

static void unconnected(void)
{
	int fd = tcp(0);
	look("new", fd, POLLIN | POLLOUT | POLLRDHUP, 0);
	int result_of_bind = bind(fd, at(&ours, fresh_port()), address_length);
	result("bind", result_of_bind);
	look("bound", fd, POLLIN | POLLOUT | POLLRDHUP, 0);
	close(fd);
}

const struct test waiting[] = {{"with poll", with_poll},     {"together", together},       {"woken", woken},
							   {"interrupted", interrupted}, {"with select", with_select}, {"listeners", listeners},
							   {"unconnected", unconnected}, {0}};
