/* The headers: every name and value of the original, in each dialect of C that programs are written in, and in C++. */
#include <mtcp_epoll.h>
#include <mtcp_api.h>
#include <mtcp_epoll.h>

#define SAME(name, a, b) typedef char name[(a) == (b) ? 1 : -1]

SAME(unused, MTCP_SOCK_UNUSED, 0);
SAME(stream, MTCP_SOCK_STREAM, 1);
SAME(proxy, MTCP_SOCK_PROXY, 2);
SAME(listener, MTCP_SOCK_LISTENER, 3);
SAME(epoll, MTCP_SOCK_EPOLL, 4);
SAME(pipe_, MTCP_SOCK_PIPE, 5);
SAME(add, MTCP_EPOLL_CTL_ADD, 1);
SAME(del, MTCP_EPOLL_CTL_DEL, 2);
SAME(mod, MTCP_EPOLL_CTL_MOD, 3);
SAME(none, MTCP_EPOLLNONE, 0);
SAME(in, MTCP_EPOLLIN, 0x001);
SAME(pri, MTCP_EPOLLPRI, 0x002);
SAME(out, MTCP_EPOLLOUT, 0x004);
SAME(rdnorm, MTCP_EPOLLRDNORM, 0x040);
SAME(rdband, MTCP_EPOLLRDBAND, 0x080);
SAME(wrnorm, MTCP_EPOLLWRNORM, 0x100);
SAME(wrband, MTCP_EPOLLWRBAND, 0x200);
SAME(msg, MTCP_EPOLLMSG, 0x400);
SAME(err, MTCP_EPOLLERR, 0x008);
SAME(hup, MTCP_EPOLLHUP, 0x010);
SAME(rdhup, MTCP_EPOLLRDHUP, 0x2000);
SAME(oneshot, MTCP_EPOLLONESHOT, 1 << 30);
SAME(et, (uint32_t)MTCP_EPOLLET, 1u << 31);
SAME(conf_size, sizeof(struct mtcp_conf), 7 * sizeof(int));
SAME(event_size, sizeof(struct mtcp_epoll_event), 16);
SAME(any, INPORT_ANY, 0);

/* Each function with its type. */
struct functions
{
	int (*init)(const char *);
	void (*destroy)(void);
	int (*getconf)(struct mtcp_conf *);
	int (*setconf)(const struct mtcp_conf *);
	int (*core_affinitize)(int);
	mctx_t (*create_context)(int);
	void (*destroy_context)(mctx_t);
	mtcp_sighandler_t (*register_signal)(int, mtcp_sighandler_t);
	int (*pipe)(mctx_t, int[2]);
	int (*getsockopt)(mctx_t, int, int, int, void *, socklen_t *);
	int (*setsockopt)(mctx_t, int, int, int, const void *, socklen_t);
	int (*setsock_nonblock)(mctx_t, int);
	int (*socket_ioctl)(mctx_t, int, int, void *);
	int (*socket)(mctx_t, int, int, int);
	int (*bind)(mctx_t, int, const struct sockaddr *, socklen_t);
	int (*listen)(mctx_t, int, int);
	int (*accept)(mctx_t, int, struct sockaddr *, socklen_t *);
	int (*init_rss)(mctx_t, in_addr_t, int, in_addr_t, in_addr_t);
	int (*connect)(mctx_t, int, const struct sockaddr *, socklen_t);
	int (*close)(mctx_t, int);
	int (*getsockname)(mctx_t, int, struct sockaddr *, socklen_t *);
	int (*getpeername)(mctx_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*read)(mctx_t, int, char *, size_t);
	ssize_t (*recv)(mctx_t, int, char *, size_t, int);
	int (*readv)(mctx_t, int, const struct iovec *, int);
	ssize_t (*write)(mctx_t, int, const char *, size_t);
	int (*writev)(mctx_t, int, const struct iovec *, int);
	int (*epoll_create)(mctx_t, int);
	int (*epoll_create1)(mctx_t, int);
	int (*epoll_ctl)(mctx_t, int, int, int, struct mtcp_epoll_event *);
	int (*epoll_wait)(mctx_t, int, struct mtcp_epoll_event *, int, int);
	char *(*event_to_string)(uint32_t);
	/* Not in the original headers. */
	int (*abort)(mctx_t, int);
	int (*shutdown)(mctx_t, int, int);
	int (*accept4)(mctx_t, int, struct sockaddr *, socklen_t *, int);
	ssize_t (*send)(mctx_t, int, const char *, size_t, int);
	ssize_t (*sendto)(mctx_t, int, const char *, size_t, int, const struct sockaddr *, socklen_t);
	const char *(*last_error)(void);
};

const struct functions functions = {
	mtcp_init, mtcp_destroy, mtcp_getconf, mtcp_setconf, mtcp_core_affinitize, mtcp_create_context,
	mtcp_destroy_context, mtcp_register_signal, mtcp_pipe, mtcp_getsockopt, mtcp_setsockopt,
	mtcp_setsock_nonblock, mtcp_socket_ioctl, mtcp_socket, mtcp_bind, mtcp_listen, mtcp_accept,
	mtcp_init_rss, mtcp_connect, mtcp_close, mtcp_getsockname, mtcp_getpeername, mtcp_read, mtcp_recv,
	mtcp_readv, mtcp_write, mtcp_writev, mtcp_epoll_create, mtcp_epoll_create1, mtcp_epoll_ctl,
	mtcp_epoll_wait, EventToString, mtcp_abort, mtcp_shutdown, mtcp_accept4, mtcp_send, mtcp_sendto,
	mtcp_last_error
};

int
main(int argc, char **argv)
{
	mtcp_epoll_data_t data;
	struct mtcp_epoll_event event;
	struct mtcp_conf conf = { 1, 2, 3, 4, 5, 6, 7 };

	UNUSED(argv);
	data.u64 = 0;
	data.ptr = &data;
	data.u32 = 7;
	data.sockid = 7;
	event.events = MTCP_EPOLLIN;
	event.data = data;
	/* In this order. */
	return !(argc == 1 && event.data.sockid == 7 && conf.num_cores == 1 && conf.max_concurrency == 2 &&
	         conf.max_num_buffers == 3 && conf.rcvbuf_size == 4 && conf.sndbuf_size == 5 && conf.tcp_timewait == 6 &&
	         conf.tcp_timeout == 7 && functions.init == mtcp_init);
}
