# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What filters and actions make of their arguments before they look into them. Private to the collection. Pure."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

__all__ = ["insist", "insist_on_list", "insist_on_mapping", "plain"]

# Of a wrong argument, so much is shown.
_MOST = 200


def insist_on_mapping(name: str, value: t.Any, what: str, *keys: str) -> None:
    """AnsibleFilterError, unless an argument of the filter is a dictionary with these keys. what: such as "facts by host"."""
    if not isinstance(value, t.Mapping):
        raise AnsibleFilterError(f"fabric.rdma.{name} expects {what}, found {type(value).__name__}")
    missing = [key for key in keys if key not in value]
    if missing:
        raise AnsibleFilterError(f"fabric.rdma.{name} expects {what}, found a dictionary without {missing[0]}")


def insist_on_list(name: str, value: t.Any, what: str) -> None:
    """The same for a list. what: of what, such as "hosts"."""
    insist(name, isinstance(value, t.Sequence) and not isinstance(value, str), f"a list of {what}", value)


def insist(name: str, is_right: bool, what: str, value: t.Any) -> None:
    """The same for anything else, which is shown. what: such as "the name of a group"."""
    if not is_right:
        shown = repr(value)
        shown = shown if len(shown) <= _MOST else f"{shown[:_MOST]}..."
        raise AnsibleFilterError(f"fabric.rdma.{name} expects {what}, found {shown}")


def plain(value: t.Any) -> t.Any:
    """Dictionaries and lists of Python, with texts as keys, in place of those of the templating engine."""
    if isinstance(value, t.Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value
