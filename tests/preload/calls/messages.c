/* recvmsg, sendmsg and their forms for several; signals for a broken pipe. */
#include "calls.h"

static unsigned char buffer[1 << 16];

static void one_message(void)
{
	int fd = pair(0);
	struct sockaddr_storage name = {0};
	char control[64];
	struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 200}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	fill(buffer, 0, 300);
	result("sendmsg", sendmsg(fd, &message, 0));
	result("peer receives", peer("receive 0 300"));
	peer("send 0 250");
	arrived(fd, 250);
	memset(buffer, 0, sizeof buffer);
	message.msg_name = &name;
	message.msg_namelen = sizeof name;
	message.msg_control = control;
	message.msg_controllen = sizeof control;
	result("recvmsg", recvmsg(fd, &message, 0));
	holds("right", matches(buffer, 0, 250));
	say("name", "%d bytes, control %zu bytes, flags %x", (int)message.msg_namelen, message.msg_controllen, message.msg_flags);
	result("recvmsg of none", recvmsg(fd, &message, MSG_DONTWAIT));
	message.msg_iovlen = 0;
	result("recvmsg without parts", recvmsg(fd, &message, MSG_DONTWAIT));
	result("sendmsg without parts", sendmsg(fd, &(struct msghdr){0}, MSG_DONTWAIT));
	message.msg_iovlen = 5000;
	result("recvmsg with too many parts", recvmsg(fd, &message, MSG_DONTWAIT));
	close(fd);
}

static void several_sent(void)
{
	int fd = pair(0);
	struct iovec parts[3] = {{buffer, 100}, {buffer + 100, 200}, {buffer + 300, 300}};
	struct mmsghdr several[3] = {{{.msg_iov = &parts[0], .msg_iovlen = 1}, 0},
								 {{.msg_iov = &parts[1], .msg_iovlen = 1}, 0},
								 {{.msg_iov = &parts[2], .msg_iovlen = 1}, 0}};
	fill(buffer, 0, 600);
	result("sendmmsg", sendmmsg(fd, several, 3, 0));
	say("lengths", "%u %u %u", several[0].msg_len, several[1].msg_len, several[2].msg_len);
	result("peer receives", peer("receive 0 600"));
	result("sendmmsg of none", sendmmsg(fd, several, 0, 0));
	close(fd);
}

static void several_received(void)
{
	int fd = pair(0);
	struct iovec parts[3] = {{buffer, 100}, {buffer + 100, 100}, {buffer + 200, 100}};
	struct mmsghdr several[3] = {{{.msg_iov = &parts[0], .msg_iovlen = 1}, 0},
								 {{.msg_iov = &parts[1], .msg_iovlen = 1}, 0},
								 {{.msg_iov = &parts[2], .msg_iovlen = 1}, 0}};
	peer("send 0 250");
	arrived(fd, 250);
	result("recvmmsg", recvmmsg(fd, several, 3, MSG_DONTWAIT, NULL));
	say("lengths", "%u %u %u", several[0].msg_len, several[1].msg_len, several[2].msg_len);
	holds("right", matches(buffer, 0, 250));
	result("recvmmsg of none", recvmmsg(fd, several, 3, MSG_DONTWAIT, NULL));
	peer("send 0 10");
	arrived(fd, 10);
	result("recvmmsg, MSG_WAITFORONE", recvmmsg(fd, several, 3, MSG_WAITFORONE, NULL));
	peer("send 0 100");
	peer("after 60 send 0 50");
	result("recvmmsg waits", recvmmsg(fd, several, 2, 0, NULL));
	peer("shut 0");
	settled(fd, POLLRDHUP);
	result("recvmmsg at the end", recvmmsg(fd, several, 1, 0, NULL));
	say("length", "%u", several[0].msg_len);
	close(fd);
}

static void interrupted(void)
{
	int fd = pair(0);
	struct iovec part = {buffer, 100};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	struct mmsghdr one = {message, 0};
	interrupt_after(40, 0);
	result("recvmsg", recvmsg(fd, &message, 0));
	interrupt_after(40, 0);
	result("recvmmsg", recvmmsg(fd, &one, 1, 0, NULL));
	interrupt_after(40, 0);
	result("readv", readv(fd, &part, 1));
	no_interrupts();
	close(fd);
}

static void peeked_message(void)
{
	int fd = pair(0);
	struct iovec part = {buffer, 100};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	peer("send 0 50");
	arrived(fd, 50);
	result("recvmsg, MSG_PEEK", recvmsg(fd, &message, MSG_PEEK));
	result("recvmsg", recvmsg(fd, &message, 0));
	peer("send 0 10");
	peer("after 60 send 0 90");
	result("recvmsg, MSG_WAITALL", recvmsg(fd, &message, MSG_WAITALL));
	holds("right", matches(buffer, 50, 100));
	close(fd);
}

static int pipes_broken;

static void count_broken(int signal)
{
	(void)signal;
	pipes_broken++;
}

static void broken_pipe(void)
{
	int fd = pair(0);
	struct iovec part = {buffer, 10};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	signal(SIGPIPE, count_broken);
	pipes_broken = 0;
	shutdown(fd, SHUT_WR);
	result("write", write(fd, buffer, 10));
	say("signals", "%d", pipes_broken);
	result("send", send(fd, buffer, 10, 0));
	say("signals", "%d", pipes_broken);
	result("send, MSG_NOSIGNAL", send(fd, buffer, 10, MSG_NOSIGNAL));
	say("signals", "%d", pipes_broken);
	result("writev", writev(fd, &part, 1));
	say("signals", "%d", pipes_broken);
	result("sendmsg", sendmsg(fd, &message, 0));
	say("signals", "%d", pipes_broken);
	result("sendmsg, MSG_NOSIGNAL", sendmsg(fd, &message, MSG_NOSIGNAL));
	say("signals", "%d", pipes_broken);
	signal(SIGPIPE, SIG_IGN);
	result("write, ignored", write(fd, buffer, 10));
	signal(SIGPIPE, SIG_DFL);
	close(fd);
}

const struct test messages[] = {{"one message", one_message},
								{"several sent", several_sent},
								{"several received", several_received},
								{"interrupted", interrupted},
								{"peeked message", peeked_message},
								{"broken pipe", broken_pipe},
								{0}};
