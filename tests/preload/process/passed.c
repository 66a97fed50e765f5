/* What a program does with descriptors that come otherwise than by its own calls of socket(2), and with numbers that others could take. The first
 * word says what is tried, the others are our address and a port. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include "common.h"

/* --- peers: of a link that is open come and go, and the numbers are the program's --- */

static void peers(void)
{
    int fd = listener(8);
    say("ready");
    for (int i = 0; i < 2; i++) {
        int made = accepted(fd), next = dup(0);
        need(made == fd + 1 && next == made + 1, "the lowest numbers");
        echo(made);
        char end;
        need(read(made, &end, 1) == 0, "the end");
        close(next);
        close(made);
    }
}

/* --- executed: the program before made the listener; inetd gives one three numbers --- */

static char *self_words[5];

static void execute(const char *name)
{
    self_words[0] = "passed";
    self_words[1] = (char *)name;
    execv("/proc/self/exe", self_words);
    need(0, "execv");
}

static void executed(void)
{
    int fd = listener(8);
    need(dup(fd) == fd + 1, "dup");
    execute("inherited");
}

static void inherited(void)
{
    need((fcntl(3, F_GETFL) & O_NONBLOCK) == 0, "calls on it wait");
    say("ready");
    echo(accepted(3));
    echo(accepted(4));
}

/* The same, and calls on it do not wait. */
static void nonblocking(void)
{
    int fd = listener(8);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    execute("polled");
}

static void polled(void)
{
    struct pollfd wait = {3, POLLIN, 0};
    need(fcntl(3, F_GETFL) & O_NONBLOCK, "calls on it do not wait");
    need(accept(3, 0, 0) < 0 && errno == EAGAIN, "nobody is there");
    say("ready");
    need(poll(&wait, 1, -1) == 1, "poll");
    echo(accepted(3));
}

/* Without an environment: the listener says who is to have it. */
static void cleaned(void)
{
    static char *nothing[] = {0};
    int fd = listener(8);
    need(dup(fd) == fd + 1, "dup");
    self_words[0] = "passed";
    self_words[1] = "inherited";
    execve("/proc/self/exe", self_words, nothing);
    need(0, "execve");
}

/* --- variable: words that are arguments, more than there are registers for --- */

static void variable(void)
{
    char *environment[] = {"WITH=it", 0};
    char path[256] = {0};
    need(readlink("/proc/self/exe", path, sizeof path - 1) > 0, "path");
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0 && i == 0)
            execl(path, "passed", "words", "2", "3", "4", "5", "6", "7", "without", (char *)0);
        if (child == 0 && i == 1)
            execlp(path, "passed", "words", "2", "3", "4", "5", "6", "7", "without", (char *)0);
        if (child == 0 && i == 2)
            execle(path, "passed", "words", "2", "3", "4", "5", "6", "7", "with", (char *)0, environment);
        if (child == 0)
            _exit(1);
        waits_for(child);
    }
}

static int words_came(char **words)
{
    int with = strcmp(words[8], "with") == 0;
    return strcmp(words[7], "7") != 0 || (getenv("WITH") != 0) != with;
}

/* --- bound: the program before made the socket and bound it, as those do that open ports for others --- */

static void bound(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    need(bind(fd, (struct sockaddr *)&ours, sizeof ours) == 0, "bind");
    execute("heard");
}

static void heard(void)
{
    need(listen(3, 8) == 0, "listen");
    say("ready");
    echo(accepted(3));
}

/* --- kept: a connection does not outlast the program that has it --- */

static void kept(void)
{
    int fd = listener(8);
    say("ready");
    int made = accepted(fd);
    need(made == 4, "a number");
    execute("lost");
}

static void lost(void)
{
    char text[8];
    need(read(4, text, sizeof text) < 0, "nobody has it");
}

/* --- cloned: a child that the system call makes, as fork does; copied: by clone(3), which tells the library nothing --- */

static void cloned(void)
{
    int fd = listener(8);
    say("ready");
    int made = accepted(fd);
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        echo(made);
        _exit(0);
    }
    close(made);
    waits_for(child);
}

static int copy(void *made)
{
    return write(*(int *)made, "hello", 5) == 5;
}

static void copied(void)
{
    static char stack[1 << 16];
    int fd = listener(8);
    say("ready");
    int made = accepted(fd);
    waits_for(clone(copy, stack + sizeof stack, SIGCHLD, &made));
    echo(made);
}

/* --- waited: who keeps a connection that its child reads, and waits for that one; left: and does something else --- */

static void shared(int waits)
{
    int fd = listener(8), status;
    say("ready");
    int made = accepted(fd);
    pid_t child = fork();
    if (child == 0) {
        echo(made);
        _exit(0);
    }
    while (!waits && waitpid(child, &status, WNOHANG) == 0)
        usleep(10000);
    if (waits)
        waits_for(child);
    say("alone");
    echo(made);
}

static void waited(void)
{
    shared(1);
}

static void left(void)
{
    shared(0);
}

/* --- idle: of two children only the second one reads; sooner: the second one ends without reading --- */

static pid_t child_with(int made, int reads)
{
    pid_t child = fork();
    if (child == 0) {
        if (!reads)
            pause();
        echo(made);
        _exit(0);
    }
    return child;
}

static void idle(void)
{
    int fd = listener(8), status;
    say("ready");
    int made = accepted(fd);
    pid_t first = child_with(made, 0), second = child_with(made, 1);
    printf("idle %d\n", first);
    say("waits");
    need(waitpid(first, &status, 0) == first, "the first child");
    say("gone");
    waits_for(second);
}

static void sooner(void)
{
    int fd = listener(8);
    say("ready");
    int made = accepted(fd);
    pid_t first = child_with(made, 1), second = fork();
    if (second == 0)
        _exit(0);
    waits_for(second);
    say("gone");
    waits_for(first);
}

/* --- sent: a listener that comes in a message --- */

static void send_descriptor(int to, int fd)
{
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof fd)]; } control = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    need(sendmsg(to, &message, 0) == 1, "sendmsg");
}

static int received_descriptor(int from)
{
    int fd;
    char text[1];
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof fd)]; } control;
    struct iovec part = {text, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    need(recvmsg(from, &message, 0) == 1, "recvmsg");
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

static void sent(void)
{
    int ends[2];
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t child = fork();
    if (child == 0) {
        int fd = received_descriptor(ends[1]);
        say("ready");
        echo(accepted(fd));
        _exit(0);
    }
    int fd = listener(8);
    send_descriptor(ends[0], fd);
    close(fd);
    waits_for(child);
}

/* --- upgraded: a program that is executed beside the old one has the interface when the process that served ends, while the one that forked
 * both stays --- */

static void upgraded(void)
{
    int fd = listener(8), ends[2], served[2];
    char one;
    need(fd == 3 && pipe(ends) == 0 && ends[1] == 5 && pipe2(served, O_CLOEXEC) == 0, "pipe");
    pid_t old = fork();
    if (old == 0) {
        char over;
        say("ready");
        echo(accepted(fd));
        need(write(served[1], "x", 1) == 1, "a word to the parent");
        need(read(ends[0], &over, 1) == 1, "the word of the new one");
        exit(0);
    }
    /* Who comes first is the old one's: of two that wait, either may get it. */
    need(read(served[0], &one, 1) == 1, "the word of the old one");
    pid_t new = fork();
    if (new == 0)
        execute("upgrade");
    waits_for(old);
    say("alone");
    waits_for(new);
}

static void upgrade(void)
{
    struct pollfd wait = {3, POLLIN, 0};
    /* The other one serves. */
    poll(&wait, 1, 500);
    need(write(5, "x", 1) == 1, "a word to the old one");
    echo(accepted(3));
    _exit(0);
}

/* --- said: a client reads what is written to stderr, and nothing that is not its --- */

static int another_listener(int further)
{
    ours.sin_port = htons(ntohs(ours.sin_port) + further);
    return listener(8);
}

static void said(void)
{
    int fd = listener(8);
    say("ready");
    int made = accepted(fd);
    pid_t child = fork();
    if (child == 0) {
        need(dup2(made, 1) == 1 && dup2(made, 2) == 2, "dup2");
        another_listener(1);
        need(write(2, "hello", 5) == 5, "write");
        execute("said_too");
    }
    close(made);
    waits_for(child);
}

static void said_too(void)
{
    struct pollfd wait = {another_listener(2), POLLIN, 0};
    need(poll(&wait, 1, 2000) == 0, "nobody comes");
    need(write(2, "hello", 5) == 5, "write");
    _exit(0);
}

/* --- crowded: a child connects to a host while its parent has the only queue --- */

static void refused_at_once(int kind)
{
    int fd = socket(AF_INET, SOCK_STREAM | kind, 0);
    need(connect(fd, (struct sockaddr *)&ours, sizeof ours) < 0 && errno == ENETDOWN,
         "a connect without a queue");
    close(fd);
}

static void crowded(void)
{
    int mine = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(mine, (struct sockaddr *)&ours, sizeof ours) == 0, "connect");
    pid_t child = fork();
    if (child == 0) {
        refused_at_once(0);
        refused_at_once(SOCK_NONBLOCK);
        _exit(0);
    }
    waits_for(child);
    need(write(mine, "hello", 5) == 5, "write");
}

/* --- left: the process that listens is killed, while a child of it has the listener and does not accept yet; once it is told to it accepts as
 * many as it is told, or ends --- */

static void bereaved(int accepts)
{
    int ends[2], status;
    sigset_t word;
    sigemptyset(&word);
    sigaddset(&word, SIGUSR1);
    sigprocmask(SIG_BLOCK, &word, 0);
    need(pipe(ends) == 0, "pipe");
    pid_t server = fork();
    if (server == 0) {
        int fd = listener(8);
        if (fork() == 0) {
            char begin;
            close(ends[1]);
            need(read(ends[0], &begin, 1) == 1, "a word to begin");
            for (int i = 0; i < accepts; i++)
                echo(accepted(fd));
            _exit(0);
        }
        raise(SIGKILL);
    }
    close(ends[0]);
    need(waitpid(server, &status, 0) == server && WIFSIGNALED(status), "the server is killed");
    say("ready");
    int number;
    need(sigwait(&word, &number) == 0, "a signal");
    need(write(ends[1], "x", 1) == 1, "write");
}

static void served_later(void)
{
    bereaved(2);
}

static void served_never(void)
{
    bereaved(0);
}

static const struct named cases[] = {
    {"later", served_later},
    {"never", served_never},
    {"upgraded", upgraded},
    {"upgrade", upgrade},
    {"said", said},
    {"said_too", said_too},
    {"peers", peers},
    {"asks", asks},
    {"executed", executed},
    {"inherited", inherited},
    {"nonblocking", nonblocking},
    {"polled", polled},
    {"bound", bound},
    {"heard", heard},
    {"cleaned", cleaned},
    {"variable", variable},
    {"cloned", cloned},
    {"copied", copied},
    {"waited", waited},
    {"left", left},
    {"idle", idle},
    {"sooner", sooner},
    {"kept", kept},
    {"lost", lost},
    {"sent", sent},
    {"crowded", crowded},
};

int main(int count, char **words)
{
    if (count == 9 && strcmp(words[1], "words") == 0)
        return words_came(words);
    if (count != 4)
        return 2;
    address_is(words[2], words[3]);
    for (int i = 0; i < count; i++)
        self_words[i] = words[i];
    return run_case(cases, sizeof cases / sizeof *cases, words[1]);
}
