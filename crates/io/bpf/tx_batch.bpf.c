// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Sends many frames in one system call. It is attached to nothing: `BPF_PROG_TEST_RUN` runs it on a
// template packet that it copies each frame over. Soft interrupts wait until it is done, so the
// work that the frames cause on this processor is done for all of them at once.
//
// Needs bpf_get_netns_cookie for this kind of program (Linux 6.15).
//
// Rebuild with `check.sh --update`.

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define FRAMES 64
#define LONGEST 4096
#define BYTES (FRAMES * 2048)
#define SHORTEST 14
#define FOREIGN 0x10000

struct frame {
	__u32 at;
	__u32 len;
};

// `xdp/tx_batch.rs` has the same.
struct batch {
	__u64 netns;
	__u32 interface;
	__u32 count;
	__u64 lost;
	__u64 reserved[5];
	struct frame frames[FRAMES];
	__u8 bytes[BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct batch);
} batches SEC(".maps");

// Returns how many frames it took, of which `lost` more than before were lost, up to one that the
// interface is not there for or is down; FOREIGN in another network namespace.
SEC("classifier")
int tx_batch(struct __sk_buff *skb)
{
	__u32 first = 0;
	struct batch *batch = bpf_map_lookup_elem(&batches, &first);

	// The index of an interface means something in its own namespace only.
	if (!batch || bpf_get_netns_cookie(skb) != batch->netns)
		return FOREIGN;
	__u32 count = batch->count;
	__u32 interface = batch->interface;
	__u32 taken = 0;

	for (; taken < FRAMES && taken < count; taken++) {
		__u32 at = batch->frames[taken].at;
		__u32 len = batch->frames[taken].len;

		if (at > BYTES - LONGEST || len < SHORTEST || len > LONGEST ||
		    bpf_skb_change_tail(skb, len, 0) ||
		    bpf_skb_store_bytes(skb, 0, batch->bytes + at, len, 0)) {
			batch->lost++;
			continue;
		}
		long result = bpf_clone_redirect(skb, interface, 0);

		if (result < 0)
			break;
		if (result > 0)
			batch->lost++;
	}
	return taken;
}

char _license[] SEC("license") = "Dual BSD/GPL";
