#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quiet_value
short_description: Evaluate a large value once, and keep it out of logs and events
version_added: "0.1.0"
description:
  - Registers a value on the controller. Output, logs and the events of ansible-runner and AWX do not show it, as with C(no_log), so that
    the plan of a thousand nodes is not an event of many megabytes.
  - Unlike C(no_log), it shows an error that occurs while the value is evaluated.
  - Does not protect secrets. Tasks that use the value show it as any other.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  value:
    description: The value, which is mostly an expression.
    type: raw
    required: true
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Plan the selectors of every group
  fabric.rdma.quiet_value:
    value: "{{ hostvars | fabric.rdma.rdma_view(groups, rdma_groups) | fabric.rdma.rdma_selectors }}"
  register: planned
  run_once: true

- name: Show what was planned for a group
  ansible.builtin.debug:
    msg: "{{ planned.value.groups['ib-a100'] | fabric.rdma.rdma_table }}"
  run_once: true
"""

RETURN = r"""
value:
  description: The value, as whoever registers the result sees it.
  returned: success
  type: raw
  sample: {schema: 1}
"""
