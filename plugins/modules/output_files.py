#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: output_files
short_description: Write the files of a run on the controller
version_added: "0.1.0"
description:
  - Writes any number of texts to files below a directory of the controller, whatever the host of the task is, and without a process of its
    own for each of them.
  - A file is replaced as a whole or not at all. One that is there keeps its owner, and a symbolic link stays one.
  - Directories that are missing are made, with the mode V(0755).
  - The texts are in no output and in no event, except in differences.
extends_documentation_fragment:
  - fabric.rdma.attributes.full
options:
  directory:
    description: The directory, relative to where Ansible was started.
    type: path
    required: true
  files:
    description: The content of each file, by its path below O(directory). Dictionaries and lists are written as JSON.
    type: dict
    required: true
  header:
    description: What each of them begins with.
    type: str
    default: ""
  mode:
    description: The mode of each file, as an octal number.
    type: str
    default: "0644"
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Write the plan, and a note beside it
  fabric.rdma.output_files:
    directory: /srv/rdma
    files:
      plan.json: "{{ plan_result | fabric.rdma.rdma_json }}"
      notes/README: |
        Made for the change of tomorrow.
  run_once: true
"""

RETURN = r"""
written:
  description: The files that were not as they should be, by their paths below O(directory).
  returned: success
  type: list
  elements: str
  sample: [plan.json]
"""
