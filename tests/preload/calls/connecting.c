/* socket, bind, connect: what a client meets. */
#include "calls.h"

static int begin_connect(int port)
{
	int fd = tcp(SOCK_NONBLOCK);
	result("connect without waiting", connect(fd, at(&theirs, port), address_length));
	return fd;
}

static int wait_connected(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLOUT};
	int ready = poll(&one, 1, PATIENCE);
	events("poll", ready, one.revents);
	return ready;
}

static void kinds(void)
{
	int fd = descriptor("plain", socket(ours.ss_family, SOCK_STREAM, 0));
	result("its flags", fcntl(fd, F_GETFL));
	result("its descriptor flags", fcntl(fd, F_GETFD));
	close(fd);
	fd = descriptor("with flags", socket(ours.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
	result("its flags", fcntl(fd, F_GETFL));
	result("its descriptor flags", fcntl(fd, F_GETFD));
	close(fd);
	descriptor("a protocol that is no stream", socket(ours.ss_family, SOCK_STREAM, IPPROTO_UDP));
	descriptor("an unknown family", socket(12345, SOCK_STREAM, 0));
	descriptor("an unknown type", socket(ours.ss_family, 77, 0));
	fd = descriptor("datagrams", socket(ours.ss_family, SOCK_DGRAM, 0));
	result("bind of datagrams", bind(fd, at(&ours, 0), address_length) == -1 && errno != EADDRNOTAVAIL ? -1 : 0);
	close(fd);
}

static void to_nobody(void)
{
	int fd = tcp(0);
	result("connect", connect(fd, at(&theirs, fresh_port()), address_length));
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	int port = fresh_port();
	peer("listen %d", port);
	result("connect again, to somebody", connect(fd, at(&theirs, port), address_length));
	result("peer accepts", peer("accept 0"));
	close(fd);
}

static void to_nobody_without_waiting(void)
{
	char byte;
	int fd = begin_connect(fresh_port());
	wait_connected(fd);
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	option("SO_ERROR again", fd, SOL_SOCKET, SO_ERROR);
	result("read", read(fd, &byte, 1));
	result("write", send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
	fd = begin_connect(fresh_port());
	wait_connected(fd);
	result("write takes the error", send(fd, "x", 1, MSG_NOSIGNAL));
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	close(fd);
}

static void without_waiting(void)
{
	int port = fresh_port();
	peer("listen %d", port);
	int fd = begin_connect(port);
	wait_connected(fd);
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	result("connect once more", connect(fd, at(&theirs, port), address_length));
	result("and once more", connect(fd, at(&theirs, port), address_length));
	result("peer accepts", peer("accept 0"));
	send_all(fd, 0, 1000);
	result("peer receives", peer("receive 0 1000"));
	close(fd);
}

/* Nobody has this address: neighbour discovery has no answer. */
static void unanswered(void)
{
	struct sockaddr_storage nowhere = theirs;
	char byte;
	if (nowhere.ss_family == AF_INET)
		((struct sockaddr_in *)&nowhere)->sin_addr.s_addr ^= htonl(0x70);
	else
		((struct sockaddr_in6 *)&nowhere)->sin6_addr.s6_addr[15] ^= 0x70;
	int fd = tcp(SOCK_NONBLOCK);
	result("connect", connect(fd, at(&nowhere, 80), address_length));
	result("connect again", connect(fd, at(&nowhere, 80), address_length));
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT};
	poll_shows("poll", &one, 20);
	result("read", read(fd, &byte, 1));
	result("read nothing", read(fd, &byte, 0));
	result("receive nothing", recv(fd, &byte, 0, 0));
	result("write", send(fd, "x", 1, MSG_NOSIGNAL));
	result("write nothing", write(fd, "x", 0));
	result("getpeername", getpeername(fd, at(&ours, 0), &(socklen_t){sizeof ours}));
	result("shutdown", shutdown(fd, SHUT_WR));
	close(fd);
}

/* shutdown while the handshake goes on ends that (as AF_UNSPEC does), and the socket may connect again. */
static void given_up(void)
{
	static const int ways[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
	struct sockaddr_storage nowhere = theirs;
	char byte;
	if (nowhere.ss_family == AF_INET)
		((struct sockaddr_in *)&nowhere)->sin_addr.s_addr ^= htonl(0x70);
	else
		((struct sockaddr_in6 *)&nowhere)->sin6_addr.s6_addr[15] ^= 0x70;
	for (int i = 0; i < 3; i++) {
		int fd = tcp(SOCK_NONBLOCK), epoll = epoll_create1(0), port = fresh_port();
		struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
		struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
		result("connect", connect(fd, at(&nowhere, 80), address_length));
		result("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
		result("epoll_wait", epoll_wait(epoll, &event, 1, 0));
		result("shutdown", shutdown(fd, ways[i]));
		long ready = epoll_wait(epoll, &event, 1, PATIENCE);
		events("epoll_wait", ready, event.events);
		poll_shows("poll", &one, 0);
		if (i == 0)
			option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
		if (i == 1)
			result("read", read(fd, &byte, 1));
		if (i == 2)
			result("write", send(fd, "x", 1, MSG_NOSIGNAL));
		poll_shows("poll", &one, 0);
		option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
		result("read", read(fd, &byte, 1));
		result("write", send(fd, "x", 1, MSG_NOSIGNAL));
		result("getpeername", getpeername(fd, at(&ours, 0), &(socklen_t){sizeof ours}));
		peer("listen %d", port);
		set_blocking(fd, 1);
		result("connect to somebody", connect(fd, at(&theirs, port), address_length));
		result("peer accepts", peer("accept 0"));
		result("write", write(fd, "x", 1));
		close(epoll);
		close(fd);
	}
}

static void limited(void)
{
	struct sockaddr_storage nowhere = theirs;
	struct timeval limit = {.tv_usec = 100000};
	if (nowhere.ss_family == AF_INET)
		((struct sockaddr_in *)&nowhere)->sin_addr.s_addr ^= htonl(0x70);
	else
		((struct sockaddr_in6 *)&nowhere)->sin6_addr.s6_addr[15] ^= 0x70;
	int fd = tcp(0);
	result("SO_SNDTIMEO", setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
	long start = now();
	result("connect", connect(fd, at(&nowhere, 80), address_length));
	holds("waited", now() - start >= 90 && now() - start < 3000);
	close(fd);
}

/* A connect that a signal ends goes on without the program. */
static void interrupted(void)
{
	struct sockaddr_storage nowhere = theirs;
	if (nowhere.ss_family == AF_INET)
		((struct sockaddr_in *)&nowhere)->sin_addr.s_addr ^= htonl(0x60);
	else
		((struct sockaddr_in6 *)&nowhere)->sin6_addr.s6_addr[15] ^= 0x60;
	int fd = tcp(0);
	interrupt_after(40, 0);
	result("connect", connect(fd, at(&nowhere, 80), address_length));
	no_interrupts();
	set_blocking(fd, 0);
	result("connect again", connect(fd, at(&nowhere, 80), address_length));
	close(fd);
}

static void not_connected(void)
{
	char byte;
	struct sockaddr_storage name;
	socklen_t length = sizeof name;
	int fd = tcp(0);
	result("getpeername", getpeername(fd, (struct sockaddr *)&name, &length));
	result("getsockname", getsockname(fd, (struct sockaddr *)&name, &length));
	say("its port", "%d in %d bytes", port_of(&name), (int)length);
	result("read", read(fd, &byte, 1));
	result("write", send(fd, "x", 1, MSG_NOSIGNAL));
	result("shutdown", shutdown(fd, SHUT_RDWR));
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
	poll_shows("poll", &one, 0);
	result("accept", accept(fd, NULL, NULL));
	close(fd);
	result("read when closed", read(fd, &byte, 1));
	result("close again", close(fd));
}

static void binding(void)
{
	int port = fresh_port(), fd = tcp(0), other = tcp(0);
	struct sockaddr_storage name, foreign = theirs;
	socklen_t length = sizeof name;
	result("bind", bind(fd, at(&ours, port), address_length));
	result("bind again", bind(fd, at(&ours, fresh_port()), address_length));
	result("bind of another to the same", bind(other, at(&ours, port), address_length));
	result("bind to an address of others", bind(other, at(&foreign, port), address_length));
	result("bind with a short address", bind(other, at(&ours, port), 4));
	result("getsockname", getsockname(fd, (struct sockaddr *)&name, &length));
	holds("the port", port_of(&name) == port);
	say("length", "%d", (int)length);
	result("bind to port 0", bind(other, at(&ours, 0), address_length));
	result("getsockname", getsockname(other, (struct sockaddr *)&name, &length));
	holds("a port was chosen", port_of(&name) != 0);
	close(other);
	peer("listen %d", fresh_port());
	close(fd);
}

static void from_a_bound_port(void)
{
	int from = fresh_port(), port = fresh_port(), fd = tcp(0);
	struct sockaddr_storage name;
	socklen_t length = sizeof name;
	result("bind", bind(fd, at(&ours, from), address_length));
	peer("listen %d", port);
	result("connect", connect(fd, at(&theirs, port), address_length));
	getsockname(fd, (struct sockaddr *)&name, &length);
	holds("our port", port_of(&name) == from);
	length = sizeof name;
	result("getpeername", getpeername(fd, (struct sockaddr *)&name, &length));
	holds("their port", port_of(&name) == port);
	length = 3;
	result("getpeername into little room", getpeername(fd, (struct sockaddr *)&name, &length));
	holds("the whole length", length == address_length);
	result("connect again", connect(fd, at(&theirs, port), address_length));
	result("bind when connected", bind(fd, at(&ours, fresh_port()), address_length));
	result("listen when connected", listen(fd, 4));
	close(fd);
}

/* A cookie is not there: the handshake comes first, for who does not wait for it as well (RFC 7413 §4.1.1). */
static void fast(void)
{
	int port = fresh_port(), fd = tcp(0);
	char bytes[10];
	fill(bytes, 0, 10);
	peer("listen %d", port);
	result("MSG_FASTOPEN", sendto(fd, bytes, 10, MSG_FASTOPEN, at(&theirs, port), address_length));
	result("peer accepts", peer("accept 0"));
	result("peer receives", peer("receive 0 10"));
	result("on a connection", sendto(fd, bytes, 10, MSG_FASTOPEN, at(&theirs, port), address_length));
	close(fd);
	fd = tcp(SOCK_NONBLOCK);
	port = fresh_port();
	result("to nobody", sendto(fd, bytes, 10, MSG_FASTOPEN, at(&theirs, port), address_length));
	wait_connected(fd);
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	close(fd);
}

static void wrong_addresses(void)
{
	struct sockaddr_storage odd = theirs;
	int fd = tcp(0);
	result("too short", connect(fd, at(&theirs, 80), 5));
	odd.ss_family = AF_UNIX;
	result("of another family", connect(fd, (struct sockaddr *)&odd, sizeof(struct sockaddr_in6)));
	odd.ss_family = AF_UNSPEC;
	result("of no family", connect(fd, (struct sockaddr *)&odd, address_length));
	close(fd);
}

static void many_at_once(void)
{
	enum { MANY = 30 };
	struct pollfd all[MANY];
	int port = fresh_port(), right = 0;
	peer("listen %d", port);
	for (int i = 0; i < MANY; i++) {
		all[i] = (struct pollfd){.fd = tcp(SOCK_NONBLOCK), .events = POLLOUT};
		connect(all[i].fd, at(&theirs, port), address_length);
	}
	for (int i = 0; i < MANY; i++) {
		poll(&all[i], 1, PATIENCE);
		right += all[i].revents == POLLOUT;
		right += peer("accept %d", i) == 0;
	}
	say("connected and accepted", "%d", right);
	for (int i = 0; i < MANY; i++)
		close(all[i].fd);
}

const struct test connecting[] = {{"kinds", kinds},
								  {"to nobody", to_nobody},
								  {"to nobody without waiting", to_nobody_without_waiting},
								  {"without waiting", without_waiting},
								  {"unanswered", unanswered},
								  {"given up", given_up},
								  {"limited", limited},
								  {"interrupted", interrupted},
								  {"not connected", not_connected},
								  {"binding", binding},
								  {"from a bound port", from_a_bound_port},
								  {"fast", fast},
								  {"wrong addresses", wrong_addresses},
								  {"many at once", many_at_once},
								  {0}};
