// Copyright (c) 2026, fabric.rdma contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

//go:build tools

// Multus and Whereabouts, as ../device_plugin has the device plugin: programs of their publishers, which nothing can import.
package tools

import (
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd/controlloop"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd/reconciler"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/thin_entrypoint"
)
