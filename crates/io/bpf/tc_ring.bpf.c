// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Copies frames for the addresses of a user-level stack (`ours.h`) into rings that the stack reads,
// at the ingress of an interface. All other frames go on to the kernel, and so do all frames while
// nobody reads. This is for interfaces whose frames are made on this machine: frames arrive as the
// kernel made them, of several segments where the sender had them, on the processor that sent them.
//
// Every processor has a ring of its own and needs no lock. (On PREEMPT_RT two of these programs can
// run on one processor: not used there.)
//
// The kernel takes one 802.1Q tag out of a frame; the program puts it back.
//
// Rebuild with `check.sh --update`.

#include "answer.h"
#include "skb.h"

// `xdp/tc_ring.rs` has the same.
#define RECORDS 16384
#define LINE 64
#define SHORTEST 14
#define LONGEST 65553
#define ROOM ((LONGEST + LINE - 1) / LINE * LINE)
#define CACHED (64 << 10)
#define CACHED_LONGEST 4096
#define CHUNK (256 << 10)
#define OVERFLOW (1U << 31)
#define ANSWERED (1U << 31)

#define FULL (~0U)

// One frame. `at`: its offset in the bytes of the ring or, with OVERFLOW, in the chunks of the
// processor. `len`: its length, with ANSWERED for a SYN that was answered. `when`: when it came,
// nanoseconds.
struct record {
	__u32 at;
	__u32 len;
	__u64 when;
};

struct ring {
	// Written by this program: records written, and where the next frame goes in either kind of
	// memory.
	__u32 written;
	__u32 cached;
	__u32 overflow;
	__u32 reserved;
	__u64 lost;
	__u64 reserved_too[5];
	// Written by the reader: records read, bytes read in either kind of memory, the size of the
	// overflow memory, whether there is a reader, and whether its wake-up is armed. The program that
	// wakes it disarms it.
	__u32 read;
	__u32 cached_read;
	__u32 overflow_read;
	__u32 overflow_bytes;
	__u32 open;
	__u32 armed;
	__u32 reserved_three[10];
	struct record records[RECORDS];
	__u8 bytes[CACHED + CACHED_LONGEST];
};

// The loader sizes it to the processors.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ring);
} rings SEC(".maps");

struct chunk {
	__u8 bytes[CHUNK];
};

// Memory for frames that have no room in the ring, as many chunks for each processor. The loader
// sizes it.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct chunk);
} chunks SEC(".maps");

// Wakes the reader.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps");

// Where `size` bytes go in a ring that ends at `end`, of which what lies from `read` up to `next`
// has not been read. A frame that begins before the end may reach past it.
static __always_inline __u32 place(__u32 next, __u32 read, __u32 size, __u32 end)
{
	if (next < read)
		return next + size < read ? next : FULL;
	if (next < end)
		return next;
	return size < read ? 0 : FULL;
}

// Loads bytes of the frame. Each bound is checked of the very register that holds the length,
// whatever the compiler would rather do: before Linux 6.13 the verifier does not know of one what
// was checked of a value derived from it.
static __always_inline int load(struct __sk_buff *skb, __u32 from, __u8 *to, __u32 len, __u32 shortest, __u32 longest)
{
	barrier_var(len);
	if (len < shortest)
		return -1;
	barrier_var(len);
	if (len > longest)
		return -1;
	barrier_var(len);
	return bpf_skb_load_bytes(skb, from, to, len);
}

static __always_inline int copy(struct __sk_buff *skb, __u8 *to, __u32 len, __u32 longest)
{
	struct {
		__be16 type;
		__be16 tci;
	} tag = { .type = bpf_htons(TYPE_VLAN) };

	if (!skb->vlan_present)
		return load(skb, 0, to, len, SHORTEST, longest);
	tag.tci = bpf_htons(skb->vlan_tci);
	if (bpf_skb_load_bytes(skb, 0, to, 12))
		return -1;
	__builtin_memcpy(to + 12, &tag, sizeof(tag));
	return load(skb, 12, to + 16, len - 16, 2, longest - 16);
}

// Returns where the frame lies, FULL if it found no room.
static __always_inline __u32 put_cached(struct __sk_buff *skb, struct ring *ring, __u32 len, __u32 size)
{
	__u32 at = place(ring->cached, *(volatile __u32 *)&ring->cached_read, size, CACHED);

	if (at >= CACHED || copy(skb, ring->bytes + at, len, CACHED_LONGEST))
		return FULL;
	ring->cached = at + size;
	return at;
}

// As put_cached.
static __always_inline __u32 put_overflow(struct __sk_buff *skb, struct ring *ring, __u32 cpu, __u32 len, __u32 size)
{
	__u32 end = *(volatile __u32 *)&ring->overflow_bytes;
	__u32 at = place(ring->overflow, *(volatile __u32 *)&ring->overflow_read, size, end);

	if (at >= end)
		return FULL;
	__u32 number = cpu * (end / CHUNK) + at / CHUNK;
	struct chunk *chunk = bpf_map_lookup_elem(&chunks, &number);
	__u32 in = at & (CHUNK - 1);

	if (!chunk || in > CHUNK - ROOM || copy(skb, chunk->bytes + in, len, LONGEST))
		return FULL;
	in += size;
	// The next begins where the longest has room before the end of the chunk.
	ring->overflow = in > CHUNK - ROOM ? (at | (CHUNK - 1)) + 1 : at + size;
	return OVERFLOW | at;
}

SEC("classifier")
int tc_ring(struct __sk_buff *skb)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct ring *ring = bpf_map_lookup_elem(&rings, &cpu);

	if (!ring || !*(volatile __u32 *)&ring->open || !skb_is_ours(skb))
		return TCX_NEXT;
	__u32 written = ring->written;
	__u32 len = skb->len + (skb->vlan_present ? sizeof(struct vlan) : 0);
	__u32 size = (len + LINE - 1) & ~(LINE - 1);
	__u32 at = FULL;

	if (written - *(volatile __u32 *)&ring->read < RECORDS) {
		if (size <= CACHED_LONGEST)
			at = put_cached(skb, ring, len, size);
		if (at == FULL)
			at = put_overflow(skb, ring, cpu, len, size);
	}
	if (at == FULL) {
		ring->lost++;
		return TCX_DROP;
	}
	struct record *record = &ring->records[written & (RECORDS - 1)];
	int answered = len == SYN_LEN && answer_syn(skb);

	record->at = at;
	record->len = answered ? len | ANSWERED : len;
	record->when = bpf_ktime_get_ns();
	// The program writes, then looks whether the wake-up is armed; the reader arms it, then looks
	// whether something was written.
	__sync_lock_test_and_set(&ring->written, written + 1);
	if (*(volatile __u32 *)&ring->armed && __sync_lock_test_and_set(&ring->armed, 0)) {
		__u8 once = 1;

		bpf_ringbuf_output(&doorbell, &once, sizeof(once), BPF_RB_FORCE_WAKEUP);
	}
	return answered ? bpf_redirect(skb->ifindex, 0) : TCX_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
