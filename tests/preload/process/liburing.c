/* A server of liburing that returns what it gets: connections of a listener by IORING_ACCEPT_MULTISHOT, a receive and a send of each in turn.
 * The words are our address and a port. Prints "ready" when a peer may come. */
#include <arpa/inet.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 8192 };

struct connection {
    int fd, sends;
    char bytes[ROOM];
};

static struct io_uring ring;

static void fail(const char *what, int error)
{
    printf("%s: %s\n", what, strerror(error));
    exit(1);
}

static struct io_uring_sqe *entry(void)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    if (entry)
        return entry;
    io_uring_submit(&ring);
    return io_uring_get_sqe(&ring);
}

static void receive(struct connection *of)
{
    struct io_uring_sqe *next = entry();
    of->sends = 0;
    io_uring_prep_recv(next, of->fd, of->bytes, ROOM, 0);
    io_uring_sqe_set_data(next, of);
}

static void entered(int fd)
{
    struct connection *made = calloc(1, sizeof *made);
    if (fd < 0)
        fail("accept", -fd);
    made->fd = fd;
    receive(made);
}

static void moved(struct connection *of, int count)
{
    if (count > 0 && of->sends) {
        receive(of);
        return;
    }
    struct io_uring_sqe *next = entry();
    if (count > 0) {
        of->sends = 1;
        io_uring_prep_send(next, of->fd, of->bytes, count, MSG_WAITALL);
        io_uring_sqe_set_data(next, of);
    } else {
        io_uring_prep_close(next, of->fd);
        io_uring_sqe_set_data(next, 0);
        free(of);
    }
}

int main(int count, char **words)
{
    static struct connection listener;
    struct sockaddr_in ours = {.sin_family = AF_INET};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0), error = io_uring_queue_init(64, &ring, 0);
    if (error)
        fail("io_uring_queue_init", -error);
    if (count != 3 || inet_pton(AF_INET, words[1], &ours.sin_addr) != 1)
        return 2;
    ours.sin_port = htons(atoi(words[2]));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&ours, sizeof ours) || listen(fd, 100))
        fail("listen", 0);
    struct io_uring_sqe *first = entry();
    io_uring_prep_multishot_accept(first, fd, 0, 0, 0);
    io_uring_sqe_set_data(first, &listener);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct io_uring_cqe *done;
        error = io_uring_submit_and_wait(&ring, 1);
        if (error < 0)
            fail("io_uring_submit_and_wait", -error);
        while (!io_uring_peek_cqe(&ring, &done)) {
            struct connection *of = io_uring_cqe_get_data(done);
            int result = done->res;
            io_uring_cqe_seen(&ring, done);
            if (of == &listener)
                entered(result);
            else if (of)
                moved(of, result);
        }
    }
}
