#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wave_gate
short_description: Refuse to change further nodes after a change has failed
version_added: "0.1.0"
description:
  - Roles that change nodes record with it when a change begins and when it has succeeded. A change does not begin when a
    host has left the play, since a task failed there or it no longer answers, that a role has changed in this run, or that
    is of an earlier wave (a batch of C(serial)), changed or not. Nor does it when a host of an earlier wave is still in the play, by a
    C(rescue) or C(ignore_unreachable), and has not ended a change that it began. No other role begins on such a host, not even in its
    own wave; the same role may try again.
  - The same holds if your waves are separate plays, each for other hosts. A change does not begin while a host of an earlier play has
    not ended one that it began.
  - Before a role discovers a host of the next wave, it asks with O(state=look) whether an earlier wave ended badly. If so, nothing connects
    to the host.
  - Nor does a change begin where C(ignore_errors) is in effect, outside of check mode, since a task of it that fails would not end it.
    This refusal is never ignored.
  - A host that left before it was changed does not stop the others of its own wave, so that without waves nobody waits for it. One that
    left in an earlier play of the run stops the waves after its own, and those before it, too, if it was changed. To go on without such a
    host, exclude it from the run with C(--limit).
  - A host that its user ends with C(end_host) stops nobody. In its own wave, one that fails between two roles in a block with an
    C(always) section looks the same, and stops the later waves only.
  - In a play with another C(order) than that of the inventory, hosts that left before they were changed count as those of an earlier
    wave, whenever their turn would be.
  - Does not rely on C(max_fail_percentage), which counts neither hosts that become unreachable nor those that fail in a block with
    an C(always) section. Works with any strategy, and between the batches of C(serial).
  - A change has ended well only on a host that answers, so O(state=end) asks it. The other states connect to no host.
  - The roles of this collection use it. The playbook C(prepare) has waves of its own.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  state:
    description:
      - Whether a role begins to discover a host, begins its change, or has ended it. The result is registered as C(discover_wave),
        C(ROLE_begun) or C(ROLE_ended), by which the other hosts know of it. ROLE is one of the roles of this collection
        that change nodes. Others are not seen.
    type: str
    choices: [look, begin, end]
    required: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look
  fabric.rdma.wave_gate:
    state: look
  register: discover_wave

- name: Begin
  fabric.rdma.wave_gate:
    state: begin
  register: ofed_begun

- name: End
  fabric.rdma.wave_gate:
    state: end
  register: ofed_ended
"""

RETURN = r"""
at:
  description: When that was, in seconds of the controller's monotonic clock. It only tells the order within this run.
  returned: when O(state) is not V(look)
  type: float
  sample: 86400.5
"""
