# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NVIDIA Network Operator is told about a plan: its policies, its driver, the values of its chart. Private. Pure.

Follows the operator's own sources by release (api/v1alpha1, deployment/network-operator/values.yaml). A policy is a
NicClusterPolicy, of which there is one in a cluster, or, since 26.4, a NicNodePolicy for each class.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.sources import (
    LINES,
    OPERATOR,
    OPERATOR_IMAGES,
    SHARED_PLUGIN_IMAGE,
    SRIOV_PLUGIN_IMAGE,
)
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots, unknown_keys
from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import is_true
from ansible_collections.fabric.rdma.plugins.module_utils._plan.contract import Class, Config, Plan
from ansible_collections.fabric.rdma.plugins.module_utils._plan.defaults import defaults_of, engine_defaults
from ansible_collections.fabric.rdma.plugins.module_utils._plan.kubelets import KUBELET_ROOT, KUBELET_ROOTS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.reasons import DRIVER_REASONS
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.daemonset import (
    cdi_warnings,
    class_labels,
    class_resources,
    inventory_value,
    namespace_object,
    opens_namespace,
    rendered_classes,
    rollout_scope,
    scoped_classes,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.labels import (
    CLASS_LABEL,
    CLUSTER_POLICY,
    GROUPS_ANNOTATION,
    INVENTORY_LABEL,
    POLICY_VERSION,
    RDMA_SECTION,
    SRIOV_SECTION,
)
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.names import ManifestError, group_value
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.values import config_text, merged
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.versions import Version, wished_release

__all__ = [
    "check_settings",
    "driver_objections",
    "helm_values",
    "operator_manifests",
    "operator_release",
    "operator_request",
    "policy_kind",
    "policy_name",
    "reload_objections",
]

Json = t.Dict[str, t.Any]

_DEFAULTS = engine_defaults("network_operator")
_HELM, _DRIVER = _DEFAULTS["helm"], _DEFAULTS["ofed_driver"]

# api/v1alpha1/validator: names of DaemonSets and labels are made from it
_POLICY_NAME_LIMIT = 30

_NODE_POLICY_SINCE = (26, 4)
# How `versions` of a configuration ends that holds for the newest plugin (_plan/sriov.py).
_OR_NEWER = " or newer"
_GLOBAL_SINCE = (26, 4)
_NFD_IMAGE_SINCE = (25, 7)


def operator_release(version: t.Any) -> Version:
    """The release that the user names; ManifestError when it is none, or one that is not known here."""
    # a number is one that somebody forgot to put into quotes
    text = str(version if version is not None else "").strip()
    release, problems = wished_release("rdma_rollout.operator_version", text, LINES, OPERATOR)
    if release is None:
        raise ManifestError(f"{problems[0]}; engine: daemonset needs no operator")
    return release


def policy_kind(release: Version, wish: str) -> str:
    """NicClusterPolicy or NicNodePolicy. wish: auto, cluster or node."""
    if wish not in ("auto", "cluster", "node"):
        raise ManifestError(f"rdma_rollout.policy is '{wish}'; expected auto, cluster or node")
    able = release.line >= _NODE_POLICY_SINCE
    if wish == "node" and not able:
        raise ManifestError(
            f"Network Operator {release.text} has no NicNodePolicy, which came with {in_dots(_NODE_POLICY_SINCE)}: use policy: cluster, "
            "or a newer operator"
        )
    return "NicNodePolicy" if able and wish != "cluster" else "NicClusterPolicy"


def policy_name(slug: str) -> str:
    """The name of a class's NicNodePolicy: at most 30 characters, cut ones end with a hash of the whole."""
    if len(slug) <= _POLICY_NAME_LIMIT:
        return slug
    return slug[: _POLICY_NAME_LIMIT - 9].rstrip("-") + "-" + hashlib.sha256(slug.encode()).hexdigest()[:8]


# What the shared device plugin takes where there is none (pkg/resources/resources_manager.go, rdmaHcaResourcePrefix).
_SHARED_PREFIX = "rdma"
# api/v1alpha1/validator/nicpolicy_webhook.go, fqdnRegex: the same in every release that is known.
_WEBHOOK_PREFIX = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z]{2,})+")


def _for_webhook(config: t.Mapping[str, t.Any]) -> Json:
    """A configuration of the shared plugin that the operator's admission webhook takes, too: it refuses the plugin's own default."""
    return {
        **config,
        "configList": [
            {key: value for key, value in entry.items() if key != "resourcePrefix" or value not in ("", _SHARED_PREFIX)}
            for entry in config["configList"]
        ],
    }


def _webhook_objections(objects: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """What the operator's admission webhook, where it is switched on, will refuse in policies, and what to do."""
    found: dict[str, None] = {}
    for item in objects:
        for section, rows in ((RDMA_SECTION, "configList"), (SRIOV_SECTION, "resourceList")):
            text = (item["spec"].get(section) or {}).get("config")
            for entry in json.loads(text)[rows] if text else ():
                prefix = entry.get("resourcePrefix")
                if prefix is not None and not _WEBHOOK_PREFIX.fullmatch(prefix):
                    found[
                        "{} {}: the operator's admission webhook (operator.admissionController, off by default) refuses "
                        "rdma_resource.prefix {}{}; give the group a dotted one, such as rdma.example.com".format(
                            item["kind"],
                            item["metadata"]["name"],
                            prefix,
                            ", and the SR-IOV device plugin has another default" if section == SRIOV_SECTION else "",
                        )
                    ] = None
    return list(found)


# --- sections ---------------------------------------------------------------------------------------------------------


def _image(release: Version, settings: t.Mapping[str, t.Any], image: str, own: t.Optional[tuple[str, str]]) -> Json:
    repository, version = own or (OPERATOR_IMAGES, "network-operator-v" + release.text)
    return {"image": image, "repository": str(settings.get("registry") or repository), "version": version}


def _checked_registry(settings: t.Mapping[str, t.Any]) -> None:
    registry = str(settings.get("registry") or "")
    if registry and not re.fullmatch(r"[A-Za-z0-9.\-]+(:\d+)?(/[A-Za-z0-9._\-]+)*", registry):
        raise ManifestError(
            f"rdma_rollout.registry is '{registry}'; expected a registry with the path below which the images lie, such as "
            "mirror.example.com/mellanox, without https:// and without an image"
        )


def _plugin(
    release: Version, settings: t.Mapping[str, t.Any], section: str, config: t.Mapping[str, t.Any], lean: bool
) -> Json:
    """A section for a device plugin. lean: registry and pull secrets stand in spec.global."""
    line = LINES[release.line]
    if section == RDMA_SECTION:
        body = _image(release, settings, SHARED_PLUGIN_IMAGE, line.shared)
        container = "rdma-shared-dp"
    else:
        body = _image(release, settings, SRIOV_PLUGIN_IMAGE, line.sriov)
        container = "kube-sriovdp"
    body["config"] = config_text(_for_webhook(config) if section == RDMA_SECTION else config)
    if lean and settings.get("registry"):
        del body["repository"]
    if settings.get("image_pull_secrets") and not lean:
        body["imagePullSecrets"] = list(settings["image_pull_secrets"])
    if settings.get("cdi"):
        body["useCdi"] = True
    if settings.get("resources"):
        body["containerResources"] = [{"name": container, **settings["resources"]}]
    return body


_UPGRADE_KEYS: dict[str, str] = {
    "auto_upgrade": "autoUpgrade",
    "max_parallel_upgrades": "maxParallelUpgrades",
    "safe_load": "safeLoad",
}
_POD_KEYS = {
    "enable": "enable",
    "force": "force",
    "delete_empty_dir": "deleteEmptyDir",
    "pod_selector": "podSelector",
    "timeout_seconds": "timeoutSeconds",
}
# Variables of the driver's container that unload what mounts and other drivers depend on (docs/mofed-container-env-vars.md).
_DANGEROUS_ENV = ("ENABLE_NFSRDMA", "UNLOAD_STORAGE_MODULES", "UNLOAD_THIRD_PARTY_RDMA_MODULES")


def _known(where: str, given: t.Any, keys: t.Iterable[str]) -> Json:
    if not isinstance(given, t.Mapping):
        raise ManifestError(f"{where} is {given!r}; expected a dictionary")
    known = sorted(keys)
    unknown = unknown_keys(where, given, known)
    if unknown:
        raise ManifestError(unknown)
    return dict(given)


def _upgrade_policy(wish: t.Mapping[str, t.Any]) -> Json:
    """As the user says, and careful where nothing is said: no upgrade by itself, one node at a time, no Pod killed with its data."""
    careful = _DRIVER["upgrade_policy"]
    policy: Json = {field: wish.get(key, careful[key]) for key, field in _UPGRADE_KEYS.items()}
    policy["maxParallelUpgrades"] = int(policy["maxParallelUpgrades"])
    if policy["safeLoad"] and not policy["autoUpgrade"]:
        raise ManifestError(
            "rdma_rollout.ofed_driver.upgrade_policy: safe_load needs auto_upgrade: true, with which the operator cordons and drains "
            "nodes by itself"
        )
    policy["drain"] = _pods({**careful["drain"], **(wish.get("drain") or {})})
    if wish.get("wait_for_completion"):
        policy["waitForCompletion"] = _pods(wish["wait_for_completion"])
    return policy


def _pods(wish: t.Mapping[str, t.Any]) -> Json:
    said = {field: wish[key] for key, field in _POD_KEYS.items() if wish.get(key) is not None}
    return {field: int(value) if field == "timeoutSeconds" else value for field, value in said.items()}


def _driver_wish(settings: t.Mapping[str, t.Any]) -> t.Optional[Json]:
    """rdma_rollout.ofed_driver, checked; None when nobody asks for the driver."""
    given = settings.get("ofed_driver")
    if not given:
        return None
    found = problems("rdma_rollout", {"engine": "network_operator", "ofed_driver": given})
    if found:
        raise ManifestError(". ".join(found))
    return dict(given) if given.get("enabled", _DRIVER["enabled"]) else None


def _env_text(value: t.Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _driver(release: Version, settings: t.Mapping[str, t.Any], wish: t.Mapping[str, t.Any], lean: bool) -> Json:
    version = wish.get("version") or LINES[release.line].drivers.get(release.patch)
    if not version:
        known = operator_release(OPERATOR)
        raise ManifestError(
            "rdma_rollout.ofed_driver.version is not set, and it is not known here which driver Network Operator "
            f"{release.text} is tested with: take it from its release notes (such as {LINES[known.line].drivers[known.patch]})"
        )
    body: Json = {
        "image": str(wish.get("image") or _DRIVER["image"]),
        "repository": str(wish.get("repository") or settings.get("registry") or OPERATOR_IMAGES),
        "version": str(version),
        "upgradePolicy": _upgrade_policy(wish.get("upgrade_policy") or {}),
    }
    if lean and settings.get("registry") and not wish.get("repository"):
        del body["repository"]
    if settings.get("image_pull_secrets") and not lean:
        body["imagePullSecrets"] = list(settings["image_pull_secrets"])
    if wish.get("env"):
        body["env"] = [{"name": str(name), "value": _env_text(wish["env"][name])} for name in sorted(wish["env"])]
    if "force_precompiled" in wish:
        body["forcePrecompiled"] = is_true(wish["force_precompiled"])
    for key, field in (("repo_config", "repoConfig"), ("cert_config", "certConfig")):
        if wish.get(key):
            body[field] = {"name": str(wish[key])}
    return body


def _cut_by_a_reload(host: str, management: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    """(reason, words) for what a reload of its driver would take from a host."""
    found = []
    if management.get("rdma_backed"):
        routes = ", ".join(management.get("default_route_netdevs") or [])
        found.append(("default_route", f"the default route of host {host} ({routes}) goes over the driver"))
    for mount in management.get("mounts_over_rdma") or []:
        what, where, way = (mount.get(key, "something") for key in ("source", "target", "via"))
        found.append(("rdma_storage", f"host {host} has {what} on {where} ({way})"))
    return found


def reload_objections(settings: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """{node: sentences} on what a reload of the driver would cut, of each host whose routes and mounts are known.

    For who takes the driver out again. What the override of rdma_rollout.ofed_driver names does not count.
    """
    names = settings.get("node_names") or {}
    overridden = set((settings.get("ofed_driver") or {}).get("override") or [])
    return {
        str(names.get(host, host)): [
            f"{name}: {text} ({DRIVER_REASONS[name]})"
            for name, text in _cut_by_a_reload(host, own["management"])
            if name not in overridden
        ]
        for host, own in sorted((settings.get("facts") or {}).items())
        # facts of an earlier run may be anything; then nothing is known
        if isinstance(own, dict) and isinstance(own.get("management"), dict)
    }


def driver_objections(
    groups: t.Mapping[str, t.Sequence[str]],
    facts: t.Mapping[str, t.Mapping[str, t.Any]],
    methods: t.Mapping[str, str],
    wish: t.Mapping[str, t.Any],
) -> list[str]:
    """A sentence for each host that rules out the operator's driver, and for each dangerous variable.

    groups: {group: hosts} that are to get it. facts: ansible_facts.rdma by host. methods: rdma_ofed.method by host. wish:
    rdma_rollout.ofed_driver; what its override names does not count. A host without facts rules it out, too: nobody knows
    what a reload of its driver would cut.
    """
    overridden = set(wish.get("override") or [])
    found: list[tuple[str, str]] = []
    for name in _DANGEROUS_ENV:
        if _env_text((wish.get("env") or {}).get(name, "")).lower() in ("true", "1", "yes"):
            found.append(("dangerous_env", f"{name} unloads modules on which mounts and other drivers depend"))
    for group in sorted(groups):
        for host in sorted(groups[group]):
            own = facts.get(host) or {}
            management = own.get("management")
            if management is None:
                raise ManifestError(
                    f"rdma_rollout.ofed_driver: nothing is known of the routes and mounts of host {host}: run discover, "
                    "which gathers all"
                )
            found += _cut_by_a_reload(host, management)
            flavour = (own.get("ofed") or {}).get("flavour")
            if flavour in ("mlnx_ofed", "doca"):
                name = "MLNX_OFED" if flavour == "mlnx_ofed" else "DOCA-OFED"
                found.append(("installed_stack", f"host {host} has {name} installed"))
            method = str(methods.get(host) or defaults_of("rdma_ofed", "method"))
            if method != "none":
                found.append(("host_driver", f"rdma_ofed.method of host {host} (group {group}) is {method}"))
    return [
        f"{name}: {text} ({DRIVER_REASONS[name]})"
        for name, text in sorted(found, key=lambda pair: list(DRIVER_REASONS).index(pair[0]))
        if name not in overridden
    ]


# --- policies ---------------------------------------------------------------------------------------------------------


def _common(settings: t.Mapping[str, t.Any]) -> Json:
    return {"tolerations": list(settings["tolerations"])} if settings.get("tolerations") else {}


def _check_kubelets(entry: Class, settings: t.Mapping[str, t.Any]) -> None:
    """DaemonSets of the operator mount KUBELET_ROOT and nothing else (its manifests/state-*)."""
    known = settings.get("distributions") or {}
    for host in entry["hosts"]:
        root = KUBELET_ROOTS.get(str(known.get(host)))
        if root is not None:
            raise ManifestError(
                f"host {host} of class '{entry['name']}' runs {known[host]}, whose kubelet has its directory in "
                f"{root}; DaemonSets of the Network Operator know {KUBELET_ROOT} only",
                "Use engine: daemonset",
            )


def _sriov_groups(groups: t.Collection[str], settings: t.Mapping[str, t.Any]) -> set[str]:
    wanted = set(settings.get("sriov") or [])
    unknown = sorted(wanted - set(groups))
    if unknown:
        raise ManifestError(
            f"rdma_rollout.sriov names {', '.join(unknown)}, which is not a group of the plan; it has "
            f"{', '.join(sorted(groups))}"
        )
    return wanted


def check_settings(wish: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Collection[str]]) -> None:
    """ManifestError for what cannot be of rdma_rollout, as far as that can be said without a plan.

    groups: the groups that are planned for, each with the values that rdma_ofed.method has on its hosts.
    """
    settings = {**wish, "version": wish.get("operator_version")}
    release = operator_release(settings["version"])
    helm_values(settings)
    kind = policy_kind(release, str(wish.get("policy") or _DEFAULTS["policy"]))
    if _sriov_groups(groups, settings) and kind == "NicClusterPolicy":
        raise ManifestError(f"rdma_rollout.sriov needs NicNodePolicies. {_alternatives(release)}")
    driver = _driver_wish(settings)
    if driver is None:
        return
    _upgrade_policy(driver.get("upgrade_policy") or {})
    for group in sorted(_named_groups(groups, driver, groups)):
        others = sorted(set(groups[group]) - {"none"})
        if others and "host_driver" not in (driver.get("override") or []):
            raise ManifestError(
                f"rdma_rollout.ofed_driver and rdma_ofed.method {others[0]} of group {group} would both see to the "
                f"driver: {DRIVER_REASONS['host_driver']}"
            )


def _named_groups(groups: t.Collection[str], wish: t.Mapping[str, t.Any], default: t.Iterable[str]) -> set[str]:
    named = set(wish.get("groups") or default)
    unknown = sorted(named - set(groups))
    if unknown:
        raise ManifestError(
            f"rdma_rollout.ofed_driver.groups names {', '.join(unknown)}, which is not a group of the plan; it has "
            f"{', '.join(sorted(groups))}"
        )
    return named


def _driver_groups(plan: Plan, settings: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """{group: hosts} that get the operator's driver."""
    wish = _driver_wish(settings)
    if wish is None:
        return {}
    hosts: dict[str, list[str]] = {}
    for _slug, group, entry, _path in rendered_classes(plan):
        hosts.setdefault(group, []).extend(entry["hosts"])
    named = _named_groups(plan["groups"], wish, hosts)
    chosen = {group: hosts[group] for group in hosts if group in named}
    objections = driver_objections(chosen, settings.get("facts") or {}, settings.get("ofed_methods") or {}, wish)
    if objections:
        more = f" (and {len(objections) - 5} more)" if len(objections) > 5 else ""
        raise ManifestError(
            "rdma_rollout.ofed_driver is refused, because loading the operator's driver reloads the one of the node. "
            f"{'; '.join(objections[:5])}{more}. rdma_rollout.ofed_driver.override names reasons that do not count"
        )
    return chosen


def _node_policies(plan: Plan, release: Version, settings: t.Mapping[str, t.Any]) -> dict[str, Json]:
    sriov, drivers = _sriov_groups(plan["groups"], settings), _driver_groups(plan, settings)
    objects: dict[str, Json] = {}
    names: dict[str, str] = {}
    for slug, group, entry, path in rendered_classes(plan):
        _check_kubelets(entry, settings)
        name = policy_name(slug)
        if names.setdefault(name, slug) != slug:
            raise ManifestError(f"classes '{names[name]}' and '{slug}' would both be the NicNodePolicy {name}")
        spec: Json = {"nodeSelector": {CLASS_LABEL: slug}, **_common(settings)}
        if group in sriov:
            spec[SRIOV_SECTION] = _plugin(release, settings, SRIOV_SECTION, _sriov_config(entry), lean=False)
        else:
            spec[RDMA_SECTION] = _plugin(release, settings, RDMA_SECTION, t.cast(Config, entry["config"]), lean=False)
        if group in drivers:
            spec["ofedDriver"] = _driver(release, settings, _driver_wish(settings) or {}, lean=False)
        objects[path + "-nicnodepolicy.yaml"] = {
            "apiVersion": POLICY_VERSION,
            "kind": "NicNodePolicy",
            "metadata": {"name": name, "labels": class_labels(slug, group, inventory_value(settings))},
            "spec": spec,
        }
    return objects


def _sriov_config(entry: Class) -> Json:
    found = entry["sriov"]
    if not found["config"]:
        raise ManifestError(
            f"class '{entry['name']}' has no configuration of the SR-IOV device plugin: "
            f"{found['reason'] or 'the plan has none'}",
            "Take its group out of rdma_rollout.sriov",
        )
    # those of releases with policies for nodes are newer than all that the planner tells apart
    if not str(found["versions"]).endswith(_OR_NEWER):
        raise ManifestError(
            f"class '{entry['name']}': its configuration of the SR-IOV device plugin is exact for versions {found['versions']} only, "
            "and the operator brings a newer one, which may offer more",
            "Take its group out of rdma_rollout.sriov",
        )
    return found["config"]


def _alternatives(release: Version) -> str:
    if release.line >= _NODE_POLICY_SINCE:
        return "policy: node makes a NicNodePolicy for each class, which is exact; so is engine: daemonset"
    return (
        f"Network Operator {in_dots(_NODE_POLICY_SINCE)} or later has a NicNodePolicy for each class, which is exact; so is "
        "engine: daemonset, which needs no operator"
    )


def _cluster_spec(plan: Plan, config: Config, release: Version, settings: t.Mapping[str, t.Any]) -> Json:
    """What the one policy has, of a plan whose configuration is exact on all hosts."""
    rows = list(rendered_classes(plan))
    mirrored = bool(settings.get("registry") or settings.get("image_pull_secrets"))
    lean = release.line >= _GLOBAL_SINCE and mirrored
    spec: Json = {
        **_common(settings),
        RDMA_SECTION: _plugin(release, settings, RDMA_SECTION, config, lean),
    }
    if settings.get("node_affinity", _DEFAULTS["node_affinity"]):
        # no other node gets it: the configuration is proved on those of the plan only
        values = sorted(slug for slug, _group, _entry, _path in rows)
        term = {"matchExpressions": [{"key": CLASS_LABEL, "operator": "In", "values": values}]}
        spec["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    if lean:
        spec["global"] = {
            key: value
            for key, value in (
                ("repository", settings.get("registry")),
                ("imagePullSecrets", list(settings.get("image_pull_secrets") or [])),
            )
            if value
        }
    drivers = _driver_groups(plan, settings)
    if drivers:
        left = sorted({group for _slug, group, _entry, _path in rows} - set(drivers))
        if left:
            raise ManifestError(
                f"rdma_rollout.ofed_driver.groups leaves out {', '.join(left)}, and a NicClusterPolicy brings the "
                f"driver to all nodes. {_alternatives(release)}"
            )
        spec["ofedDriver"] = _driver(release, settings, _driver_wish(settings) or {}, lean)
    return spec


def _cluster_policy(plan: Plan, release: Version, settings: t.Mapping[str, t.Any]) -> dict[str, Json]:
    """One NicClusterPolicy for all classes. plan: one that no group of which stays as it is (_whole_or_refused)."""
    rows = list(rendered_classes(plan))
    if not rows:
        return {}
    if _sriov_groups(plan["groups"], settings):
        able = release.line >= _NODE_POLICY_SINCE
        since = in_dots(_NODE_POLICY_SINCE)
        raise ManifestError(
            "rdma_rollout.sriov: one configuration of the SR-IOV device plugin for the whole cluster is not planned; "
            + ("use policy: node" if able else f"it needs NicNodePolicies, which came with Network Operator {since}")
        )
    cluster = plan["cluster"]
    if not cluster["config"]:
        raise ManifestError(
            "no single configuration is exact for the whole cluster, which a NicClusterPolicy needs: {}. {}".format(
                "; ".join(cluster["errors"] or ["the plan has none"]), _alternatives(release)
            )
        )
    for _slug, _group, entry, _path in rows:
        _check_kubelets(entry, settings)
    spec = _cluster_spec(plan, cluster["config"], release, settings)
    served = sorted(f"{slug}={group_value(group)}" for slug, group, _entry, _path in rows)
    return {
        "nic-cluster-policy.yaml": {
            "apiVersion": POLICY_VERSION,
            "kind": "NicClusterPolicy",
            # not the label of what is ours: others may have sections of it
            "metadata": {
                "name": CLUSTER_POLICY,
                "annotations": {GROUPS_ANNOTATION: ",".join(served), INVENTORY_LABEL: inventory_value(settings)},
            },
            "spec": spec,
        }
    }


def _whole_or_refused(plan: Plan, release: Version) -> None:
    for name in sorted(plan["groups"]):
        each = plan["groups"][name]
        if not each["planned"]:
            raise ManifestError(
                "group {} is not planned ({}), and a NicClusterPolicy has one configuration for all groups: everything stays as it is. {}".format(
                    name, (each["errors"] or [each["kept"] or "no reason given"])[0], _alternatives(release)
                )
            )


def operator_manifests(plan: Plan, settings: t.Mapping[str, t.Any]) -> dict[str, Json]:
    """Policies by relative path (``GROUP/CLASS-nicnodepolicy.yaml`` or ``nic-cluster-policy.yaml``) for the groups of a plan.

    settings: {version}, and where wanted {policy: auto|cluster|node, registry, image_pull_secrets: [names], tolerations: [...],
    resources: {requests, limits}, cdi: bool, node_affinity: bool, sriov: [groups], ofed_driver: {...}, distributions: {host: name}}.
    With ofed_driver, facts ({host: ansible_facts.rdma}) and ofed_methods ({host: rdma_ofed.method}) say whether a host rules
    it out. ManifestError for anything that cannot be, with what to do.
    """
    release = operator_release(settings.get("version"))
    _checked_registry(settings)
    if policy_kind(release, str(settings.get("policy") or _DEFAULTS["policy"])) == "NicNodePolicy":
        return _node_policies(plan, release, settings)
    _whole_or_refused(plan, release)
    return _cluster_policy(plan, release, settings)


def _offers(entry: Class, section: str, names: t.Mapping[str, str]) -> tuple[Json, Json]:
    """(resources with their count on every node, and by node where it differs) of a class."""
    if section == RDMA_SECTION:
        return class_resources(entry), {}
    resources = [f"{row['resourcePrefix']}/{row['resourceName']}" for row in _sriov_config(entry)["resourceList"]]
    counts: dict[str, dict[str, int]] = {}
    for host in entry["hosts"]:
        # one function is one device of the resource; without rails there is one resource, and rows do not name it
        rows = [row.get("resource") or resources[0] for row in entry["matches"].get(host, [])]
        counts[str(names.get(host, host))] = {resource: rows.count(resource) for resource in resources}
    return {}, counts


def operator_request(
    plan: Plan,
    settings: t.Mapping[str, t.Any],
    inventory_groups: t.Iterable[str] = (),
    allow_unusable: bool = False,
) -> Json:
    """What the rollout of a plan by the operator asks of a cluster: {objects, nodes, classes, keep, inventory, place, warnings}, as rollout_request().

    warnings also has what its admission webhook will not take. reload_objections as reload_objections(), and reload_undrained: whether the driver
    may leave nodes that are not drained.
    And namespace: the object of the operator's own, whose Pods are privileged; None when the settings name none.
    A class has {name, group, policy: {kind, name, section, nodes}, nodes, resources, node_resources}: the number of nodes on which
    the policy's device plugin is to run, None when that is not known, and {node: {resource: count}} where nodes differ.
    """
    whole, keep = rollout_scope(plan, inventory_groups, allow_unusable)
    objects = operator_manifests(whole, settings)
    names = settings.get("node_names") or {}
    sriov = set(settings.get("sriov") or [])
    rows = scoped_classes(whole, names)
    everywhere = sum(len(nodes) for _slug, _group, _entry, _path, nodes in rows)
    classes: list[Json] = []
    for slug, group, entry, path, nodes in rows:
        section = SRIOV_SECTION if group in sriov else RDMA_SECTION
        resources, by_node = _offers(entry, section, names)
        own = path + "-nicnodepolicy.yaml" in objects
        classes.append(
            {
                "name": slug,
                "group": group_value(group),
                "policy": {
                    "kind": "NicNodePolicy" if own else "NicClusterPolicy",
                    "name": policy_name(slug) if own else CLUSTER_POLICY,
                    "section": section,
                    "nodes": len(nodes)
                    if own
                    else everywhere
                    if settings.get("node_affinity", _DEFAULTS["node_affinity"])
                    else None,
                },
                "nodes": nodes,
                "resources": resources,
                "node_resources": by_node,
            }
        )
    ordered = sorted(objects.values(), key=lambda item: str(item["metadata"]["name"]))
    place = settings.get("namespace")
    opened = bool(place) and opens_namespace(settings.get("pod_security"), str(place))
    return {
        "objects": ordered,
        "warnings": [*_webhook_objections(ordered), *cdi_warnings(whole, settings)],
        "nodes": {node: each["name"] for each in classes for node in each["nodes"]},
        "classes": classes,
        "keep": keep,
        "inventory": inventory_value(settings),
        "place": settings.get("namespace") or _DEFAULTS["namespace"],
        "reload_objections": reload_objections(settings),
        "reload_undrained": "removal" in ((settings.get("ofed_driver") or {}).get("override") or []),
        "namespace": namespace_object(settings) if opened else None,
    }


# --- the chart --------------------------------------------------------------------------------------------------------

# Values of the chart that a release knows: since which line, and until which. None: always. What a subchart takes is its own.
_Span = t.Tuple[t.Optional[t.Tuple[int, int]], t.Optional[t.Tuple[int, int]]]
_ALWAYS: _Span = (None, None)
_CHART_KEYS: dict[str, _Span] = {
    "global": _ALWAYS,
    "imagePullSecrets": _ALWAYS,
    "keepNCP": ((26, 7), None),
    "maintenance-operator-chart": ((25, 1), None),
    "maintenanceOperator": ((25, 1), None),
    "nfd": _ALWAYS,
    "nic-configuration-operator-chart": (None, (25, 7)),
    "nicConfigurationOperator": (None, (25, 7)),
    "node-feature-discovery": _ALWAYS,
    "operator": _ALWAYS,
    "sriov-network-operator": _ALWAYS,
    "sriovNetworkOperator": _ALWAYS,
    "test": _ALWAYS,
    "upgradeCRDs": _ALWAYS,
}
_NESTED_KEYS: dict[str, dict[str, _Span]] = {
    "nfd": {"enabled": _ALWAYS, "deployNodeFeatureRules": _ALWAYS},
    "sriovNetworkOperator": {"enabled": _ALWAYS},
    "nicConfigurationOperator": {"enabled": _ALWAYS},
    "maintenanceOperator": {"enabled": _ALWAYS},
    "operator": {
        "admissionController": _ALWAYS,
        "affinity": _ALWAYS,
        "cniBinDirectory": _ALWAYS,
        "cniNetworkDirectory": ((25, 7), None),
        "coverage": ((26, 7), None),
        "fullnameOverride": _ALWAYS,
        "image": _ALWAYS,
        "imagePullSecrets": _ALWAYS,
        "maintenanceOperator": ((25, 4), None),
        "nameOverride": _ALWAYS,
        "nodeSelector": _ALWAYS,
        "ofedDriver": _ALWAYS,
        "preStopSleepSeconds": ((26, 7), None),
        "priorityClassName": ((26, 7), None),
        "repository": _ALWAYS,
        "resources": _ALWAYS,
        "tag": _ALWAYS,
        "terminationGracePeriodSeconds": ((26, 7), None),
        "tolerations": _ALWAYS,
        "useDTK": _ALWAYS,
    },
}


def _within(line: tuple[int, int], span: _Span) -> bool:
    return (span[0] is None or line >= span[0]) and (span[1] is None or line <= span[1])


def _check_values(release: Version, values: t.Any) -> None:
    where = "rdma_rollout.helm.values"
    known = [key for key, span in _CHART_KEYS.items() if _within(release.line, span)]
    for key, value in _known(f"{where} (chart of Network Operator {release.text})", values, known).items():
        if key in ("upgradeCRDs", "keepNCP"):
            if not isinstance(value, bool):
                raise ManifestError(f"{where}.{key} is {value!r}; expected true or false")
        elif key == "imagePullSecrets":
            if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
                raise ManifestError(f"{where}.{key} is {value!r}; expected a list of names of Secrets")
        elif key in _NESTED_KEYS:
            inner = [name for name, span in _NESTED_KEYS[key].items() if _within(release.line, span)]
            _known(f"{where}.{key} (chart of Network Operator {release.text})", value, inner)
        elif not isinstance(value, t.Mapping):
            raise ManifestError(f"{where}.{key} is {value!r}; expected a dictionary")


def helm_values(settings: t.Mapping[str, t.Any]) -> Json:
    """Values of the operator's chart: what the settings stand for, and over it what the user gives.

    settings: {version}, and where wanted {registry, image_pull_secrets, helm: {nfd: bool, upgrade_crds: bool, values: {...}}}. With
    nfd: false (another operator brings Node Feature Discovery), the rules that label the nodes with such cards still come.
    """
    release = operator_release(settings.get("version"))
    _checked_registry(settings)
    helm = settings.get("helm") or {}
    values: Json = {
        "nfd": {"enabled": is_true(helm.get("nfd", _HELM["nfd"])), "deployNodeFeatureRules": True},
        "upgradeCRDs": is_true(helm.get("upgrade_crds", _HELM["upgrade_crds"])),
    }
    registry, secrets = settings.get("registry"), list(settings.get("image_pull_secrets") or [])
    discovery: Json = {}
    if registry:
        values["operator"] = {
            "repository": str(registry),
            "ofedDriver": {"initContainer": {"repository": str(registry)}},
        }
        if release.line >= _NFD_IMAGE_SINCE:
            discovery["image"] = {"repository": f"{registry}/node-feature-discovery"}
    if secrets:
        values["imagePullSecrets"] = secrets
        discovery["imagePullSecrets"] = [{"name": name} for name in secrets]
    if discovery and values["nfd"]["enabled"]:
        values["node-feature-discovery"] = discovery
    given = helm.get("values") or {}
    _check_values(release, given)
    return merged(values, given)
