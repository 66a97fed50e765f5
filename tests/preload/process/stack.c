/* How much of a stack each call takes, and that little is enough. Prints a line for each call: its name and bytes. Arguments: our address and
 * port, the peer's address, and where the calls are made: "roomy" (a thread with more stack than any needs), "small" (a thread with 24 KiB) or
 * "handler" (a handler of a signal, on a stack of its own that has room for it, 8 KiB for a call and 2 KiB for itself). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOMY (512 << 10)
#define SMALL (24 << 10)
#define PAGE 4096
#define PAINT 0x5a
/* What the measuring itself may take. */
#define NEAR 512

static unsigned char *stack;
static struct sockaddr_in ours, peer;

static void fail(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

__attribute__((noinline)) static void paint(void)
{
    unsigned char *end = (unsigned char *)__builtin_frame_address(0) - NEAR;
    for (unsigned char *p = stack; p < end; p++)
        *(volatile unsigned char *)p = PAINT;
}

__attribute__((noinline)) static void tell(const char *name, const unsigned char *frame)
{
    const unsigned char *p = stack;
    while (*p == PAINT)
        p++;
    printf("%s %ld\n", name, (long)(frame - p));
    fflush(stdout);
}

/* Each line of output comes before the next measurement: the C library's printf is not measured. */
#define MEASURE(name, call)                                          \
    ({                                                               \
        paint();                                                     \
        long result_ = (call);                                       \
        if (result_ < 0)                                             \
            fail(name);                                              \
        tell(name, (const unsigned char *)__builtin_frame_address(0)); \
        result_;                                                     \
    })

__attribute__((noinline)) static void exchange(int fd)
{
    char text[64];
    struct iovec part = {text, sizeof text};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct pollfd wait = {fd, POLLIN, 0};
    fd_set set;
    int kept = epoll_create1(0), one = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    socklen_t len = sizeof one;
    MEASURE("write", write(fd, "one", 3));
    MEASURE("poll", poll(&wait, 1, 5000));
    MEASURE("read", read(fd, text, sizeof text));
    MEASURE("send", send(fd, "two", 3, MSG_NOSIGNAL));
    FD_ZERO(&set);
    FD_SET(fd, &set);
    MEASURE("select", select(fd + 1, &set, 0, 0, 0));
    MEASURE("recv", recv(fd, text, sizeof text, 0));
    MEASURE("sendmsg", sendmsg(fd, &message, 0));
    MEASURE("epoll_ctl", epoll_ctl(kept, EPOLL_CTL_ADD, fd, &event));
    MEASURE("epoll_wait", epoll_wait(kept, &event, 1, 5000));
    MEASURE("recvmsg", recvmsg(fd, &message, 0));
    MEASURE("writev", writev(fd, &part, 1));
    MEASURE("recv MSG_TRUNC", recv(fd, 0, sizeof text, MSG_TRUNC));
    MEASURE("setsockopt", setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
    MEASURE("getsockopt", getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, &len));
    MEASURE("shutdown", shutdown(fd, SHUT_WR));
    MEASURE("end", read(fd, text, sizeof text));
    close(kept);
}

/* Calls that move nothing. */
__attribute__((noinline)) static void name(int fd)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    int waiting;
    MEASURE("getpeername", getpeername(fd, (struct sockaddr *)&at, &len));
    MEASURE("getsockname", getsockname(fd, (struct sockaddr *)&at, &len));
    MEASURE("ioctl", ioctl(fd, FIONREAD, &waiting));
    MEASURE("fcntl", fcntl(fd, F_GETFL));
    int copy = MEASURE("dup", dup(fd));
    MEASURE("dup2", dup2(fd, copy));
    MEASURE("close", close(copy));
}

/* A child that has the connection: the calls of the parent move its bytes. */
static void lend(int fd, int listener)
{
    char text[8];
    pid_t child = MEASURE("fork", fork());
    if (child == 0) {
        if (write(fd, "child", 5) != 5 || read(fd, text, 5) != 5)
            _exit(1);
        _exit(0);
    }
    MEASURE("close", close(fd));
    int status = 1;
    struct pollfd wait = {listener, POLLIN, 0};
    while (waitpid(child, &status, WNOHANG) == 0)
        MEASURE("relay", poll(&wait, 1, 20));
    if (status != 0)
        fail("the child");
}

static void *run(void *unused)
{
    int one = 1;
    int listener = MEASURE("socket", socket(AF_INET, SOCK_STREAM, 0));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    MEASURE("bind", bind(listener, (struct sockaddr *)&ours, sizeof ours));
    MEASURE("listen", listen(listener, 16));
    /* Starts the stack. */
    int fd = MEASURE("accept", accept(listener, 0, 0));
    name(fd);
    exchange(fd);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    MEASURE("connect", connect(fd, (struct sockaddr *)&peer, sizeof peer));
    lend(fd, listener);
    return unused;
}

/* Memory for a stack, below which there is none. */
static void make(size_t size)
{
    unsigned char *memory = mmap(0, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0)
        fail("memory");
    stack = memory + PAGE;
}

static void in_thread(size_t size)
{
    pthread_attr_t how;
    pthread_t thread;
    make(size);
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, stack, size);
    if (pthread_create(&thread, &how, run, 0) != 0)
        fail("thread");
    pthread_join(thread, 0);
}

static void on_signal(int unused)
{
    (void)unused;
    run(0);
}

static void in_handler(void)
{
    size_t size = (sysconf(_SC_MINSIGSTKSZ) + (10 << 10) + PAGE - 1) / PAGE * PAGE;
    make(size);
    stack_t there = {.ss_sp = stack, .ss_size = size};
    struct sigaction how = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&there, 0) != 0 || sigaction(SIGUSR1, &how, 0) != 0)
        fail("sigaltstack");
    raise(SIGUSR1);
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    ours.sin_family = peer.sin_family = AF_INET;
    ours.sin_port = peer.sin_port = htons(atoi(words[2]));
    if (inet_pton(AF_INET, words[1], &ours.sin_addr) != 1 || inet_pton(AF_INET, words[3], &peer.sin_addr) != 1)
        return 2;
    if (strcmp(words[4], "handler") == 0)
        in_handler();
    else
        in_thread(strcmp(words[4], "small") == 0 ? SMALL : ROOMY);
    return 0;
}
