# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster-wide steps look at: groups with their wishes, and the facts of their hosts. Private to the collection."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import json
import os
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._base.files import read
from ansible_collections.fabric.rdma.plugins.module_utils._base.schema import Checker
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import PLAN_SCHEMA
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Group, Plan
from ansible_collections.fabric.rdma.plugins.module_utils._plan.groups import validate_wishes
from ansible_collections.fabric.rdma.plugins.module_utils._plan.names import foreign_facts
from ansible_collections.fabric.rdma.plugins.module_utils._plan.ports import refused_in_words, usable_ports
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.departures import (
    departures,
    refusal,
    removal_in_words,
    slice_in_words,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._contracts import (
    completed,
    contract_problems,
    schema_of,
)

__all__ = [
    "CONCLUDED",
    "GATHERED",
    "GATHERED_OF",
    "INCONCLUSIVE",
    "NEWER",
    "PlainError",
    "Plainer",
    "ViewError",
    "checked_facts",
    "cluster_view",
    "concluded",
    "earlier_classes",
    "facts_checker",
    "facts_of",
    "foreign_facts_in_words",
    "foreign_hosts",
    "foreign_in_words",
    "foreign_of_host",
    "found_departures",
    "lasting_facts",
    "loaded",
    "malformed_in_words",
    "merged_facts",
    "merged_plan",
    "others_in_words",
    "plain_wish",
    "seen_in_this_run",
    "sound_facts",
    "unusable_hosts",
    "unwrapped",
    "without_devices",
]

_WISHES = {
    "resource": "rdma_resource",
    "want": "rdma_want",
    "strategy": "rdma_selector_strategy",
    "rails": "rdma_rails",
    "verify": "rdma_verify",
}
# Of what is wrong with facts of hosts, so many hosts are named, and so much of a fact's name.
_MOST_HOSTS, _LONGEST_NAME = 10, 100
# In the fact rdma: when the controller received it, and of which host (plugins/action/ib_facts.py). Facts are compared and kept without.
GATHERED = "gathered"
GATHERED_OF = "gathered_of"
# What a file of facts does not keep.
_OF_A_RUN = ("change", "health")
# What the role discover leaves in the run that gathers (its README has it).
_RESULT = "discover_gathered"
# In that result: what was to be concluded from the facts, or why it could not be.
CONCLUDED, INCONCLUSIVE = "concluded", "inconclusive"


# What facts of earlier versions lack, which a fact cache may have; who reads it does without.
NEWER = (
    "kernel.cpu",
    "kernel.hugepages_2m",
    "kernel.modules.dm_crypt",
    "kernel.modules.iscsi_tcp",
    "kernel.modules.nfs",
    "kernel.modules.nv_peer_mem",
    "kernel.modules.nvme_tcp",
    "kernel.modules.uio_pci_generic",
    "kernel.modules.vfio_pci",
    "nvidia.imex",
    "nvidia.peer_memory",
    "nvidia.peermem_kernels",
    "ofed.packages",
    "ofed.proof",
    "ofed.proof.installed",
    "roce.unfinished",
    "runtime.containerd.cni",
    "runtime.containerd.nri",
    "runtime.containerd.running.handlers",
)
# The schema of the facts has 9 levels.
_DEEPEST = 60
# 200 virtual functions make 30,000. A plan has some sixty for each host.
_MOST_PARTS, _MOST_PARTS_OF_A_CLUSTER = 500_000, 50_000_000
# Python prints no number of more than 4300 digits, and YAML may have it (0xfff...).
_MOST_BITS = 4096


class ViewError(FabricError):
    """An inventory that makes no sense."""


class PlainError(FabricError):
    """A value that is nested too deeply, or has too many parts, or a number that nobody could print."""


class Plainer:
    """Plain dictionaries, lists and scalars out of whatever the templating engine of this ansible-core hands over.

    Equal parts are one object: hosts of a group are much alike, and the facts of thousands would not fit into memory otherwise.
    So nobody may change what comes out. PlainError for what no inventory and no node has.

    whole: what comes in tells of all hosts at once, as a plan does, and not of one.
    """

    def __init__(self, whole: bool = False) -> None:
        self._seen: dict[t.Any, t.Any] = {}
        self._most = _MOST_PARTS_OF_A_CLUSTER if whole else _MOST_PARTS
        self._left = 0

    def __call__(self, value: t.Any) -> t.Any:
        self._left = self._most
        return self._plain(value, _DEEPEST)

    def _plain(self, value: t.Any, depth: int) -> t.Any:
        # most are texts and numbers, and to ask typing's Mapping takes longer than all the rest
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise PlainError(f"has a number of more than {_MOST_BITS} bits")
        for kind in (str, int, float):
            if isinstance(value, kind):
                return self._scalar(kind(value))
        if not isinstance(value, (dict, list, tuple, collections.abc.Mapping)):
            return self._scalar(str(value))
        self._left -= len(value)
        if depth == 0 or self._left < 0:
            raise PlainError(
                f"has more than {self._most} parts" if depth else f"is nested more than {_DEEPEST} levels deep"
            )
        if isinstance(value, (list, tuple)):
            items = [self._plain(item, depth - 1) for item in value]
            return self._seen.setdefault((list, *map(id, items)), items)
        # a key other than a text may be a number that nobody could print
        own = {
            self._scalar(str(key if isinstance(key, str) else self._plain(key, depth - 1))): self._plain(
                item, depth - 1
            )
            for key, item in value.items()
        }
        # what is in it stays in there, so that its address stands for it
        return self._seen.setdefault((dict, *(part for key, item in own.items() for part in (key, id(item)))), own)

    def _scalar(self, value: t.Any) -> t.Any:
        # 1 and 1.0 are equal, and not the same
        return self._seen.setdefault((type(value), value), value)


def _plain(value: t.Any) -> t.Any:
    """Of what tells of all hosts."""
    return Plainer(whole=True)(value)


def plain_wish(plain: Plainer, value: t.Any, variable: str, group: str, host: str) -> t.Any:
    """A wish of a host of a group, as plain values. ViewError for what no inventory has."""
    try:
        return plain(value)
    except PlainError as exc:
        raise ViewError(f"group {group}, host {host}: {variable} {exc}", "correct it in the inventory") from exc


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def _timeless(facts: t.Any) -> tuple[t.Any, t.Optional[str]]:
    """(facts of a host without when and of which host they were gathered, that time; None when it is not there)."""
    if not isinstance(facts, dict) or not facts.keys() & {GATHERED, GATHERED_OF}:
        return facts, None
    when = facts.get(GATHERED)
    left = {key: value for key, value in facts.items() if key not in (GATHERED, GATHERED_OF)}
    return left, when if isinstance(when, str) and _TIME.fullmatch(when) else None


def others_in_words(facts: t.Mapping[str, t.Any], host: t.Optional[str]) -> t.Optional[str]:
    """What is said of a host that has the facts of another, as far as the fact rdma says of which; None where all is well, or without a host.

    facts: all facts of the host. ansible-core 2.21 gives the hosts of a task that runs once one dictionary for all of their facts, where
    they had none before: set_fact and debug do that (plugins/strategy/__init__.py there, register_host_variables). Whatever is gathered of
    one host afterwards, all of them have.
    """
    found = facts.get("rdma")
    other = found.get(GATHERED_OF) if isinstance(found, t.Mapping) else None
    if host is None or not isinstance(other, str) or other == host:
        return None
    return (
        f"host {host} has the facts of host {other[:255]!r}. With ansible-core 2.21, hosts share what is gathered of any of them when a task "
        "with run_once (debug, set_fact, include_vars, ...) ran before they had facts: gather facts before it (gather_facts: true), or put "
        "a task ansible.builtin.meta: clear_facts after it. If the host was renamed, a fact cache has facts under its old name: discover it "
        "again"
    )


def foreign_facts_in_words(host: str, facts: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """What is said of a host whose facts would set variables of this collection, or are those of another host. None: all is well."""
    names = foreign_facts(facts)
    if names:
        return foreign_in_words(host, names)
    return others_in_words(facts, host)


def foreign_in_words(host: str, names: t.Sequence[str]) -> str:
    """What is said of a host whose facts would set variables of this collection; host: "" where it is the host of the task."""
    return (
        "{} has facts named {}, which are variables of fabric.rdma or of Ansible: wishes come from the inventory, never from a node. Find out "
        "which module gave them (the host may be in wrong hands), and clear the fact cache of the host".format(
            f"host {host}" if host else "this host",
            ", ".join(name[:_LONGEST_NAME] for name in names[:5]) + (", ..." if len(names) > 5 else ""),
        )
    )


def foreign_of_host(facts: t.Mapping[str, t.Any], host: t.Optional[str] = None) -> list[str]:
    """The same of the host of a task, by its facts alone: a fact may call it by the name of another.

    host: its name, by which facts of another host are known; it is read only where no fact is called like a variable of Ansible's.
    """
    names = foreign_facts(facts)
    if names:
        return [foreign_in_words("", names)]
    said = others_in_words(facts, host)
    return [said] if said else []


def foreign_hosts(hostvars: t.Mapping[str, t.Any], hosts: t.Iterable[str]) -> list[str]:
    """What is said of those hosts whose facts would set variables of this collection, or are those of another host.

    Of the first ten, and how many more there are: it is shown in one message, and each host of a cluster may be one.
    """
    found = (
        foreign_facts_in_words(host, facts_of(hostvars[host])) for host in dict.fromkeys(hosts) if host in hostvars
    )
    said = [words for words in found if words]
    more = len(said) - _MOST_HOSTS
    return said[:_MOST_HOSTS] + (
        [f"The same is wrong with {more} more host{'s' if more > 1 else ''}"] if more > 0 else []
    )


def seen_in_this_run(variables: t.Mapping[str, t.Any]) -> bool:
    """Whether the facts of a host are of this run; others are from a fact cache, or of an earlier step."""
    known = _kept(variables)
    return "ansible_facts" in (known.get(_RESULT) or {})


def concluded(variables: t.Mapping[str, t.Any]) -> t.Any:
    """What the role discover has concluded from the facts of a host, None where it has concluded nothing."""
    return (_kept(variables).get(_RESULT) or {}).get(CONCLUDED)


def _kept(variables: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """Variables of a host as Ansible keeps them: what nodes say is never a template, and to look for one in each text takes its time.

    Ansible has no public name for them (ansible/vars/hostvars.py, HostVarsVars). Without it the variables themselves do.
    """
    kept = getattr(variables, "_vars", None)
    return kept if isinstance(kept, dict) else variables


def unwrapped(value: t.Any) -> t.Any:
    """What another filter has returned, as that filter made it.

    From 2.19 on, ansible-core hands it over in containers that look at each part as it is read, which takes longer than all that is done
    with it. What variables have, and may be templates, is left as it is, and so is everything where ansible-core keeps it elsewhere.
    """
    return value if getattr(getattr(value, "_lazy_options", None), "template", True) else _bare(value)


def _bare(value: t.Any) -> t.Any:
    """The same of what has no templates wherever it is kept, which facts of nodes have not."""
    copy = getattr(value, "_non_lazy_copy", None)
    if copy is None:
        return value
    own = copy()
    # a part that was read before is in such a container, too
    if isinstance(own, dict):
        return {key: _bare(item) for key, item in own.items()}
    return [_bare(item) for item in own] if isinstance(own, list) else own


def facts_of(variables: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """All facts of a host, whatever a fact cache has in their place."""
    known = _kept(variables).get("ansible_facts")
    return known if isinstance(known, t.Mapping) else {}


# --- the form of facts ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def facts_checker() -> Checker:
    """What facts are checked by. Made once in a process, and in those that this one starts afterwards."""
    return Checker(schema_of("facts"), NEWER)


def malformed_in_words(host: str, problems: t.Sequence[str]) -> str:
    """What is said of a host whose facts have not the form that they have to have."""
    return (
        f"host {host}: its facts cannot be used ({'; '.join(problems)}): they are damaged, of another version of the "
        "collection, or made by somebody else; discover it again"
    )


def checked_facts(
    found: t.Any, plain: t.Optional[Plainer] = None, seen: t.Optional[set[tuple[int, int]]] = None
) -> tuple[t.Any, t.Optional[str], list[str]]:
    """(facts of a host as plain values, the time when they were gathered, what is wrong with them, with which they are not to be used).

    plain, seen: kept from host to host, so that equal parts are looked at once.
    """
    try:
        facts, when = _timeless((plain or Plainer())(_bare(found)))
    except PlainError as exc:
        return None, None, [f"the fact rdma {exc}"]
    return facts, when, facts_checker().problems(facts, seen if plain is not None else None)


def sound_facts(facts_by_host: t.Mapping[str, t.Any]) -> tuple[dict[str, t.Any], dict[str, str]]:
    """(facts by host as plain values, a sentence on each host whose facts cannot be used)."""
    plain = Plainer()
    seen: set[tuple[int, int]] = set()
    sound: dict[str, t.Any] = {}
    malformed: dict[str, str] = {}
    for host, found in facts_by_host.items():
        facts, _when, problems = checked_facts(found, plain, seen)
        if problems:
            malformed[str(host)] = malformed_in_words(str(host), problems)
        else:
            sound[str(host)] = facts
    return sound, malformed


def without_devices(facts_by_host: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """A sentence on each host whose facts do not tell of devices."""
    return {
        host: malformed_in_words(host, ["devices is missing"])
        for host, facts in facts_by_host.items()
        if "devices" not in facts
    }


def _in_a_slice(
    hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], names: t.Sequence[str]
) -> bool:
    """Whether a run is a slice of a sliced job: all hosts of a group may be in other slices, and AWX then leaves the group out."""
    return any(slice_in_words(hostvars[host]) for host in [host for name in names for host in groups.get(name, ())][:1])


def cluster_view(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    run: t.Iterable[str] = (),
) -> dict[str, t.Any]:
    """{groups: {name: {hosts, resource, want, strategy, rails, verify, replayed}}, facts: {host: facts}, without_facts: [group], unseen, cached, malformed}.

    A group of names has to be there, but in a slice of a sliced job. One of which no host has facts (a run with --limit, or all are
    unreachable) is not in groups, but in without_facts, and in unseen with what it would have in groups. cached has the hosts whose
    facts the role discover did not gather in this run, with the time when they were gathered (None where nobody knows): they come
    from a fact cache. Hosts of one group must agree in their wishes: a wish is a group's, and a host with another one would silently
    be planned with its neighbour's.

    malformed has the hosts whose facts have not the form of docs/facts.schema.json, each with a sentence that names host and field.
    These are not in facts, and cost no other host anything. run: hosts that variables of this run may come from; none of them may
    have facts that are variables of ours.
    """
    unknown = [name for name in names if name not in groups]
    if unknown and not _in_a_slice(hostvars, groups, names):
        raise ViewError(
            f"rdma_groups names {', '.join(unknown)}, which the inventory does not have; it has {', '.join(sorted(groups))}"
        )
    names = [name for name in names if name in groups]
    view: dict[str, t.Any] = {"groups": {}, "facts": {}, "without_facts": [], "unseen": {}, "cached": {}}
    view["malformed"] = {}
    plain = Plainer()
    seen: set[tuple[int, int]] = set()
    foreign = foreign_hosts(hostvars, set(run) - {host for name in names for host in groups[name]})
    if foreign:
        raise ViewError(foreign[0])
    for name in names:
        _add_group(view, name, hostvars, sorted(groups[name]), plain, seen)
    return view


def _add_group(
    view: dict[str, t.Any],
    name: str,
    hostvars: t.Mapping[str, t.Any],
    hosts: t.Sequence[str],
    plain: Plainer,
    seen: set[tuple[int, int]],
) -> None:
    """Adds a group to the view, with the facts of its hosts. ViewError as cluster_view()."""
    known: dict[str, t.Any] = {"facts": {}, "malformed": {}}
    wishes: dict[str, t.Any] = {}
    replayed: list[str] = []
    differing: dict[str, str] = {}
    for host in hosts:
        # once a host, and one host at a time: each look into hostvars puts all variables of the host together
        own = hostvars[host]
        facts = facts_of(own)
        foreign = foreign_facts_in_words(host, facts)
        if foreign:
            raise ViewError(foreign)
        found = facts.get("rdma")
        # none at all is what a host has that was not discovered
        if found is not None and found != {}:
            own_facts, when, problems = checked_facts(found, plain, seen)
            if problems:
                known["malformed"][host] = malformed_in_words(host, problems)
            else:
                known["facts"][host] = own_facts
            if not problems and not seen_in_this_run(own):
                view["cached"][host] = when
        for key, variable in _WISHES.items():
            value = plain_wish(plain, own.get(variable), variable, name, host)
            if wishes.setdefault(key, value) != value:
                differing.setdefault(variable, host)
        if own.get("rdma_capture"):
            replayed.append(host)
    if differing and (known["facts"] or known["malformed"]):
        variable, host = next(iter(differing.items()))
        raise ViewError(
            f"group {name}: {variable} differs between hosts {hosts[0]} and {host}",
            "set it for the group, not for a host",
        )
    wishes = wishes or dict.fromkeys(_WISHES)
    if not known["facts"]:
        view["without_facts"].append(name)
    view["groups" if known["facts"] else "unseen"][name] = {"hosts": list(hosts), **wishes, "replayed": replayed}
    for key, entries in known.items():
        view[key].update(entries)


# --- what the ports of a host are good for ----------------------------------------------------------------------------


def unusable_hosts(view: t.Mapping[str, t.Any]) -> dict[str, str]:
    """What was found, by name of those hosts of a view that have facts and no port that their group wants.

    Also the hosts whose facts cannot be used, with what is wrong with them.
    """
    unusable = dict(view.get("malformed") or {})
    for name, group in view["groups"].items():
        # not the resource: a host can be looked at before its group has one
        want = validate_wishes(name, {"resource": {"name": "any"}, "want": group["want"]})["want"]
        for host in group["hosts"]:
            if host in view["facts"]:
                wanted, refused = usable_ports(view["facts"][host], want)
                if not wanted:
                    unusable[host] = refused_in_words(refused) or "no RDMA device at all"
    return unusable


# --- what earlier runs left -------------------------------------------------------------------------------------------


def _unreadable(path: str, sort: str, why: str) -> ViewError:
    return ViewError(
        f"{path} cannot be read as the {sort} of an earlier run ({why})",
        "put it right, or move it away to start without it. Nothing was written.",
    )


def _saved(path: str, sort: str) -> dict[str, t.Any]:
    """The facts, plan or outcomes of an earlier run, empty when there are none. ViewError for a file that is of another form."""
    # as what writes it does
    path = os.path.expanduser(path)
    try:
        # as large as the cluster makes it
        data = read(path, None)
        document = {} if data is None else json.loads(data.decode("utf-8", "surrogateescape"))
    except (OSError, ValueError, RecursionError) as exc:
        why = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        raise _unreadable(path, sort, why) from exc
    if data is None:
        return {}
    if not isinstance(document, dict):
        raise _unreadable(path, sort, "it is not a dictionary")
    # facts are checked host by host, where they are used
    problems = [] if sort == "facts" else contract_problems(sort, document)
    if problems:
        raise _unreadable(path, sort, "; ".join(problems))
    return t.cast(dict[str, t.Any], document)


def loaded(value: t.Any, sort: str) -> t.Any:
    """A document; a text is the path of the file that an earlier run has left it in."""
    return _saved(str(value), sort) if isinstance(value, str) else unwrapped(value)


def _earlier_plan(path: str) -> Plan:
    """The plan that an earlier run left in a file, also one of an earlier version; without groups where there is none."""
    return completed(_saved(path, "plan") or {"schema": PLAN_SCHEMA, "groups": {}, "warnings": []})


def found_departures(
    directory: str,
    groups: t.Mapping[str, t.Collection[str]],
    names: t.Collection[str],
    remove: t.Collection[str],
    variables: t.Mapping[str, t.Any],
) -> dict[str, t.Any]:
    """{missing: {host: group}, removed: {host: group}, refusal}, by what earlier runs left in a directory (departures())."""
    plan, facts = _earlier_plan(f"{directory}/plan.json"), _saved(f"{directory}/facts.json", "facts")
    missing, removed, still = departures(plan, facts, _plain(groups), names, remove)
    return {
        "missing": missing,
        "removed": removed,
        "refusal": refusal(missing, still, slice_in_words(variables)),
    }


def merged_facts(seen: t.Mapping[str, t.Any], path: str, removed: t.Collection[str] = ()) -> dict[str, t.Any]:
    """Facts by host: those of this run, and those that the file of an earlier one has of hosts that nobody takes out."""
    gone = set(removed)
    kept = {host: facts for host, facts in _saved(path, "facts").items() if host not in gone}
    return {**kept, **lasting_facts(seen)}


def lasting_facts(seen: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Facts by host without what grows or ends by itself, as a file keeps them."""
    plain = Plainer()
    new = {}
    for host, facts in seen.items():
        # what no file can hold keeps no other host from being written
        with contextlib.suppress(PlainError):
            own = _timeless(plain(facts))[0]
            # a change that was still open when they were gathered: of this run, or for the next one to find on the node itself;
            # counters grow on nodes that stay what they are
            new[str(host)] = (
                {key: _of_no_start(part) for key, part in own.items() if key not in _OF_A_RUN}
                if isinstance(own, dict)
                else own
            )
    return new


def _of_no_start(part: t.Any) -> t.Any:
    """A part of the facts, the runtime without the number of containerd's process, which is another one after each of its starts."""
    daemon = part.get("containerd") if isinstance(part, dict) else None
    return {**part, "containerd": {**daemon, "pid": None}} if isinstance(daemon, dict) and daemon.get("pid") else part


_Any = t.TypeVar("_Any")


def _without(entry: Group, gone: t.Collection[str]) -> Group:
    """The plan of a group without some hosts. Classes that have no other go."""

    def left(by_host: t.Mapping[str, _Any]) -> dict[str, _Any]:
        return {host: value for host, value in by_host.items() if host not in gone}

    classes: list[Class] = [
        {**each, "hosts": [host for host in each["hosts"] if host not in gone], "matches": left(each["matches"])}
        for each in entry["classes"]
        if set(each["hosts"]) - set(gone)
    ]
    return {
        **entry,
        "hosts": [host for host in entry["hosts"] if host not in gone],
        "malformed": left(entry["malformed"]),
        "wanted": left(entry["wanted"]),
        "rails": left(entry["rails"]),
        "environment": left(entry["environment"]),
        "exclusions": [row for row in entry["exclusions"] if row["host"] not in gone],
        "classes": classes,
    }


def earlier_classes(path: str) -> dict[str, list[Class]]:
    """{group: classes} of the plan that an earlier run left in a file."""
    return {name: entry["classes"] for name, entry in _earlier_plan(path)["groups"].items() if entry["classes"]}


def merged_plan(
    plan: t.Mapping[str, t.Any],
    path: str,
    groups: t.Collection[str],
    removed: t.Optional[t.Mapping[str, t.Any]] = None,
    remove: t.Sequence[str] = (),
) -> Plan:
    """The plan of this run with what an earlier one says of groups that this one did not plan.

    A group that this run was not asked for stays as it was while the inventory has a group of its name. A group that could not
    be planned keeps its earlier classes beside the reason. Both have planned: False, and say in kept why they are there. A
    configuration for the whole cluster does not know what they have, so there is none then.

    removed: hosts that are taken out on purpose, with their groups (found_departures()); remove: who said so. Both are in the plan.
    """
    gone = _plain(removed or {})
    fresh = completed(_plain(plan))
    merged = fresh["groups"]
    # one that this run has planned in another group is no longer in this one
    elsewhere = {host: name for name, entry in merged.items() if entry["planned"] for host in entry["hosts"]}
    for name, entry in _earlier_plan(path)["groups"].items():
        if name not in groups:
            continue
        left = {host for host in entry["hosts"] if elsewhere.get(host, name) != name} | set(gone)
        if left:
            entry = _without(entry, left)
        own = merged.get(name)
        if own is None:
            kept = "from an earlier run: rdma_groups of this one does not name it"
            merged[name] = {**entry, "planned": False, "kept": kept}
        elif not own["planned"] and entry["classes"]:
            kept = "from an earlier run: this one could not plan it"
            wrong = own["malformed"]
            merged[name] = {**entry, "planned": False, "kept": kept, "malformed": wrong, "errors": own["errors"]}
    cluster = fresh["cluster"]
    kept_groups = sorted(name for name, entry in merged.items() if entry["kept"])
    if kept_groups:
        reason = (
            f"kept from an earlier run: {', '.join(kept_groups)}; a configuration that reaches the whole cluster must be planned with "
            "all of it"
        )
        errors = [*cluster["errors"], reason]
        cluster = {**cluster, "config": None, "selectors": {}, "errors": errors}
    return {
        **fresh,
        "groups": dict(sorted(merged.items())),
        "cluster": cluster,
        "warnings": [*removal_in_words(gone), *fresh["warnings"]],
        "removed": gone,
        "remove": sorted(str(name) for name in remove),
    }
