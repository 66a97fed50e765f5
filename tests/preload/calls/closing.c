/* shutdown, close, the end of the stream, resets, SO_LINGER. */
#include "calls.h"

static unsigned char buffer[1 << 16];

static void look(const char *what, int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP | POLLPRI};
	poll_shows(what, &one, 0);
}

static void peer_closes(void)
{
	int fd = pair(0);
	look("poll at first", fd);
	peer("send 0 10");
	peer("shut 0");
	settled(fd, POLLRDHUP);
	look("poll at the end", fd);
	result("read", read(fd, buffer, 100));
	result("read at the end", read(fd, buffer, 100));
	result("and again", read(fd, buffer, 100));
	send_all(fd, 0, 100);
	result("peer receives", peer("receive 0 100"));
	shutdown(fd, SHUT_WR);
	result("peer at the end", peer("receive 0 1"));
	settled(fd, POLLHUP);
	look("poll when all is closed", fd);
	result("write", send(fd, buffer, 1, MSG_NOSIGNAL));
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	close(fd);
}

static void we_shut(void)
{
	int fd = pair(0);
	send_all(fd, 0, 50);
	result("shutdown", shutdown(fd, SHUT_WR));
	result("again", shutdown(fd, SHUT_WR));
	result("peer receives", peer("receive 0 50"));
	result("peer at the end", peer("receive 0 1"));
	look("poll", fd);
	result("write", send(fd, buffer, 1, MSG_NOSIGNAL));
	peer("send 0 60");
	result("read", recv(fd, buffer, 60, MSG_WAITALL));
	peer("close 0");
	settled(fd, POLLHUP);
	result("read at the end", read(fd, buffer, 1));
	close(fd);
}

static void we_stop_reading(void)
{
	int fd = pair(0);
	result("shutdown", shutdown(fd, SHUT_RD));
	look("poll", fd);
	result("read", read(fd, buffer, 1));
	send_all(fd, 0, 50);
	result("peer receives", peer("receive 0 50"));
	result("shutdown of a direction that is none", shutdown(fd, 7));
	result("both", shutdown(fd, SHUT_RDWR));
	result("peer at the end", peer("receive 0 1"));
	close(fd);
}

static void peer_resets(void)
{
	int fd = pair(0);
	peer("reset 0");
	settled(fd, POLLHUP);
	look("poll", fd);
	result("read", read(fd, buffer, 1));
	result("read again", read(fd, buffer, 1));
	result("write", send(fd, buffer, 1, MSG_NOSIGNAL));
	option("SO_ERROR", fd, SOL_SOCKET, SO_ERROR);
	look("poll later", fd);
	close(fd);
	fd = pair(0);
	peer("reset 0");
	settled(fd, POLLHUP);
	option("SO_ERROR first", fd, SOL_SOCKET, SO_ERROR);
	result("read then", read(fd, buffer, 1));
	struct sockaddr_storage name;
	result("getpeername", getpeername(fd, (struct sockaddr *)&name, &(socklen_t){sizeof name}));
	result("shutdown", shutdown(fd, SHUT_RDWR));
	close(fd);
	fd = pair(0);
	peer("reset 0");
	settled(fd, POLLHUP);
	result("write first", send(fd, buffer, 1, MSG_NOSIGNAL));
	result("write second", send(fd, buffer, 1, MSG_NOSIGNAL));
	close(fd);
}

static void reset_with_data(void)
{
	int fd = pair(0);
	peer("send 0 10");
	arrived(fd, 10);
	peer("reset 0");
	settled(fd, POLLHUP);
	result("read", read(fd, buffer, 100));
	result("read again", read(fd, buffer, 100));
	close(fd);
}

static void waiting_reader_is_reset(void)
{
	int fd = pair(0);
	peer("after 60 reset 0");
	result("read", read(fd, buffer, 1));
	close(fd);
}

static void peer_gone_while_we_write(void)
{
	int fd = pair(0);
	peer("close 0");
	settled(fd, POLLRDHUP);
	result("first write", send(fd, buffer, 100, MSG_NOSIGNAL));
	settled(fd, POLLHUP);
	result("second write", send(fd, buffer, 100, MSG_NOSIGNAL));
	result("read", read(fd, buffer, 1));
	close(fd);
}

static void we_reset(void)
{
	int fd = pair(0);
	struct linger hard = {.l_onoff = 1};
	result("SO_LINGER", setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard));
	close(fd);
	result("peer reads", peer("receive 0 1"));
	fd = pair(0);
	peer("send 0 10");
	arrived(fd, 10);
	close(fd);
	result("peer reads of one with unread bytes", peer("receive 0 1"));
	fd = pair(0);
	peer("send 0 10");
	arrived(fd, 10);
	send_all(fd, 0, 100);
	close(fd);
	result("peer receives what was written before", peer("receive 0 100"));
	result("and then", peer("receive 0 1"));
}

static void lingering(void)
{
	int fd = pair(0);
	struct linger patient = {.l_onoff = 1, .l_linger = 5};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &patient, sizeof patient);
	send_all(fd, 0, 30000);
	long start = now();
	result("close", close(fd));
	holds("soon", now() - start < 3000);
	result("peer receives", peer("receive 0 30000"));
	result("peer at the end", peer("receive 0 1"));
}

static void data_before_close(void)
{
	int fd = pair(0);
	peer("after 30 receive 0 100000");
	send_all(fd, 0, 100000);
	result("close", close(fd));
	peer("clear");
	fd = pair(0);
	send_all(fd, 0, 1000);
	close(fd);
	result("peer receives", peer("receive 0 1000"));
	result("peer at the end", peer("receive 0 1"));
}

const struct test closing[] = {{"peer closes", peer_closes},
							   {"we shut", we_shut},
							   {"we stop reading", we_stop_reading},
							   {"peer resets", peer_resets},
							   {"reset with data", reset_with_data},
							   {"waiting reader is reset", waiting_reader_is_reset},
							   {"peer gone while we write", peer_gone_while_we_write},
							   {"we reset", we_reset},
							   {"lingering", lingering},
							   {"data before close", data_before_close},
							   {0}};
