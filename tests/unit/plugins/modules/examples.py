# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The EXAMPLES of a module, run as a play runs them: one after another, with what earlier ones registered."""

from __future__ import annotations

import typing as t

from jinja2 import StrictUndefined
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import documented, insist_on_return

Json = dict[str, t.Any]
Call = t.Callable[[str, Json], Json]


def run_examples(
    module: str, call: Call, filters: t.Mapping[str, t.Callable[..., t.Any]] | None = None, **known: t.Any
) -> list[Json]:
    """What the examples of a module return, each of which succeeds and returns what is documented.

    call: runs a module of the collection, by its name, with its arguments; filters and known: what their templates use.
    """
    environment = NativeEnvironment(undefined=StrictUndefined)
    environment.filters.update(filters or {})

    def said(value: t.Any, variables: Json) -> t.Any:
        if isinstance(value, dict):
            return {key: said(item, variables) for key, item in value.items()}
        if isinstance(value, list):
            return [said(item, variables) for item in value]
        return environment.from_string(value).render(variables) if isinstance(value, str) and "{{" in value else value

    results = []
    for task in documented(module, "EXAMPLES"):
        variables = dict(known)
        for key, value in task.get("vars", {}).items():
            variables[key] = said(value, variables)
        if "when" in task and not environment.compile_expression(task["when"])(**variables):
            raise AssertionError(f"{task['name']}: {task['when']}")
        (action,) = (key for key in task if "." in key)
        arguments = said(task[action] or {}, variables)
        name = action.rpartition(".")[2]
        if not action.startswith("fabric.rdma."):
            # it uses what was returned: a debug whose text can be made, or an assert that holds
            assert name in ("assert", "debug"), action
            assert name == "debug" or environment.compile_expression(arguments["that"])(**variables)
            continue
        result = call(name, arguments)
        assert not result.get("failed"), (task["name"], result)
        insist_on_return(name, result)
        results.append(result)
        if "register" in task:
            known[task["register"]] = result
    return results
