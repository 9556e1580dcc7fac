# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secondary networks: what Pods reach their RDMA peers by, from the plan and the wishes of the groups. Private. Pure.

Problems are found first, all of them; objects are made only where there is none.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    SPIDERPOOL,
    SPIDERPOOL_CHARTS,
    SPIDERPOOL_IMAGES,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of, engine_defaults
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.values import merged
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.addresses import (
    Pool,
    check_netaddr,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_checks import (
    WHOLE_POLICY,
    check_multus,
    check_releases,
    check_whereabouts,
    directories_of,
    section,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cni_install import CniDirectories, rollout_wait
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.contract import (
    Chart,
    Json,
    Request,
    Site,
    empty_request,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.dra_checks import class_labels, dranet_serves
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.kept import halted
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.multus import multus_objects
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.naming import mirrored
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_checks import check_network
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_hosts import (
    ON_A_NETDEV,
    Attachment,
    Findings,
    Network,
    attachments,
    group_hosts,
    host_objections,
    rails_of,
    some,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_objects import (
    INJECT,
    Places,
    cni_plugins,
    network_objects,
    network_wait,
    pool_objects,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_pools import (
    Pools,
    block_size,
    check_pools,
    make_pools,
    pods_per_node,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_sriov import (
    Functions,
    functions_of,
    policies,
    shared_resource,
)
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.network_workloads import workload_pods
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.whereabouts import (
    whereabouts_file,
    whereabouts_objects,
)

__all__ = ["request"]

_SYSTEM = "secondary_network"
# IPAM that keeps its pools as objects
_WITH_POOLS = ("nv_ipam", "spiderpool")


class _Planned(t.NamedTuple):
    """A network with all that was found out about it."""

    network: Network
    rows: list[Attachment]
    pools: Pools
    functions: Functions
    # of the nodes of its group, by slug of class
    labels: dict[str, str]

    def pools_of(self, row: Attachment) -> list[Pool]:
        return self.pools.get(row.rail) or []

    def resources_of(self, row: Attachment, site: Site) -> list[str]:
        own = self.functions.resources.get(row.rail)
        return [own] if own else shared_resource(site["plan"]["groups"][self.network.group], row.serves)


def request(
    wish: t.Mapping[str, t.Any],
    site: Site,
    served: t.Optional[t.Mapping[str, t.Sequence[str]]] = None,
    nodes: t.Optional[t.Mapping[str, Json]] = None,
    service_cidrs: t.Optional[t.Sequence[str]] = None,
    installed: t.Optional[t.Mapping[str, Json]] = None,
) -> Request:
    """What the secondary networks of all groups ask of the cluster.

    wish: {multus, whereabouts, spiderpool, rollout, cidrs}, each as the variable rdma_* of that name (rdma_cluster_cidrs) has it, or
    nothing. The networks themselves are wishes of the groups (rdma_networks). served: versions of the cluster by API group; nodes:
    {node: {addresses, pod_cidrs}}; service_cidrs: networks of Services; installed: {Helm release: {version}}; each None where nobody has
    looked.
    """
    result = empty_request(_SYSTEM)
    networks = _networks(site)
    missing = check_netaddr()
    if missing and networks:
        result["problems"].append(missing)
        return result
    found = Findings()
    rollout = section(wish, "rollout")
    planned = [_plan(network, site, rollout, found) for network in networks if _is_planned(network, site, found)]
    standing = _standing(networks, site)
    _check_names(planned, standing, site, found)
    _check_policies(planned, found)
    pools, kept = (
        [(network, pool) for network, own in rows for each in own.values() for pool in each]
        for rows in ([(each.network, each.pools) for each in planned], standing)
    )
    check_pools(pools, {**site["cidrs"], **section(wish, "cidrs")}, site, nodes, service_cidrs, found, kept)
    check_multus(wish, [each.network for each in planned], site, served, found)
    check_releases(wish, installed or {}, found)
    check_whereabouts(wish, [each.network for each in planned], served, found)
    directories = directories_of(wish, site, found)
    result["problems"], result["warnings"] = found.problems, found.warnings
    for each in planned:
        row = (f"network {each.network.name} ({each.network.group})", _network_words(each, site))
        result["group_rows"].setdefault(each.network.group, []).append(row)
    for group, rows in result["group_rows"].items():
        own = [cni_plugins(each.network, each.rows) for each in planned if each.network.group == group]
        if any(own):
            rows.append((f"CNI plugins that nodes of {group} need", ", ".join(sorted(set().union(*own)))))
    result["summary"] = [row for rows in result["group_rows"].values() for row in rows] + _summary(wish)
    if not result["problems"]:
        _fill(result, planned, wish, site, directories, found)
        result["problems"], result["warnings"] = found.problems, found.warnings
    return result


# --- what is asked for --------------------------------------------------------------------------------------------------


def _networks(site: Site) -> list[Network]:
    rows = []
    for group in sorted(site["wishes"]):
        for each in site["wishes"][group].get("rdma_networks") or ():
            own = {key: value for key, value in each.items() if value is not None}
            rows.append(
                Network(
                    group,
                    str(own.get("name")),
                    str(own.get("kind")),
                    str(own.get("namespace") or defaults_of("rdma_networks", "namespace")),
                    own,
                )
            )
    return rows


def _is_planned(network: Network, site: Site, found: Findings) -> bool:
    group = site["plan"]["groups"].get(network.group)
    if group is not None and group["planned"]:
        if not group_hosts(group):
            found.warn(f"{network.words} is taken out, since no host of its group is left that has a usable port")
        return bool(group_hosts(group))
    reason = halted(site).get(network.group, "it is not in the plan")
    found.warn(f"{network.words} stays as it is, since its group does: {reason}")
    return False


def _plan(network: Network, site: Site, rollout: t.Mapping[str, t.Any], found: Findings) -> _Planned:
    rows = attachments(network, site, found)
    check_network(network, rows, site, rollout, found)
    _check_dranet(network, rows, site, rollout, found)
    host_objections(network, rows, site, found)
    pools = make_pools(network, site, found)
    functions = Functions({}, [], [])
    if network.kind in ("hostdevice", "sriov"):
        before = len(found.problems)
        functions = functions_of(network, rows, site, rollout, found)
        lacking = [row.name for row in rows if row.rail not in functions.resources]
        if lacking and len(found.problems) == before:
            found.problem(
                f"{network.words}: no resource of a device plugin is known for {some(lacking)}: name it with resource"
            )
    labels = class_labels(rollout, network.group, site["plan"]["groups"][network.group]["classes"])
    if network.ipam_type == "spiderpool" and len(set(labels.values())) > 1:
        found.problem(
            f"{network.words}: nodes of classes that DRANET serves have another label than the others, and Spiderpool selects the nodes of a pool "
            "by one label: name all classes of the group in rdma_rollout.classes, or none"
        )
    return _Planned(network, rows, pools, functions, labels)


def _check_dranet(
    network: Network, rows: t.Sequence[Attachment], site: Site, rollout: t.Mapping[str, t.Any], found: Findings
) -> None:
    """Functions that DRANET gives to one Pod at a time, each with its netdev, are for no network beside it."""
    group = site["plan"]["groups"][network.group]
    served = [entry["name"] for entry in group["classes"] if dranet_serves(rollout, network.group, entry)]
    netdevs = {port["netdev"] for ports in group["wanted"].values() for port in ports}
    # others offer what a network names
    offered = network.wish.get("resource") or network.wish.get("sriov")
    taken = any(row.master in netdevs for row in rows) if network.kind in ON_A_NETDEV else not offered
    if served and taken:
        found.problem(
            f"{network.words}: DRANET serves {some(served)} (rdma_rollout.engine: dra), and gives each function with its netdev to one Pod: take "
            f"the network out, or leave {network.group} out of rdma_rollout.classes"
        )


def _standing(networks: t.Iterable[Network], site: Site) -> list[tuple[Network, Pools]]:
    """Networks of groups that stay as they are, with their pools. What is wrong with them is said once they are planned."""
    stay = halted(site)
    return [(each, make_pools(each, site, Findings())) for each in networks if each.group in stay]


def _names_of(network: Network, made: t.Sequence[str], pools: Pools) -> list[tuple[str, ...]]:
    """What a network has a name of, each with where it is looked for. made: names of its objects."""
    names: list[tuple[str, ...]] = [("network", network.namespace, name) for name in made]
    if network.wish.get("operator"):
        # of the cluster: the namespace does not tell them apart
        names += [("operator's network", name) for name in made]
    if network.ipam_type in _WITH_POOLS:
        names += [("pool of addresses", pool.name) for own in pools.values() for pool in own]
    if network.wish.get("inject"):
        # the webhook looks for it in all namespaces
        names.append(("annotation of Pods", f"{INJECT}: {network.name}"))
    return names


def _check_names(
    planned: t.Sequence[_Planned], standing: t.Sequence[tuple[Network, Pools]], site: Site, found: Findings
) -> None:
    """No two networks make objects of one name."""
    owners: dict[tuple[str, ...], Network] = {}
    for network, pools in standing:
        rails = rails_of(site["plan"]["groups"][network.group])
        made = [f"{network.name}-rail{rail}" for rail in rails] if network.rails else [network.name]
        owners.update(dict.fromkeys(_names_of(network, made, pools), network))
    for each in planned:
        for name in _names_of(each.network, [row.name for row in each.rows], each.pools):
            owner = owners.setdefault(name, each.network)
            if owner is not each.network:
                found.problem(
                    f"{each.network.words} and {owner.words} both make the {name[0]} {'/'.join(name[1:])}: give them names of their own (in one "
                    "fabric, FIRST-LAST/PREFIX gives each a part of the same network)"
                )


def _check_policies(planned: t.Sequence[_Planned], found: Findings) -> None:
    """Of two policies for the same ports, the SR-IOV operator lets one count (api/v1/helper.go, mergeConfigs())."""
    owners: dict[str, _Planned] = {}
    for each in planned:
        wish = each.network.wish
        if each.network.kind != "sriov" or not wish.get("sriov") or wish.get("resource"):
            continue
        owner = owners.setdefault(each.network.group, each)
        # a network of the same name in another namespace has the same ones
        if any(wish.get(key) != owner.network.wish.get(key) for key in ("name", "rails", "sriov", "mtu")):
            found.problem(
                f"{each.network.words}: network {owner.network.name} has sriov.vfs for the same ports, and the SR-IOV operator offers the "
                "functions of one of them only: leave sriov out, and name what the other one makes with resource "
                f"({some(owner.functions.resources.values())}; {{rail}} stands for the number of a rail)"
            )


# --- the request ----------------------------------------------------------------------------------------------------------


def _places(wish: t.Mapping[str, t.Any], network: Network, directories: t.Mapping[str, CniDirectories]) -> Places:
    rollout = section(wish, "rollout")
    ours = rollout.get("engine") == "network_operator"
    operator = str(rollout.get("namespace") or engine_defaults("network_operator")["namespace"]) if ours else None
    return Places(
        str(network.ipam.get("namespace") or operator or engine_defaults("daemonset")["namespace"]),
        str((network.wish.get("sriov") or {}).get("namespace") or operator or "sriov-network-operator"),
        whereabouts_file(directories["whereabouts"]),
    )


def _fill(
    result: Request,
    planned: t.Sequence[_Planned],
    wish: t.Mapping[str, t.Any],
    site: Site,
    directories: t.Mapping[str, CniDirectories],
    found: Findings,
) -> None:
    objects: list[Json] = []
    multus, whereabouts = section(wish, "multus"), section(wish, "whereabouts")
    if multus.get("install"):
        # the operator's chart has the definition among its own
        crd = multus.get("crd", section(wish, "rollout").get("engine") != "network_operator")
        own, image = multus_objects({**multus, "crd": crd}, site, directories["multus"])
        objects += own
        result["images"].append(image)
    if whereabouts.get("install"):
        own, image = whereabouts_objects(whereabouts, site, directories["whereabouts"])
        objects += own
        result["images"].append(image)
    if section(wish, "spiderpool").get("install"):
        _add_spiderpool(result, wish, site, directories["multus"], found)
    result["waits"] += [rollout_wait(item) for item in objects if item["kind"] in ("DaemonSet", "Deployment")]
    for each in planned:
        objects += each.functions.objects
        result["images"] += each.functions.images
    for each in planned:
        objects += _objects_of(each, wish, site, directories, found)
        resources = {row: each.resources_of(row, site) for row in each.rows}
        result["workloads"].update(workload_pods(each.network, each.rows, each.pools, resources))
    once: dict[tuple[str, ...], Json] = {}
    for item in objects:
        metadata = item["metadata"]
        once.setdefault((item["apiVersion"], item["kind"], str(metadata.get("namespace")), metadata["name"]), item)
    result["objects"] = list(once.values())
    result["waits"] += [wait for wait in map(network_wait, result["objects"]) if wait]
    result["images"] = sorted(set(result["images"]))


def _objects_of(
    each: _Planned,
    wish: t.Mapping[str, t.Any],
    site: Site,
    directories: t.Mapping[str, CniDirectories],
    found: Findings,
) -> list[Json]:
    network = each.network
    places = _places(wish, network, directories)
    objects: list[Json] = []
    if network.kind == "sriov" and network.wish.get("sriov") and not network.wish.get("resource"):
        objects += policies(network, each.rows, each.labels, site, places.sriov_operator, found)
    by_rail: dict[t.Optional[int], list[Attachment]] = {}
    for row in each.rows:
        by_rail.setdefault(row.rail, []).append(row)
    for rail, rows in by_rail.items():
        pools, block = each.pools.get(rail) or [], block_size(network, site)
        objects += pool_objects(network, rows, pools, each.labels, block, places)
    for row in each.rows:
        resources = each.resources_of(row, site)
        objects += network_objects(network, row, each.pools_of(row), resources[0] if resources else None, places)
    return objects


def _add_spiderpool(
    result: Request, wish: t.Mapping[str, t.Any], site: Site, directories: CniDirectories, found: Findings
) -> None:
    spiderpool = section(wish, "spiderpool")
    version = str(spiderpool.get("version") or SPIDERPOOL).lstrip("v")
    values: Json = {
        "global": {"cniBinHostPath": directories.programs, "cniConfHostPath": directories.config},
        # one Multus, and the device plugin of the plan
        "multus": {"multusCNI": {"install": bool(spiderpool.get("multus"))}},
        "rdma": {"rdmaSharedDevicePlugin": {"install": False}},
        "spiderpoolController": {
            "podResourceInject": {"enabled": bool(spiderpool.get("inject"))},
            # The hook of its removal (since 1.0.0) deletes what anybody has of Spiderpool, and definitions of the SR-IOV operator. What is ours has
            # gone before.
            "cleanup": {"enable": False},
        },
    }
    if site["registry"]:
        values["global"]["imageRegistryOverride"] = site["registry"]
    if site["pull_secrets"]:
        pulled = {"image": {"imagePullSecrets": list(site["pull_secrets"])}}
        parts = ("spiderpoolAgent", "spiderpoolController", "spiderpoolInit", "plugins")
        values = merged(values, dict.fromkeys(parts, pulled))
    chart: Chart = {
        "release": "spiderpool",
        "namespace": str(spiderpool.get("namespace") or defaults_of("rdma_spiderpool", "namespace")),
        "chart": "spiderpool",
        "repository": None if site["charts"] else SPIDERPOOL_CHARTS,
        "version": version,
        "values": merged(values, spiderpool.get("values") or {}),
        "privileged": True,
    }
    result["charts"].append(chart)
    if version == SPIDERPOOL:
        result["images"] += [mirrored(image, site["registry"]) for image in SPIDERPOOL_IMAGES]
    else:
        found.warn(f"the images of Spiderpool {version} are not known here, so the list of images has none of them")


# --- in words -------------------------------------------------------------------------------------------------------------


def _summary(wish: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """What counts for all networks."""
    rows = []
    for name, title in (("multus", "Multus"), ("whereabouts", "Whereabouts"), ("spiderpool", "Spiderpool")):
        own = section(wish, name)
        if own.get("install"):
            rows.append(
                (title, "installed here, on the nodes of the plan" if own.get("nodes") == "rdma" else "installed here")
            )
        elif own.get("operator"):
            rows.append((title, f"brought by {WHOLE_POLICY}"))
    return rows


def _network_words(each: _Planned, site: Site) -> str:
    network = each.network
    hosts = group_hosts(site["plan"]["groups"][network.group])
    words = [network.kind]
    masters = sorted({row.master for row in each.rows if row.master})
    if masters:
        words.append("on " + some(masters))
    rails = sorted(row.rail for row in each.rows if row.rail is not None)
    if rails:
        words.append(f"{len(rails)} rails")
    pools = [pool.network for own in each.pools.values() for pool in own]
    if pools:
        words.append(f"{network.ipam_type} {some(pools)}")
        words.append(f"{len(hosts)} nodes with {pods_per_node(network, site)} Pods each")
    elif network.ipam_type == "none":
        words.append("without addresses")
    return ", ".join(words)
