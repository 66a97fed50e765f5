// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// SipHash-1-3, of what tells flows apart.
#ifndef SIP_H
#define SIP_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

static __always_inline __u64 rotate(__u64 word, int by)
{
	return word << by | word >> (64 - by);
}

// SipHash-1-3 of 12 bytes under the key that `state` comes from.
#define SIP_ROUND                      \
	do {                           \
		v0 += v1;              \
		v2 += v3;              \
		v1 = rotate(v1, 13) ^ v0; \
		v3 = rotate(v3, 16) ^ v2; \
		v0 = rotate(v0, 32) + v3; \
		v2 += v1;              \
		v3 = rotate(v3, 21) ^ v0; \
		v1 = rotate(v1, 17) ^ v2; \
		v2 = rotate(v2, 32);   \
	} while (0)

static __always_inline __u64 sip13(const __u64 *state, __u64 word, __u32 last)
{
	__u64 v0 = state[0], v1 = state[1], v2 = state[2], v3 = state[3];
	__u64 end = 12ULL << 56 | last;

	v3 ^= word;
	SIP_ROUND;
	v0 ^= word;
	v3 ^= end;
	SIP_ROUND;
	v0 ^= end;
	v2 ^= 0xff;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

// The same of `count` words and four bytes, under a key.
static __always_inline __u64 sip13_of(const __u64 *key, const __u64 *words, int count, __u32 last)
{
	__u64 v0 = key[0] ^ 0x736f6d6570736575ULL, v1 = key[1] ^ 0x646f72616e646f6dULL;
	__u64 v2 = key[0] ^ 0x6c7967656e657261ULL, v3 = key[1] ^ 0x7465646279746573ULL;
	__u64 end = (__u64)(count * 8 + 4) << 56 | last;

#pragma unroll
	for (int i = 0; i < count; i++) {
		v3 ^= words[i];
		SIP_ROUND;
		v0 ^= words[i];
	}
	v3 ^= end;
	SIP_ROUND;
	v0 ^= end;
	v2 ^= 0xff;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

#endif
