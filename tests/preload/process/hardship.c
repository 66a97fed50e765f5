/* A server of several processes that are killed, stopped, executed anew and pass connections to each other. What each has done
 * stands in a file that they share and that outlives them: who is written to can be held against what the peer has got.
 *
 *   hardship FILE ADDRESS PORT WORKERS
 *
 * A peer says how many bytes it wants, and the first of them; the server writes them and closes. SIGUSR1 to a worker: it
 * executes itself and goes on. SIGUSR2: it passes its connections to whichever worker takes them. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { WORKERS = 16, HELD = 12, PIECE = 16384 };

/* What the test reads, too: of each connection by the peer's port. */
struct record {
    uint32_t accepted, owner, written; /* process, process or 0 under way, bytes */
};

struct held {
    int32_t fd;
    uint32_t port, got, request[2], sent; /* request: bytes, first */
};

struct slot {
    uint32_t pid, unsure, count; /* unsure: it did something that it has not written down */
    struct held held[HELD];
};

static struct shared {
    struct record records[65536];
    struct slot slots[WORKERS];
    uint32_t unsure, broken; /* processes that ended unsure, or otherwise than by SIGKILL */
} *shared;

static volatile sig_atomic_t execute, pass;

static void asked(int number)
{
    *(number == SIGUSR1 ? &execute : &pass) = 1;
}

/* Nothing is asked of a process before it can be told. */
static void set_signals(int how)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    need(sigprocmask(how, &both, NULL) == 0, "sigprocmask");
}

static void forget(struct slot *slot, uint32_t index)
{
    struct held gone = slot->held[index];
    slot->held[index] = slot->held[slot->count - 1];
    slot->count--;
    need(close(gone.fd) == 0, "close");
}

static void keep(struct slot *slot, struct held held)
{
    shared->records[held.port].owner = getpid();
    slot->held[slot->count] = held;
    slot->count++;
}

static void accept_one(struct slot *slot, int listening)
{
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    slot->unsure = 1;
    int fd = accept4(listening, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK);
    if (fd >= 0) {
        struct held held = {.fd = fd, .port = ntohs(peer.sin_port)};
        shared->records[held.port].accepted = getpid();
        keep(slot, held);
    } else
        need(errno == EAGAIN || errno == EINTR || errno == ECONNABORTED, "accept");
    slot->unsure = 0;
}

/* Takes a connection that another worker has passed. */
static void take_one(struct slot *slot, int channel)
{
    char room[CMSG_SPACE(sizeof(int))];
    struct held held;
    struct iovec piece = {&held, sizeof held};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    slot->unsure = 1;
    ssize_t got = recvmsg(channel, &message, MSG_DONTWAIT);
    if (got == sizeof held) {
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        need(head != NULL && head->cmsg_type == SCM_RIGHTS, "no descriptor came");
        memcpy(&held.fd, CMSG_DATA(head), sizeof held.fd);
        keep(slot, held);
    } else
        need(got < 0 && (errno == EAGAIN || errno == EINTR), "recvmsg");
    slot->unsure = 0;
}

static void pass_all(struct slot *slot, int channel)
{
    while (slot->count > 0) {
        struct held held = slot->held[0];
        union {
            char room[CMSG_SPACE(sizeof(int))];
            struct cmsghdr head;
        } rights = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
        memcpy(CMSG_DATA(&rights.head), &held.fd, sizeof held.fd);
        struct iovec piece = {&held, sizeof held};
        struct msghdr message = {
            .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights.room};
        slot->unsure = 1;
        shared->records[held.port].owner = 0;
        int sent = sendmsg(channel, &message, MSG_DONTWAIT) == sizeof held;
        if (sent)
            forget(slot, 0);
        else
            shared->records[held.port].owner = getpid();
        slot->unsure = 0;
        if (!sent)
            return;
    }
}

/* Goes on with a connection: whether it is over. */
static int serve(struct held *held)
{
    if (held->got < sizeof held->request) {
        ssize_t n = read(held->fd, (char *)held->request + held->got, sizeof held->request - held->got);
        if (n <= 0)
            return n == 0 || (errno != EAGAIN && errno != EINTR);
        held->got += n;
        if (held->got < sizeof held->request)
            return 0;
    }
    char text[PIECE];
    uint32_t left = held->request[0] - held->sent, now = left < PIECE ? left : PIECE;
    for (uint32_t i = 0; i < now; i++)
        text[i] = (held->request[1] + held->sent + i) % 251;
    ssize_t n = write(held->fd, text, now);
    if (n < 0)
        return errno != EAGAIN && errno != EINTR;
    held->sent += n;
    shared->records[held->port].written = held->sent;
    return held->sent == held->request[0];
}

static void wait_and_serve(struct slot *slot, int listening, int channel)
{
    struct pollfd wanted[HELD + 2] = {{channel, POLLIN, 0}, {listening, POLLIN, 0}};
    uint32_t count = slot->count;
    for (uint32_t i = 0; i < count; i++) {
        struct held *held = &slot->held[i];
        wanted[i + 2] = (struct pollfd){held->fd, held->got < sizeof held->request ? POLLIN : POLLOUT, 0};
    }
    /* Who has enough looks at neither. */
    for (int i = 0; i < 2; i++)
        if (count == HELD)
            wanted[i].fd = -1;
    int ready = poll(wanted, count + 2, 100);
    need(ready >= 0 || errno == EINTR, "poll");
    if (ready <= 0)
        return;
    for (uint32_t i = count; i-- > 0;)
        if (wanted[i + 2].revents != 0 && serve(&slot->held[i]))
            forget(slot, i);
    if (wanted[0].revents != 0 && slot->count < HELD)
        take_one(slot, channel);
    if (wanted[1].revents != 0 && slot->count < HELD)
        accept_one(slot, listening);
}

__attribute__((noreturn)) static void work(struct slot *slot, char **words, int listening, const int channel[2])
{
    struct sigaction action = {.sa_handler = asked};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    set_signals(SIG_UNBLOCK);
    for (;;) {
        if (pass)
            pass_all(slot, channel[0]);
        pass = 0;
        if (execute) {
            char number[4][12];
            int values[4] = {slot - shared->slots, listening, channel[0], channel[1]};
            for (int i = 0; i < 4; i++)
                snprintf(number[i], sizeof number[i], "%d", values[i]);
            set_signals(SIG_BLOCK);
            execl("/proc/self/exe", words[0], words[1], number[0], number[1], number[2], number[3], "again", NULL);
            need(0, "exec");
        }
        wait_and_serve(slot, listening, channel[1]);
    }
}

static pid_t begin(struct slot *slot, char **words, int listening, const int channel[2])
{
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        slot->count = slot->unsure = 0;
        slot->pid = getpid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(slot, words, listening, channel);
    }
    return child;
}

__attribute__((noreturn)) static void lead(char **words, int listening, const int channel[2], int workers)
{
    pid_t children[WORKERS];
    set_signals(SIG_BLOCK);
    for (int i = 0; i < workers; i++)
        children[i] = begin(&shared->slots[i], words, listening, channel);
    say("ready");
    for (;;) {
        int status;
        pid_t child = wait(&status);
        for (int i = 0; child > 0 && i < workers; i++)
            if (children[i] == child) {
                shared->unsure += shared->slots[i].unsure;
                shared->broken += !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
                children[i] = begin(&shared->slots[i], words, listening, channel);
            }
    }
}

int main(int count, char **words)
{
    need(count >= 5, "words");
    int file = open(words[1], O_RDWR);
    need(file >= 0 && ftruncate(file, sizeof *shared) == 0, words[1]);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(shared != MAP_FAILED, "mmap");
    need(close(file) == 0, "close");
    if (count == 7)
        work(&shared->slots[atoi(words[2])], words, atoi(words[3]), (int[]){atoi(words[4]), atoi(words[5])});
    ours = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
    need(inet_pton(AF_INET, words[2], &ours.sin_addr) == 1, "address");
    int listening = listener(256), channel[2];
    need(fcntl(listening, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    need(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) == 0, "socketpair");
    lead(words, listening, channel, atoi(words[4]));
}
