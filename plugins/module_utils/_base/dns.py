# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names as Kubernetes takes them (k8s.io/apimachinery/pkg/util/validation), in which nothing means anything to a shell. Private."""

from __future__ import annotations

import re

__all__ = ["LABEL", "SUBDOMAIN", "SUBDOMAIN_LIMIT"]

# IsDNS1123Label: of namespaces. IsDNS1123Subdomain: of nodes and objects, and as the prefix of something with a limit of its own.
LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
SUBDOMAIN, SUBDOMAIN_LIMIT = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"), 253
