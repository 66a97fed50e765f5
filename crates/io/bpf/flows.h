// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Which flows of an address that the kernel has, too, are those of a user-level stack: the stack
// writes them into memory that it shares with the program (`xdp/steering.rs`), without a system
// call. Of each there is a tag: SipHash-1-3 of both addresses and ports as they lie in a packet to
// us, under a key that nobody else has, with the lowest bit set (0: free).
#ifndef FLOWS_H
#define FLOWS_H

#include "ours.h"
#include "sip.h"

// `xdp/steering.rs` has the same.
#define WAYS 8
#define NUMBERS 32

// One cache line. A tag is in one of two buckets: the one that its low half names, or the one that
// its high half names.
struct bucket {
	__u64 tags[WAYS];
};

// The loader sizes it: a power of two.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bucket);
} flows SEC(".maps");

struct shared {
	// Written by the stack. `cookies`: until when ACKs may bring back cookies, in milliseconds of
	// the monotonic clock. `open`: there is a stack.
	__u64 key[2];
	__u64 cookies;
	__u32 mask;
	__u32 open;
	__u64 reserved[4];
	// Written by the program: what came to a queue without a socket, and was dropped; and
	// fragments of TCP that came before the first of their packet, and passed.
	__u64 dropped;
	__u64 early;
	__u64 reserved_too[6];
	// Of each address by its number, the ports where the stack listens.
	__u64 ports[NUMBERS][65536 / 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct shared);
} stack SEC(".maps");

static __always_inline int has(const struct bucket *bucket, __u64 tag)
{
	int found = 0;

#pragma unroll
	for (int i = 0; i < WAYS; i++)
		found |= *(volatile __u64 *)&bucket->tags[i] == tag;
	return found;
}

// Whether the stack has this flow.
static __always_inline int knows(const struct shared *shared, __u64 hash)
{
	__u64 tag = hash | 1;
	__u32 at = hash & shared->mask;
	struct bucket *bucket = bpf_map_lookup_elem(&flows, &at);

	if (!bucket)
		return 0;
	if (has(bucket, tag))
		return 1;
	at = hash >> 32 & shared->mask;
	bucket = bpf_map_lookup_elem(&flows, &at);
	return bucket && has(bucket, tag);
}

// Whether the stack listens there.
static __always_inline int listens(const struct shared *shared, __u8 number, __u16 port)
{
	__u32 index = number - 1;

	return index < NUMBERS && *(volatile __u64 *)&shared->ports[index][port / 64] >> (port % 64) & 1;
}

#endif
