// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Steers frames for the addresses of a user-level stack (`ours.h`) to the AF_XDP socket of the
// queue they arrived on. Everything else goes on to the kernel, and so does everything when no
// socket is bound on the queue. One 802.1Q tag is looked through.
//
// Rebuild with `check.sh --update`.

#include "ours.h"

// Queue number -> AF_XDP socket. The loader sizes it to the interface.
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static __always_inline int frame_is_ours(void *at, void *end)
{
	struct ethernet *ethernet = at;
	struct vlan *vlan;

	if ((void *)(ethernet + 1) > end)
		return 0;
	if (ethernet->type != bpf_htons(TYPE_VLAN))
		return is_ours(ethernet->type, ethernet + 1, end);
	vlan = (void *)(ethernet + 1);
	if ((void *)(vlan + 1) > end)
		return 0;
	return is_ours(vlan->type, vlan + 1, end);
}

static __always_inline int verdict(struct xdp_md *ctx)
{
	void *at = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;

	if (!frame_is_ours(at, end))
		return XDP_PASS;
	// The flags are the verdict when the queue has no socket (Linux 5.3).
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
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
