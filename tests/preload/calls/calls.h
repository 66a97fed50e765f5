/* The same calls on two stacks: every result is printed as a line without addresses, times or descriptor numbers, so that the lines of
 * two runs can be compared. `calls run` is the program under test, `calls peer` the plain kernel program at the other end. */
#ifndef CALLS_H
#define CALLS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* A group of cases ends with a null name. */
struct test {
	const char *name;
	void (*run)(void);
};

extern const struct test connecting[], accepting[], data[], messages[], closing[], descriptors[], processes[], waiting[], epolling[],
	options[], effects[], threads[], rings[], urgent[], jumping[];

/* Longest that anything here may take, milliseconds. */
enum { PATIENCE = 10000 };

/* --- report.c: what happened --- */

/* Which case and role the following lines belong to. */
void begin(const char *name, const char *role);
/* `WHAT: TEXT`. */
__attribute__((format(printf, 2, 3))) void say(const char *what, const char *format, ...);
/* The value of a call, or its error. Returns it. */
long result(const char *what, long value);
/* The same for a call that makes a descriptor: which one does not matter. */
int descriptor(const char *what, int fd);
/* Whether a condition held. */
void holds(const char *what, int condition);
/* Names of poll(2) or epoll(7) events, which have the same values. */
void events(const char *what, long ready, uint32_t set);
/* Polls one descriptor, and names what it has. */
void poll_shows(const char *what, struct pollfd *one, int timeout);
/* The value of an option as an int. */
void option(const char *what, int fd, int level, int name);
/* Ends the program because the test itself cannot go on. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
/* Milliseconds since some moment. */
long now(void);

/* --- world.c: the two ends --- */

/* Our and the peer's address, and how long they are. */
extern struct sockaddr_storage ours, theirs;
extern socklen_t address_length;

/* An address with this port. Each call returns the same buffer. */
struct sockaddr *at(const struct sockaddr_storage *host, int port);
/* The port of an address. */
int port_of(const struct sockaddr_storage *address);
/* A port that nothing here has used. */
int fresh_port(void);
/* Whether the peer makes the connections of this run. */
int serving(void);
/* A new socket of the family under test. */
int tcp(int flags);
/* A listening socket. */
int listener(int flags, int port);
/* A connection with the peer's `slot`, made in the role under test. */
int pair(int slot);
/* One that we made, or the peer did. */
int dialed(int slot);
int accepted(int slot);
/* Tells the peer to do something; what came out, or minus errno. */
__attribute__((format(printf, 1, 2))) long peer(const char *format, ...);
/* Waits until `count` bytes can be read. */
void arrived(int fd, int count);
/* Waits until poll shows all of these events. */
void settled(int fd, int set);
/* Writes all `count` bytes, which say where in their stream they are, beginning at `from`. */
void send_all(int fd, long from, long count);
/* Byte `place` of a stream. */
unsigned char pattern(long place);
void fill(void *buffer, long from, long count);
int matches(const void *buffer, long from, long count);
void set_blocking(int fd, int blocking);
/* SIGUSR1 with these sigaction flags, whose handler does nothing but interrupt; again and again, since the first may come before the call
 * that it is for, until `no_interrupts`. */
void interrupt_after(int milliseconds, int flags);
void no_interrupts(void);

/* --- tcp_info.c --- */

/* The window that the other side offers, bytes. */
long window_of(int fd);

/* --- peer.c --- */
int run_peer(const char *control, const char *address, const char *others);

#endif
