/*
 * Contexts and threads, signals and sleeping calls.
 *
 *   threads CONF
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <mtcp_api.h>
#include <mtcp_epoll.h>

#include "check.h"

static mctx_t ctx;
static int signals;

static void
on_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, run, arg) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void *
refused(void *arg)
{
	UNUSED(arg);
	FAILS(EPERM, mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0));
	FAILS(EPERM, mtcp_epoll_create(ctx, 1));
	FAILS(EPERM, mtcp_close(ctx, 0));
	return NULL;
}

static void *
taken(void *arg)
{
	int *id = arg;

	*id = mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0);
	CHECK(*id >= 0);
	return NULL;
}

/* Made by one thread, used by another, then by the first again: one after the other is fine. */
static void
handing_over(void)
{
	int id = -1;

	ctx = mtcp_create_context(0);
	CHECK(ctx != NULL);
	on_thread(taken, &id);
	CHECK(mtcp_close(ctx, id) == 0);
	on_thread(refused, NULL);
	mtcp_destroy_context(ctx);
	FAILS(EINVAL, mtcp_close(ctx, id));
}

static void *
waits_for_its_end(void *arg)
{
	struct mtcp_epoll_event event;
	pthread_barrier_t *ready = arg;
	int ep = mtcp_epoll_create(ctx, 1);

	CHECK(ep >= 0);
	pthread_barrier_wait(ready);
	/* EINTR, or EPERM if the end came before the wait began. */
	CHECK(mtcp_epoll_wait(ctx, ep, &event, 1, -1) == -1 && (errno == EINTR || errno == EPERM));
	FAILS(EPERM, mtcp_epoll_wait(ctx, ep, &event, 1, -1));
	FAILS(EPERM, mtcp_close(ctx, ep));
	return NULL;
}

/* A context that another thread destroys ends the calls of its own, and goes with it. */
static void
destroying_from_elsewhere(void)
{
	pthread_barrier_t ready;
	pthread_t thread;

	ctx = mtcp_create_context(1);
	CHECK(ctx != NULL);
	pthread_barrier_init(&ready, NULL, 2);
	CHECK(pthread_create(&thread, NULL, waits_for_its_end, &ready) == 0);
	pthread_barrier_wait(&ready);
	mtcp_destroy_context(ctx);
	CHECK(pthread_join(thread, NULL) == 0);
	FAILS(EINVAL, mtcp_close(ctx, 0));
}

/* ---- signals ---- */

static void
on_signal(int signum)
{
	CHECK(signum == SIGALRM);
	signals++;
	/* Into a call that is under way: refused, not mad. */
	FAILS(EDEADLK, mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0));
	errno = 12345;
}

static void
alarm_in(int ms)
{
	struct itimerval timer = { .it_value = { .tv_usec = ms * 1000 } };

	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static int
listener(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(80) };
	int s = mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0);

	CHECK(mtcp_bind(ctx, s, (struct sockaddr *)&addr, sizeof addr) == 0);
	CHECK(mtcp_listen(ctx, s, 5) == 0);
	return s;
}

static void
interrupting(void)
{
	struct mtcp_epoll_event event;
	int ep, s;

	/* No handler is ours until we ask for one. */
	CHECK(signal(SIGINT, SIG_DFL) == SIG_DFL && signal(SIGUSR1, SIG_DFL) == SIG_DFL);
	CHECK(mtcp_register_signal(SIGALRM, on_signal) == SIG_DFL);
	CHECK(mtcp_register_signal(SIGALRM, on_signal) == on_signal);
	errno = 0;
	CHECK(mtcp_register_signal(SIGKILL, on_signal) == SIG_ERR && errno == EINVAL);

	ctx = mtcp_create_context(2);
	CHECK(ctx != NULL);
	ep = mtcp_epoll_create(ctx, 1);
	s = listener();
	alarm_in(20);
	FAILS(EINTR, mtcp_epoll_wait(ctx, ep, &event, 1, -1));
	CHECK(signals == 1);
	alarm_in(20);
	FAILS(EINTR, mtcp_accept(ctx, s, NULL, NULL));
	CHECK(signals == 2);
	CHECK(mtcp_register_signal(SIGALRM, SIG_IGN) == on_signal);
	alarm_in(1);
	CHECK(mtcp_epoll_wait(ctx, ep, &event, 1, 30) == 0);
	CHECK(signals == 2);
	CHECK(mtcp_register_signal(SIGALRM, SIG_DFL) == SIG_IGN);
}

static void
plain(int signum)
{
	CHECK(signum == SIGALRM);
	signals++;
}

/* Handlers that the library knows nothing of. */
static void
interrupting_plainly(void)
{
	struct sigaction action = { .sa_handler = plain };
	struct mtcp_epoll_event event;
	int ep = mtcp_epoll_create(ctx, 1), s = mtcp_socket(ctx, AF_INET, SOCK_STREAM, 0);

	CHECK(ep >= 0 && mtcp_listen(ctx, s, 5) == 0);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	signals = 0;
	alarm_in(20);
	FAILS(EINTR, mtcp_epoll_wait(ctx, ep, &event, 1, -1));
	alarm_in(20);
	FAILS(EINTR, mtcp_epoll_wait(ctx, ep, &event, 1, 60000));
	alarm_in(20);
	FAILS(EINTR, mtcp_accept(ctx, s, NULL, NULL));
	CHECK(signals == 3);
	/* Once each. */
	CHECK(mtcp_epoll_wait(ctx, ep, &event, 1, 1) == 0);
	action.sa_flags = SA_RESTART;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	alarm_in(20);
	FAILS(EINTR, mtcp_epoll_wait(ctx, ep, &event, 1, -1));
	CHECK(signals == 4);
	CHECK(signal(SIGALRM, SIG_DFL) == plain);
	CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, ep) == 0);
}

/* A core's context can be made again, by any thread. */
static void
beginning_anew(void)
{
	int id = -1, i;

	for (i = 0; i < 3; i++) {
		ctx = mtcp_create_context(0);
		CHECK(ctx != NULL);
		CHECK(mtcp_create_context(0) == NULL && errno == EEXIST);
		on_thread(taken, &id);
		CHECK(id == 0);
		mtcp_destroy_context(ctx);
	}
	/* The thread of this core's context destroyed it when it ended. */
	ctx = mtcp_create_context(1);
	CHECK(ctx != NULL);
	on_thread(taken, &id);
	CHECK(id == 0);
	mtcp_destroy_context(ctx);
}

/* Sleeping costs nothing: neither this thread's nor a stack thread's time. */
static void
sleeping(void)
{
	struct mtcp_epoll_event event;
	struct timespec before, after;
	int ep = mtcp_epoll_create(ctx, 1);
	long ms;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	CHECK(mtcp_epoll_wait(ctx, ep, &event, 1, 500) == 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	if (ms >= 50)
		fprintf(stderr, "%ld ms of 500 asleep\n", ms);
	CHECK(ms < 50);
}

int
main(int argc, char **argv)
{
	struct mtcp_conf conf = { .num_cores = 3 };

	if (argc != 2)
		return 2;
	/* Whoever started us in the background may have had SIGINT ignored. */
	signal(SIGINT, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
	CHECK(mtcp_setconf(&conf) == 0);
	CHECK(mtcp_init(argv[1]) == 0);
	CHECK(mtcp_getconf(&conf) == 0 && conf.num_cores == 3);
	handing_over();
	destroying_from_elsewhere();
	interrupting();
	interrupting_plainly();
	sleeping();
	beginning_anew();
	mtcp_destroy();
	return check_result("threads");
}
