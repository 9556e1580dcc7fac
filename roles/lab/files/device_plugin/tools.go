// Copyright (c) 2026, fabric.rdma contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

//go:build tools

// The shared device plugin as its publisher builds it. Nothing can import a package main: this keeps it in go.mod, and it is built as
// a program of its own, not as one more name of ../kubernetes.
package tools

import _ "github.com/Mellanox/k8s-rdma-shared-dev-plugin/cmd/k8s-rdma-shared-dp"
