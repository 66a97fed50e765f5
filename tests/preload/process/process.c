/* What a process notices of the library beside its sockets: descriptors, memory, errno, its end. The first word says what is tried, the
 * others are our address and a port. Prints "ready" when a peer may come, and "fine" at the end. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

/* --- descriptors: those of the program stay its own while the stack starts --- */

enum { FILES = 400 };
static int files[FILES];
static volatile int opened;
static volatile int going = 1;

static void *open_files(void *unused)
{
    while (going && opened < FILES) {
        files[opened++] = open("/dev/null", O_RDONLY);
        usleep(200);
    }
    return unused;
}

static void descriptors(void)
{
    pthread_t thread;
    struct pollfd wait = {.events = POLLIN};
    pthread_create(&thread, 0, open_files, 0);
    wait.fd = listener(8);
    /* Starts the stack. */
    poll(&wait, 1, 100);
    while (opened == 0)
        usleep(1000);
    going = 0;
    pthread_join(thread, 0);
    need(opened > 0, "no files");
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < opened; i++)
            if (fcntl(files[i], F_GETFD) < 0)
                _exit(1);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    need(status == 0, "the child has not all files");
    for (int i = 0; i < opened; i++) {
        need(files[i] < 3 + FILES + 64, "a high number");
        need(close(files[i]) == 0, "close");
    }
    need(dup(0) == (wait.fd == 3 ? 4 : 3), "the lowest number that is free");
}

/* --- many: as many wait to be accepted as the host allows --- */

static void many(void)
{
    int fd = listener(-1);
    struct pollfd wait = {fd, POLLIN, 0};
    poll(&wait, 1, 0);
    say("ready");
    /* Nobody is accepted until the peer is done. */
    pause();
}

/* --- cleared: the settings were read before the environment was emptied --- */

static void cleared(void)
{
    clearenv();
    int fd = listener(8);
    say("ready");
    echo(accepted(fd));
}

/* --- dropped: capabilities are given up before there is a listener; became: by another user, who kept them --- */

extern int capset(cap_user_header_t header, const cap_user_data_t sets);

static void keep(unsigned permitted, unsigned effective)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{effective, permitted, 0}, {0, 0, 0}};
    need(capset(&header, sets) == 0, "capset");
}

static void serve_one(void)
{
    int fd = listener(8);
    say("ready");
    echo(accepted(fd));
}

static void dropped(void)
{
    unsigned low = 1u << CAP_NET_BIND_SERVICE;
    keep(low, low);
    serve_one();
}

static void became(void)
{
    unsigned low = 1u << CAP_NET_BIND_SERVICE;
    need(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0, "keep capabilities");
    need(setresuid(65534, 65534, 0) == 0, "become another user");
    keep(low, low);
    serve_one();
}

/* --- promised: what the stack does not do is refused, before it is known whose the connection is and after --- */

static void refuses(int fd)
{
    static const int options[][2] = {{SOL_SOCKET, SO_ZEROCOPY}, {SOL_SOCKET, SO_TXTIME}, {SOL_SOCKET, SO_TIMESTAMPING},
                                     {IPPROTO_TCP, TCP_REPAIR}, {IPPROTO_TCP, TCP_MD5SIG}, {IPPROTO_TCP, 36 /* TCP_INQ */}};
    char value[256] = {1};
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        int result = setsockopt(fd, options[i][0], options[i][1], value, sizeof value);
        need(result == -1 && errno == EOPNOTSUPP, "an option that promises");
    }
    int off = 0;
    need(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &off, sizeof off) == 0, "an option that is off");
}

static void promised(void)
{
    int fd = listener(8);
    refuses(fd);
    say("ready");
    int connection = accepted(fd);
    refuses(connection);
    echo(connection);
}

/* --- ended: the end of the program waits for no peer that does nothing --- */

static void ended(void)
{
    int fd = listener(8);
    say("ready");
    need(write(accepted(fd), "the last words", 14) == 14, "write");
}

/* --- gone: its peer is gone when it ends --- */

static void go_on(int signal)
{
    (void)signal;
}

static void gone(void)
{
    int fd = listener(8), made;
    struct sigaction action = {.sa_handler = go_on};
    sigset_t usual, blocked;
    sigaction(SIGUSR1, &action, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &usual);
    say("ready");
    made = accepted(fd);
    say("accepted");
    sigsuspend(&usual);
    need(write(made, "the last words", 14) == 14, "write");
}

/* --- memory: a child has none of the frames --- */

static long kilobytes(void)
{
    char line[128];
    long size = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmSize: %ld", &size);
    if (status)
        fclose(status);
    return size;
}

static void memory(void)
{
    int fd = listener(8), ends[2];
    long parent, child = 0;
    say("ready");
    echo(accepted(fd));
    need(pipe(ends) == 0, "pipe");
    parent = kilobytes();
    if (fork() == 0) {
        child = kilobytes();
        _exit(write(ends[1], &child, sizeof child) != sizeof child);
    }
    need(read(ends[0], &child, sizeof child) == sizeof child, "read");
    printf("%ld kB less\n", parent - child);
}

/* --- errno: calls that succeed leave it as it was --- */

#define QUIET(call)                                           \
    ({                                                        \
        errno = ENOTTY;                                       \
        long result_ = (call);                                \
        need(result_ >= 0, #call);                            \
        if (errno != ENOTTY) {                                \
            printf("%s: errno is %s\n", #call, strerror(errno)); \
            exit(1);                                          \
        }                                                     \
        result_;                                              \
    })

static void quiet(void)
{
    int one = 1, other;
    char text[64];
    struct pollfd wait = {.events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    int fd = QUIET(socket(AF_INET, SOCK_STREAM, 0));
    QUIET(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    QUIET(bind(fd, (struct sockaddr *)&ours, sizeof ours));
    QUIET(listen(fd, 8));
    int epoll = QUIET(epoll_create1(0));
    QUIET(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    say("ready");
    QUIET(epoll_wait(epoll, &event, 1, 10000));
    int made = QUIET(accept(fd, 0, 0));
    wait.fd = made;
    QUIET(poll(&wait, 1, 10000));
    QUIET(read(made, text, sizeof text));
    QUIET(write(made, text, 1));
    QUIET(setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
    QUIET(fcntl(made, F_SETFL, O_NONBLOCK));
    other = QUIET(dup(made));
    QUIET(close(other));
    pid_t child = QUIET(fork());
    if (child == 0)
        _exit(0);
    waitpid(child, 0, 0);
    QUIET(close(made));
    QUIET(close(epoll));
    QUIET(close(fd));
}

/* --- served: one echo --- */

static void served(void)
{
    int fd = listener(8);
    struct pollfd wait = {fd, POLLIN, 0};
    /* Starts the stack. */
    poll(&wait, 1, 0);
    say("ready");
    echo(accepted(fd));
}

/* --- numbers: every one that the program may have is its own --- */

static void numbers(void)
{
    struct rlimit limit;
    int fd = listener(8);
    struct pollfd wait = {fd, POLLIN, 0};
    /* Starts the stack. */
    poll(&wait, 1, 0);
    say("ready");
    echo(accepted(fd));
    need(getrlimit(RLIMIT_NOFILE, &limit) == 0, "limit");
    int file = open("/dev/null", O_RDONLY), end = limit.rlim_cur;
    for (int to = file + 1; to < end; to++)
        need(dup2(file, to) == to, "dup2");
    need(dup2(file, end) < 0 && errno == EBADF, "dup2 beyond the limit");
    for (int number = file + 1; number < end; number++)
        need(close(number) == 0, "close");
    need(fcntl(file, F_DUPFD, end - 1) == end - 1, "F_DUPFD");
    need(fcntl(file, F_DUPFD, end) < 0 && errno == EINVAL, "F_DUPFD beyond the limit");
    say("ready");
    echo(accepted(fd));
}

/* --- lingering: close waits for the peer --- */

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void lingering(void)
{
    struct linger linger = {1, 2};
    int first = listener(8);
    struct pollfd wait = {first, POLLIN, 0};
    /* Starts the stack. */
    poll(&wait, 1, 0);
    say("ready");
    int fd = accepted(first), other = accepted(first);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    setsockopt(other, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    need(write(other, "there", 5) == 5, "write");
    long start = now();
    need(close(other) == 0 && now() - start < 1500, "close where the peer answers");
    say("alone");
    /* The peer is gone by the time that the signal comes. */
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &number);
    need(write(fd, "words", 5) == 5, "write");
    start = now();
    need(close(fd) == 0, "close");
    need(now() - start >= 1900 && now() - start < 5000, "close where nobody answers");
}

/* --- before: what is said before connect holds afterwards, or is refused --- */

static int same(int fd, int level, int name, int wanted)
{
    int value = 0;
    socklen_t len = sizeof value;
    return getsockopt(fd, level, name, &value, &len) == 0 && value == wanted;
}

static void before(void)
{
    static const int table[][3] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},      {SOL_SOCKET, SO_RCVLOWAT, 9},        {IPPROTO_IP, IP_TTL, 33},
        {IPPROTO_TCP, TCP_NODELAY, 1},      {IPPROTO_TCP, TCP_KEEPIDLE, 77},     {IPPROTO_TCP, TCP_KEEPINTVL, 17},
        {IPPROTO_TCP, TCP_KEEPCNT, 7},      {IPPROTO_TCP, TCP_LINGER2, 20},      {IPPROTO_TCP, TCP_USER_TIMEOUT, 30000},
        {IPPROTO_TCP, TCP_SYNCNT, 3},       {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 20000},
        {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO},
    };
    int first = socket(AF_INET, SOCK_STREAM, 0), dont = IP_PMTUDISC_DONT;
    unsigned char tos = 0x28;
    need(setsockopt(first, IPPROTO_IP, IP_MTU_DISCOVER, &dont, sizeof dont) < 0 && errno == EOPNOTSUPP,
         "IP_PMTUDISC_DONT");
    need(setsockopt(first, IPPROTO_IP, IP_TOS, &tos, sizeof tos) == 0, "IP_TOS in a byte");
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        need(setsockopt(first, table[i][0], table[i][1], &table[i][2], sizeof(int)) == 0, "setsockopt");
    need(bind(first, (struct sockaddr *)&ours, sizeof ours) == 0 && listen(first, 8) == 0, "listen");
    say("ready");
    int fd = accepted(first);
    need(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont, sizeof dont) < 0 && errno == EOPNOTSUPP,
         "IP_PMTUDISC_DONT of a connection");
    need(same(fd, IPPROTO_IP, IP_TOS, tos), "IP_TOS");
    tos = 0x20;
    need(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos) == 0 && same(fd, IPPROTO_IP, IP_TOS, tos), "IP_TOS");
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!same(fd, table[i][0], table[i][1], table[i][2])) {
            printf("level %d option %d\n", table[i][0], table[i][1]);
            exit(1);
        }
}

/* --- refused: ways past the library --- */

static void refused(void)
{
    need(socket(AF_INET, SOCK_STREAM, 262) < 0 && errno == EPROTONOSUPPORT, "a socket of MPTCP");
    need(syscall(425, 8, 0) < 0 && (errno == EFAULT || errno == ENOSYS), "io_uring");
}

/* --- later: the link is gone when the program needs it first --- */

static void later(void)
{
    struct sigaction action = {.sa_handler = go_on};
    sigset_t usual, blocked;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sigaction(SIGUSR1, &action, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &usual);
    say("ready");
    sigsuspend(&usual);
    need(connect(fd, (struct sockaddr *)&ours, sizeof ours) < 0 && errno == ENETDOWN, "connect");
}

/* --- outlasted: the interface is removed, and made again --- */

static void outlasted(void)
{
    int fd = listener(8), other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), made;
    struct pollfd wait = {fd, POLLIN, 0};
    struct sockaddr_in peer = ours;
    peer.sin_addr.s_addr = htonl(ntohl(peer.sin_addr.s_addr) + 1);
    poll(&wait, 1, 0);
    say("ready");
    made = accepted(fd);
    echo(made);
    while (connect(other, (struct sockaddr *)&peer, sizeof peer) < 0 && errno != ENETDOWN) {
        close(other);
        other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        usleep(10000);
    }
    need(errno == ENETDOWN, "connect");
    need(poll(&wait, 1, 300) == 0, "nobody comes, but poll");
    say("away");
    need(poll(&wait, 1, 20000) == 1, "poll");
    echo(accepted(fd));
    /* The connection from before is what it was. */
    echo(made);
}

/* --- ourselves: a thread, a child and a program of it connect to our own address --- */

static void *answer(void *listener)
{
    for (;;) {
        int made = accepted(*(int *)listener);
        echo(made);
        close(made);
    }
    return 0;
}

static void ourselves(void)
{
    static int fd;
    char port[8];
    struct sockaddr_in any = ours, nobody = ours;
    pthread_t thread;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    any.sin_addr.s_addr = INADDR_ANY;
    need(bind(fd, (struct sockaddr *)&any, sizeof any) == 0 && listen(fd, 8) == 0, "listen");
    pthread_create(&thread, 0, answer, &fd);
    for (int i = 0; i < 3; i++)
        asks();
    nobody.sin_port = htons(ntohs(ours.sin_port) + 1);
    int other = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(other, (struct sockaddr *)&nobody, sizeof nobody) < 0 && errno == ECONNREFUSED,
         "nobody listens, but connect");
    pid_t child = fork();
    if (child == 0) {
        asks();
        _exit(0);
    }
    waits_for(child);
    snprintf(port, sizeof port, "%d", ntohs(ours.sin_port));
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "process", "asks", inet_ntoa(ours.sin_addr), port, (char *)0);
        _exit(1);
    }
    waits_for(child);
    asks();
}

static const struct named cases[] = {
    {"descriptors", descriptors},
    {"many", many},
    {"cleared", cleared},
    {"ended", ended},
    {"gone", gone},
    {"memory", memory},
    {"quiet", quiet},
    {"served", served},
    {"refused", refused},
    {"later", later},
    {"outlasted", outlasted},
    {"ourselves", ourselves},     {"asks", asks},
    {"dropped", dropped},
    {"became", became},     {"promised", promised},
    {"numbers", numbers},
    {"lingering", lingering},
    {"before", before},
};

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    address_is(words[2], words[3]);
    if (strcmp(words[1], "lingering") == 0) {
        /* Before there are threads. */
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, 0);
    }
    return run_case(cases, sizeof cases / sizeof *cases, words[1]);
}
