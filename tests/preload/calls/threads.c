/* Any thread may use any socket. */
#include "calls.h"

#include <sys/eventfd.h>

struct work {
	int fd;
	int set;
	int milliseconds;
	long value;
	int error;
};

static pthread_t start(void *(*body)(void *), struct work *work)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, body, work) != 0)
		fail("no thread");
	return thread;
}

static void ended(const char *what, pthread_t thread, struct work *work)
{
	pthread_join(thread, NULL);
	errno = work->error;
	result(what, work->value);
}

static void *read_ten(void *argument)
{
	struct work *work = argument;
	char ten[10];
	work->value = recv(work->fd, ten, 10, MSG_WAITALL);
	work->error = errno;
	return NULL;
}

static void *accept_one(void *argument)
{
	struct work *work = argument;
	int fd = accept(work->fd, NULL, NULL);
	work->error = errno;
	work->value = fd == -1 ? -1 : 0;
	if (fd != -1)
		close(fd);
	return NULL;
}

static void *wait_one(void *argument)
{
	struct work *work = argument;
	struct epoll_event ready;
	work->value = epoll_wait(work->set, &ready, 1, PATIENCE);
	work->error = errno;
	return NULL;
}

static void *poll_one(void *argument)
{
	struct work *work = argument;
	struct pollfd one = {.fd = work->fd, .events = POLLIN};
	work->value = poll(&one, 1, PATIENCE);
	work->error = errno;
	return NULL;
}

static void *send_later(void *argument)
{
	struct work *work = argument;
	usleep(work->milliseconds * 1000);
	send_all(work->fd, 0, 10);
	return NULL;
}

static void one_reads_one_writes(void)
{
	int fd = pair(0);
	struct work reader = {.fd = fd}, writer = {.fd = fd, .milliseconds = 30};
	pthread_t reading = start(read_ten, &reader), writing = start(send_later, &writer);
	result("peer receives", peer("receive 0 10"));
	peer("send 0 10");
	ended("read", reading, &reader);
	pthread_join(writing, NULL);
	close(fd);
}

static void woken_by_shutdown(void)
{
	int fd = pair(0);
	struct work reader = {.fd = fd};
	pthread_t reading = start(read_ten, &reader);
	usleep(50000);
	result("shutdown", shutdown(fd, SHUT_RDWR));
	ended("read", reading, &reader);
	close(fd);
	int waiting_fd = listener(0, fresh_port());
	struct work server = {.fd = waiting_fd};
	pthread_t accepting_thread = start(accept_one, &server);
	usleep(50000);
	result("shutdown of a listener", shutdown(waiting_fd, SHUT_RD));
	ended("accept", accepting_thread, &server);
	close(waiting_fd);
}

static void *connect_to_nobody(void *argument)
{
	struct work *work = argument;
	struct sockaddr_storage nowhere = theirs;
	if (nowhere.ss_family == AF_INET)
		((struct sockaddr_in *)&nowhere)->sin_addr.s_addr ^= htonl(0x70);
	else
		((struct sockaddr_in6 *)&nowhere)->sin6_addr.s6_addr[15] ^= 0x70;
	work->value = connect(work->fd, (struct sockaddr *)at(&nowhere, 80), address_length);
	work->error = errno;
	return NULL;
}

static void connect_ended_by_shutdown(void)
{
	int fd = tcp(0);
	struct work client = {.fd = fd};
	pthread_t connecting_thread = start(connect_to_nobody, &client);
	usleep(50000);
	result("shutdown", shutdown(fd, SHUT_RDWR));
	ended("connect", connecting_thread, &client);
	close(fd);
}

static void several_accept(void)
{
	enum { MANY = 4 };
	int port = fresh_port(), waiting_fd = listener(0, port), good = 0;
	struct work servers[MANY];
	pthread_t running[MANY];
	for (int i = 0; i < MANY; i++) {
		servers[i] = (struct work){.fd = waiting_fd};
		running[i] = start(accept_one, &servers[i]);
	}
	usleep(30000);
	for (int i = 0; i < MANY; i++)
		peer("connect %d %d", i, port);
	for (int i = 0; i < MANY; i++) {
		pthread_join(running[i], NULL);
		good += servers[i].value == 0;
	}
	say("accepted", "%d", good);
	close(waiting_fd);
}

static void several_wait(void)
{
	int fd = pair(0), other = pair(1), set = epoll_create1(0), second = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
	epoll_ctl(second, EPOLL_CTL_ADD, other, &event);
	struct work one = {.set = set}, two = {.set = second}, three = {.fd = fd};
	pthread_t threads_of[] = {start(wait_one, &one), start(wait_one, &two), start(poll_one, &three)};
	usleep(30000);
	peer("send 0 10");
	ended("epoll_wait", threads_of[0], &one);
	ended("poll", threads_of[2], &three);
	peer("send 1 10");
	ended("the second epoll_wait", threads_of[1], &two);
	close(set);
	close(second);
	close(fd);
	close(other);
}

/* What is added while another thread waits counts. */
static void added_while_waiting(void)
{
	int fd = pair(0), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	struct work one = {.set = set};
	pthread_t waiting_thread = start(wait_one, &one);
	usleep(40000);
	peer("send 0 1");
	arrived(fd, 1);
	result("EPOLL_CTL_ADD", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
	ended("epoll_wait", waiting_thread, &one);
	close(set);
	close(fd);
}

static void *echo(void *argument)
{
	struct work *work = argument;
	char room[2000];
	long total = 0;
	for (ssize_t got; (got = read(work->fd, room, sizeof room)) > 0; total += got)
		if (write(work->fd, room, got) != got)
			break;
	work->value = total;
	close(work->fd);
	return NULL;
}

/* Each connection has a thread, as in many servers. */
static void thread_each(void)
{
	enum { MANY = 8, ROUNDS = 20 };
	struct work each[MANY];
	pthread_t running[MANY];
	long good = 0;
	for (int i = 0; i < MANY; i++) {
		each[i] = (struct work){.fd = pair(i)};
		running[i] = start(echo, &each[i]);
	}
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < MANY; i++) {
			peer("send %d 500", i);
			good += peer("receive %d 500", i) == 500;
		}
	say("echoes", "%ld", good);
	for (int i = 0; i < MANY; i++) {
		peer("shut %d", i);
		pthread_join(running[i], NULL);
		holds("all was read", each[i].value == 500 * ROUNDS);
	}
}

/* Made in one thread, used in another, closed in a third. */
static void *dial(void *argument)
{
	struct work *work = argument;
	work->fd = pair(0);
	return NULL;
}

static void *close_it(void *argument)
{
	struct work *work = argument;
	work->value = close(work->fd);
	work->error = errno;
	return NULL;
}

static void passed_on(void)
{
	struct work made = {0};
	pthread_join(start(dial, &made), NULL);
	send_all(made.fd, 0, 10);
	result("peer receives", peer("receive 0 10"));
	ended("close", start(close_it, &made), &made);
	result("peer at the end", peer("receive 0 1"));
}

const struct test threads[] = {{"one reads, one writes", one_reads_one_writes},
							   {"woken by shutdown", woken_by_shutdown},
							   {"connect ended by shutdown", connect_ended_by_shutdown},
							   {"several accept", several_accept},
							   {"several wait", several_wait},
							   {"added while waiting", added_while_waiting},
							   {"thread each", thread_each},
							   {"passed on", passed_on},
							   {0}};
