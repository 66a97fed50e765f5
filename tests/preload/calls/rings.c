/* io_uring by its system calls: what its operations do with sockets, files and each other. */
#include "calls.h"

#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { ENTRIES = 16 };

static struct ring {
	int fd;
	unsigned *head, *tail, *array, *dropped;
	unsigned *done_head, *done_tail;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *done;
	size_t size;
	struct io_uring_params set;
	unsigned added;
} ring;

static void open_ring(unsigned flags)
{
	memset(&ring, 0, sizeof ring);
	ring.set.flags = flags;
	ring.fd = syscall(SYS_io_uring_setup, ENTRIES, &ring.set);
	if (ring.fd == -1 && (errno == ENOSYS || errno == EPERM)) {
		printf("no io_uring\ndone\n");
		exit(0);
	}
	if (ring.fd == -1)
		fail("io_uring_setup: %m");
	ring.size = ring.set.cq_off.cqes + ring.set.cq_entries * sizeof(struct io_uring_cqe);
	char *at = mmap(NULL, ring.size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	size_t entries = ENTRIES * sizeof(struct io_uring_sqe);
	ring.entries = mmap(NULL, entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (at == MAP_FAILED || ring.entries == MAP_FAILED)
		fail("mmap of a ring: %m");
	ring.head = (unsigned *)(at + ring.set.sq_off.head);
	ring.tail = (unsigned *)(at + ring.set.sq_off.tail);
	ring.array = (unsigned *)(at + ring.set.sq_off.array);
	ring.dropped = (unsigned *)(at + ring.set.sq_off.dropped);
	ring.done_head = (unsigned *)(at + ring.set.cq_off.head);
	ring.done_tail = (unsigned *)(at + ring.set.cq_off.tail);
	ring.done = (struct io_uring_cqe *)(at + ring.set.cq_off.cqes);
}

static void close_ring(void)
{
	char *at = (char *)ring.head - ring.set.sq_off.head;
	munmap(at, ring.size);
	munmap(ring.entries, ENTRIES * sizeof(struct io_uring_sqe));
	close(ring.fd);
}

static struct io_uring_sqe *add(int operation, int fd, const void *buffer, unsigned length, unsigned long name)
{
	unsigned at = (*ring.tail + ring.added++) % ENTRIES;
	struct io_uring_sqe *entry = &ring.entries[at];
	memset(entry, 0, sizeof *entry);
	entry->opcode = operation;
	entry->fd = fd;
	entry->addr = (unsigned long)buffer;
	entry->len = length;
	entry->user_data = name;
	ring.array[at] = at;
	return entry;
}

/* A call that passes no function of the C library, as liburing's do. */
static long direct(long number, long first, long second, long third, long fourth)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = fourth, r8 __asm__("r8") = 0, r9 __asm__("r9") = 0;
	long value;
	__asm__ volatile("syscall"
					 : "=a"(value)
					 : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8), "r"(r9)
					 : "rcx", "r11", "memory");
	errno = value < 0 ? -value : errno;
	return value < 0 ? -1 : value;
#else
	return syscall(number, first, second, third, fourth, NULL, 0);
#endif
}

static long enter(unsigned least, unsigned flags)
{
	unsigned count = ring.added;
	ring.added = 0;
	__atomic_store_n(ring.tail, *ring.tail + count, __ATOMIC_RELEASE);
	return direct(SYS_io_uring_enter, ring.fd, count, least, flags);
}

static int is_done(void)
{
	return *ring.done_head != __atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE);
}

static struct io_uring_cqe next(void)
{
	long end = now() + PATIENCE;
	while (!is_done()) {
		if (now() > end)
			fail("no completion");
		if (syscall(SYS_io_uring_enter, ring.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) == -1 && errno != EINTR)
			fail("io_uring_enter: %m");
	}
	struct io_uring_cqe cqe = ring.done[*ring.done_head & (ring.set.cq_entries - 1)];
	__atomic_store_n(ring.done_head, *ring.done_head + 1, __ATOMIC_RELEASE);
	return cqe;
}

static void tell(const char *what, struct io_uring_cqe cqe)
{
	const char *more = cqe.flags & IORING_CQE_F_MORE ? ", and more" : "";
	if (cqe.res < 0)
		say(what, "%s of %lu%s", strerrorname_np(-cqe.res), (unsigned long)cqe.user_data, more);
	else
		say(what, "%d of %lu%s", cqe.res, (unsigned long)cqe.user_data, more);
}

/* The completions that come next, in the order of their names: which of several comes first does not matter. */
static void expect(const char *what, int count)
{
	struct io_uring_cqe all[ENTRIES];
	for (int i = 0; i < count; i++) {
		struct io_uring_cqe cqe = next();
		int at = i;
		for (; at > 0 && all[at - 1].user_data > cqe.user_data; at--)
			all[at] = all[at - 1];
		all[at] = cqe;
	}
	for (int i = 0; i < count; i++)
		tell(what, all[i]);
}

/* Submits what was added, and tells what completes. */
static void run(const char *what, int count)
{
	if (enter(count, IORING_ENTER_GETEVENTS) < 0)
		result(what, -1);
	expect(what, count);
}

static int taken(const char *what)
{
	struct io_uring_cqe cqe = next();
	if (cqe.res < 0)
		tell(what, cqe);
	else
		say(what, "a descriptor of %lu%s", (unsigned long)cqe.user_data, cqe.flags & IORING_CQE_F_MORE ? ", and more" : "");
	return cqe.res;
}

static void echoes(void)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof name;
	char bytes[200];
	int port = fresh_port(), waiting_fd = listener(0, port);
	open_ring(0);
	add(IORING_OP_ACCEPT, waiting_fd, &name, 0, 1)->addr2 = (unsigned long)&length;
	result("submitted", enter(0, 0));
	holds("nothing yet", !is_done());
	peer("connect 0 %d", port);
	int fd = taken("accepted");
	say("length of the address", "%d of family %d", (int)length, name.ss_family);
	add(IORING_OP_RECV, fd, bytes, sizeof bytes, 2);
	enter(0, 0);
	peer("send 0 100");
	expect("received", 1);
	holds("right", matches(bytes, 0, 100));
	fill(bytes, 0, 100);
	add(IORING_OP_SEND, fd, bytes, 100, 3);
	run("sent", 1);
	result("the peer has it", peer("receive 0 100"));
	add(IORING_OP_READ, fd, bytes, 0, 4);
	run("read of nothing", 1);
	add(IORING_OP_SHUTDOWN, fd, NULL, SHUT_WR, 5);
	run("shut", 1);
	result("the peer sees the end", peer("receive 0 1"));
	add(IORING_OP_CLOSE, fd, NULL, 0, 6);
	run("closed", 1);
	add(IORING_OP_CLOSE, fd, NULL, 0, 7);
	run("closed again", 1);
	close_ring();
	close(waiting_fd);
}

static void many(void)
{
	int port = fresh_port(), waiting_fd = listener(0, port), fds[3];
	open_ring(0);
	add(IORING_OP_ACCEPT, waiting_fd, NULL, 0, 1)->ioprio = IORING_ACCEPT_MULTISHOT;
	enter(0, 0);
	for (int i = 0; i < 3; i++) {
		peer("connect %d %d", i, port);
		fds[i] = taken("accepted");
	}
	add(IORING_OP_ASYNC_CANCEL, -1, (void *)1, 0, 2);
	run("cancelled", 2);
	add(IORING_OP_ASYNC_CANCEL, -1, (void *)1, 0, 3);
	run("there is none", 1);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close_ring();
	close(waiting_fd);
}

static void dialing(void)
{
	int port = fresh_port(), fd = tcp(0);
	open_ring(0);
	peer("listen %d", port);
	add(IORING_OP_CONNECT, fd, at(&theirs, port), 0, 1)->off = address_length;
	run("connected", 1);
	peer("accept 0");
	add(IORING_OP_SEND, fd, "abcdefg", 7, 2)->msg_flags = MSG_WAITALL;
	run("sent", 1);
	add(IORING_OP_CONNECT, fd, at(&theirs, port), 0, 3)->off = address_length;
	run("connected again", 1);
	close(fd);
	fd = tcp(0);
	add(IORING_OP_CONNECT, fd, at(&theirs, fresh_port()), 0, 4)->off = address_length;
	run("refused", 1);
	add(IORING_OP_CONNECT, fd, NULL, 0, 5)->off = address_length;
	run("to nowhere", 1);
	close(fd);
	add(IORING_OP_SOCKET, ours.ss_family, NULL, 0, 6)->off = SOCK_STREAM;
	enter(1, IORING_ENTER_GETEVENTS);
	fd = taken("a socket");
	peer("listen %d", port = fresh_port());
	add(IORING_OP_CONNECT, fd, at(&theirs, port), 0, 7)->off = address_length;
	run("connected", 1);
	close(fd);
	close_ring();
}

static void polled(void)
{
	int fd = pair(0);
	char byte;
	open_ring(0);
	add(IORING_OP_POLL_ADD, fd, NULL, 0, 1)->poll32_events = POLLOUT;
	run("room", 1);
	add(IORING_OP_POLL_ADD, fd, NULL, 0, 2)->poll32_events = POLLIN;
	enter(0, 0);
	peer("send 0 1");
	expect("bytes", 1);
	recv(fd, &byte, 1, 0);
	add(IORING_OP_POLL_ADD, fd, NULL, IORING_POLL_ADD_MULTI, 3)->poll32_events = POLLIN;
	enter(0, 0);
	for (int i = 0; i < 2; i++) {
		peer("send 0 1");
		expect("bytes", 1);
		recv(fd, &byte, 1, 0);
	}
	add(IORING_OP_POLL_REMOVE, -1, (void *)3, 0, 4);
	run("removed", 2);
	add(IORING_OP_POLL_ADD, fd, NULL, 0, 5)->poll32_events = POLLIN;
	add(IORING_OP_ASYNC_CANCEL, fd, NULL, 0, 6)->cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
	run("all of the descriptor", 2);
	close_ring();
	close(fd);
}

static void linked(void)
{
	int fd = pair(0), pipes[2];
	char bytes[64], file[64];
	struct __kernel_timespec soon = {.tv_nsec = 20000000};
	open_ring(0);
	if (pipe(pipes) == -1)
		fail("pipe: %m");
	add(IORING_OP_RECV, fd, bytes, 10, 1)->flags = IOSQE_IO_LINK;
	add(IORING_OP_SEND, fd, bytes, 10, 2);
	enter(0, 0);
	peer("send 0 10");
	expect("there and back", 2);
	result("the peer has it", peer("receive 0 10"));
	add(IORING_OP_RECV, fd, bytes, 10, 3)->flags = IOSQE_IO_LINK;
	add(IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 4)->flags = IOSQE_IO_LINK;
	add(IORING_OP_NOP, -1, NULL, 0, 5);
	run("too late", 3);
	add(IORING_OP_SEND, fd, "0123456789", 10, 6)->flags = IOSQE_IO_LINK;
	add(IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 7);
	run("in time", 2);
	if (write(pipes[1], "file", 4) != 4)
		fail("write: %m");
	add(IORING_OP_READ, pipes[0], file, 4, 8)->flags = IOSQE_IO_LINK;
	add(IORING_OP_SEND, fd, file, 4, 9)->flags = IOSQE_IO_LINK;
	add(IORING_OP_WRITE, pipes[1], file, 4, 10);
	run("from the kernel and to it", 3);
	add(IORING_OP_RECV, -1, bytes, 10, 11)->flags = IOSQE_IO_LINK;
	add(IORING_OP_SEND, fd, bytes, 10, 12);
	run("broken", 2);
	add(IORING_OP_SHUTDOWN, fd, NULL, 77, 13)->flags = IOSQE_IO_HARDLINK;
	add(IORING_OP_SEND, fd, bytes, 10, 14)->flags = IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
	add(IORING_OP_SHUTDOWN, fd, NULL, SHUT_WR, 15);
	run("not broken", 2);
	close(pipes[0]);
	close(pipes[1]);
	close_ring();
	close(fd);
}

static void vectors(void)
{
	int fd = pair(0);
	char bytes[300];
	struct iovec parts[2] = {{bytes, 100}, {bytes + 100, 200}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	open_ring(0);
	add(IORING_OP_READV, fd, parts, 2, 1);
	enter(0, 0);
	parts[0].iov_base = NULL;
	peer("send 0 300");
	expect("its parts were submitted", 1);
	parts[0].iov_base = bytes;
	holds("right", matches(bytes, 0, 300));
	add(IORING_OP_RECVMSG, fd, &message, 1, 2);
	enter(0, 0);
	peer("send 0 300");
	expect("a message", 1);
	say("what came with it", "%d %d %d", (int)message.msg_namelen, (int)message.msg_controllen, message.msg_flags);
	fill(bytes, 0, 300);
	add(IORING_OP_WRITEV, fd, parts, 2, 3);
	run("written", 1);
	result("the peer has it", peer("receive 0 300"));
	fill(bytes, 300, 300);
	add(IORING_OP_SENDMSG, fd, &message, 1, 4);
	run("sent", 1);
	result("the peer has it", peer("receive 0 300"));
	add(IORING_OP_RECV, fd, bytes, 300, 5)->msg_flags = MSG_WAITALL;
	enter(0, 0);
	peer("send 0 100");
	peer("send 0 200");
	expect("all of it", 1);
	add(IORING_OP_RECV, fd, bytes, 300, 6)->msg_flags = MSG_DONTWAIT;
	run("not now", 1);
	close_ring();
	close(fd);
}

static void wrong(void)
{
	int fd = pair(0);
	char bytes[10];
	struct iovec part = {(void *)8, 10};
	open_ring(0);
	add(IORING_OP_SEND, fd, (void *)8, 10, 1);
	run("sent from nowhere", 1);
	add(IORING_OP_WRITEV, fd, &part, 1, 2);
	run("parts that are nowhere", 1);
	add(IORING_OP_READV, fd, (void *)8, 1, 3);
	run("a list that is nowhere", 1);
	add(IORING_OP_RECVMSG, fd, (void *)8, 1, 4);
	run("a message that is nowhere", 1);
	peer("send 0 10");
	arrived(fd, 10);
	add(IORING_OP_RECV, fd, (void *)8, 10, 5);
	run("received to nowhere", 1);
	add(IORING_OP_RECV, fd, bytes, 10, 6);
	run("still there", 1);
	add(IORING_OP_ACCEPT, fd, NULL, 0, 7);
	run("accepted of a connection", 1);
	add(255, fd, bytes, 10, 8);
	run("no operation", 1);
	add(IORING_OP_RECV, 1 << 20, bytes, 10, 9);
	run("no descriptor", 1);
	peer("reset 0");
	add(IORING_OP_RECV, fd, bytes, 10, 10);
	run("reset", 1);
	add(IORING_OP_SEND, fd, bytes, 10, 11);
	run("sent to nobody", 1);
	unsigned at = *ring.tail % ENTRIES;
	add(IORING_OP_NOP, -1, NULL, 0, 12);
	ring.array[at] = 1u << 31;
	result("an entry that is none", enter(0, 0));
	result("dropped", *ring.dropped);
	result("more than were added", syscall(SYS_io_uring_enter, ring.fd, 77, 0, 0, NULL, 0));
	result("no ring", syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0));
	close_ring();
	close(fd);
	result("no parameters", syscall(SYS_io_uring_setup, 8, NULL));
	result("no entries", syscall(SYS_io_uring_setup, 0, &ring.set));
}

static void notified(void)
{
	int fd = pair(0), set = epoll_create1(0), count = eventfd(0, EFD_NONBLOCK);
	char bytes[10];
	eventfd_t n = 0;
	open_ring(0);
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 5};
	epoll_ctl(set, EPOLL_CTL_ADD, ring.fd, &event);
	result("registered", syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_EVENTFD, &count, 1));
	add(IORING_OP_RECV, fd, bytes, 10, 1);
	enter(0, 0);
	result("nothing", epoll_wait(set, &event, 1, 0));
	peer("send 0 10");
	int ready;
	/* What the kernel does in this thread for the ring may interrupt it. */
	while ((ready = epoll_wait(set, &event, 1, PATIENCE)) == -1 && errno == EINTR)
		;
	result("the ring is readable", ready);
	say("data", "%u", event.data.u32);
	expect("received", 1);
	result("counted", eventfd_read(count, &n));
	say("count", "%d", (int)n);
	struct __kernel_timespec soon = {.tv_nsec = 10000000};
	struct io_uring_getevents_arg limit = {.ts = (unsigned long)&soon};
	add(IORING_OP_RECV, fd, bytes, 10, 2);
	enter(0, 0);
	result("a limit of time",
		   syscall(SYS_io_uring_enter, ring.fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &limit, sizeof limit));
	add(IORING_OP_TIMEOUT, -1, &soon, 1, 3);
	run("a time-out", 1);
	close_ring();
	close(fd);
	close(set);
	close(count);
}

/* The same, with the buffer that the kernel or the library has chosen: `bytes` of each of the `room` of it. */
static void filled(const char *what, const char *buffers, int room, long from)
{
	struct io_uring_cqe cqe = next();
	tell(what, cqe);
	if (!(cqe.flags & IORING_CQE_F_BUFFER))
		return;
	int at = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
	say("buffer", "%d%s", at, matches(buffers + at * room, from, cqe.res) ? "" : ", wrong");
}

static void selects(struct io_uring_sqe *entry, int group)
{
	entry->flags |= IOSQE_BUFFER_SELECT;
	entry->buf_group = group;
}

/* Multishot receive into a ring of buffers, of which a socket of the kernel takes, too. */
static void ringed(void)
{
	enum { COUNT = 4, ROOM = 100 };
	int fd = pair(0), local[2];
	char buffers[COUNT * ROOM], bytes[ROOM];
	struct io_uring_buf_ring *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct io_uring_buf_reg set = {.ring_addr = (unsigned long)shared, .ring_entries = COUNT, .bgid = 3};
	if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, local) == -1)
		fail("mmap, socketpair: %m");
	open_ring(0);
	result("registered", syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_PBUF_RING, &set, 1));
	result("registered again", syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_PBUF_RING, &set, 1));
	for (int i = 0; i < COUNT; i++) {
		struct io_uring_buf *buffer = &shared->bufs[i];
		buffer->addr = (unsigned long)buffers + i * ROOM;
		buffer->len = ROOM;
		buffer->bid = i;
	}
	__atomic_store_n(&shared->tail, COUNT, __ATOMIC_RELEASE);
	struct io_uring_sqe *entry = add(IORING_OP_RECV, fd, NULL, 0, 1);
	entry->ioprio = IORING_RECV_MULTISHOT;
	selects(entry, 3);
	enter(0, 0);
	peer("send 0 50");
	filled("received", buffers, ROOM, 0);
	fill(bytes, 0, 10);
	selects(add(IORING_OP_RECV, local[0], NULL, 0, 2), 3);
	enter(0, 0);
	if (write(local[1], bytes, 10) != 10)
		fail("write: %m");
	filled("of the kernel's", buffers, ROOM, 0);
	peer("send 0 150");
	filled("more", buffers, ROOM, 50);
	filled("more", buffers, ROOM, 150);
	peer("send 0 1");
	filled("no room", buffers, ROOM, 0);
	selects(add(IORING_OP_RECV, fd, NULL, 0, 3), 9);
	run("no group", 1);
	result("unregistered", syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_PBUF_RING, &set, 1));
	result("and again", syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_PBUF_RING, &set, 1));
	close_ring();
	close(fd);
	close(local[0]);
	close(local[1]);
	munmap(shared, 4096);
}

/* Buffers that entries provide. */
static void provided(void)
{
	enum { COUNT = 3, ROOM = 100 };
	int fd = pair(0);
	char buffers[COUNT * ROOM];
	open_ring(0);
	struct io_uring_sqe *entry = add(IORING_OP_PROVIDE_BUFFERS, COUNT, buffers, ROOM, 1);
	entry->buf_group = 5;
	run("provided", 1);
	peer("send 0 250");
	arrived(fd, 250);
	for (int i = 0; i < COUNT; i++) {
		selects(add(IORING_OP_RECV, fd, NULL, i == 1 ? 60 : ROOM, 2), 5);
		enter(1, IORING_ENTER_GETEVENTS);
		filled("received", buffers, ROOM, i == 0 ? 0 : i == 1 ? 100 : 160);
	}
	selects(add(IORING_OP_RECV, fd, NULL, ROOM, 3), 5);
	run("none is left", 1);
	add(IORING_OP_REMOVE_BUFFERS, 3, NULL, 0, 4)->buf_group = 6;
	run("removed of no group", 1);
	add(IORING_OP_PROVIDE_BUFFERS, COUNT, buffers, ROOM, 5)->buf_group = 5;
	add(IORING_OP_REMOVE_BUFFERS, 2, NULL, 0, 6)->buf_group = 5;
	run("provided and removed", 2);
	peer("close 0");
	char rest[200];
	while (recv(fd, rest, sizeof rest, 0) > 0)
		;
	selects(add(IORING_OP_RECV, fd, NULL, ROOM, 7), 5);
	run("the end", 1);
	close_ring();
	close(fd);
}

/* What waits for a connection by a ring does not take it when the ring is closed. */
static void closed(void)
{
	int port = fresh_port(), waiting_fd = listener(0, port);
	open_ring(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	say("flags", "%x", ring.set.flags);
	add(IORING_OP_ACCEPT, waiting_fd, NULL, 0, 1);
	enter(0, 0);
	close_ring();
	peer("connect 0 %d", port);
	int fd = descriptor("accepted", accept(waiting_fd, NULL, NULL));
	open_ring(0);
	add(IORING_OP_SEND, fd, "abc", 3, 2);
	run("by another", 1);
	close_ring();
	close(fd);
	close(waiting_fd);
}

/* Numbers that are the same each time. */
static unsigned dice(unsigned sides)
{
	static unsigned long state = 1;
	state = state * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(state >> 33) % sides;
}

static void nonsense(struct io_uring_sqe *entry, const int *fds, char *bytes)
{
	static const int operations[] = {IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_POLL_ADD, IORING_OP_POLL_REMOVE, IORING_OP_SENDMSG,
									 IORING_OP_RECVMSG, IORING_OP_ACCEPT, IORING_OP_ASYNC_CANCEL, IORING_OP_CONNECT, IORING_OP_READ, IORING_OP_SEND,
									 IORING_OP_RECV, IORING_OP_SPLICE, IORING_OP_SHUTDOWN, IORING_OP_EPOLL_CTL, IORING_OP_LINK_TIMEOUT,
									 IORING_OP_PROVIDE_BUFFERS};
	unsigned char *all = (unsigned char *)entry;
	for (size_t i = 0; i < sizeof *entry; i++)
		all[i] = dice(3) ? 0 : dice(256);
	entry->opcode = operations[dice(sizeof operations / sizeof *operations)];
	entry->fd = dice(8) ? fds[dice(3)] : (int)dice(100) + 1000;
	entry->flags = dice(3) ? 0 : dice(256);
	entry->user_data = dice(10);
	/* Somewhere, at the beginning of memory, or beyond its end. */
	entry->addr = dice(2) ? (unsigned long)bytes : dice(2) ? dice(65536) : 1ul << 63 | dice(1 << 30);
	entry->len = dice(3) ? entry->len : dice(4096);
}

/* What leads nowhere does no harm, also to those that come later. */
static void hostile(void)
{
	int fds[3] = {pair(0), pair(1), listener(0, fresh_port())};
	static char bytes[65536];
	signal(SIGPIPE, SIG_IGN);
	open_ring(0);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 8; i++) {
			nonsense(add(0, -1, NULL, 0, 0), fds, bytes);
			if (!dice(20))
				ring.array[dice(ENTRIES)] = dice(1u << 31);
		}
		enter(0, 0);
		*ring.done_head = *ring.done_tail;
	}
	close_ring();
	open_ring(0);
	int fd = pair(2);
	add(IORING_OP_SEND, fd, "abc", 3, 1);
	run("sent", 1);
	close_ring();
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(fd);
}

const struct test rings[] = {{"serving", echoes}, {"many", many},		 {"dialing", dialing},	 {"polled", polled}, {"linked", linked},
							 {"vectors", vectors}, {"wrong", wrong},	 {"notified", notified}, {"ringed", ringed}, {"provided", provided}, {"closed", closed}, {"hostile", hostile}, {0}};
