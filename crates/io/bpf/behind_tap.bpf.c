// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Keeps frames for the addresses of a user-level stack (`ours.h`) from the kernel, at the ingress
// of an interface: behind the taps, by which the stack has them already. The kernel would answer
// for addresses that it has, and send on what is for others where it forwards.
//
// Rebuild with `check.sh --update`.

#include "skb.h"

SEC("classifier")
int behind_tap(struct __sk_buff *skb)
{
	return skb_is_ours(skb) ? TCX_DROP : TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
