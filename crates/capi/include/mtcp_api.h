/*
 * mTCP: the sockets of a user-level TCP/IP stack.
 *
 * A context is one core's stack with its sockets. It belongs to the thread that first uses it, until that thread ends; calls
 * from another thread fail with EPERM. Socket ids are small integers, 0 .. max_concurrency-1, per context: the same number in
 * another context is another socket, and none is a file descriptor.
 *
 * Calls return -1 and set errno when they fail, as the calls of the system do. For all: EINVAL, mctx is NULL or no context;
 * EPERM, another thread's context or one that is being destroyed; EDEADLK, called from a signal handler that interrupted a call
 * on the same context; EBADF, no open socket of the context; ENOTSOCK, the wrong kind of socket; ENETDOWN, the link is gone.
 *
 * Why mtcp_init, mtcp_create_context, mtcp_setconf or mtcp_core_affinitize failed is one line on stderr, unless MTCP_QUIET=1 is in the
 * environment; so are warnings (MTCP_LOG says which). Beside that the library prints nothing unless stat_print is set; it never ends the
 * process, and installs no signal handler unless asked. A program that ends by exit or by returning from main has what it wrote sent, as long as peers go on acknowledging it; so has
 * mtcp_destroy_context.
 */
#ifndef MTCP_API_H
#define MTCP_API_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <netinet/in.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef UNUSED
#define UNUSED(x) (void)x
#endif

#ifndef INPORT_ANY
#define INPORT_ANY (uint16_t)0
#endif

enum socket_type
{
	MTCP_SOCK_UNUSED,
	MTCP_SOCK_STREAM,
	MTCP_SOCK_PROXY,
	MTCP_SOCK_LISTENER,
	MTCP_SOCK_EPOLL,
	MTCP_SOCK_PIPE
};

/* Sizes in bytes, times in seconds. */
struct mtcp_conf
{
	int num_cores;       /* contexts of this process */
	int max_concurrency; /* sockets and connections per context */
	int max_num_buffers; /* buffers per context */
	int rcvbuf_size;     /* most that a connection receives ahead of mtcp_read */
	int sndbuf_size;     /* most that mtcp_write takes ahead of the peer */
	int tcp_timewait;    /* how long TIME_WAIT lasts */
	int tcp_timeout;     /* idle connections are dropped after this; -1: never */
};

typedef struct mtcp_context *mctx_t;

typedef void (*mtcp_sighandler_t)(int);

/* ---- the process ---- */

/*
 * Reads config_file, and config/route.conf and config/arp.conf below the current directory if they are there; opens the link.
 * EFAULT, ENOENT, EACCES: the file; EINVAL: its contents; ENODEV: the link; EALREADY: called before. mtcp_last_error() says more.
 */
int mtcp_init(const char *config_file);

/* Closes the link. Contexts that are left end with their threads. */
void mtcp_destroy(void);

/* The settings in force. Before mtcp_init: the defaults, with num_cores 0 until mtcp_setconf says otherwise. */
int mtcp_getconf(struct mtcp_conf *conf);

/*
 * Changes settings; members <= 0 and members that are as they were change nothing. num_cores only before mtcp_init, the others until the
 * contexts they concern are made. What mtcp_init finds in its file goes before what was set earlier, as in the original. EINVAL: a member
 * cannot be what it says; the others are changed.
 */
int mtcp_setconf(const struct mtcp_conf *conf);

/* Why mtcp_init or mtcp_create_context last failed in this thread: one line with cause and remedy. Valid until the next failure. */
const char *mtcp_last_error(void);

/* Keeps the calling thread on the processor of logical core cpu. EINVAL: no such core. */
int mtcp_core_affinitize(int cpu);

/*
 * Makes the context of logical core cpu. NULL and EINVAL: no such core; EPERM: no mtcp_init; EEXIST: it is there; ENOMEM: anything
 * else, see mtcp_last_error().
 */
mctx_t mtcp_create_context(int cpu);

/*
 * Ends a context: what is open is closed, and what was written and closed is sent, within bounds. Called from another thread than
 * its own, it ends the context's calls with EINTR, then EPERM, and frees it with its thread. When it is freed, the core can have
 * another.
 */
void mtcp_destroy_context(mctx_t mctx);

/*
 * Installs a signal handler that calls handler and then ends blocking calls of all contexts with EINTR. Returns the handler
 * before; SIG_ERR and EINVAL: no such signal.
 *
 * Handlers installed by other means end a call that sleeps, too: mtcp_epoll_wait always, the others unless all handlers of the
 * program have SA_RESTART. Only a handler installed here also ends a call that has begun and does not sleep yet.
 */
mtcp_sighandler_t mtcp_register_signal(int signum, mtcp_sighandler_t handler);

/* ---- sockets ---- */

/* domain AF_INET or AF_INET6; type SOCK_STREAM, to which SOCK_NONBLOCK may be added; protocol is ignored. */
int mtcp_socket(mctx_t mctx, int domain, int type, int protocol);

int mtcp_bind(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen);

/* Every context may listen on the same port: connections are spread over them. EINVAL: backlog < 1 or > max_concurrency. */
int mtcp_listen(mctx_t mctx, int sockid, int backlog);

/* The new socket is blocking. */
int mtcp_accept(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);

/* flags: 0, SOCK_NONBLOCK, SOCK_CLOEXEC. */
int mtcp_accept4(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen, int flags);

/*
 * Connections that are not bound come from saddr_base and the num_addr - 1 addresses after it (INADDR_ANY: ours), in turn: for
 * more of them than one address has ports. Network byte order. Those that are not ours are left out, with a line on stderr;
 * EADDRNOTAVAIL: none is.
 */
int mtcp_init_rss(mctx_t mctx, in_addr_t saddr_base, int num_addr, in_addr_t daddr, in_addr_t dport);

/* Non-blocking: EINPROGRESS, then MTCP_EPOLLOUT or MTCP_EPOLLERR. */
int mtcp_connect(mctx_t mctx, int sockid, const struct sockaddr *addr, socklen_t addrlen);

/* Closes any kind of socket. The id is free afterwards, whatever is returned. */
int mtcp_close(mctx_t mctx, int sockid);

/* Resets the connection and closes the socket. */
int mtcp_abort(mctx_t mctx, int sockid);

/* how: SHUT_RD, SHUT_WR, SHUT_RDWR. */
int mtcp_shutdown(mctx_t mctx, int sockid, int how);

int mtcp_getsockname(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);

int mtcp_getpeername(mctx_t mctx, int sockid, struct sockaddr *addr, socklen_t *addrlen);

/*
 * Constants, sizes and errors of Linux. SOL_SOCKET: SO_REUSEADDR SO_REUSEPORT SO_LINGER SO_KEEPALIVE SO_OOBINLINE SO_RCVBUF SO_SNDBUF SO_RCVLOWAT
 * SO_RCVTIMEO SO_SNDTIMEO SO_ERROR SO_TYPE SO_PROTOCOL SO_DOMAIN SO_ACCEPTCONN SO_SNDLOWAT SO_INCOMING_CPU SO_MAX_PACING_RATE. IPPROTO_TCP: TCP_NODELAY
 * TCP_CORK TCP_QUICKACK TCP_MAXSEG TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_USER_TIMEOUT TCP_SYNCNT TCP_LINGER2 TCP_DEFER_ACCEPT
 * TCP_WINDOW_CLAMP TCP_NOTSENT_LOWAT TCP_FASTOPEN TCP_FASTOPEN_CONNECT TCP_CONGESTION TCP_INFO. IPPROTO_IP: IP_TOS IP_TTL IP_MTU
 * IP_MTU_DISCOVER. IPPROTO_IPV6: IPV6_V6ONLY IPV6_TCLASS IPV6_UNICAST_HOPS IPV6_MTU IPV6_MTU_DISCOVER. Any other: mtcp_getsockopt fails with ENOPROTOOPT; mtcp_setsockopt does nothing and returns 0, with
 * strict_options = yes in the configuration ENOPROTOOPT. SO_RCVBUF and SO_SNDBUF read as they were set, not doubled; TCP_QUICKACK
 * reads as it was set last. Sockets begin with TCP_NODELAY set, as the original has no Nagle.
 */
int mtcp_getsockopt(mctx_t mctx, int sockid, int level, int optname, void *optval, socklen_t *optlen);

int mtcp_setsockopt(mctx_t mctx, int sockid, int level, int optname, const void *optval, socklen_t optlen);

int mtcp_setsock_nonblock(mctx_t mctx, int sockid);

/* request: FIONREAD (SIOCINQ), SIOCOUTQ (TIOCOUTQ), SIOCOUTQNSD, SIOCATMARK, FIONBIO, each with an int *. */
int mtcp_socket_ioctl(mctx_t mctx, int sockid, int request, void *argp);

/* Two sockets of this context: what is written to pipeid[1] is read from pipeid[0]. */
int mtcp_pipe(mctx_t mctx, int pipeid[2]);

/* ---- data ---- */

ssize_t mtcp_read(mctx_t mctx, int sockid, char *buf, size_t len);

/* flags: MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_OOB (the urgent byte: EAGAIN when it is announced and not here, EINVAL when there is none). */
ssize_t mtcp_recv(mctx_t mctx, int sockid, char *buf, size_t len, int flags);

int mtcp_readv(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV);

/* Never raises SIGPIPE. */
ssize_t mtcp_write(mctx_t mctx, int sockid, const char *buf, size_t len);

/* flags: MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, MSG_OOB (the last byte is urgent). With MSG_MORE what does not fill a segment waits for the next call, 200 ms at most. */
ssize_t mtcp_send(mctx_t mctx, int sockid, const char *buf, size_t len, int flags);

/*
 * As mtcp_send. With MSG_FASTOPEN in flags it connects to addr first, and what is written goes with the SYN if addr has given us a
 * cookie; else, non-blocking, it fails with EINPROGRESS, and nothing was written. Without MSG_FASTOPEN addr does not count.
 */
ssize_t mtcp_sendto(mctx_t mctx, int sockid, const char *buf, size_t len, int flags, const struct sockaddr *addr, socklen_t addrlen);

int mtcp_writev(mctx_t mctx, int sockid, const struct iovec *iov, int numIOV);

#ifdef __cplusplus
}
#endif

#endif /* MTCP_API_H */
