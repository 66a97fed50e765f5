/* The scenarios of pair.c that are about socket options. */
#ifndef PAIR_OPTIONS_H
#define PAIR_OPTIONS_H

/* ---- TCP_INFO: the same short transfer over the kernel's loopback says the same ---- */

/* A connection of the kernel's between the two processes, and no others: the listener's port is of this run alone. */
static int
kernel_connection(void)
{
	int s;

	if (!is_client) {
		s = accept(kernel_listener, NULL, NULL);
		CHECK(s >= 0);
		return s;
	}
	s = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(s, (struct sockaddr *)&kernel_addr, sizeof kernel_addr) == 0);
	return s;
}

#define SAME(field)                                                                                   \
	do {                                                                                          \
		if (kernel.field != ours.field) {                                                     \
			check_failures++;                                                             \
			fprintf(stderr, "pair.c:%d: %s, %s: kernel %llu, ours %llu\n", __LINE__,      \
			        is_client ? "client" : "server", #field,                              \
			        (unsigned long long)kernel.field, (unsigned long long)ours.field);    \
		}                                                                                     \
	} while (0)

/* Both ends know that both know, and whether one of them says no. */
static int
meet(int side, int no)
{
	char word = no ? 'n' : 'y';

	CHECK(send(side, &word, 1, MSG_NOSIGNAL) == 1 && recv(side, &word, 1, 0) == 1);
	return no || word == 'n';
}

static void
same_information(int k, int s, int side)
{
	struct tcp_info kernel, ours;
	socklen_t kernel_len = sizeof kernel, ours_len = sizeof ours;
	int disturbed;

	memset(&kernel, 0, sizeof kernel);
	memset(&ours, 0, sizeof ours);
	CHECK(getsockopt(k, IPPROTO_TCP, TCP_INFO, &kernel, &kernel_len) == 0);
	CHECK(mtcp_getsockopt(ctx, s, IPPROTO_TCP, TCP_INFO, &ours, &ours_len) == 0);
	CHECK(kernel_len == ours_len);
	/* On a busy machine something may have been sent twice. */
	disturbed = meet(side, ours.tcpi_total_retrans || kernel.tcpi_total_retrans);
	SAME(tcpi_state);
	SAME(tcpi_probes);
	SAME(tcpi_options);
	SAME(tcpi_ato);
	SAME(tcpi_unacked);
	SAME(tcpi_sacked);
	SAME(tcpi_fackets);
	SAME(tcpi_last_ack_sent);
	SAME(tcpi_snd_ssthresh);
	SAME(tcpi_max_pacing_rate);
	SAME(tcpi_bytes_acked);
	SAME(tcpi_bytes_received);
	SAME(tcpi_notsent_bytes);
	SAME(tcpi_rwnd_limited);
	SAME(tcpi_sndbuf_limited);
	SAME(tcpi_delivered);
	SAME(tcpi_delivered_ce);
	SAME(tcpi_reord_seen);
	SAME(tcpi_rcv_ooopack);
	if (!disturbed) {
		SAME(tcpi_ca_state);
		SAME(tcpi_retransmits);
		SAME(tcpi_backoff);
		SAME(tcpi_lost);
		SAME(tcpi_retrans);
		SAME(tcpi_total_retrans);
		SAME(tcpi_data_segs_in);
		SAME(tcpi_data_segs_out);
		SAME(tcpi_bytes_sent);
		SAME(tcpi_bytes_retrans);
		SAME(tcpi_dsack_dups);
	}
	/* A time that has passed is a time that has passed. */
	CHECK(ours.tcpi_rtt > 0 && ours.tcpi_min_rtt > 0 && ours.tcpi_min_rtt < 10000000);
	CHECK(ours.tcpi_rto >= 200000 && ours.tcpi_snd_cwnd >= 10 && ours.tcpi_snd_wnd > 0);
}

static void
information(int listener, int port)
{
	int s = is_client ? connect_to(port) : accept_one(listener);
	int side = kernel_connection(), k = kernel_connection(), i;
	char buf[1000];

	meet(side, 0);
	same_information(k, s, side);
	/* A thousand bytes there, three back. */
	if (is_client) {
		CHECK(send(k, bulk, 1000, MSG_NOSIGNAL) == 1000 && mtcp_write(ctx, s, bulk, 1000) == 1000);
		CHECK(recv(k, buf, 3, MSG_WAITALL) == 3 && read_all(s, buf, 3) == 3);
	} else {
		CHECK(recv(k, buf, 1000, MSG_WAITALL) == 1000 && read_all(s, buf, 1000) == 1000);
		CHECK(send(k, "abc", 3, MSG_NOSIGNAL) == 3 && mtcp_write(ctx, s, "abc", 3) == 3);
	}
	/* Delayed ACKs go. */
	for (i = 0; i < 100; i++) {
		FAILS(EAGAIN, mtcp_recv(ctx, s, buf, 1, MSG_DONTWAIT));
		usleep(1000);
	}
	meet(side, 0);
	FAILS(EAGAIN, mtcp_recv(ctx, s, buf, 1, MSG_DONTWAIT));
	same_information(k, s, side);
	close(side);
	close(k);
	CHECK(mtcp_close(ctx, s) == 0);
}

/* ---- options that calls obey ---- */

static int
set(int s, int level, int name, const void *value, socklen_t len)
{
	return mtcp_setsockopt(ctx, s, level, name, value, len);
}

static void
time_outs(int listener, int port)
{
	const struct timeval soon = { 0, 30000 };
	int s = is_client ? connect_to(port) : -1, i;
	char byte;

	if (is_client) {
		CHECK(set(s, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
		FAILS(EAGAIN, mtcp_read(ctx, s, &byte, 1));
		FAILS(EAGAIN, mtcp_recv(ctx, s, &byte, 1, MSG_WAITALL));
		/* What there is comes when the time is over. */
		CHECK(mtcp_write(ctx, s, "x", 1) == 1);
		for (i = 0; i < 400 && mtcp_recv(ctx, s, &byte, 1, MSG_PEEK) != 1; i++)
			;
		CHECK(mtcp_recv(ctx, s, bulk, 2, MSG_WAITALL) == 1);
		/* A peer that does not read. */
		CHECK(set(s, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon) == 0);
		for (i = 0; i < 100 && mtcp_write(ctx, s, bulk, BULK) > 0; i++)
			;
		CHECK(i < 100 && errno == EAGAIN);
		CHECK(mtcp_abort(ctx, s) == 0);
		return;
	}
	s = accept_one(listener);
	CHECK(mtcp_read(ctx, s, &byte, 1) == 1 && mtcp_write(ctx, s, "x", 1) == 1);
	CHECK(set(listener, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
	FAILS(EAGAIN, mtcp_accept(ctx, listener, NULL, NULL));
	do
		usleep(1000);
	while (so_error(s) == 0);
	CHECK(mtcp_close(ctx, s) == 0);
}

/* Eight bytes make a socket readable, seven do not. */
static void
low_water(int listener, int port)
{
	int s = is_client ? connect_to(port) : accept_one(listener), ep, unread = 0, mark = 8;
	struct mtcp_epoll_event event;
	char buf[16];

	if (is_client) {
		CHECK(mtcp_write(ctx, s, "seven..", 7) == 7);
		CHECK(mtcp_read(ctx, s, buf, 1) == 1);
		CHECK(mtcp_write(ctx, s, "8", 1) == 1);
		CHECK(mtcp_read(ctx, s, buf, 1) == 1);
		CHECK(mtcp_write(ctx, s, "12345", 5) == 5);
		usleep(20000);
		CHECK(mtcp_write(ctx, s, "678", 3) == 3);
		until_eof(s);
		CHECK(mtcp_close(ctx, s) == 0);
		return;
	}
	CHECK(set(s, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark) == 0);
	ep = epoll_with(s, MTCP_EPOLLIN);
	while (unread < 7)
		CHECK(mtcp_socket_ioctl(ctx, s, FIONREAD, &unread) == 0);
	CHECK(mtcp_epoll_wait(ctx, ep, &event, 1, 20) == 0);
	CHECK(mtcp_write(ctx, s, "x", 1) == 1);
	CHECK(next_event(ep, s) == MTCP_EPOLLIN);
	CHECK(mtcp_read(ctx, s, buf, sizeof buf) == 8 && memcmp(buf, "seven..8", 8) == 0);
	CHECK(mtcp_write(ctx, s, "x", 1) == 1);
	/* A call that blocks waits for as many. */
	CHECK(mtcp_read(ctx, s, buf, sizeof buf) == 8 && memcmp(buf, "12345678", 8) == 0);
	CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, ep) == 0);
}

/* Nothing leaves a corked socket that does not fill a segment, until it is told to or 200 ms are over. */
static void
corks(int listener, int port)
{
	int s = is_client ? connect_to(port) : -1, one = 1, zero = 0, queued = -1;

	if (!is_client) {
		int wait = 1;

		s = accept_one(listener);
		CHECK(set(s, IPPROTO_TCP, TCP_QUICKACK, &wait, sizeof wait) == 0);
		CHECK(read_all(s, bulk, 20) == 20);
		until_eof(s);
		CHECK(mtcp_close(ctx, s) == 0);
		return;
	}
	CHECK(set(s, IPPROTO_TCP, TCP_CORK, &one, sizeof one) == 0);
	CHECK(mtcp_write(ctx, s, "0123456789", 10) == 10);
	CHECK(mtcp_socket_ioctl(ctx, s, SIOCOUTQNSD, &queued) == 0 && queued == 10);
	CHECK(mtcp_socket_ioctl(ctx, s, SIOCOUTQ, &queued) == 0 && queued == 10);
	CHECK(mtcp_write(ctx, s, "0123456789", 10) == 10);
	CHECK(set(s, IPPROTO_TCP, TCP_CORK, &zero, sizeof zero) == 0);
	while (queued != 0)
		CHECK(mtcp_socket_ioctl(ctx, s, SIOCOUTQ, &queued) == 0);
	CHECK(mtcp_shutdown(ctx, s, SHUT_WR) == 0);
	until_eof(s);
	CHECK(mtcp_close(ctx, s) == 0);
}

/* Who only connects is not accepted: the first connection says nothing, the second is accepted before it. */
static void
deferred(int listener, int port)
{
	int s, silent, seconds = 10;
	char byte;

	if (!is_client) {
		/* Inherited by nobody, and no business of a connection. */
		socklen_t len = sizeof seconds;

		CHECK(set(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds) == 0);
		s = accept_one(listener);
		CHECK(mtcp_getsockopt(ctx, s, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, &len) == 0 && seconds == 0);
		CHECK(mtcp_read(ctx, s, &byte, 1) == 1 && byte == 's');
		CHECK(mtcp_close(ctx, s) == 0 && mtcp_close(ctx, listener) == 0);
		return;
	}
	/* Time for the other side to say so. */
	usleep(300000);
	silent = connect_to(port);
	s = connect_to(port);
	CHECK(mtcp_write(ctx, s, "s", 1) == 1);
	until_eof(s);
	CHECK(mtcp_close(ctx, silent) == 0 && mtcp_close(ctx, s) == 0);
}

/* Whether data came along with the SYN. */
static int
came_with_syn(int s)
{
	struct tcp_info info;
	socklen_t len = sizeof info;

	CHECK(mtcp_getsockopt(ctx, s, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
	return (info.tcpi_options & TCPI_OPT_SYN_DATA) != 0;
}

/* The first connection brings the cookie, the second takes data along with its SYN. */
static void
opens_fast(int listener, int port)
{
	const struct sockaddr *to = (const struct sockaddr *)&server;
	int s, i, some = 16;
	char buf[5];

	if (is_client) {
		/* Time for the other side to allow it. */
		usleep(300000);
		set_port(&server, port);
	} else {
		CHECK(set(listener, IPPROTO_TCP, TCP_FASTOPEN, &some, sizeof some) == 0);
	}
	for (i = 0; i < 2; i++) {
		if (is_client) {
			s = socket_of_family(0);
			CHECK(mtcp_sendto(ctx, s, "hello", 5, MSG_FASTOPEN, to, server_len) == 5);
			until_eof(s);
		} else {
			s = accept_one(listener);
			CHECK(read_all(s, buf, 5) == 5 && memcmp(buf, "hello", 5) == 0);
		}
		CHECK(came_with_syn(s) == (i == 1));
		CHECK(mtcp_close(ctx, s) == 0);
	}
}

#endif
