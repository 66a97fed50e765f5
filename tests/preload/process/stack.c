/* How much of a thread's stack each call takes. Prints a line for each: its name and bytes. Arguments: our address and port, the peer's. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (512 << 10)
#define PAINT 0x5a
/* What the measuring itself may take. */
#define NEAR 512

static unsigned char stack[SIZE] __attribute__((aligned(4096)));
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
        MEASURE("pump", poll(&wait, 1, 20));
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
    exchange(fd);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    MEASURE("connect", connect(fd, (struct sockaddr *)&peer, sizeof peer));
    lend(fd, listener);
    return unused;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    ours.sin_family = peer.sin_family = AF_INET;
    ours.sin_port = peer.sin_port = htons(atoi(words[2]));
    if (inet_pton(AF_INET, words[1], &ours.sin_addr) != 1 || inet_pton(AF_INET, words[3], &peer.sin_addr) != 1)
        return 2;
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, stack, sizeof stack);
    if (pthread_create(&thread, &how, run, 0) != 0)
        return 1;
    pthread_join(thread, 0);
    return 0;
}
