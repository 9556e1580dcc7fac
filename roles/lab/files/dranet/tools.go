// Copyright (c) 2026, fabric.rdma contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

//go:build tools

// DRANET, as ../device_plugin has the device plugin: a program of its publisher, which nothing can import.
package tools

import _ "sigs.k8s.io/dranet/cmd/dranet"
