// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
//
// Which frames are ours (`ours.h`), for programs in traffic control.

#ifndef SKB_H
#define SKB_H

#include "ours.h"

#define TCX_NEXT -1
#define TCX_DROP 2

#define HEADERS (sizeof(struct ethernet) + sizeof(struct ipv6) + sizeof(struct solicitation))

static __always_inline int skb_is_ours(struct __sk_buff *skb)
{
	void *at = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ethernet *ethernet;

	if (skb->vlan_present && skb->vlan_proto != bpf_htons(TYPE_VLAN))
		return 0;
	if (at + HEADERS > end && skb->len > (__u64)(end - at)) {
		// The headers are not all in the first part of the frame.
		if (bpf_skb_pull_data(skb, skb->len < HEADERS ? skb->len : HEADERS))
			return 0;
		at = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	ethernet = at;
	if ((void *)(ethernet + 1) > end)
		return 0;
	return is_ours(ethernet->type, ethernet + 1, end);
}

#endif
