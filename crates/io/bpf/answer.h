// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Answers SYNs for a user-level stack: makes the SYN-ACK of a SYN that Linux may have sent, in
// place. As `wire::syn_offload` has it; the stack has the SYN, too.
#ifndef ANSWER_H
#define ANSWER_H

#include <linux/if_packet.h>
#include <stddef.h>

#include "ours.h"
#include "sip.h"

// `xdp/syn_offload.rs` has the same.
#define FLOWS (256 << 10)
#define ADDRESSES 16
// A stack that has not taken a turn for longer, in milliseconds, takes its time: it answers SYNs
// itself.
#define LATEST 16

// What the stack says. `clock` is in milliseconds. Of flows only so much is known: how many have
// the same low bits of their hash.
struct rules {
	__u64 flow_key[4];
	__u64 iss_key[4];
	__u32 clock;
	__u32 started;
	__u32 stamps;
	__u16 window;
	__u16 mss;
	__u8 window_scale;
	__u8 ttl;
	__u8 reserved[46];
	// Of each of the first addresses.
	__u64 ports[ADDRESSES][65536 / 64];
	__u8 flows[FLOWS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct rules);
} offload SEC(".maps");

struct syn_tcp {
	__be16 source;
	__be16 destination;
	__be32 seq;
	__be32 ack;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
	// Options in the order of Linux: MSS and SACK permitted, timestamps, window scale.
	__be32 mss;
	__be32 sack_and_stamps;
	__be32 tsval;
	__be32 tsecr;
	__be32 scale;
};

// An IPv4 packet of a TCP segment with nothing but those options. The padding has the rest lie as
// words want to.
struct syn {
	__u16 padding;
	struct ethernet ethernet;
	struct ipv4 ip;
	struct syn_tcp tcp;
};

#define SYN_LEN (sizeof(struct syn) - 2)
#define TCP_AT (SYN_LEN - sizeof(struct syn_tcp))
#define DONT_FRAGMENT 0x4000
#define FLAG_SYN 0x02
#define FLAG_ACK 0x10
#define PROTOCOL_TCP 6
#define MSS_OPTION 0x02040000
#define SACK_AND_STAMPS 0x0402080a
#define SCALE_OPTION 0x01030300

// Whether it is a SYN as Linux sends it, without ECN, from one host to one.
static __always_inline int is_plain_syn(const struct syn *syn)
{
	const struct syn_tcp *tcp = &syn->tcp;
	__u8 network = bpf_ntohl(syn->ip.source) >> 24;

	return syn->ethernet.type == bpf_htons(TYPE_IPV4) && !(syn->ethernet.source[0] & 1) &&
	       syn->ip.version_ihl == 0x45 && !(syn->ip.tos & 3) && syn->ip.total_len == bpf_htons(SYN_LEN - sizeof(struct ethernet)) &&
	       !(syn->ip.fragment & ~bpf_htons(DONT_FRAGMENT)) && syn->ip.protocol == PROTOCOL_TCP &&
	       network != 0 && network != 127 && network < 224 &&
	       tcp->source && tcp->offset == 0xa0 && tcp->flags == FLAG_SYN &&
	       (tcp->mss & bpf_htonl(0xffff0000)) == bpf_htonl(MSS_OPTION) &&
	       tcp->sack_and_stamps == bpf_htonl(SACK_AND_STAMPS) && (tcp->scale & bpf_htonl(0xffffff00)) == bpf_htonl(SCALE_OPTION);
}

// Makes the SYN-ACK. Its TCP checksum is still that of the SYN.
static __always_inline void turn_around(struct syn *syn, const struct rules *rules, __u64 h, __u32 clock)
{
	struct syn_tcp *tcp = &syn->tcp;
	struct ethernet ethernet = syn->ethernet;
	__be32 address = syn->ip.source;
	__be16 port = tcp->source;
	__u32 iss = sip13(rules->iss_key, h, bpf_ntohl(tcp->seq));
	__s64 sum;

	__builtin_memcpy(syn->ethernet.destination, ethernet.source, 6);
	__builtin_memcpy(syn->ethernet.source, ethernet.destination, 6);
	syn->ip.tos = 0;
	// Don't fragment, and therefore identification 0 (RFC 6864 section 4.1).
	syn->ip.id = 0;
	syn->ip.fragment = bpf_htons(DONT_FRAGMENT);
	syn->ip.ttl = rules->ttl;
	syn->ip.checksum = 0;
	syn->ip.source = syn->ip.destination;
	syn->ip.destination = address;
	sum = bpf_csum_diff(0, 0, (__be32 *)&syn->ip, 20, 0);
	sum = (sum & 0xffff) + (sum >> 16);
	syn->ip.checksum = ~((sum & 0xffff) + (sum >> 16));
	tcp->source = tcp->destination;
	tcp->destination = port;
	tcp->ack = bpf_htonl(bpf_ntohl(tcp->seq) + 1);
	tcp->seq = bpf_htonl(iss);
	tcp->flags = FLAG_SYN | FLAG_ACK;
	tcp->window = bpf_htons(rules->window);
	tcp->mss = bpf_htonl(MSS_OPTION | rules->mss);
	tcp->tsecr = tcp->tsval;
	tcp->tsval = bpf_htonl(clock + (__u32)(h >> 32) * rules->stamps);
	tcp->scale = bpf_htonl(SCALE_OPTION | rules->window_scale);
}

// Turns a SYN to one of our addresses into its SYN-ACK, for ports and peers for which the stack
// wants it. Returns whether it did.
static __always_inline int answer_syn(struct __sk_buff *skb)
{
	__u32 first = 0;
	struct rules *rules = bpf_map_lookup_elem(&offload, &first);
	struct syn syn = {};
	struct syn_tcp before;
	__u32 number, clock, now;
	__u16 port;
	__u64 h;
	__s64 change;

	if (!rules || !*(volatile __u32 *)&rules->started || skb->vlan_present || skb->pkt_type != PACKET_HOST)
		return 0;
	clock = *(volatile __u32 *)&rules->clock;
	now = bpf_ktime_get_ns() / 1000000;
	if (now - clock > LATEST || bpf_skb_load_bytes(skb, 0, &syn.ethernet, SYN_LEN) || !is_plain_syn(&syn))
		return 0;
	number = number4(syn.ip.destination) - 1;
	port = bpf_ntohs(syn.tcp.destination);
	if (number >= ADDRESSES || !(rules->ports[number][port / 64] >> (port % 64) & 1))
		return 0;
	h = sip13(rules->flow_key, (__u64)syn.ip.source << 32 | syn.ip.destination, (__u32)syn.tcp.source << 16 | syn.tcp.destination);
	if (*(volatile __u8 *)&rules->flows[h & (FLOWS - 1)])
		return 0;
	before = syn.tcp;
	turn_around(&syn, rules, h, clock);
	// Where the sum is left to whoever takes the frame off this machine there is only that of the
	// pseudo-header, which is the same.
	change = bpf_csum_diff((__be32 *)&before, sizeof(before), (__be32 *)&syn.tcp, sizeof(syn.tcp), 0);
	return !bpf_skb_store_bytes(skb, 0, &syn.ethernet, SYN_LEN, BPF_F_RECOMPUTE_CSUM) &&
	       !bpf_l4_csum_replace(skb, TCP_AT + offsetof(struct syn_tcp, checksum), 0, change, 0);
}

#endif
