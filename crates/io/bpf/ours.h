// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Which frames are for the addresses of a user-level stack: ARP for Ethernet and IPv4 whose target
// protocol address is ours (requests, replies to us, claims of our address); IPv4 to one of our
// addresses (all of it: fragments carry no ports, so steering goes by address only); IPv6 to one of
// our addresses (neighbour and router advertisements to us included); ICMPv6 neighbour
// solicitations to a multicast address whose target is ours (RFC 4861 section 7.2.2).

#ifndef OURS_H
#define OURS_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TYPE_IPV4 0x0800
#define TYPE_ARP 0x0806
#define TYPE_VLAN 0x8100
#define TYPE_IPV6 0x86dd

#define ARP_ETHERNET 1
#define NEXT_ICMPV6 58
#define NEIGHBOUR_SOLICITATION 135

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
} __attribute__((packed));

struct vlan {
	__be16 tci;
	__be16 type;
} __attribute__((packed));

struct arp {
	__be16 hardware_type;
	__be16 protocol_type;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation;
	__u8 sender_hardware[6];
	__be32 sender_protocol;
	__u8 target_hardware[6];
	__be32 target_protocol;
} __attribute__((packed));

struct ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 total_len;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
} __attribute__((packed));

struct address6 {
	__u8 octets[16];
};

struct ipv6 {
	__be32 version_class_flow;
	__be16 payload_len;
	__u8 next_header;
	__u8 hop_limit;
	struct address6 source;
	struct address6 destination;
} __attribute__((packed));

struct solicitation {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 reserved;
	struct address6 target;
} __attribute__((packed));

// Our addresses, IPv4 in network order, each with its number: from 1 on, those of IPv6 behind those
// of IPv4. The loader sizes both sets to the configuration.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __be32);
	__type(value, __u8);
} addresses4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct address6);
	__type(value, __u8);
} addresses6 SEC(".maps");

// The number of an address of ours, 0 if it is not.
static __always_inline __u8 number4(__be32 address)
{
	__u8 *number = bpf_map_lookup_elem(&addresses4, &address);

	return number ? *number : 0;
}

static __always_inline int ours4(__be32 address)
{
	return bpf_map_lookup_elem(&addresses4, &address) != 0;
}

static __always_inline int ours6(const struct address6 *address)
{
	// Map keys must be on the stack: not every kernel takes a packet pointer.
	struct address6 key;

	__builtin_memcpy(&key, address, sizeof(key));
	return bpf_map_lookup_elem(&addresses6, &key) != 0;
}

// The same of IPv6. The address must be on the stack.
static __always_inline __u8 number6(const struct address6 *address)
{
	__u8 *number = bpf_map_lookup_elem(&addresses6, address);

	return number ? *number : 0;
}

static __always_inline int arp_is_ours(void *at, void *end)
{
	struct arp *arp = at;

	if ((void *)(arp + 1) > end)
		return 0;
	if (arp->hardware_type != bpf_htons(ARP_ETHERNET) || arp->protocol_type != bpf_htons(TYPE_IPV4))
		return 0;
	if (arp->hardware_len != 6 || arp->protocol_len != 4)
		return 0;
	return ours4(arp->target_protocol);
}

static __always_inline int ipv4_is_ours(void *at, void *end)
{
	struct ipv4 *ip = at;

	// The destination sits before the options, so the header length does not matter here; the stack
	// checks it.
	if ((void *)(ip + 1) > end || ip->version_ihl >> 4 != 4)
		return 0;
	return ours4(ip->destination);
}

static __always_inline int ipv6_is_ours(void *at, void *end)
{
	struct ipv6 *ip = at;
	struct solicitation *solicitation;

	if ((void *)(ip + 1) > end)
		return 0;
	if (ip->destination.octets[0] != 0xff)
		return ours6(&ip->destination);
	solicitation = (void *)(ip + 1);
	if (ip->next_header != NEXT_ICMPV6 || (void *)(solicitation + 1) > end)
		return 0;
	if (solicitation->type != NEIGHBOUR_SOLICITATION)
		return 0;
	return ours6(&solicitation->target);
}

// Whether a frame is ours that has `type` in front of `at`.
static __always_inline int is_ours(__be16 type, void *at, void *end)
{
	if (type == bpf_htons(TYPE_IPV4))
		return ipv4_is_ours(at, end);
	if (type == bpf_htons(TYPE_IPV6))
		return ipv6_is_ours(at, end);
	if (type == bpf_htons(TYPE_ARP))
		return arp_is_ours(at, end);
	return 0;
}

#endif
