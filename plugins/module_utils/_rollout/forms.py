# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fields of the cluster's objects have for values, as the Kubernetes API defines them. Private to the collection. Pure.

An object out of a directory that somebody sends may have anything in any of its fields. What has not the form of its field is left out, so
that nobody who reads what was kept has to ask again.
"""

from __future__ import annotations

import typing as t

__all__ = ["in_form", "text_of"]

Form = t.Callable[[t.Any], t.Any]

_LONGEST = 1000
# of a quantity (resource.Quantity): a real one has far fewer
_LONGEST_QUANTITY = 64
_MOST_NUMBER = 1 << 63


def text_of(value: t.Any, longest: int = _LONGEST) -> t.Optional[str]:
    """A text that can be written to a file, cut; None for anything else."""
    if not isinstance(value, str):
        return None
    # half a surrogate pair, which JSON can have, is in no encoding
    return value[:longest].encode("utf-8", "replace").decode("utf-8")


def _number(value: t.Any) -> t.Optional[int]:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and abs(value) < _MOST_NUMBER else None


def _flag(value: t.Any) -> t.Optional[bool]:
    return value if isinstance(value, bool) else None


def _plain(value: t.Any) -> t.Union[str, int, bool, None]:
    return value if isinstance(value, bool) else _number(value) if isinstance(value, int) else text_of(value)


def _quantity(value: t.Any) -> t.Union[str, int, None]:
    if isinstance(value, str):
        return text_of(value) if len(value) <= _LONGEST_QUANTITY else None
    return _number(value)


def _table(form: Form) -> Form:
    def table(value: t.Any) -> t.Optional[dict[str, t.Any]]:
        if not isinstance(value, dict):
            return None
        kept = {text_of(key): form(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if key is not None and item is not None}

    return table


def _list(form: Form) -> Form:
    def entries(value: t.Any) -> t.Optional[list[t.Any]]:
        kept = [form(item) for item in value] if isinstance(value, list) else []
        return [item for item in kept if item is not None]

    return entries


def _object(**fields: Form) -> Form:
    def parts(value: t.Any) -> t.Optional[dict[str, t.Any]]:
        if not isinstance(value, dict):
            return None
        kept = {key: fields[key](item) for key, item in value.items() if key in fields}
        return {key: item for key, item in kept.items() if item not in (None, [], {})}

    return parts


def _forms() -> dict[str, Form]:
    texts, quantities = _table(text_of), _table(_quantity)
    rows = _list(_table(_plain))
    found: dict[str, Form] = {
        "capabilities": _object(add=_list(text_of), drop=_list(text_of)),
        "resources": _object(limits=quantities, requests=quantities),
        "sizeLimit": _quantity,
        "taints": rows,
        "tolerations": rows,
    }
    for names, form in (
        ("labels matchLabels nodeSelector", texts),
        ("allocatable capacity limits requests", quantities),
        ("hostNetwork privileged ready runAsNonRoot unschedulable", _flag),
        ("count exitCode generation observedGeneration restartCount runAsUser signal", _number),
        ("currentNumberScheduled desiredNumberScheduled numberAvailable updatedNumberScheduled", _number),
    ):
        found.update(dict.fromkeys(names.split(), form))
    return found


_FORMS = _forms()


def in_form(key: str, value: t.Any) -> t.Any:
    """The value of a field, as far as it has the form that the field has; None for what has not. Any other field than the known ones is a text."""
    form: Form = _FORMS.get(key, text_of)
    return form(value)
