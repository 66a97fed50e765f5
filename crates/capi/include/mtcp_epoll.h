/*
 * mTCP: readiness of sockets. The semantics are those of epoll(7): level-triggered, or MTCP_EPOLLET, or MTCP_EPOLLONESHOT;
 * MTCP_EPOLLERR and MTCP_EPOLLHUP are always of interest; closing a socket removes it. A context may have several instances.
 */
#ifndef MTCP_EPOLL_H
#define MTCP_EPOLL_H

#include <stdint.h>

#include "mtcp_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum mtcp_epoll_op
{
	MTCP_EPOLL_CTL_ADD = 1,
	MTCP_EPOLL_CTL_DEL = 2,
	MTCP_EPOLL_CTL_MOD = 3
};

/* The values of <sys/epoll.h>. */
enum mtcp_event_type
{
	MTCP_EPOLLNONE = 0x000,
	MTCP_EPOLLIN = 0x001,
	MTCP_EPOLLPRI = 0x002,
	MTCP_EPOLLOUT = 0x004,
	MTCP_EPOLLRDNORM = 0x040,
	MTCP_EPOLLRDBAND = 0x080,
	MTCP_EPOLLWRNORM = 0x100,
	MTCP_EPOLLWRBAND = 0x200,
	MTCP_EPOLLMSG = 0x400,
	MTCP_EPOLLERR = 0x008,
	MTCP_EPOLLHUP = 0x010,
	MTCP_EPOLLRDHUP = 0x2000,
	MTCP_EPOLLONESHOT = (1 << 30),
	MTCP_EPOLLET = (-2147483647 - 1) /* 1 << 31, as an int */
};

typedef union mtcp_epoll_data
{
	void *ptr;
	int sockid;
	uint32_t u32;
	uint64_t u64;
} mtcp_epoll_data_t;

struct mtcp_epoll_event
{
	uint32_t events;
	mtcp_epoll_data_t data;
};

/* EINVAL: size < 1. ENFILE: no socket id is free. */
int mtcp_epoll_create(mctx_t mctx, int size);

/* flags: 0 or O_CLOEXEC. */
int mtcp_epoll_create1(mctx_t mctx, int flags);

/* EEXIST: added already. ENOENT: not there. EFAULT: no event. EINVAL: epid is no epoll instance, or sockid is one, or another op. */
int mtcp_epoll_ctl(mctx_t mctx, int epid, int op, int sockid, struct mtcp_epoll_event *event);

/*
 * Waits at most timeout milliseconds, -1: for ever. Returns the number of entries. Each carries one event bit, so that a socket with
 * two appears twice, unless the configuration says one_event_per_entry = no: then their bits are or-ed, as those of epoll_wait.
 */
int mtcp_epoll_wait(mctx_t mctx, int epid, struct mtcp_epoll_event *events, int maxevents, int timeout);

/* The name of one event bit ("IN", "OUT", ...); "NONE" for 0, "UNKNOWN" for anything else. Not to be changed. */
char *EventToString(uint32_t event);

#ifdef __cplusplus
}
#endif

#endif /* MTCP_EPOLL_H */
