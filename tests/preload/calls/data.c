/* read, write, send, recv, sendfile, splice, and what ioctl says of it. */
#include "calls.h"

#include <linux/sockios.h>
#include <sys/sendfile.h>

static unsigned char buffer[1 << 20];

static void reading(void)
{
	int fd = pair(0);
	peer("send 0 1000");
	arrived(fd, 1000);
	int available = -1;
	result("FIONREAD", ioctl(fd, FIONREAD, &available));
	say("available", "%d", available);
	result("MSG_PEEK", recv(fd, buffer, 100, MSG_PEEK));
	result("MSG_PEEK again", recv(fd, buffer, 100, MSG_PEEK));
	holds("the first bytes", matches(buffer, 0, 100));
	result("read", read(fd, buffer, 300));
	holds("the first bytes", matches(buffer, 0, 300));
	struct iovec parts[3] = {{buffer, 100}, {buffer + 100, 0}, {buffer + 100, 200}};
	result("readv", readv(fd, parts, 3));
	holds("the next bytes", matches(buffer, 300, 300));
	result("MSG_TRUNC", recv(fd, NULL, 100, MSG_TRUNC));
	struct sockaddr_storage name;
	socklen_t length = sizeof name;
	result("recvfrom", recvfrom(fd, buffer, 100, 0, NULL, NULL));
	result("recvfrom with an address", recvfrom(fd, buffer + 100, sizeof buffer - 100, 0, (struct sockaddr *)&name, &length));
	say("its length", "%d", (int)length);
	holds("the last bytes", matches(buffer, 700, 300));
	result("MSG_DONTWAIT of none", recv(fd, buffer, 1, MSG_DONTWAIT));
	result("read of no byte", read(fd, buffer, 0));
	result("recv of no byte", recv(fd, buffer, 0, MSG_DONTWAIT));
	set_blocking(fd, 0);
	result("read of none", read(fd, buffer, 1));
	result("MSG_WAITALL of none", recv(fd, buffer, 10, MSG_WAITALL));
	close(fd);
}

static void waits_for_all(void)
{
	int fd = pair(0);
	peer("send 0 10");
	arrived(fd, 10);
	peer("after 50 send 0 20");
	result("MSG_WAITALL", recv(fd, buffer, 30, MSG_WAITALL));
	holds("the bytes", matches(buffer, 0, 30));
	peer("send 0 10");
	peer("shut 0");
	result("MSG_WAITALL to the end", recv(fd, buffer, 30, MSG_WAITALL));
	peer("clear");
	close(fd);
	fd = pair(0);
	struct timeval limit = {.tv_usec = 80000};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	long start = now();
	result("read with SO_RCVTIMEO", read(fd, buffer, 10));
	holds("waited", now() - start >= 70);
	peer("send 0 10");
	result("MSG_WAITALL with SO_RCVTIMEO", recv(fd, buffer, 20, MSG_WAITALL));
	close(fd);
}

static void interrupted(void)
{
	int fd = pair(0);
	long start = now();
	interrupt_after(50, 0);
	result("read, interrupted", read(fd, buffer, 10));
	holds("waited", now() - start >= 40);
	interrupt_after(50, SA_RESTART);
	start = now();
	peer("after 150 send 0 10");
	result("read, restarted", read(fd, buffer, 10));
	holds("waited", now() - start >= 120);
	close(fd);
}

static void writing(void)
{
	int fd = pair(0);
	fill(buffer, 0, 1000);
	result("write", write(fd, buffer, 100));
	result("send", send(fd, buffer + 100, 100, 0));
	struct iovec parts[3] = {{buffer + 200, 100}, {buffer, 0}, {buffer + 300, 200}};
	result("writev", writev(fd, parts, 3));
	result("sendto", sendto(fd, buffer + 500, 100, 0, NULL, 0));
	result("sendto with an address", sendto(fd, buffer + 600, 100, 0, at(&theirs, 1), address_length));
	result("MSG_MORE", send(fd, buffer + 700, 100, MSG_MORE));
	result("after MSG_MORE", send(fd, buffer + 800, 200, MSG_NOSIGNAL));
	result("write of no byte", write(fd, buffer, 0));
	result("send of no byte", send(fd, buffer, 0, 0));
	result("peer receives", peer("receive 0 1000"));
	static struct iovec too_many[2000];
	result("writev of too many parts", writev(fd, too_many, 2000));
	close(fd);
}

static void large(void)
{
	enum { LARGE = 3000000 };
	int fd = pair(0);
	peer("after 0 send 0 %d", LARGE);
	long got = 0, right = 1;
	while (got < LARGE) {
		ssize_t now_got = read(fd, buffer, sizeof buffer);
		if (now_got <= 0)
			break;
		right &= matches(buffer, got, now_got);
		got += now_got;
	}
	say("read", "%ld", got);
	holds("right", right);
	peer("after 20 receive 0 %d", LARGE);
	send_all(fd, 0, LARGE);
	for (int queued = 1; queued > 0;) {
		if (ioctl(fd, SIOCOUTQ, &queued) == -1) {
			result("SIOCOUTQ", -1);
			break;
		}
		usleep(1000);
	}
	say("all written", "%d", LARGE);
	close(fd);
}

static int file_with(long length)
{
	char name[] = "/tmp/calls-XXXXXX";
	int fd = mkstemp(name);
	unlink(name);
	fill(buffer, 0, length);
	if (fd == -1 || write(fd, buffer, length) != length)
		fail("no file: %m");
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void full(void)
{
	int fd = pair(0), queued = 0;
	set_blocking(fd, 0);
	fill(buffer, 0, sizeof buffer);
	long total = 0;
	ssize_t sent = 0;
	for (long end = now() + 500; now() < end; usleep(10000))
		while ((sent = send(fd, buffer, sizeof buffer, MSG_NOSIGNAL)) > 0)
			total += sent;
	result("when full", sent);
	holds("much was taken", total > 10000);
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT};
	poll_shows("poll", &one, 0);
	result("SIOCOUTQ", ioctl(fd, SIOCOUTQ, &queued));
	holds("some is queued", queued > 0);
	set_blocking(fd, 1);
	struct iovec part = {buffer, 10};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	result("send, MSG_DONTWAIT", send(fd, buffer, 10, MSG_NOSIGNAL | MSG_DONTWAIT));
	result("sendmsg, MSG_DONTWAIT", sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
	int file = file_with(1000);
	set_blocking(fd, 0);
	result("writev", writev(fd, &part, 1));
	result("sendfile", sendfile(fd, file, NULL, 1000));
	say("file at", "%ld", (long)lseek(file, 0, SEEK_CUR));
	close(file);
	set_blocking(fd, 1);
	struct timeval limit = {.tv_usec = 80000};
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	result("send with SO_SNDTIMEO", send(fd, buffer, 10, MSG_NOSIGNAL));
	interrupt_after(50, 0);
	limit = (struct timeval){.tv_sec = 5};
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	result("send, interrupted", send(fd, buffer, 10, MSG_NOSIGNAL));
	interrupt_after(50, SA_RESTART);
	limit = (struct timeval){0};
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	peer("after 150 drain 0 1000000000");
	result("send, restarted", send(fd, buffer, 10, MSG_NOSIGNAL));
	no_interrupts();
	shutdown(fd, SHUT_WR);
	close(fd);
	peer("clear");
}

static void sending_files(void)
{
	int fd = pair(0), file = file_with(200000);
	off_t place = 0;
	long sent = 0;
	result("sendfile of a part", sendfile(fd, file, &place, 1000));
	say("place", "%ld, file at %ld", (long)place, (long)lseek(file, 0, SEEK_CUR));
	lseek(file, 1000, SEEK_SET);
	peer("after 0 receive 0 200000");
	for (ssize_t more; (more = sendfile(fd, file, NULL, 300000)) > 0;)
		sent += more;
	say("sendfile of the rest", "%ld, file at %ld", sent, (long)lseek(file, 0, SEEK_CUR));
	result("sendfile at the end", sendfile(fd, file, NULL, 10));
	result("sendfile from a socket", sendfile(fd, fd, NULL, 10));
	place = 199000;
	result("sendfile64", sendfile64(fd, file, &place, 5000));
	say("place", "%ld", (long)place);
	close(file);
	close(fd);
}

static void splicing(void)
{
	int fd = pair(0), pipes[2];
	if (pipe(pipes) == -1)
		fail("pipe: %m");
	fill(buffer, 0, 1000);
	if (write(pipes[1], buffer, 1000) != 1000)
		fail("pipe: %m");
	result("from a pipe", splice(pipes[0], NULL, fd, NULL, 1000, 0));
	result("peer receives", peer("receive 0 1000"));
	peer("send 0 500");
	arrived(fd, 500);
	result("into a pipe", splice(fd, NULL, pipes[1], NULL, 1000, SPLICE_F_MOVE));
	result("read from the pipe", read(pipes[0], buffer, 1000));
	holds("right", matches(buffer, 0, 500));
	set_blocking(fd, 0);
	result("of none", splice(fd, NULL, pipes[1], NULL, 1000, SPLICE_F_NONBLOCK));
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

static void with_ioctl(void)
{
	int fd = pair(0), on = 1, off = 0, value = 0;
	result("FIONBIO", ioctl(fd, FIONBIO, &on));
	result("flags", fcntl(fd, F_GETFL));
	result("read", read(fd, buffer, 1));
	result("read nothing", read(fd, buffer, 0));
	result("receive nothing", recv(fd, buffer, 0, 0));
	result("write nothing", write(fd, buffer, 0));
	result("FIONBIO off", ioctl(fd, FIONBIO, &off));
	result("flags", fcntl(fd, F_GETFL));
	result("FIONREAD", ioctl(fd, FIONREAD, &value));
	say("value", "%d", value);
	result("SIOCATMARK", ioctl(fd, SIOCATMARK, &value));
	say("value", "%d", value);
	result("TIOCGWINSZ", ioctl(fd, TIOCGWINSZ, buffer));
	result("FIOCLEX", ioctl(fd, FIOCLEX));
	result("descriptor flags", fcntl(fd, F_GETFD));
	result("FIONCLEX", ioctl(fd, FIONCLEX));
	result("descriptor flags", fcntl(fd, F_GETFD));
	close(fd);
}

static void other_calls(void)
{
	int fd = pair(0);
	result("lseek", lseek(fd, 0, SEEK_SET));
	result("pread", pread(fd, buffer, 1, 0));
	result("pwrite", pwrite(fd, buffer, 1, 0));
	result("fsync", fsync(fd));
	result("ftruncate", ftruncate(fd, 0));
	result("isatty", isatty(fd) == 0 ? -1 : 1);
	close(fd);
}

static void as_a_file(void)
{
	int fd = pair(0);
	FILE *file = fdopen(fd, "r+");
	char line[100] = "";
	holds("fdopen", file != NULL);
	if (!file)
		return;
	fill(buffer, 0, 20);
	say("fwrite", "%zu", fwrite(buffer, 1, 20, file));
	result("fflush", fflush(file));
	result("peer receives", peer("receive 0 20"));
	peer("send 0 10");
	arrived(fd, 10);
	say("fread", "%zu", fread(line, 1, 10, file));
	holds("right", matches(line, 0, 10));
	peer("shut 0");
	say("at the end", "%d, %d", fgetc(file), feof(file));
	say("fprintf", "%d", fprintf(file, "%c%c", pattern(20), pattern(21)));
	result("fflush", fflush(file));
	result("peer receives", peer("receive 0 2"));
	result("fileno", fileno(file) == fd ? 0 : -2);
	result("fclose", fclose(file));
	result("peer at the end", peer("receive 0 1"));
}

static void printed(void)
{
	int fd = pair(0);
	result("dprintf", dprintf(fd, "%c%c", pattern(0), pattern(1)));
	result("peer receives", peer("receive 0 2"));
	result("of many", dprintf(fd, "%c%c%c%c%c%c%c%c", pattern(2), pattern(3), pattern(4), pattern(5), pattern(6), pattern(7), pattern(8),
							  pattern(9)));
	result("peer receives", peer("receive 0 8"));
	result("of numbers with a point", dprintf(fd, "%s %d %.1f %d %d %d %.1f", "a", 1, 1.5, 2, 3, 4, 2.5));
	result("peer receives", peer("drain 0 17"));
	close(fd);
	result("when closed", dprintf(fd, "x"));
}

const struct test data[] = {{"reading", reading},
							{"waits for all", waits_for_all},
							{"interrupted", interrupted},
							{"writing", writing},
							{"large", large},
							{"full", full},
							{"sending files", sending_files},
							{"splicing", splicing},
							{"with ioctl", with_ioctl},
							{"other calls", other_calls},
							{"as a file", as_a_file},
							{"printed", printed},
							{0}};
