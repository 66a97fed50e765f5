/* What handlers of signals may do that interrupt calls on sockets. The first word says what is tried, the others are our address and a port. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include "common.h"

/* How often calls are to be interrupted, at least. */
#define TIMES 200

static volatile sig_atomic_t interrupted, failed;
static int fds[2];

/* A connection to ourselves, both ends. */
static void connection(void)
{
    int fd = listener(8);
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

static const struct named cases[] = {
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
