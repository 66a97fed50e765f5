/* dup, fcntl, close, close_range: a socket is a descriptor like others. */
#include "calls.h"

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static unsigned char buffer[4096];

/* Whether what the peer sends arrives. */
static void works(const char *what, int fd)
{
	peer("send 0 10");
	result(what, recv(fd, buffer, 10, MSG_WAITALL));
}

static void copies(void)
{
	int fd = pair(0), copy = descriptor("dup", dup(fd));
	works("the copy works", copy);
	result("close of the first", close(fd));
	works("the copy still works", copy);
	result("the first is closed", read(fd, buffer, 1));
	send_all(copy, 0, 10);
	result("peer receives", peer("receive 0 10"));
	close(copy);
	result("peer at the end", peer("receive 0 1"));
}

static void onto_others(void)
{
	int fd = pair(0), other = eventfd(0, 0), third = pair(1);
	result("dup2", dup2(fd, other) == other ? 0 : -1);
	works("it works", other);
	result("dup2 onto a connection", dup2(fd, third) == third ? 0 : -1);
	result("its peer at the end", peer("receive 1 1"));
	works("it works", third);
	result("dup2 onto itself", dup2(fd, fd) == fd ? 0 : -1);
	result("dup3 onto itself", dup3(fd, fd, 0));
	result("dup2 of a closed one", dup2(999, fd));
	works("it works", fd);
	close(third);
	result("dup3", dup3(fd, third, O_CLOEXEC) == third ? 0 : -1);
	result("descriptor flags", fcntl(third, F_GETFD));
	int null = open("/dev/null", O_RDWR);
	result("dup2 of a file onto a socket", dup2(null, third) == third ? 0 : -1);
	result("write to it", write(third, "x", 1));
	close(null);
	close(third);
	close(other);
	works("it works", fd);
	close(fd);
	result("peer at the end", peer("receive 0 1"));
}

static void with_fcntl(void)
{
	int fd = pair(0);
	result("F_GETFL", fcntl(fd, F_GETFL));
	result("F_SETFL", fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND));
	result("F_GETFL", fcntl(fd, F_GETFL));
	result("F_SETFL", fcntl(fd, F_SETFL, 0));
	result("F_SETFD", fcntl(fd, F_SETFD, FD_CLOEXEC));
	result("F_GETFD", fcntl(fd, F_GETFD));
	int copy = fcntl(fd, F_DUPFD, 100);
	holds("F_DUPFD", copy >= 100);
	result("its F_GETFD", fcntl(copy, F_GETFD));
	works("it works", copy);
	fcntl(copy, F_SETFL, O_NONBLOCK);
	result("copies share F_GETFL", fcntl(fd, F_GETFL));
	result("read", read(fd, buffer, 1));
	close(copy);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	holds("F_DUPFD_CLOEXEC", copy >= 100);
	result("its F_GETFD", fcntl(copy, F_GETFD));
	close(copy);
	result("F_SETOWN", fcntl(fd, F_SETOWN, getpid()));
	result("F_GETOWN", fcntl(fd, F_GETOWN) == getpid() ? 0 : -1);
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	result("F_GETLK", fcntl(fd, F_GETLK, &lock));
	result("F_GETSIG", fcntl(fd, F_GETSIG));
	result("F_GETPIPE_SZ", fcntl(fd, F_GETPIPE_SZ));
	result("F_GET_SEALS", fcntl(fd, F_GET_SEALS));
	result("an unknown command", fcntl(fd, 9999));
	close(fd);
	result("F_GETFL when closed", fcntl(fd, F_GETFL));
}

static void what_it_is(void)
{
	int fd = pair(0);
	struct stat status;
	result("fstat", fstat(fd, &status));
	holds("a socket", S_ISSOCK(status.st_mode));
	option("SO_TYPE", fd, SOL_SOCKET, SO_TYPE);
	option("SO_PROTOCOL", fd, SOL_SOCKET, SO_PROTOCOL);
	option("SO_ACCEPTCONN", fd, SOL_SOCKET, SO_ACCEPTCONN);
	close(fd);
	result("fstat when closed", fstat(fd, &status));
	result("getsockopt when closed", getsockopt(fd, SOL_SOCKET, SO_TYPE, buffer, &(socklen_t){4}));
	result("send when closed", send(fd, "x", 1, 0));
	result("listen when closed", listen(fd, 1));
	result("shutdown when closed", shutdown(fd, SHUT_WR));
}

static void numbers_come_back(void)
{
	int fd = pair(0);
	close(fd);
	int again = open("/dev/null", O_RDWR);
	holds("the lowest number is used again", again == fd || again < fd);
	result("it is a file", write(again, "x", 1));
	result("and no socket", send(again, "x", 1, 0));
	close(again);
	again = pair(0);
	works("a new connection works", again);
	close(again);
}

/* Some libraries make system calls themselves: what they close is closed. */
static void past_the_library(void)
{
	int fd = pair(0);
	result("close", syscall(SYS_close, fd));
	result("peer at the end", peer("receive 0 1"));
	int file = open("/proc/self/exe", O_RDONLY), again = fcntl(file, F_DUPFD, fd);
	holds("the number is used again", again == fd);
	result("read of the file", read(again, buffer, 4));
	holds("its bytes", !memcmp(buffer, "\177ELF", 4));
	close(again);
	close(file);
	fd = pair(0);
	result("close_range", syscall(SYS_close_range, fd, fd, 0));
	result("peer at the end", peer("receive 0 1"));
}

static void ranges(void)
{
	int fd = pair(0), one = fcntl(fd, F_DUPFD, 200), two = fcntl(fd, F_DUPFD, 201), three = fcntl(fd, F_DUPFD, 202);
	result("close_range, CLOSE_RANGE_CLOEXEC", close_range(200, 201, 4));
	result("one", fcntl(one, F_GETFD));
	result("three", fcntl(three, F_GETFD));
	result("close_range", close_range(200, 201, 0));
	result("one", fcntl(one, F_GETFD));
	result("two", read(two, buffer, 1));
	works("three works", three);
	result("close_range", close_range(200, 300, 0));
	works("the first works", fd);
	one = fcntl(fd, F_DUPFD, 200);
	closefrom(200);
	result("after closefrom", fcntl(one, F_GETFD));
	works("the first works", fd);
	close(fd);
	result("peer at the end", peer("receive 0 1"));
}

static void kernel_ones_beside(void)
{
	int fd = pair(0), sockets[2];
	result("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	result("write", write(sockets[0], "hello", 5));
	result("read", read(sockets[1], buffer, 5));
	struct sockaddr_in self = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof self;
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	result("bind to the loopback", bind(server, (struct sockaddr *)&self, sizeof self));
	result("listen", listen(server, 1));
	getsockname(server, (struct sockaddr *)&self, &length);
	result("connect", connect(client, (struct sockaddr *)&self, sizeof self));
	int other = descriptor("accept", accept(server, NULL, NULL));
	result("write", write(client, "hello", 5));
	result("read", read(other, buffer, 5));
	close(client);
	close(other);
	close(server);
	close(sockets[0]);
	close(sockets[1]);
	works("the connection works", fd);
	close(fd);
}

const struct test descriptors[] = {{"copies", copies},
								   {"onto others", onto_others},
								   {"with fcntl", with_fcntl},
								   {"what it is", what_it_is},
								   {"numbers come back", numbers_come_back},
								   {"past the library", past_the_library},
								   {"ranges", ranges},
								   {"kernel ones beside", kernel_ones_beside},
								   {0}};
