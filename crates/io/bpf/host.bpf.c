// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Steers to a user-level stack what is its own of addresses that it shares with the kernel
// (`flows.h`): TCP segments of its flows, SYNs to where it listens, ICMP errors about its flows,
// and the other fragments of a packet whose first was one of those. Everything else goes on to the
// kernel: ARP, NDP, ICMP, UDP, and TCP of others, whatever its ports.
//
// What is the stack's never reaches the kernel, which would reset it: it is dropped, and counted,
// where the queue has no socket for a moment. The program is attached through a link that ends with
// the stack's process; from then on everything is the kernel's. An 802.1Q tag that says no more
// than a priority is looked through.
//
// Rebuild with `check.sh --update`.

#include "flows.h"

#define NEXT_HOP_BY_HOP 0
#define NEXT_TCP 6
#define NEXT_ICMP 1
#define NEXT_ROUTING 43
#define NEXT_FRAGMENT 44
#define NEXT_OPTIONS 60
// RFC 8200 section 4.1 has no more before TCP.
#define MOST_EXTENSIONS 5

#define VLAN_ID 0xfff

#define MORE_FRAGMENTS 0x2000
#define FRAGMENT_OFFSET 0x1fff
#define MORE_FRAGMENTS6 1
#define FRAGMENT_OFFSET6 0xfff8

#define FLAG_SYN 0x02
#define FLAG_RST 0x04
#define FLAG_ACK 0x10

#define PASSES 0
#define OURS 1

// Queue number -> AF_XDP socket. The loader sizes it to the interface.
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

// Of IPv4 the addresses are the first words.
struct packet_id {
	__u32 source[4];
	__u32 destination[4];
	__u32 id;
};

// Packets of ours of which the first fragment has come. The oldest goes for one more.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct packet_id);
	__type(value, __u8);
} fragments SEC(".maps");

struct tcp_start {
	__be32 ports;
	__be32 seq;
	__be32 ack;
	__u8 offset;
	__u8 flags;
};

struct fragment6 {
	__u8 next_header;
	__u8 reserved;
	__be16 offset;
	__be32 id;
};

struct extension {
	__u8 next_header;
	__u8 length;
};

struct icmp {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 rest;
};

// A packet to us: who it is from, and where.
struct ends {
	struct packet_id packet;
	__u8 number;
	int is_ipv4;
};

static __always_inline __u64 hash4(const struct shared *shared, __be32 source, __be32 destination, __be32 ports)
{
	__u64 addresses = (__u64)destination << 32 | source;

	return sip13_of(shared->key, &addresses, 1, ports);
}

static __always_inline __u64 hash6(const struct shared *shared, const __u32 *source, const __u32 *destination, __be32 ports)
{
	__u64 addresses[4] = {
		(__u64)source[1] << 32 | source[0],
		(__u64)source[3] << 32 | source[2],
		(__u64)destination[1] << 32 | destination[0],
		(__u64)destination[3] << 32 | destination[2],
	};

	return sip13_of(shared->key, addresses, 4, ports);
}

static __always_inline __u64 hash(const struct shared *shared, const struct ends *ends, __be32 ports)
{
	const struct packet_id *packet = &ends->packet;

	if (ends->is_ipv4)
		return hash4(shared, packet->source[0], packet->destination[0], ports);
	return hash6(shared, packet->source, packet->destination, ports);
}

// Whether the kernel has this flow.
static __always_inline int kernel_knows(struct xdp_md *ctx, const struct ends *ends, __be32 ports)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sock;
	__u32 size;
	int known;

	if (ends->is_ipv4) {
		tuple.ipv4.saddr = ends->packet.source[0];
		tuple.ipv4.daddr = ends->packet.destination[0];
		tuple.ipv4.sport = (__be16)ports;
		tuple.ipv4.dport = (__be16)(ports >> 16);
		size = sizeof(tuple.ipv4);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, ends->packet.source, 16);
		__builtin_memcpy(tuple.ipv6.daddr, ends->packet.destination, 16);
		tuple.ipv6.sport = (__be16)ports;
		tuple.ipv6.dport = (__be16)(ports >> 16);
		size = sizeof(tuple.ipv6);
	}
	sock = bpf_skc_lookup_tcp(ctx, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return 0;
	known = sock->state != BPF_TCP_LISTEN;
	bpf_sk_release(sock);
	return known;
}

// A segment is ours that belongs to a flow of ours or opens one; so is an ACK that may bring a
// cookie back (RFC 4987 section 3.6), where the kernel does not know its flow.
static __always_inline int tcp(struct xdp_md *ctx, const struct shared *shared, const struct ends *ends, void *at, void *end)
{
	struct tcp_start *segment = at;
	__u8 flags;

	if ((void *)(segment + 1) > end)
		return PASSES;
	if (knows(shared, hash(shared, ends, segment->ports)))
		return OURS;
	if (!listens(shared, ends->number, bpf_ntohs(segment->ports >> 16)))
		return PASSES;
	flags = segment->flags & (FLAG_SYN | FLAG_ACK | FLAG_RST);
	if (flags == FLAG_SYN)
		return OURS;
	if (flags != FLAG_ACK || *(volatile __u64 *)&shared->cookies < bpf_ktime_get_ns() / 1000000)
		return PASSES;
	return kernel_knows(ctx, ends, segment->ports) ? PASSES : OURS;
}

// The ports of a segment of ours, as they are in one to us.
static __always_inline __be32 turned(__be32 ports)
{
	return ports << 16 | ports >> 16;
}

// An error about a packet of ours (RFC 792): destination unreachable, time exceeded, parameter
// problem.
static __always_inline int icmp4(const struct shared *shared, void *at, void *end)
{
	struct icmp *icmp = at;
	struct ipv4 *quoted = (void *)(icmp + 1);
	__be32 *ports;

	if ((void *)(quoted + 1) > end)
		return PASSES;
	if (icmp->type != 3 && icmp->type != 11 && icmp->type != 12)
		return PASSES;
	if (quoted->version_ihl >> 4 != 4 || quoted->protocol != NEXT_TCP || quoted->fragment & bpf_htons(FRAGMENT_OFFSET))
		return PASSES;
	ports = (void *)quoted + (quoted->version_ihl & 15) * 4;
	if ((void *)(ports + 1) > end)
		return PASSES;
	return knows(shared, hash4(shared, quoted->destination, quoted->source, turned(*ports)));
}

// The same of IPv6 (RFC 4443 section 3): the types below 128.
static __always_inline int icmp6(const struct shared *shared, void *at, void *end)
{
	struct icmp *icmp = at;
	struct ipv6 *quoted = (void *)(icmp + 1);
	__be32 *ports = (void *)(quoted + 1);
	__u32 source[4], destination[4];

	if ((void *)(ports + 1) > end || icmp->type > 127 || quoted->next_header != NEXT_TCP)
		return PASSES;
	__builtin_memcpy(source, &quoted->source, 16);
	__builtin_memcpy(destination, &quoted->destination, 16);
	return knows(shared, hash6(shared, destination, source, turned(*ports)));
}

// A fragment that is not the first of its packet.
static __always_inline int later(struct shared *shared, const struct ends *ends, __u8 protocol)
{
	if (protocol != NEXT_TCP)
		return PASSES;
	if (bpf_map_lookup_elem(&fragments, &ends->packet))
		return OURS;
	__sync_fetch_and_add(&shared->early, 1);
	return PASSES;
}

// The first, if there are others.
static __always_inline void remember(const struct ends *ends)
{
	__u8 here = 1;

	bpf_map_update_elem(&fragments, &ends->packet, &here, BPF_ANY);
}

static __always_inline int ipv4(struct xdp_md *ctx, struct shared *shared, void *at, void *end)
{
	struct ipv4 *ip = at;
	struct ends ends = { .is_ipv4 = 1 };
	__be16 fragment;
	__u8 protocol;
	int ours;

	if ((void *)(ip + 1) > end || ip->version_ihl >> 4 != 4)
		return PASSES;
	ends.number = number4(ip->destination);
	if (!ends.number)
		return PASSES;
	protocol = ip->protocol;
	fragment = ip->fragment;
	ends.packet.source[0] = ip->source;
	ends.packet.destination[0] = ip->destination;
	ends.packet.id = ip->id;
	if (fragment & bpf_htons(FRAGMENT_OFFSET))
		return later(shared, &ends, protocol);
	at += (ip->version_ihl & 15) * 4;
	if (protocol == NEXT_ICMP)
		return icmp4(shared, at, end);
	if (protocol != NEXT_TCP)
		return PASSES;
	ours = tcp(ctx, shared, &ends, at, end);
	if (ours && fragment & bpf_htons(MORE_FRAGMENTS))
		remember(&ends);
	return ours;
}

static __always_inline int ipv6(struct xdp_md *ctx, struct shared *shared, void *at, void *end)
{
	struct ipv6 *ip = at;
	struct ends ends = { .is_ipv4 = 0 };
	struct extension *extension;
	struct fragment6 *fragment;
	__u8 next;
	int is_first = 0, ours;

	if ((void *)(ip + 1) > end)
		return PASSES;
	__builtin_memcpy(ends.packet.source, &ip->source, 16);
	__builtin_memcpy(ends.packet.destination, &ip->destination, 16);
	ends.number = number6((struct address6 *)ends.packet.destination);
	if (!ends.number)
		return PASSES;
	next = ip->next_header;
	at = ip + 1;
#pragma unroll
	for (int i = 0; i < MOST_EXTENSIONS; i++) {
		if (next == NEXT_FRAGMENT) {
			fragment = at;
			if ((void *)(fragment + 1) > end)
				return PASSES;
			next = fragment->next_header;
			ends.packet.id = fragment->id;
			if (fragment->offset & bpf_htons(FRAGMENT_OFFSET6))
				return later(shared, &ends, next);
			is_first |= fragment->offset & bpf_htons(MORE_FRAGMENTS6);
			at = fragment + 1;
		} else if (next == NEXT_HOP_BY_HOP || next == NEXT_ROUTING || next == NEXT_OPTIONS) {
			extension = at;
			if ((void *)(extension + 1) > end)
				return PASSES;
			next = extension->next_header;
			at += extension->length * 8 + 8;
		} else {
			break;
		}
	}
	if (next == NEXT_ICMPV6)
		return icmp6(shared, at, end);
	if (next != NEXT_TCP)
		return PASSES;
	ours = tcp(ctx, shared, &ends, at, end);
	if (ours && is_first)
		remember(&ends);
	return ours;
}

static __always_inline int packet(struct xdp_md *ctx, struct shared *shared, __be16 type, void *at, void *end)
{
	if (type == bpf_htons(TYPE_IPV4))
		return ipv4(ctx, shared, at, end);
	if (type == bpf_htons(TYPE_IPV6))
		return ipv6(ctx, shared, at, end);
	return PASSES;
}

static __always_inline int frame(struct xdp_md *ctx, struct shared *shared)
{
	void *at = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethernet *ethernet = at;
	struct vlan *vlan;

	if ((void *)(ethernet + 1) > end)
		return PASSES;
	if (ethernet->type != bpf_htons(TYPE_VLAN))
		return packet(ctx, shared, ethernet->type, ethernet + 1, end);
	vlan = (void *)(ethernet + 1);
	// The stack is in no other VLAN.
	if ((void *)(vlan + 1) > end || vlan->tci & bpf_htons(VLAN_ID))
		return PASSES;
	return packet(ctx, shared, vlan->type, vlan + 1, end);
}

static __always_inline int verdict(struct xdp_md *ctx)
{
	__u32 first = 0;
	struct shared *shared = bpf_map_lookup_elem(&stack, &first);
	int result;

	if (!shared || !*(volatile __u32 *)&shared->open || !frame(ctx, shared))
		return XDP_PASS;
	// The flags are the verdict when the queue has no socket (Linux 5.3).
	result = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
	if (result == XDP_DROP)
		__sync_fetch_and_add(&shared->dropped, 1);
	return result;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	return verdict(ctx);
}

// The same for an interface with packets that one buffer does not hold (Linux 5.18): the headers
// are in the first.
SEC("xdp.frags")
int steer_parts(struct xdp_md *ctx)
{
	return verdict(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
