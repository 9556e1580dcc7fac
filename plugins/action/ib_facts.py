# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller part of the module ib_facts: a node says what it has, and never what is wished for."""

from __future__ import annotations

import keyword
import os
import typing as t
from datetime import datetime, timezone

from ansible import template
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.change import snapshot
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import SUBSETS, gather
from ansible_collections.fabric.rdma.plugins.module_utils._plan.names import foreign_facts
from ansible_collections.fabric.rdma.plugins.plugin_utils._quiet_action import hidden
from ansible_collections.fabric.rdma.plugins.plugin_utils._view import (
    CONCLUDED,
    GATHERED,
    GATHERED_OF,
    INCONCLUSIVE,
    concluded,
    foreign_in_words,
    others_in_words,
    seen_in_this_run,
)


def subsets_of(asked: t.Any) -> list[t.Any]:
    """What gather_subset names, as the argument of a module may be written."""
    return asked.split(",") if isinstance(asked, str) else list(asked or ["all"])


def replayed(capture: t.Any, asked: t.Any) -> dict[str, t.Any]:
    """What the module would answer on the host of a capture: {ansible_facts: {rdma}}, or {failed, msg}."""
    subsets = subsets_of(asked)
    unknown = sorted(str(each) for each in subsets if each not in ("all", *SUBSETS))
    if unknown:
        return {"failed": True, "msg": f"gather_subset knows no {', '.join(unknown)}"}
    try:
        tree = open_tree(os.path.expanduser(os.path.expandvars(str(capture))))
        facts = gather(tree, SUBSETS if "all" in subsets else subsets)
    except FabricError as exc:
        return {"failed": True, "msg": str(exc)}
    return {"changed": False, "ansible_facts": {"rdma": facts}}


# Of an answer, with what Ansible itself adds (_ansible_...). A node could say with any other key what Ansible makes of its answer (skipped,
# rc, failed_when_result, results), what the controller has concluded, and what a job tells the next one (ansible_stats).
ANSWERED = (
    "changed",
    "failed",
    "unreachable",
    "msg",
    "exception",
    "invocation",
    "module_stdout",
    "module_stderr",
    "ansible_facts",
)
# From ansible-core 2.19 on, a text is a template only where it is marked as one, as answers of modules never are. Before, all other texts
# have to be marked; with those of a node, that takes as long as its decision.
MARKS_TEMPLATES = hasattr(template, "trust_as_template")
# From which verbosity on facts are shown that are to be kept quiet.
SHOWN_FROM = 3
# What Ansible says of a deprecation (Display.deprecated). Other keys end what shows the result, one with both a version and a date, too.
DEPRECATED = ("msg", "date", "version", "collection_name")
# Ansible's own classes for it, from ansible-core 2.19 on (module_utils/_internal/_messages.py).
SUMMARIES = {"warnings": "WarningSummary", "deprecations": "DeprecationSummary"}


def shown(key: str, each: t.Any) -> t.Any:
    """A warning or deprecation in a form that Ansible has for it, and None of what has another one."""
    if type(each).__name__ == SUMMARIES[key]:
        return each
    if key == "warnings":
        return each if isinstance(each, str) else None
    if not isinstance(each, dict) or not isinstance(each.get("msg"), str):
        return None
    told = {name: each[name] for name in DEPRECATED if isinstance(each.get(name), str)}
    if "version" in told:
        told.pop("date", None)
    # as Ansible looks whether it is a name
    parts = told.get("collection_name", "").split(".")
    if len(parts) != 2 or not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        told.pop("collection_name", None)
    return told


def of_a_module(answer: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What counts of the answer of the module. With its return code where it failed, as Ansible takes each other one for a failure."""
    kept = {key: value for key, value in answer.items() if key in ANSWERED or key.startswith("_ansible_")}
    for key in SUMMARIES:
        if isinstance(answer.get(key), list):
            kept[key] = [told for told in (shown(key, each) for each in answer[key]) if told is not None]
    if kept.get("failed") and "rc" in answer:
        kept["rc"] = answer["rc"]
    return kept


def known(variables: t.Mapping[str, t.Any], needed: t.Iterable[t.Any], as_root: bool) -> bool:
    """Whether facts of this run have all these subsets. What was gathered without root lacks what only root may read."""
    own = variables.get("ansible_facts") or {}
    facts = own.get("rdma")
    # what a node says has any form
    if not isinstance(facts, dict) or not seen_in_this_run(variables) or set(map(str, needed)) - set(facts):
        return False
    if others_in_words(own, str(variables.get("inventory_hostname"))):
        return False
    runtime = facts.get("runtime")
    return not (as_root and isinstance(runtime, dict) and runtime.get("as_root") is False)


class ActionModule(ActionBase):
    """Runs the module, and hands on the fact rdma alone: Ansible would make a variable of every other one."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module."""
        result = self._looked(tmp, task_vars or {})
        quiet = boolean(self._task.args.get("quiet") or False, strict=False) and self._display.verbosity < SHOWN_FROM
        # a task may have a word about what a failure is
        decided = getattr(self._task, "failed_when", None) or getattr(self._task, "until", None)
        if quiet and not decided and not (result.get("failed") or result.get("unreachable")):
            return hidden(result)
        return result

    def _looked(self, tmp: str | None, variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """The result, whoever is to see it."""
        result: dict[str, t.Any] = super().run(tmp, variables)
        host = str(variables.get("inventory_hostname"))
        foreign = foreign_facts(variables.get("ansible_facts") or {})
        if foreign:
            return {**result, "failed": True, "msg": foreign_in_words(host, foreign)}
        # with delegate_facts they become those of the other host
        whose = str(self._task.delegate_to if self._task.delegate_facts and self._task.delegate_to else host)
        arguments = dict(self._task.args)
        if arguments.get("before") and isinstance(arguments["before"], dict):
            others = others_in_words({"rdma": arguments["before"]}, whose)
            if others:
                return {**result, "failed": True, "msg": f"before: {others}"}
            # of all the facts only what two states are compared by goes to the node
            try:
                arguments["before"] = snapshot(arguments["before"])
            except (AttributeError, KeyError, TypeError, ValueError) as exc:
                return {**result, "failed": True, "msg": f"before holds no facts of ib_facts: {exc!r}"}
        conclude = str(arguments.pop("conclude", None) or "")
        arguments.pop("quiet", None)
        needed = arguments.pop("unless", None)
        if needed is None and arguments.get("before") and self._task.check_mode:
            # a check has changed nothing of what this run knows
            subsets = subsets_of(arguments.get("gather_subset"))
            needed = SUBSETS if "all" in subsets else subsets
        if needed is not None and known(variables, needed, as_root=not arguments.get("capture")):
            result.update(changed=False, ansible_facts={})
            return {**result, **self._conclusion(conclude, variables)}
        if arguments.get("capture"):
            # a process for each host would do nothing else
            result.update(replayed(arguments["capture"], arguments.get("gather_subset")))
        else:
            answer = self._execute_module(
                module_name="fabric.rdma.ib_facts", module_args=arguments, task_vars=variables
            )
            result.update(of_a_module(answer))
        facts = result.pop("ansible_facts", None) or {}
        if result.get("failed") or result.get("unreachable"):
            return result
        found = facts.get("rdma") if isinstance(facts, dict) else None
        if not isinstance(found, dict):
            return {**result, "failed": True, "msg": f"host {host} returned no facts named rdma"}
        # the controller's own clock: a plan that is made from a fact cache says of which age it is
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept: dict[str, t.Any] = {"rdma": {**found, GATHERED: now, GATHERED_OF: whose}}
        # which Python Ansible has found is its own finding, and it would look for it again
        interpreter = self._discovered_interpreter_key
        if interpreter and interpreter in facts:
            kept[interpreter] = self._discovered_interpreter
        result["ansible_facts"] = kept
        if conclude:
            # a node does not write templates
            fresh = kept if MARKS_TEMPLATES else wrap_var(kept)
            variables = {**variables, "ansible_facts": {**(variables.get("ansible_facts") or {}), **fresh}}
            if "rdma" in variables:
                # where facts are variables of that name, too
                variables["rdma"] = fresh["rdma"]
        return {**result, **self._conclusion(conclude, variables)}

    def _conclusion(self, name: str, variables: dict[str, t.Any]) -> dict[str, t.Any]:
        """The value of a variable of the host: {concluded}, or {inconclusive} with the reason why it has none.

        Without a name, what this run has concluded of the host before: it does not go with a second look.
        """
        if not name:
            earlier = concluded(variables)
            return {} if earlier is None else {CONCLUDED: earlier}
        if name not in variables:
            return {INCONCLUSIVE: f"conclude: there is no variable {name}"}
        before = self._templar.available_variables
        self._templar.available_variables = variables
        try:
            return {CONCLUDED: self._templar.template(variables[name])}
        # whatever goes wrong in a template is of this host alone, and its facts are good
        except Exception as exc:
            return {INCONCLUSIVE: str(exc) or repr(exc)}
        finally:
            self._templar.available_variables = before
