/* What handlers of signals may do that interrupt calls on sockets. The first word says what is tried, the others are our address and a port. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include "common.h"

/* How often calls are to be interrupted, at least. */
#define TIMES 200

static volatile sig_atomic_t interrupted, failed;
static int fds[2], listens;

/* A connection to ourselves, both ends. */
static void connection(void)
{
    int fd = listens = listener(8);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(fds[0], (struct sockaddr *)&ours, sizeof ours) == 0, "connect");
    fds[1] = accepted(fd);
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    need(sigaction(signal, &action, 0) == 0, "sigaction");
}

/* A message there, and back. */
static void exchange(void)
{
    char text[64];
    need(write(fds[0], "hello", 5) == 5 && read(fds[1], text, sizeof text) == 5, "there");
    need(write(fds[1], "hello", 5) == 5 && read(fds[0], text, sizeof text) == 5, "back");
}

/* A signal in a moment, which is another each time. */
static void next_signal(void)
{
    static struct itimerval soon = {.it_value.tv_usec = 30};
    soon.it_value.tv_usec = 20 + (soon.it_value.tv_usec * 7 + 13) % 400;
    setitimer(ITIMER_REAL, &soon, 0);
}

/* What does not wait: it may be made where another is interrupted. */
static int looks_fine(int fd)
{
    int error = -1;
    socklen_t len = sizeof error;
    struct pollfd wait = {fd, POLLOUT, 0};
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0 && poll(&wait, 1, 0) == 1;
}

/* --- calls: of a handler on sockets do what they do elsewhere --- */

static void looks(int signal)
{
    int saved = errno;
    (void)signal;
    failed |= !looks_fine(fds[0]);
    interrupted++;
    errno = saved;
}

static void calls(void)
{
    connection();
    handle(SIGALRM, looks);
    while (interrupted < TIMES && !failed) {
        next_signal();
        exchange();
    }
    need(!failed, "a call of a handler");
}

/* --- forked: a handler makes a child, which goes on where its parent was --- */

static volatile pid_t child;

static void forks(int signal)
{
    int saved = errno;
    (void)signal;
    if (child == 0) {
        child = fork();
        failed |= child < 0 || !looks_fine(fds[0]);
        if (child == 0)
            child = -1;
        interrupted++;
    }
    errno = saved;
}

static void forked(void)
{
    connection();
    handle(SIGALRM, forks);
    while (interrupted < TIMES && !failed) {
        next_signal();
        for (int i = 0; child == 0; i++)
            need(looks_fine(fds[i % 2]), "a call that was interrupted");
        need(looks_fine(fds[0]) && !failed, "a call after the fork");
        if (child < 0)
            _exit(0);
        waits_for(child);
        child = 0;
    }
    exchange();
}

/* --- told: what the program asks of its handlers is what it said --- */

static void takes_info(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal == SIGUSR1 && info->si_code == SI_QUEUE && info->si_value.sival_int == 42)
        interrupted++;
}

static void takes_signal(int signal)
{
    interrupted += signal == SIGUSR2;
}

static void told(void)
{
    struct sigaction action = {.sa_sigaction = takes_info, .sa_flags = SA_SIGINFO | SA_NODEFER}, old;
    sigaddset(&action.sa_mask, SIGHUP);
    need(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL, "the default");
    need(sigaction(SIGUSR1, 0, &old) == 0 && old.sa_sigaction == takes_info, "the handler");
    need((old.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_RESETHAND)) == (SA_SIGINFO | SA_NODEFER), "its flags");
    need(sigismember(&old.sa_mask, SIGHUP) == 1 && sigismember(&old.sa_mask, SIGINT) == 0, "its mask");
    need(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 42}) == 0 && interrupted == 1, "a value");
    /* Once. */
    action = (struct sigaction){.sa_handler = takes_signal, .sa_flags = SA_RESETHAND};
    need(sigaction(SIGUSR2, &action, 0) == 0, "sigaction");
    need(sigaction(SIGUSR2, 0, &old) == 0 && old.sa_handler == takes_signal, "the other handler");
    need((old.sa_flags & (SA_SIGINFO | SA_RESETHAND)) == SA_RESETHAND, "the flags of that");
    raise(SIGUSR2);
    need(interrupted == 2 && sigaction(SIGUSR2, 0, &old) == 0 && old.sa_handler == SIG_DFL, "once");
    /* By the other calls. */
    need(signal(SIGUSR2, takes_signal) == SIG_DFL && signal(SIGUSR2, SIG_IGN) == takes_signal, "signal");
    need(signal(SIGUSR2, takes_signal) == SIG_IGN, "ignored before");
    raise(SIGUSR2);
    raise(SIGUSR2);
    need(interrupted == 4 && signal(SIGUSR2, SIG_DFL) == takes_signal, "more than once");
    need(sysv_signal(SIGUSR2, takes_signal) == SIG_DFL, "sysv_signal");
    raise(SIGUSR2);
    need(interrupted == 5 && signal(SIGUSR2, SIG_DFL) == SIG_DFL, "once by sysv_signal");
    need(signal(SIGKILL, takes_signal) == SIG_ERR && errno == EINVAL, "SIGKILL");
    need(sigaction(1000, &action, 0) < 0 && errno == EINVAL, "no signal");
    /* A child that shares our memory leaves ours alone. */
    signal(SIGUSR2, takes_signal);
    pid_t child = vfork();
    if (child == 0) {
        signal(SIGUSR2, SIG_DFL);
        _exit(0);
    }
    waits_for(child);
    raise(SIGUSR2);
    need(interrupted == 6, "ours after vfork");
}

/* --- cancelled: a thread that waits in a call ends there, and what it held goes on without it --- */

static int instances[2], pipes[2], cleaned;
static volatile pid_t waiting;

static void clean(void *argument)
{
    (void)argument;
    cleaned++;
}

static void in_read(void)
{
    char text[64];
    need(read(fds[0], text, sizeof text) < 0, "a read that was cancelled");
}

static void in_recvmsg(void)
{
    char text[64];
    struct iovec part = {text, sizeof text};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    need(recvmsg(fds[0], &message, 0) < 0, "a recvmsg that was cancelled");
}

static void in_accept(void)
{
    need(accept(listens, 0, 0) < 0, "an accept that was cancelled");
}

static void in_poll(void)
{
    struct pollfd wait = {fds[0], POLLIN, 0};
    need(poll(&wait, 1, -1) < 0, "a poll that was cancelled");
}

static void in_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    need(select(fds[0] + 1, &set, 0, 0, 0) < 0, "a select that was cancelled");
}

static void in_epoll(int instance)
{
    struct epoll_event event;
    need(epoll_wait(instance, &event, 1, -1) < 0, "an epoll_wait that was cancelled");
}

static void in_epoll_of_ours(void)
{
    in_epoll(instances[0]);
}

static void in_epoll_of_the_kernels(void)
{
    in_epoll(instances[1]);
}

static void in_pipe(void)
{
    char text[64];
    need(read(pipes[0], text, sizeof text) < 0, "a read of a pipe that was cancelled");
}

static void *waits(void *call)
{
    pthread_cleanup_push(clean, 0);
    waiting = gettid();
    ((void (*)(void))call)();
    pthread_cleanup_pop(0);
    return 0;
}

/* It sleeps, or has ended. */
static int sleeps(pid_t thread)
{
    char path[64], state = 'S';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d %*s %c", &state) != 1)
        state = 'S';
    if (file)
        fclose(file);
    return state == 'S';
}

static void watched(int instance, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    need(epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static void (*const calls_that_wait[])(void) = {
    in_read, in_epoll_of_the_kernels, in_accept, in_recvmsg, in_poll, in_select, in_epoll_of_ours, in_pipe,
};
enum { CALLS = sizeof calls_that_wait / sizeof *calls_that_wait };

static void *is_deaf(void *argument)
{
    char text[64];
    (void)argument;
    pthread_cleanup_push(clean, 0);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
    waiting = gettid();
    need(read(fds[0], text, sizeof text) == 5, "a read of a thread that cannot be cancelled");
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
    read(fds[0], text, sizeof text);
    pthread_cleanup_pop(0);
    return 0;
}

static void end_one(void *(*body)(void *), void *argument, const char *text)
{
    pthread_t thread;
    void *result = 0;
    int before = cleaned;
    waiting = 0;
    need(pthread_create(&thread, 0, body, argument) == 0, "pthread_create");
    while (waiting == 0 || !sleeps(waiting))
        usleep(1000);
    need(pthread_cancel(thread) == 0, "pthread_cancel");
    if (text)
        need(write(fds[1], text, strlen(text)) == (long)strlen(text), "write");
    need(pthread_join(thread, &result) == 0, "pthread_join");
    need(result == PTHREAD_CANCELED && cleaned == before + 1, "cancelled");
}

static void cancelled_first_in(int first)
{
    alarm(60);
    connection();
    need(pipe(pipes) == 0, "pipe");
    for (int i = 0; i < 2; i++)
        instances[i] = epoll_create1(0);
    watched(instances[0], fds[0]);
    watched(instances[1], pipes[0]);
    for (int i = 0; i < CALLS; i++) {
        end_one(waits, (void *)calls_that_wait[(first + i) % CALLS], 0);
        exchange();
    }
    end_one(is_deaf, 0, "hello");
    exchange();
}

static void cancelled(void)
{
    cancelled_first_in(0);
}

static void cancelled_in_kernel(void)
{
    cancelled_first_in(1);
}

static const struct named cases[] = {
    {"cancelled", cancelled},
    {"cancelled_in_kernel", cancelled_in_kernel},
    {"calls", calls},
    {"forked", forked},
    {"told", told},
};

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    address_is(words[2], words[3]);
    return run_case(cases, sizeof cases / sizeof *cases, words[1]);
}
