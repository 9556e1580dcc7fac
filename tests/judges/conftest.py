# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans have the form of their schema here, too."""

from __future__ import annotations

from ansible_collections.fabric.rdma.tests.unit.contracts import watch

watch()
