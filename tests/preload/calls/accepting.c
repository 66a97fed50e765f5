/* listen, accept, accept4: what a server meets. */
#include "calls.h"

static void plain(void)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof name;
	int port = fresh_port(), waiting_fd = listener(0, port);
	option("SO_ACCEPTCONN", waiting_fd, SOL_SOCKET, SO_ACCEPTCONN);
	result("peer connects", peer("connect 0 %d", port));
	int fd = descriptor("accept", accept(waiting_fd, (struct sockaddr *)&name, &length));
	say("length of the address", "%d of family %d", (int)length, name.ss_family);
	holds("a port", port_of(&name) != 0);
	result("flags", fcntl(fd, F_GETFL));
	result("descriptor flags", fcntl(fd, F_GETFD));
	length = sizeof name;
	result("getsockname", getsockname(fd, (struct sockaddr *)&name, &length));
	holds("the same port", port_of(&name) == port);
	option("SO_ACCEPTCONN of it", fd, SOL_SOCKET, SO_ACCEPTCONN);
	peer("send 0 100");
	arrived(fd, 100);
	close(fd);
	close(waiting_fd);
}

static void with_flags(void)
{
	int port = fresh_port(), waiting_fd = listener(SOCK_NONBLOCK | SOCK_CLOEXEC, port);
	result("accept of none", accept(waiting_fd, NULL, NULL));
	peer("connect 0 %d", port);
	settled(waiting_fd, POLLIN);
	int fd = descriptor("accept", accept(waiting_fd, NULL, NULL));
	result("flags are not inherited", fcntl(fd, F_GETFL));
	result("nor those of the descriptor", fcntl(fd, F_GETFD));
	close(fd);
	peer("connect 0 %d", port);
	settled(waiting_fd, POLLIN);
	fd = descriptor("accept4", accept4(waiting_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
	result("flags", fcntl(fd, F_GETFL));
	result("descriptor flags", fcntl(fd, F_GETFD));
	result("accept4 with wrong flags", accept4(waiting_fd, NULL, NULL, 1));
	close(fd);
	close(waiting_fd);
}

static void little_room(void)
{
	struct sockaddr_storage name;
	socklen_t length = 4;
	int port = fresh_port(), waiting_fd = listener(0, port);
	memset(&name, 0x55, sizeof name);
	peer("connect 0 %d", port);
	int fd = descriptor("accept", accept(waiting_fd, (struct sockaddr *)&name, &length));
	holds("the whole length", length == address_length);
	holds("no more was written", ((unsigned char *)&name)[4] == 0x55);
	close(fd);
	close(waiting_fd);
}

/* Where there is no room for an address, there is no connection either: its descriptor is free again. */
static void no_room(void)
{
	struct sockaddr_storage name;
	char byte;
	int port = fresh_port(), waiting_fd = listener(0, port), next = dup(0);
	close(next);
	peer("connect 0 %d", port);
	settled(waiting_fd, POLLIN);
	result("accept", accept(waiting_fd, (struct sockaddr *)&name, NULL));
	int other = dup(0);
	holds("no descriptor is left", other == next);
	close(other);
	result("peer at the end", peer("receive 0 1") <= 0 ? 0 : -2);
	result("and nobody else waits", read(waiting_fd, &byte, 1));
	close(waiting_fd);
}

static void waits(void)
{
	int port = fresh_port(), waiting_fd = listener(0, port);
	long start = now();
	peer("after 100 connect 0 %d", port);
	int fd = descriptor("accept", accept(waiting_fd, NULL, NULL));
	holds("waited", now() - start >= 50);
	close(fd);
	struct timeval limit = {.tv_usec = 80000};
	setsockopt(waiting_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	start = now();
	result("accept with SO_RCVTIMEO", accept(waiting_fd, NULL, NULL));
	holds("waited", now() - start >= 70);
	interrupt_after(50, 0);
	limit = (struct timeval){.tv_sec = 5};
	setsockopt(waiting_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	result("accept, interrupted", accept(waiting_fd, NULL, NULL));
	close(waiting_fd);
	waiting_fd = listener(0, port = fresh_port());
	interrupt_after(30, SA_RESTART);
	peer("after 120 connect 0 %d", port);
	fd = descriptor("accept, restarted", accept(waiting_fd, NULL, NULL));
	no_interrupts();
	close(fd);
	close(waiting_fd);
}

static void on_what_does_not_listen(void)
{
	char byte;
	int fd = pair(0);
	result("accept on a connection", accept(fd, NULL, NULL));
	close(fd);
	int pipes[2];
	if (pipe(pipes) == -1)
		fail("pipe: %m");
	result("accept on a pipe", accept(pipes[0], NULL, NULL));
	result("listen on a pipe", listen(pipes[0], 1));
	close(pipes[0]);
	close(pipes[1]);
	int port = fresh_port();
	fd = listener(0, port);
	result("read of a listener", read(fd, &byte, 1));
	result("write to a listener", send(fd, "x", 1, MSG_NOSIGNAL));
	result("connect of a listener", connect(fd, at(&theirs, port), address_length));
	result("listen again", listen(fd, 32));
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
	poll_shows("poll of a listener", &one, 0);
	close(fd);
}

static void same_port(void)
{
	int port = fresh_port(), one = listener(0, port), two = tcp(0), on = 1;
	setsockopt(two, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	result("bind", bind(two, at(&ours, port), address_length));
	close(two);
	close(one);
	two = listener(0, port);
	result("peer connects to the second", peer("connect 0 %d", port));
	int fd = descriptor("accept", accept(two, NULL, NULL));
	close(two);
	send_all(fd, 0, 10);
	result("peer receives", peer("receive 0 10"));
	close(fd);
}

static void any_address(void)
{
	struct sockaddr_storage any = {.ss_family = ours.ss_family}, name;
	socklen_t length = sizeof name;
	int port = fresh_port(), on = 1, waiting_fd = tcp(0);
	setsockopt(waiting_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	result("bind", bind(waiting_fd, at(&any, port), address_length));
	result("listen", listen(waiting_fd, 4));
	result("peer connects", peer("connect 0 %d", port));
	int fd = descriptor("accept", accept(waiting_fd, NULL, NULL));
	result("getsockname", getsockname(fd, (struct sockaddr *)&name, &length));
	holds("the address it came to",
		  !memcmp((char *)&name + (ours.ss_family == AF_INET ? 4 : 8), (char *)&ours + (ours.ss_family == AF_INET ? 4 : 8),
				  ours.ss_family == AF_INET ? 4 : 16));
	close(fd);
	close(waiting_fd);
}

/* A server for IPv6 hears IPv4 too (RFC 3493 §3.7), unless it does not want to (§5.3). */
static void both_families(void)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT}, name;
	socklen_t length = sizeof name;
	int port = fresh_port(), fd = socket(AF_INET6, SOCK_STREAM, 0), yes = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	any.sin6_port = htons(port);
	option("IPV6_V6ONLY", fd, IPPROTO_IPV6, IPV6_V6ONLY);
	result("bind", bind(fd, (struct sockaddr *)&any, sizeof any));
	result("listen", listen(fd, 4));
	result("peer connects", peer("connect 0 %d", port));
	int connection = descriptor("accept", accept(fd, (struct sockaddr *)&name, &length));
	say("length", "%d of family %d", (int)length, name.sin6_family);
	holds("mapped", IN6_IS_ADDR_V4MAPPED(&name.sin6_addr) == (ours.ss_family == AF_INET));
	option("SO_DOMAIN", connection, SOL_SOCKET, SO_DOMAIN);
	close(connection);
	close(fd);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	port = fresh_port();
	any.sin6_port = htons(port);
	result("set IPV6_V6ONLY", setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes));
	bind(fd, (struct sockaddr *)&any, sizeof any);
	listen(fd, 4);
	result("peer connects", peer("connect 0 %d", port) == 0 ? 0 : -2);
	close(fd);
}

static void gone_before_accept(void)
{
	char byte;
	int port = fresh_port(), waiting_fd = listener(0, port);
	peer("connect 0 %d", port);
	peer("send 0 5");
	peer("close 0");
	int fd = descriptor("accept of one that closed", accept(waiting_fd, NULL, NULL));
	settled(fd, POLLRDHUP);
	char five[5];
	result("read", recv(fd, five, 5, MSG_WAITALL));
	result("read at the end", read(fd, &byte, 1));
	close(fd);
	close(waiting_fd);
}

static void many_waiting(void)
{
	int port = fresh_port(), waiting_fd = listener(SOCK_NONBLOCK, port), got = 0;
	for (int i = 0; i < 10; i++)
		peer("connect %d %d", i, port);
	for (long end = now() + PATIENCE; got < 10 && now() < end;) {
		int fd = accept(waiting_fd, NULL, NULL);
		if (fd != -1)
			got += close(fd) == 0;
	}
	say("accepted", "%d", got);
	result("accept of none", accept(waiting_fd, NULL, NULL));
	close(waiting_fd);
}

static void closed_listener(void)
{
	int port = fresh_port(), waiting_fd = listener(0, port);
	close(waiting_fd);
	result("peer connects", peer("connect 0 %d", port));
	waiting_fd = listener(0, port = fresh_port());
	peer("connect 0 %d", port);
	settled(waiting_fd, POLLIN);
	close(waiting_fd);
	result("peer reads from one nobody accepted", peer("receive 0 1"));
	waiting_fd = listener(0, port = fresh_port());
	result("shutdown", shutdown(waiting_fd, SHUT_RDWR));
	result("accept", accept(waiting_fd, NULL, NULL));
	result("peer connects", peer("connect 0 %d", port));
	close(waiting_fd);
}

static int sharing(int port)
{
	int fd = tcp(SOCK_NONBLOCK), on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
	if (bind(fd, at(&ours, port), address_length) == -1)
		fail("bind: %m");
	if (listen(fd, 64) == -1)
		fail("listen: %m");
	return fd;
}

/* Two listeners of one process that share a port: both get connections, and the one that is left gets all. */
static void shared_port(void)
{
	int port = fresh_port(), fds[] = {sharing(port), sharing(port)}, got[] = {0, 0}, alone = tcp(0);
	result("bind without the option", bind(alone, at(&ours, port), address_length));
	close(alone);
	for (int i = 0; i < 40; i++) {
		struct pollfd both[] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
		if (peer("connect 0 %d", port) < 0 || poll(both, 2, PATIENCE) != 1)
			fail("connection %d did not come", i);
		int which = both[1].revents != 0;
		got[which]++;
		close(accept(fds[which], NULL, NULL));
	}
	holds("both get connections", got[0] > 0 && got[1] > 0);
	close(fds[0]);
	for (int i = 0; i < 8; i++) {
		result("peer connects to what is left", peer("connect 0 %d", port));
		settled(fds[1], POLLIN);
		close(accept(fds[1], NULL, NULL));
	}
	close(fds[1]);
}

const struct test accepting[] = {{"plain", plain},
								 {"with flags", with_flags},
								 {"little room", little_room},
								 {"no room", no_room},
								 {"waits", waits},
								 {"on what does not listen", on_what_does_not_listen},
								 {"same port", same_port},
								 {"any address", any_address},
								 {"both families", both_families},
								 {"gone before accept", gone_before_accept},
								 {"many waiting", many_waiting},
								 {"closed listener", closed_listener},
								 {"shared port", shared_port},
								 {0}};
