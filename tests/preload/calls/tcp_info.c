/* What the kernel's newer headers say of a connection, which do not go together with the C library's. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

long window_of(int fd);

/* The window that the other side offers, bytes; -1 if the kernel does not say. */
long window_of(int fd)
{
	struct tcp_info info;
	socklen_t length = sizeof info;
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == -1)
		return -1;
	return info.tcpi_snd_wnd;
}
