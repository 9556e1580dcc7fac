// SPDX-License-Identifier: GPL-2.0-only
// Copyright (c) 2026, fabric.rdma contributors
/*
 * Hangs a Soft-RoCE device below the PCI function of a network device, where an HCA is.
 *
 * Device plugins and others find RDMA devices by the directory infiniband of a PCI function, and a Soft-RoCE device
 * is a virtual one.  "rxe0 eth1", written to the parameter move, moves rxe0 below the parent of eth1.  Everything that
 * is made for the device later (umad, issm) follows it.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>

static int move(const char *value, const struct kernel_param *param)
{
	char device[IB_DEVICE_NAME_MAX], netdev[IFNAMSIZ];
	struct net_device *net;
	struct ib_device *ib;
	int error = -ENODEV;

	if (sscanf(value, "%63s %15s", device, netdev) != 2)
		return -EINVAL;
	ib = ib_device_get_by_name(device, RDMA_DRIVER_RXE);
	if (!ib)
		return -ENODEV;
	net = dev_get_by_name(&init_net, netdev);
	if (net) {
		if (net->dev.parent)
			error = device_move(&ib->dev, net->dev.parent, DPM_ORDER_NONE);
		dev_put(net);
	}
	ib_device_put(ib);
	return error;
}

static const struct kernel_param_ops ops = { .set = move };

module_param_cb(move, &ops, NULL, 0200);
MODULE_PARM_DESC(move, "RDMA device and network device");
MODULE_DESCRIPTION("Soft-RoCE devices below PCI functions, for the nodes of a lab");
MODULE_LICENSE("GPL");
