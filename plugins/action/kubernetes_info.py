# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller part of the module kubernetes_info."""

from __future__ import annotations

from ansible_collections.fabric.rdma.plugins.plugin_utils._quiet_action import QuietAction


class ActionModule(QuietAction):
    """Runs the module, and keeps what it has read out of events."""

    module = "fabric.rdma.kubernetes_info"
