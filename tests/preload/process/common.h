/* What the programs of this folder have in common: an address, and how they complain. */
#ifndef COMMON_H
#define COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-function"

static struct sockaddr_in ours;

static void need(int good, const char *what)
{
    if (good)
        return;
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static int listener(int backlog)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    need(bind(fd, (struct sockaddr *)&ours, sizeof ours) == 0, "bind");
    need(listen(fd, backlog) == 0, "listen");
    return fd;
}

static int accepted(int fd)
{
    int made = accept(fd, 0, 0);
    need(made >= 0, "accept");
    return made;
}

static void echo(int fd)
{
    char text[64];
    long n = read(fd, text, sizeof text);
    need(n > 0 && write(fd, text, n) == n, "echo");
}

/* A message there and back. */
static void asks(void)
{
    char text[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(fd, (struct sockaddr *)&ours, sizeof ours) == 0, "connect");
    need(write(fd, "hello", 5) == 5 && read(fd, text, sizeof text) == 5, "an answer");
    close(fd);
}

static void waits_for(pid_t child)
{
    int status;
    need(child > 0 && waitpid(child, &status, 0) == child, "child");
    need(status == 0, "what a child did");
}

/* What the first word of a program may be. */
struct named {
    const char *name;
    void (*run)(void);
};

/* Runs the one of `count` cases that has the name; the program's status. */
static int run_case(const struct named *cases, unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            say("fine");
            return 0;
        }
    }
    return 2;
}

static void address_is(const char *address, const char *port)
{
    ours.sin_family = AF_INET;
    ours.sin_port = htons(atoi(port));
    need(inet_pton(AF_INET, address, &ours.sin_addr) == 1, "address");
}

#endif
