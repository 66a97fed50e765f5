/* Urgent data: MSG_OOB, SO_OOBINLINE, SIOCATMARK, POLLPRI, SIGURG. */
#include "calls.h"

#include <sys/select.h>

static unsigned char buffer[1 << 16];
static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

/* Until poll shows an urgent byte: those before it are there, too. */
static void urgent_here(int fd)
{
	settled(fd, POLLPRI);
}

/* Until so much can be read, as FIONREAD counts. */
static void unread(int fd, int count)
{
	int value = -1;
	for (long start = now(); value != count; usleep(1000)) {
		ioctl(fd, FIONREAD, &value);
		if (now() - start > PATIENCE)
			fail("%d bytes to be read, not %d", value, count);
	}
}

static int at_mark(int fd)
{
	int value = -1;
	return ioctl(fd, SIOCATMARK, &value) == 0 ? value : -1;
}

static void look(const char *what, int fd)
{
	int unread = 0;
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLPRI | POLLRDBAND};
	poll_shows(what, &one, 0);
	ioctl(fd, FIONREAD, &unread);
	say("unread", "%d, at mark %d, sockatmark %d", unread, at_mark(fd), sockatmark(fd));
}

/* What a call read. */
static void got(const char *what, long count)
{
	result(what, count);
	if (count > 0)
		say("bytes", "%d to %d", buffer[0], buffer[count - 1]);
}

static void take(int fd, int flags)
{
	got("MSG_OOB", recv(fd, buffer, 5, MSG_OOB | flags));
}

static void without(void)
{
	int fd = pair(0);
	look("nothing", fd);
	take(fd, 0);
	take(fd, MSG_PEEK | MSG_DONTWAIT);
	peer("send 0 5");
	arrived(fd, 5);
	take(fd, 0);
	look("plain bytes", fd);
	close(fd);
	take(fd, 0);
	int idle = tcp(0);
	take(idle, 0);
	result("mark of none", at_mark(idle));
	result("send MSG_OOB", send(idle, "x", 1, MSG_OOB | MSG_NOSIGNAL));
	close(idle);
	int first = listener(0, fresh_port());
	take(first, 0);
	result("mark of a listener", at_mark(first));
	close(first);
}

static void apart(void)
{
	int fd = pair(0);
	peer("urgent 0 4");
	peer("send 0 3");
	urgent_here(fd);
	arrived(fd, 3);
	look("before", fd);
	take(fd, MSG_PEEK);
	take(fd, 0);
	take(fd, 0);
	look("taken", fd);
	got("up to the mark", recv(fd, buffer, 100, 0));
	/* What is behind it may come later. */
	settled(fd, POLLIN);
	look("at the mark", fd);
	got("peek behind it", recv(fd, buffer, 100, MSG_PEEK));
	look("still there", fd);
	got("behind it", recv(fd, buffer, 100, 0));
	look("behind", fd);
	take(fd, 0);
	got("the rest", recv(fd, buffer, 100, MSG_DONTWAIT));
	close(fd);
}

static void alone(void)
{
	int fd = pair(0);
	peer("urgent 0 1");
	urgent_here(fd);
	look("alone", fd);
	got("nothing beside", recv(fd, buffer, 100, MSG_DONTWAIT));
	take(fd, 0);
	look("forgotten", fd);
	peer("urgent 0 1");
	urgent_here(fd);
	take(fd, 0);
	peer("shut 0");
	settled(fd, POLLIN);
	look("the end", fd);
	got("the end", recv(fd, buffer, 100, 0));
	take(fd, 0);
	close(fd);
}

static void several(void)
{
	int fd = pair(0);
	peer("urgent 0 1");
	urgent_here(fd);
	peer("urgent 0 1");
	peer("urgent 0 1");
	peer("send 0 2");
	settled(fd, POLLIN);
	arrived(fd, 2);
	look("three", fd);
	take(fd, 0);
	got("what is left", recv(fd, buffer, 100, 0));
	peer("urgent 0 3");
	urgent_here(fd);
	peer("urgent 0 4");
	arrived(fd, 6);
	take(fd, 0);
	look("the second", fd);
	got("the first is one of the stream", recv(fd, buffer, 100, 0));
	got("nothing", recv(fd, buffer, 100, MSG_DONTWAIT));
	close(fd);
}

static void in_line(void)
{
	int fd = pair(0), on = 1, off = 0;
	option("SO_OOBINLINE", fd, SOL_SOCKET, SO_OOBINLINE);
	result("set", setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
	option("SO_OOBINLINE", fd, SOL_SOCKET, SO_OOBINLINE);
	peer("urgent 0 4");
	peer("send 0 3");
	unread(fd, 7);
	look("in line", fd);
	take(fd, 0);
	got("up to the mark", recv(fd, buffer, 100, 0));
	look("at the mark", fd);
	got("peek", recv(fd, buffer, 100, MSG_PEEK));
	got("from it on", recv(fd, buffer, 100, 0));
	look("behind", fd);
	peer("urgent 0 1");
	urgent_here(fd);
	look("alone", fd);
	result("off", setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &off, sizeof off));
	look("apart", fd);
	take(fd, 0);
	close(fd);
}

static void stops(void)
{
	int fd = pair(0);
	struct iovec parts[3] = {{buffer, 2}, {buffer + 2, 1}, {buffer + 3, 50}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
	peer("urgent 0 4");
	peer("send 0 9");
	urgent_here(fd);
	arrived(fd, 3);
	got("MSG_WAITALL", recv(fd, buffer, 10, MSG_WAITALL));
	got("MSG_WAITALL behind it", recv(fd, buffer, 9, MSG_WAITALL));
	peer("urgent 0 4");
	peer("send 0 9");
	urgent_here(fd);
	arrived(fd, 3);
	got("readv", readv(fd, parts, 3));
	got("recvmsg", recvmsg(fd, &message, 0));
	say("flags", "%x", message.msg_flags);
	peer("urgent 0 1");
	urgent_here(fd);
	got("recvmsg MSG_OOB", recvmsg(fd, &message, MSG_OOB));
	say("flags", "%x", message.msg_flags);
	peer("urgent 0 1");
	settled(fd, POLLPRI);
	result("no room", recv(fd, buffer, 0, MSG_OOB));
	close(fd);
}

static void sending(void)
{
	int fd = pair(0);
	fill(buffer, 0, 8);
	result("send", send(fd, buffer, 3, MSG_OOB));
	result("peer takes", peer("oob 0"));
	result("peer receives", peer("drain 0 2"));
	struct iovec parts[2] = {{buffer, 2}, {buffer + 2, 3}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	result("sendmsg", sendmsg(fd, &message, MSG_OOB));
	result("peer takes", peer("oob 0"));
	result("peer receives", peer("drain 0 4"));
	result("sendto", sendto(fd, buffer + 6, 1, MSG_OOB | MSG_DONTWAIT, NULL, 0));
	result("peer takes", peer("oob 0"));
	result("nothing", send(fd, buffer, 0, MSG_OOB));
	result("more", send(fd, buffer, 2, MSG_OOB | MSG_MORE));
	result("peer takes", peer("oob 0"));
	close(fd);
}

static void waiting_for_it(void)
{
	int fd = pair(0), epoll = epoll_create1(0);
	struct pollfd one = {.fd = fd, .events = POLLPRI};
	peer("after 40 urgent 0 2");
	long ready = poll(&one, 1, PATIENCE);
	peer("join");
	events("poll", ready, one.revents);
	take(fd, 0);
	got("beside", recv(fd, buffer, 100, 0));
	struct epoll_event event = {.events = EPOLLPRI | EPOLLET};
	result("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	result("no news", epoll_wait(epoll, &event, 1, 0));
	peer("send 0 1");
	arrived(fd, 1);
	result("no urgent news", epoll_wait(epoll, &event, 1, 0));
	peer("after 40 urgent 0 2");
	ready = epoll_wait(epoll, &event, 1, PATIENCE);
	peer("join");
	events("epoll_wait", ready, event.events);
	result("told once", epoll_wait(epoll, &event, 1, 0));
	take(fd, 0);
	got("beside", recv(fd, buffer, 100, 0));
	got("forgotten", recv(fd, buffer, 100, MSG_DONTWAIT));
	fd_set read, except;
	struct timeval limit = {.tv_sec = PATIENCE / 1000};
	FD_ZERO(&read);
	FD_ZERO(&except);
	FD_SET(fd, &except);
	peer("after 40 urgent 0 1");
	result("select", select(fd + 1, &read, NULL, &except, &limit));
	say("except", "%d", FD_ISSET(fd, &except) != 0);
	close(epoll);
	close(fd);
}

static void by_signal(void)
{
	int fd = pair(0), value = 0;
	struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
	sigaction(SIGURG, &action, NULL);
	result("nobody", fcntl(fd, F_GETOWN));
	result("F_SETOWN to nobody there", fcntl(fd, F_SETOWN, 0x3fffffff));
	result("F_SETOWN", fcntl(fd, F_SETOWN, getpid()));
	holds("F_GETOWN", fcntl(fd, F_GETOWN) == getpid());
	struct f_owner_ex owner = {0};
	result("F_GETOWN_EX", fcntl(fd, F_GETOWN_EX, &owner));
	say("owner", "%d %d", owner.type, owner.pid == getpid());
	result("FIOGETOWN", ioctl(fd, FIOGETOWN, &value));
	holds("it is us", value == getpid());
	peer("urgent 0 1");
	urgent_here(fd);
	for (long start = now(); signals == 0 && now() - start < PATIENCE;)
		usleep(1000);
	holds("SIGURG", signals > 0);
	take(fd, 0);
	value = 0;
	result("FIOSETOWN", ioctl(fd, FIOSETOWN, &value));
	result("nobody", fcntl(fd, F_GETOWN));
	owner = (struct f_owner_ex){7, 0};
	result("F_SETOWN_EX of no kind", fcntl(fd, F_SETOWN_EX, &owner));
	owner = (struct f_owner_ex){F_OWNER_PGRP, getpgrp()};
	result("F_SETOWN_EX", fcntl(fd, F_SETOWN_EX, &owner));
	value = 0;
	result("SIOCGPGRP", ioctl(fd, SIOCGPGRP, &value));
	holds("the group", value == -getpgrp());
	int other = pair(1);
	result("another has none", fcntl(other, F_GETOWN));
	close(other);
	close(fd);
}

const struct test urgent[] = {{"without", without},
							  {"apart", apart},
							  {"alone", alone},
							  {"several", several},
							  {"in line", in_line},
							  {"stops", stops},
							  {"sending", sending},
							  {"waiting for it", waiting_for_it},
							  {"by signal", by_signal},
							  {0}};
