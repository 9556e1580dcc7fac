# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration of Sphinx for `make docs` (tools/docs)."""

from __future__ import annotations

import os
import re
import typing as t

from docutils import nodes

project = "fabric.rdma"
author = "fabric.rdma contributors"
project_copyright = "2026, fabric.rdma contributors"
release = version = os.environ["FABRIC_RDMA_VERSION"]
html_title = f"{project} {release}"

extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
highlight_language = "yaml+jinja"
# Slugs of headings are those of the git hosts that show the same files.
myst_heading_anchors = 4

# Ansible's own documentation, which the reference points to. An inventory of its labels would have to be fetched for each build.
ANSIBLE = "https://docs.ansible.com/ansible/latest"
PAGES = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
OF_A_COLLECTION = re.compile(r"ansible_collections\.(\w+)\.(\w+)\.(\w+_(?:module|filter|lookup))")


def to_ansible(_app: t.Any, _env: t.Any, node: t.Any, content: t.Any) -> t.Any:
    """A link to Ansible's documentation in place of a label that is none of ours; None for any other, which stays a warning."""
    target = str(node.get("reftarget", ""))
    found = OF_A_COLLECTION.fullmatch(target)
    if found and found[1] != "fabric":
        page = f"collections/{found[1]}/{found[2]}/{found[3]}.html"
    elif target in PAGES:
        page = PAGES[target]
    else:
        return None
    return nodes.reference("", "", content, internal=False, refuri=f"{ANSIBLE}/{page}")


def setup(app: t.Any) -> None:
    app.connect("missing-reference", to_ansible)
