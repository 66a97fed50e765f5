/* Drives libmtcp_packetdrill.so through dlopen, as the packetdrill tool does: one thread makes the calls that wait, the other
 * hands in packets, takes those that are sent and moves time. Usage: driver LIBRARY. Prints "ok", or what is wrong. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

typedef void *user;

struct functions {
    user self;
    void (*release)(user);
    int (*socket)(user, int, int, int);
    int (*bind)(user, int, const struct sockaddr *, socklen_t);
    int (*listen)(user, int, int);
    int (*accept)(user, int, struct sockaddr *, socklen_t *);
    int (*connect)(user, int, const struct sockaddr *, socklen_t);
    ssize_t (*read)(user, int, void *, size_t);
    ssize_t (*readv)(user, int, const struct iovec *, int);
    ssize_t (*recv)(user, int, void *, size_t, int);
    ssize_t (*recvfrom)(user, int, void *, size_t, int, struct sockaddr *, socklen_t *);
    ssize_t (*recvmsg)(user, int, struct msghdr *, int);
    ssize_t (*write)(user, int, const void *, size_t);
    ssize_t (*writev)(user, int, const struct iovec *, int);
    ssize_t (*send)(user, int, const void *, size_t, int);
    ssize_t (*sendto)(user, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    ssize_t (*sendmsg)(user, int, const struct msghdr *, int);
    int (*fcntl)(user, int, int, ...);
    int (*ioctl)(user, int, unsigned long, ...);
    int (*close)(user, int);
    int (*shutdown)(user, int, int);
    int (*getsockopt)(user, int, int, int, void *, socklen_t *);
    int (*setsockopt)(user, int, int, int, const void *, socklen_t);
    int (*poll)(user, struct pollfd *, nfds_t, int);
    int (*netdev_send)(user, const void *, size_t);
    int (*netdev_receive)(user, void *, size_t *, long long *);
    int (*usleep)(user, useconds_t);
    int (*gettimeofday)(user, struct timeval *, struct timezone *);
    int (*epoll_create)(user, int);
    int (*epoll_ctl)(user, int, int, int, struct epoll_event *);
    int (*epoll_wait)(user, int, struct epoll_event *, int, int);
    int (*pipe)(user, int[2]);
    ssize_t (*splice)(user, int, loff_t *, int, loff_t *, size_t, unsigned int);
};

static struct functions f;

#define CHECK(what)                                                                                                                  \
    do {                                                                                                                             \
        if (!(what)) {                                                                                                               \
            fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #what, errno);                                             \
            exit(1);                                                                                                                 \
        }                                                                                                                            \
    } while (0)

#define FAILS(call, error)                                                                                                           \
    do {                                                                                                                             \
        errno = 0;                                                                                                                   \
        CHECK((call) == -1);                                                                                                         \
        CHECK(errno == (error));                                                                                                     \
    } while (0)

/* A TCP segment in IPv4, 40 bytes of headers, then `tail`: options or data. */
struct segment {
    unsigned char bytes[2048];
    size_t len;
};

enum { FIN = 1, SYN = 2, PSH = 8, ACK = 16 };

static const unsigned char LOCAL[4] = {192, 168, 0, 1}, REMOTE[4] = {192, 0, 2, 1};

static void put16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static void put32(unsigned char *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

static unsigned word16(const unsigned char *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t word32(const unsigned char *at)
{
    return (uint32_t)word16(at) << 16 | word16(at + 2);
}

/* RFC 1071 */
static unsigned sum(const unsigned char *bytes, size_t len, uint32_t start)
{
    for (size_t i = 0; i < len; i++)
        start += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    while (start >> 16)
        start = (start & 0xffff) + (start >> 16);
    return start;
}

static unsigned tcp_sum(const unsigned char *packet, size_t len)
{
    return sum(packet + 20, len - 20, sum(packet + 12, 8, 6 + (uint32_t)(len - 20)));
}

static struct segment segment(unsigned flags, uint32_t seq, uint32_t ack, const char *tail, size_t tail_len)
{
    struct segment s = {.len = 40 + tail_len};
    unsigned char *ip = s.bytes, *tcp = s.bytes + 20;
    ip[0] = 0x45;
    put16(ip + 2, (unsigned)s.len);
    ip[8] = 64;
    ip[9] = 6;
    memcpy(ip + 12, REMOTE, 4);
    memcpy(ip + 16, LOCAL, 4);
    put16(ip + 10, ~sum(ip, 20, 0));
    put16(tcp, 40000);
    put16(tcp + 2, 8080);
    put32(tcp + 4, seq);
    put32(tcp + 8, ack);
    tcp[12] = (unsigned char)(flags & SYN ? (20 + tail_len) / 4 << 4 : 0x50);
    tcp[13] = (unsigned char)flags;
    put16(tcp + 14, 30000);
    memcpy(tcp + 20, tail, tail_len);
    put16(tcp + 16, ~tcp_sum(s.bytes, s.len));
    return s;
}

static void arrives(unsigned flags, uint32_t seq, uint32_t ack, const char *tail, size_t len)
{
    struct segment s = segment(flags, seq, ack, tail, len);
    CHECK(f.netdev_send(f.self, s.bytes, s.len) == 0);
}

static long long now(void)
{
    struct timeval tv;
    CHECK(f.gettimeofday(f.self, &tv, NULL) == 0);
    return tv.tv_sec * 1000000LL + tv.tv_usec;
}

/* The next packet of the stack, with `flags`, at most a millisecond from `at`. */
static struct segment sent(unsigned flags, long long at)
{
    struct segment s = {.len = sizeof s.bytes};
    long long time = -1;
    CHECK(f.netdev_receive(f.self, s.bytes, &s.len, &time) == 0);
    CHECK(s.len >= 40 && s.bytes[0] == 0x45 && word16(s.bytes + 2) == s.len);
    CHECK(sum(s.bytes, 20, 0) == 0xffff && tcp_sum(s.bytes, s.len) == 0xffff);
    CHECK(memcmp(s.bytes + 12, LOCAL, 4) == 0 && memcmp(s.bytes + 16, REMOTE, 4) == 0);
    CHECK(s.bytes[33] == flags);
    CHECK(time >= at && time <= at + 1000);
    return s;
}

/* A call that waits, on a thread of its own. */
struct waiter {
    _Atomic pid_t thread;
    int fd;
    long long result;
    long long ended;
    char data[64];
    struct sockaddr_in from;
};

static void *accepts(void *arg)
{
    struct waiter *w = arg;
    w->thread = (pid_t)syscall(SYS_gettid);
    socklen_t len = sizeof w->from;
    w->result = f.accept(f.self, w->fd, (struct sockaddr *)&w->from, &len);
    w->ended = now();
    CHECK(len == sizeof w->from);
    return NULL;
}

static void *reads(void *arg)
{
    struct waiter *w = arg;
    w->thread = (pid_t)syscall(SYS_gettid);
    w->result = f.read(f.self, w->fd, w->data, sizeof w->data);
    w->ended = now();
    return NULL;
}

/* Waits until the thread sleeps: its state is the letter behind its name. */
static void await_sleep(struct waiter *w)
{
    for (int i = 0; i < 5000; i++, usleep(1000)) {
        char path[64], text[512];
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", w->thread);
        FILE *file = w->thread ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        char *end = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
        int sleeping = end && end[2] == 'S';
        fclose(file);
        if (sleeping)
            return;
    }
    CHECK(!"a call that waits sleeps");
}

static int accept_one(int listener, uint32_t *isn)
{
    struct waiter w = {.fd = listener};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, accepts, &w) == 0);
    await_sleep(&w);
    CHECK(f.usleep(f.self, 100000) == 0);

    static const char mss[] = {2, 4, 0x03, (char)0xe8};
    long long at = now();
    arrives(SYN, 5000, 0, mss, sizeof mss);
    struct segment syn_ack = sent(SYN | ACK, at);
    *isn = word32(syn_ack.bytes + 24);
    CHECK(word32(syn_ack.bytes + 28) == 5001);
    CHECK(word16(syn_ack.bytes + 34) == 65535);

    CHECK(f.usleep(f.self, 100000) == 0);
    at = now();
    arrives(ACK, 5001, *isn + 1, "", 0);
    /* However far time is sent: who waited comes back at the moment at which the wait was over. */
    CHECK(f.usleep(f.self, 5000000) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(w.result >= 3);
    CHECK(w.ended >= at && w.ended <= at + 1000);
    CHECK(w.from.sin_family == AF_INET && memcmp(&w.from.sin_addr, REMOTE, 4) == 0 && ntohs(w.from.sin_port) == 40000);
    return (int)w.result;
}

static int listens(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(8080)};
    memcpy(&addr.sin_addr, LOCAL, 4);
    int fd = f.socket(f.self, AF_INET, SOCK_STREAM, IPPROTO_TCP);
    CHECK(fd >= 3 && fcntl(fd, F_GETFD) >= 0);
    CHECK(f.bind(f.self, fd, (struct sockaddr *)&addr, sizeof addr) == 0);
    FAILS(f.bind(f.self, fd, (struct sockaddr *)&addr, 4), EINVAL);
    CHECK(f.listen(f.self, fd, 5) == 0);
    CHECK(f.fcntl(f.self, fd, F_GETFL, 0) == O_RDWR);
    CHECK(f.fcntl(f.self, fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    FAILS(f.accept(f.self, fd, NULL, NULL), EAGAIN);
    CHECK(f.fcntl(f.self, fd, F_SETFL, O_RDWR) == 0);
    return fd;
}

static void transfers(int fd, uint32_t isn)
{
    char a[4], b[60];
    struct iovec iov[2] = {{a, sizeof a}, {b, sizeof b}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2, .msg_flags = 77};
    struct pollfd polled = {.fd = fd, .events = POLLIN | POLLOUT};

    CHECK(f.poll(f.self, &polled, 1, 0) == 1 && polled.revents == POLLOUT);
    long long at = now();
    arrives(PSH | ACK, 5001, isn + 1, "0123456789", 10);
    sent(ACK, at);
    CHECK(f.poll(f.self, &polled, 1, 0) == 1 && polled.revents == (POLLIN | POLLOUT));
    FAILS(f.read(f.self, fd, NULL, 2), EFAULT);
    FAILS(f.write(f.self, fd, NULL, 2), EFAULT);
    CHECK(f.recv(f.self, fd, b, 2, MSG_PEEK) == 2 && memcmp(b, "01", 2) == 0);
    CHECK(f.readv(f.self, fd, iov, 2) == 10 && memcmp(a, "0123", 4) == 0 && memcmp(b, "456789", 6) == 0);
    FAILS(f.recvmsg(f.self, fd, &message, MSG_DONTWAIT), EAGAIN);

    at = now();
    CHECK(f.writev(f.self, fd, iov, 1) == 4);
    struct segment data = sent(PSH | ACK, at);
    CHECK(data.len == 44 && memcmp(data.bytes + 40, "0123", 4) == 0);
    int outstanding = -1;
    CHECK(f.ioctl(f.self, fd, TIOCOUTQ, &outstanding) == 0 && outstanding == 4);
    /* Time moves by itself to the moment of the retransmission. */
    struct segment again = {.len = sizeof again.bytes};
    long long time = 0;
    CHECK(f.netdev_receive(f.self, again.bytes, &again.len, &time) == 0);
    CHECK(again.len == 44 && time > at + 100000 && now() >= time);
    arrives(ACK, 5011, isn + 5, "", 0);

    int on = 0;
    socklen_t len = sizeof on;
    CHECK(f.setsockopt(f.self, fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof on) == 0);
    CHECK(f.getsockopt(f.self, fd, IPPROTO_TCP, TCP_NODELAY, &on, &len) == 0 && on == 1 && len == sizeof on);
    FAILS(f.setsockopt(f.self, fd, IPPROTO_TCP, 9999, &on, sizeof on), ENOPROTOOPT);
}

static void splices(int fd, uint32_t isn)
{
    int ends[2];
    char data[8];
    CHECK(f.pipe(f.self, ends) == 0 && fcntl(ends[0], F_GETFD) >= 0 && fcntl(ends[1], F_GETFD) >= 0);
    long long at = now();
    arrives(PSH | ACK, 5011, isn + 5, "abcdef", 6);
    sent(ACK, at);
    CHECK(f.splice(f.self, fd, NULL, ends[1], NULL, 4, 0) == 4);
    CHECK(f.read(f.self, ends[0], data, 2) == 2 && memcmp(data, "ab", 2) == 0);
    at = now();
    CHECK(f.splice(f.self, ends[0], NULL, fd, NULL, 100, 0) == 2);
    struct segment spliced = sent(PSH | ACK, at);
    CHECK(spliced.len == 42 && memcmp(spliced.bytes + 40, "cd", 2) == 0);
    arrives(ACK, 5017, isn + 7, "", 0);
    FAILS(f.splice(f.self, ends[0], NULL, fd, NULL, 100, SPLICE_F_NONBLOCK), EAGAIN);
    FAILS(f.splice(f.self, fd, NULL, fd, NULL, 100, 0), EINVAL);
    CHECK(f.read(f.self, fd, data, 8) == 2 && memcmp(data, "ef", 2) == 0);
    CHECK(f.close(f.self, ends[0]) == 0 && f.close(f.self, ends[1]) == 0);
    CHECK(fcntl(ends[0], F_GETFD) == -1);
}

static void watches(int fd, uint32_t isn)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1122334455667788};
    int epoll = f.epoll_create(f.self, 1);
    CHECK(epoll >= 3);
    CHECK(f.epoll_ctl(f.self, epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    FAILS(f.epoll_ctl(f.self, epoll, EPOLL_CTL_ADD, fd, &event), EEXIST);
    /* Nobody else moves time: the call does. */
    long long at = now();
    CHECK(f.epoll_wait(f.self, epoll, &event, 1, 3000) == 0);
    CHECK(now() >= at + 3000000 && now() < at + 3001000);

    struct waiter w = {.fd = fd};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reads, &w) == 0);
    await_sleep(&w);
    at = now();
    arrives(FIN | ACK, 5017, isn + 7, "", 0);
    sent(ACK, at);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(w.result == 0);
    CHECK(f.epoll_wait(f.self, epoll, &event, 1, 0) == 1 && event.events == EPOLLIN && event.data.u64 == 0x1122334455667788);
    FAILS(f.close(f.self, 12345), EBADF);
}

/* With the library in LD_PRELOAD, libc's function answers for our descriptors, and still for the kernel's. */
static void asserts(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    CHECK(len == sizeof info && info.tcpi_state == TCP_CLOSE_WAIT);
    int kernel = socket(AF_INET, SOCK_DGRAM, 0), type = -1;
    len = sizeof type;
    CHECK(kernel >= 0);
    CHECK(getsockopt(kernel, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_DGRAM);
    close(kernel);
}

static void refuses(void)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(81)};
    memcpy(&peer.sin_addr, REMOTE, 4);
    int fd = f.socket(f.self, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FAILS(f.connect(f.self, fd, (struct sockaddr *)&peer, sizeof peer), EINPROGRESS);
    CHECK(f.shutdown(f.self, fd, SHUT_RDWR) == 0);
    peer.sin_family = AF_UNIX;
    FAILS(f.connect(f.self, fd, (struct sockaddr *)&peer, sizeof peer), EAFNOSUPPORT);
    CHECK(f.close(f.self, fd) == 0);
}

/* What never comes: nothing yet, and then a packet that cannot be parsed. */
static void gives_up(void)
{
    char packet[2048];
    size_t len = sizeof packet;
    long long time;
    int waits = 0;
    while (f.netdev_receive(f.self, packet, &len, &time) != 0 || len >= 20) {
        CHECK(len == 0 || len >= 40);
        CHECK(++waits < 100);
        len = sizeof packet;
    }
    CHECK(waits >= 10 && len == 1);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void (*init)(const char *, struct functions *);
    *(void **)&init = dlsym(library, "packetdrill_interface_init");
    CHECK(init != NULL);
    init("192.168.0.1/16,192.168.0.254,192.0.2.1/24,1500,rto_min=200ms", &f);
    void *all[sizeof f / sizeof(void *)];
    memcpy(all, &f, sizeof f);
    CHECK(sizeof all / sizeof *all == 33);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(all[i] != NULL);

    uint32_t isn = 0;
    int listener = listens();
    int fd = accept_one(listener, &isn);
    transfers(fd, isn);
    splices(fd, isn);
    watches(fd, isn);
    if (getenv("LD_PRELOAD"))
        asserts(fd);
    refuses();
    gives_up();
    /* The tool leaves the rest to libc. */
    CHECK(close(fd) == 0 && close(listener) == 0);
    f.release(f.self);
    puts("ok");
    return 0;
}
