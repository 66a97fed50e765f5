/* Handlers of signals that never return: siglongjmp out of calls that wait. What comes after is as if the call had not been made. */
#include "calls.h"

#include <setjmp.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>

/* How often a call is left: a signal may come before it is made. */
enum { TIMES = 5 };

static sigjmp_buf back;
static unsigned char buffer[64];

static void jump(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

/* A signal to this thread, again and again until `quiet`. */
static pthread_t jumper, signalled;
static volatile int jumping_ends;

static void *signals_come(void *argument)
{
	(void)argument;
	while (!jumping_ends) {
		usleep(20000);
		pthread_kill(signalled, SIGUSR2);
	}
	return NULL;
}

static void quiet(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	jumping_ends = 1;
	pthread_join(jumper, NULL);
	/* What has come meanwhile is ignored, and gone. */
	signal(SIGUSR2, SIG_IGN);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void leave_call(long (*call)(int), int fd)
{
	struct sigaction action = {.sa_handler = jump, .sa_flags = SA_RESTART};
	static volatile int left;
	for (left = 0; left < TIMES; left++) {
		if (sigsetjmp(back, 1) != 0)
			continue;
		if (left == 0) {
			signalled = pthread_self();
			jumping_ends = 0;
			sigaction(SIGUSR2, &action, NULL);
			if (pthread_create(&jumper, NULL, signals_come, NULL) != 0)
				fail("no thread");
		}
		fail("the call ended with %ld", call(fd));
	}
	quiet();
}

static long receives(int fd)
{
	return recv(fd, buffer, 1, 0);
}

static long polls(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	return poll(&one, 1, PATIENCE);
}

static long polls_masked(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	struct timespec patience = {.tv_sec = PATIENCE / 1000};
	sigset_t none;
	sigemptyset(&none);
	return ppoll(&one, 1, &patience, &none);
}

static long selects(int fd)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, NULL);
}

static long accepts(int fd)
{
	return accept(fd, NULL, NULL);
}

static long waits(int set)
{
	struct epoll_event ready;
	return epoll_wait(set, &ready, 1, -1);
}

static long waits_for_child(int child)
{
	return waitpid(child, NULL, 0);
}

/* What the peer sends next is received. */
static void still_receives(int fd)
{
	peer("after 50 send 0 10");
	result("received", recv(fd, buffer, 10, MSG_WAITALL));
	holds("what was sent", matches(buffer, 0, 10));
	send_all(fd, 0, 4);
	result("the peer has", peer("receive 0 4"));
}

static void out_of(long (*call)(int))
{
	int fd = pair(0);
	leave_call(call, fd);
	still_receives(fd);
	close(fd);
}

static void out_of_recv(void)
{
	out_of(receives);
}

static void out_of_poll(void)
{
	out_of(polls);
}

static void out_of_ppoll(void)
{
	out_of(polls_masked);
}

static void out_of_select(void)
{
	out_of(selects);
}

static void out_of_accept(void)
{
	int port = fresh_port(), waiting_fd = listener(0, port);
	leave_call(accepts, waiting_fd);
	result("peer connects", peer("connect 0 %d", port));
	int fd = accept(waiting_fd, NULL, NULL);
	descriptor("accepted", fd);
	close(fd);
	close(waiting_fd);
}

/* Of an instance with a descriptor of the kernel, and a socket later. */
static void out_of_epoll(void)
{
	int set = epoll_create1(0), counter = eventfd(0, 0), fd = pair(0);
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 1}, ready;
	epoll_ctl(set, EPOLL_CTL_ADD, counter, &event);
	leave_call(waits, set);
	event.data.u32 = 2;
	result("a socket", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
	clock_t before = clock();
	result("nothing", epoll_wait(set, &ready, 1, 300));
	holds("idle meanwhile", clock() - before < CLOCKS_PER_SEC / 10);
	peer("after 50 send 0 10");
	result("ready", epoll_wait(set, &ready, 1, PATIENCE));
	say("which", "%d", ready.data.u32);
	close(fd);
	close(counter);
	close(set);
}

static void *read_ten(void *argument)
{
	unsigned char ten[10];
	*(long *)argument = recv((int)*(long *)argument, ten, 10, MSG_WAITALL);
	return NULL;
}

/* Who has left a call does something else: others that wait are served. */
static void others_go_on(void)
{
	int fd = pair(0);
	long other = pair(1);
	pthread_t reading;
	leave_call(receives, fd);
	if (pthread_create(&reading, NULL, read_ten, &other) != 0)
		fail("no thread");
	peer("after 100 send 1 10");
	pthread_join(reading, NULL);
	result("the other read", other);
	leave_call(receives, fd);
	close(fd);
}

/* A child has the connection, too, and does not read: what comes is for who asks. */
static void out_of_waitpid(void)
{
	int fd = pair(0), ends[2];
	if (pipe(ends) != 0)
		fail("pipe: %m");
	pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit(read(ends[0], buffer, 1) != 0);
	}
	leave_call(waits_for_child, child);
	peer("send 0 10");
	long got = -1;
	for (long start = now(); got == -1 && now() - start < PATIENCE; usleep(50000))
		got = recv(fd, buffer, 10, MSG_DONTWAIT);
	result("received", got);
	close(ends[1]);
	result("child", waitpid(child, NULL, 0) == child);
	close(ends[0]);
	close(fd);
}

const struct test jumping[] = {{"out of recv", out_of_recv},
			       {"out of poll", out_of_poll},
			       {"out of ppoll", out_of_ppoll},
			       {"out of select", out_of_select},
			       {"out of accept", out_of_accept},
			       {"out of epoll_wait", out_of_epoll},
			       {"others go on", others_go_on},
			       {"out of waitpid", out_of_waitpid},
			       {NULL, NULL}};
