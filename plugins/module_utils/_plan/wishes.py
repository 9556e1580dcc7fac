# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory may wish for: every variable with its keys, types and choices, and what goes together. Private. Pure.

One table for all that reads wishes. A problem is a sentence for the user; there is one for each, not only for the first. Values
are shown but where they may hold a password.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.dns import LABEL, SUBDOMAIN, SUBDOMAIN_LIMIT
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import unknown_keys
from ansible_collections.fabric.rdma.plugins.module_utils._plan.checks import (
    Check,
    Json,
    choice as _choice,
    dictionary as _dictionary,
    flag as _flag,
    keys as _keys,
    listing as _listing,
    name as _name,
    names as _names,
    number as _number,
    pattern as _pattern,
    rate as _rate,
    shown as _shown,
    strings as _strings,
    text as _text,
    truth as _truth,
    wrong as _wrong,
)
from ansible_collections.fabric.rdma.plugins.module_utils._plan.node_wishes import NODE_DEFAULTS, NODE_WISHES
from ansible_collections.fabric.rdma.plugins.module_utils._plan.reasons import DRIVER_REASONS, REASONS, unknown_reasons
from ansible_collections.fabric.rdma.plugins.module_utils._plan.shares import share_of

__all__ = [
    "CLUSTER_WIDE",
    "OF_A_GROUP",
    "PLANNED",
    "PLAN_DEFAULTS",
    "VARIABLES",
    "problems",
    "rail_name",
    "with_defaults",
]

# As many entries of rdma_serial as the playbook prepare has steps.
_MAX_LEVELS = 8

# k8s-rdma-shared-dev-plugin, pkg/resources/resources_manager.go, validResourceName(), and what Kubernetes asks of an extended
# resource (k8s.io/apimachinery/pkg/util/validation, IsQualifiedName: ends are letters or digits, at most 63 characters; the
# prefix is a DNS subdomain; pkg/apis/core/v1/helper, IsExtendedResourceName: neither kubernetes.io nor requests.).
_RESOURCE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9_]{0,61}[a-zA-Z0-9])?")
_PREFIX_LIMIT = SUBDOMAIN_LIMIT - len("requests.")
# The plugin makes a device of each, and sends the list of all to the kubelet, which takes 4 MiB.
_MOST_SHARES = 10000
# rdma_rails: true
_RAIL_NAMES = "{name}_gpu{rail}"
_MOST_RAILS = 99


def _secret(where: str, value: t.Any) -> list[str]:
    """A text that may hold a password: it is never shown."""
    return [] if isinstance(value, str) else [f"{where} is of type {type(value).__name__}; expected a text"]


def _registry(where: str, value: t.Any) -> list[str]:
    """Where images come from. Their names are shown everywhere, and a password in one is good for nothing."""
    if isinstance(value, str) and "@" in value:
        return [f"{where} has a user or a password in it; take it out, and name pull secrets in image_pull_secrets"]
    return _text(where, value)


def _release(where: str, value: t.Any) -> list[str]:
    if isinstance(value, float):
        return [
            f"{where} is the number {value!r}; put it in quotes, since YAML takes 24.10 and 24.1 for the same number"
        ]
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return []
    return _wrong(where, value, "a release such as 2.9.1")


def _share(where: str, value: t.Any) -> list[str]:
    """A number of nodes above 0, or a percentage of them up to 100."""
    if share_of(value):
        return []
    return _wrong(where, value, "a number of nodes above 0, or a percentage such as '10%'")


def _slices(where: str, value: t.Any) -> list[str]:
    found = _truth(where, value) and _share(where, value)
    return _wrong(where, value, "true, false, or how many slices there are") if found or "%" in str(value) else []


def _waves(where: str, value: t.Any) -> list[str]:
    steps = value if isinstance(value, (list, tuple)) else [value]
    if not steps:
        return _wrong(where, value, "at least one wave")
    if len(steps) > _MAX_LEVELS:
        return _wrong(where, value, f"at most {_MAX_LEVELS} waves; the last is repeated until no node is left")
    found = [problem for step in steps for problem in _share(where, step)]
    if not found and any(share_of(step) == (100, True) for step in steps[:-1]):
        return _wrong(where, value, "nothing after '100%', which is all nodes: put the smallest wave first")
    return found[:1]


def _rows(each: Check, expected: str) -> Check:
    """A list of which every entry is told of by its place."""

    def check(where: str, value: t.Any) -> list[str]:
        if not isinstance(value, (list, tuple)):
            return _wrong(where, value, expected)
        return [problem for number, item in enumerate(value) for problem in each(f"{where}[{number}]", item)]

    return check


def _optional(each: Check) -> Check:
    """None is as good as nothing."""
    return lambda where, value: [] if value is None else each(where, value)


def _or_text(each: Check) -> Check:
    """A number, also as the text that it is when it comes from the command line."""

    def check(where: str, value: t.Any) -> list[str]:
        try:
            number = float(value) if isinstance(value, str) else value
        except ValueError:
            number = value
        return each(where, number)

    return check


def _reasons(reasons: t.Collection[str]) -> Check:
    """A list of names of reasons that do not count."""

    def check(where: str, value: t.Any) -> list[str]:
        wrong = _names(where, value)
        unknown = None if wrong else unknown_reasons(where, value, reasons)
        return [unknown] if unknown else wrong

    return check


def _matching(pattern: t.Pattern[str], expected: str) -> Check:
    """A text that has this form as a whole."""
    return lambda where, value: (
        [] if isinstance(value, str) and pattern.fullmatch(value) else _wrong(where, value, expected)
    )


# --- the planner's ---------------------------------------------------------------------------------------------------


_resource_name = _matching(
    _RESOURCE_NAME, "letters, digits and underscores (the plugin refuses anything else), such as rdma_v100"
)


def _resource_prefix(where: str, value: t.Any) -> list[str]:
    if not isinstance(value, str) or len(value) > _PREFIX_LIMIT or not SUBDOMAIN.fullmatch(value):
        return _wrong(where, value, "a domain-like prefix, such as rdma")
    if value.endswith("kubernetes.io") or value.startswith("requests."):
        return _wrong(
            where,
            value,
            "a prefix that Kubernetes lets others have: none that ends with kubernetes.io or starts with requests.",
        )
    return []


def _shares(where: str, value: t.Any) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_SHARES:
        expected = f"an integer from 0 to {_MOST_SHARES}: how many Pods of a node share the devices"
        return _wrong(where, value, expected)
    return []


def _share_of_rate(where: str, value: t.Any) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        return _wrong(where, value, "a share from 0 to 1")
    return []


def _microseconds(where: str, value: t.Any) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        return _wrong(where, value, "a number of microseconds above 0")
    return []


def rail_name(pattern: str, name: str, rail: int) -> str:
    """The resource of one rail."""
    return pattern.replace("{name}", name).replace("{rail}", str(rail))


_RAILS_EXPECTED = f"true, false, or a pattern of names with {{rail}} in it, such as {_RAIL_NAMES}"


def _rails(where: str, value: t.Any) -> list[str]:
    if isinstance(value, bool) or (isinstance(value, str) and "{rail}" in value):
        return []
    return _wrong(where, value, _RAILS_EXPECTED)


def _rails_of(name: t.Any, wish: t.Any) -> list[str]:
    """Names of rails are made of the name of the resource: what is wrong with the longest of them."""
    if wish is None or wish is False or not isinstance(name, str):
        return []
    longest = rail_name(_RAIL_NAMES if wish is True else str(wish), name, _MOST_RAILS)
    if _RESOURCE_NAME.fullmatch(longest):
        return []
    made = f", that makes names of letters, digits and underscores, at most 63 ({longest} is not one)"
    return _wrong("rdma_rails", wish, _RAILS_EXPECTED + made)


# --- what nodes are prepared for -------------------------------------------------------------------------------------


def _storage_path(where: str, value: t.Any) -> list[str]:
    if isinstance(value, str) and (not value or value.startswith("/")):
        return []
    return _wrong(where, value, "an absolute path, or an empty string to check no directory")


# --- how it comes to the cluster -------------------------------------------------------------------------------------

_ENGINES = ("daemonset", "network_operator", "dra")


_dns_label = _matching(LABEL, "a namespace: at most 63 small letters, digits and hyphens")


def _dns_name(where: str, value: t.Any) -> list[str]:
    if isinstance(value, str) and len(value) <= SUBDOMAIN_LIMIT and SUBDOMAIN.fullmatch(value):
        return []
    return _wrong(where, value, "the name of an object: small letters, digits, hyphens and dots")


_dns_labels = _listing(_dns_label, "a list of namespaces")

_SECONDS = _number(0, None, "a number of seconds, 0 or more")

# k8s.io/api/core/v1, Toleration
_TOLERATION = _keys(
    key=_text,
    operator=_choice("Exists", "Equal", "Lt", "Gt"),
    value=_text,
    effect=_choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
    tolerationSeconds=_SECONDS,
)
_ROLLOUT: dict[str, Check] = {
    "method": _choice("apply", "render"),
    "engine": _choice(*_ENGINES),
    "kubeconfig": _optional(_text),
    "context": _optional(_text),
    "namespace": _name,
    "registry": _optional(_registry),
    "image_pull_secrets": _names,
    "charts": _optional(_text),
    "helm": _keys(binary=_text),
    "tolerations": _rows(_TOLERATION, "a list of tolerations"),
    "resources": _keys(limits=_dictionary, requests=_dictionary),
    "cdi": _truth,
    "node_names": _dictionary,
    "force": _truth,
    "timeout": _SECONDS,
    "remove": _names,
    "inventory": _name,
    "adopt": _truth,
}
_DAEMONSET: dict[str, Check] = {
    "image": _name,
    "image_digest": _optional(_text),
    "kubelet_root": _name,
    "max_unavailable": _share,
    "pod_security": _truth,
    "priority_class": _name,
}
_UPGRADE_POLICY = _keys(
    auto_upgrade=_flag,
    max_parallel_upgrades=_number(1, None, "1 or more (0 would reload the driver of all nodes at once)"),
    safe_load=_flag,
    drain=_optional(
        _keys(
            enable=_optional(_flag),
            force=_optional(_flag),
            delete_empty_dir=_optional(_flag),
            pod_selector=_optional(_text),
            timeout_seconds=_optional(_SECONDS),
        )
    ),
    wait_for_completion=_optional(_keys(pod_selector=_optional(_text), timeout_seconds=_optional(_SECONDS))),
)
_ROLLOUT_OF: dict[str, dict[str, Check]] = {
    "daemonset": _DAEMONSET,
    # classes that do not move keep the plugin's DaemonSets
    "dra": {
        **_DAEMONSET,
        "claims": _keys(gpu_class=_optional(_dns_name), namespaces=_dns_labels),
        "classes": _keys(groups=_names, names=_names),
        "dranet": _keys(
            allow_mounts=_truth,
            cloud_provider=_choice("NONE", "AWS", "GCE", "AZURE", "OKE", "ALIBABA"),
            image=_optional(_name),
            image_digest=_optional(_text),
            kubelet_root=_name,
            max_unavailable=_share,
            move_ib_interfaces=_truth,
            namespace=_optional(_dns_label),
            pod_security=_truth,
            port=_number(1024, 65535, "a port from 1024 to 65535"),
            priority_class=_name,
            resources=_keys(limits=_dictionary, requests=_dictionary),
            version=_optional(_release),
        ),
    },
    "network_operator": {
        "helm": _keys(
            binary=_text,
            chart=_secret,
            install=_truth,
            nfd=_truth,
            pod_security=_truth,
            release=_name,
            repository=_secret,
            upgrade_crds=_truth,
            values=_dictionary,
            version=_release,
        ),
        "node_affinity": _truth,
        "ofed_driver": _keys(
            cert_config=_name,
            enabled=_flag,
            env=_dictionary,
            force_precompiled=_truth,
            groups=_names,
            image=_name,
            override=_reasons(DRIVER_REASONS),
            repo_config=_name,
            repository=_name,
            upgrade_policy=_UPGRADE_POLICY,
            version=_release,
        ),
        "operator_version": _release,
        "policy": _choice("auto", "cluster", "node"),
        "sriov": _names,
    },
}


def _rollout(where: str, value: t.Any) -> list[str]:
    if not isinstance(value, t.Mapping):
        return _dictionary(where, value)
    engine = value.get("engine") or "daemonset"
    if engine not in _ENGINES:
        return _ROLLOUT["engine"](where + ".engine", engine)
    spec = {**_ROLLOUT, **_ROLLOUT_OF[engine]}
    # a key of the other engine is not a typing error
    others = {key for other in _ENGINES for key in _ROLLOUT_OF[other]} - set(spec)
    beside = [key for key in others if key in value]
    known = {key: value[key] for key in value if key not in beside}
    found = _keys(**spec)(where, known)
    unknown = unknown_keys(where, beside, spec, f" with engine: {engine}")
    return [*found, unknown] if unknown else found


# --- systems of the cluster side -------------------------------------------------------------------------------------


def _object_name(where: str, value: t.Any) -> list[str]:
    """A DNS label (RFC 1123), as namespaces and Helm releases have to be; the latter have at most 53 characters."""
    if isinstance(value, str) and len(value) <= 53 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", value):
        return []
    return _wrong(where, value, "small letters, digits and dashes, at most 53, such as volcano-system")


def _flags(where: str, value: t.Any) -> list[str]:
    if not isinstance(value, t.Mapping):
        return _dictionary(where, value)
    return [problem for key, each in value.items() for problem in _flag(f"{where}.{key}", each)]


def _flag_or_install(where: str, value: t.Any) -> list[str]:
    return [] if isinstance(value, bool) or value == "install" else _wrong(where, value, "true, false or install")


_COMPUTE_DOMAIN = _keys(
    api_version=_choice("auto", "v1", "v1beta2", "v1beta1"),
    cliques=_choice("any", "one"),
    driver_root=_name,
    feature_gates=_flags,
    gpus=_flag,
    host_imex=_choice("keep", "mask", "restore"),
    imex=_choice("driver", "host"),
    mpi_operator=_flag_or_install,
    namespace=_object_name,
    release=_object_name,
    values=_dictionary,
    version=_release,
    workloads=_keys(
        gpus=_number(1, None, "a number of GPUs, 1 or more"),
        namespace=_object_name,
        nccl_image=_name,
        nodes=_number(1, None, "a number of nodes, 1 or more"),
        nvbandwidth_image=_name,
    ),
)


def _scale(where: str, value: t.Any) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 100:
        return _wrong(where, value, "a number above 0, at most 100")
    return []


def _hosts_with(each: Check) -> Check:
    """A dictionary with hosts for keys."""

    def check(where: str, value: t.Any) -> list[str]:
        if not isinstance(value, t.Mapping):
            return _dictionary(where, value)
        return [problem for host, own in value.items() for problem in each(f"{where}.{host}", own)]

    return check


_SPLIT = _number(1, 1000, "a number of shares from 1 to 1000")
_VGPU = _keys(
    arguments=_dictionary,
    cores_scaling=_scale,
    groups=_listing(_name, "a list of RDMA groups", 1),
    hypernodes=_flag,
    memory_factor=_number(1, 1048576, "a number of MiB, 1 or more"),
    memory_scaling=_scale,
    monitor=_flag,
    namespace=_object_name,
    nodes=_hosts_with(
        _keys(
            cores_scaling=_scale,
            ignore=_listing(_number(0, 1000, ""), "a list of numbers of GPUs"),
            ignore_uuids=_strings,
            memory_scaling=_scale,
            split=_SPLIT,
        )
    ),
    policy=_choice("binpack", "spread"),
    release=_object_name,
    scheduler=_optional(_dictionary),
    split=_SPLIT,
    stop_device_plugin=_flag,
    tolerations=_rows(_TOLERATION, "a list of tolerations"),
    values=_dictionary,
    version=_release,
)

# --- secondary networks ----------------------------------------------------------------------------------------------

_NETWORK_KINDS = ("hostdevice", "sriov", "macvlan", "ipoib", "spiderpool")
# Objects are named after a network, with a rail and a class behind it; Multus takes DNS labels only (pkg/k8sclient).
_NETWORK_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
# What the kernel lets a netdev be called (dev_valid_name), without what JSON or a shell would have to quote.
_NETDEV = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,14}")
_PATH = re.compile(r"/[A-Za-z0-9_.@+-]+(?:/[A-Za-z0-9_.@+-]+)*")
_ADDRESS_OF_SERVER = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
_QUALIFIED = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9](?:[A-Za-z0-9_.{}-]{0,61}[A-Za-z0-9}])?")
_PARTS = r"(?:\*|[0-9]{1,2}(?:-[0-9]{1,2})?)(?:/[0-9]{1,2})?(?:,[0-9]{1,2}(?:-[0-9]{1,2})?)*"
_CRON = re.compile(rf"{_PARTS}(?: {_PARTS}){{4}}")
_MOST_PODS = 10000
_LABEL_KEY = re.compile(r"(?:[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def _by_rail(each: Check, expected: str) -> Check:
    """A dictionary by the number of the rail."""

    def check(where: str, value: t.Any) -> list[str]:
        if not isinstance(value, t.Mapping) or not value:
            return _wrong(where, value, expected)
        numbers = [key for key in value if _number(1, _MOST_RAILS, "")("", key)]
        if numbers:
            return [f"{where} has the key {_shown(numbers[0])}; expected numbers of rails, from 1"]
        return [problem for key, item in value.items() for problem in each(f"{where}.{key}", item)]

    return check


def _either(one: Check, other: Check, is_other: t.Callable[[t.Any], bool]) -> Check:
    return lambda where, value: (other if is_other(value) else one)(where, value)


def _is_mapping(value: t.Any) -> bool:
    return isinstance(value, t.Mapping)


def _is_list(value: t.Any) -> bool:
    return isinstance(value, (list, tuple))


_netdev = _matching(_NETDEV, "the name of a netdev, such as eth1")
_namespace = _matching(LABEL, "the name of a namespace")
_directory = _matching(_PATH, "an absolute path without spaces")
_addresses = _either(_name, _listing(_name, "a text, or a list of texts", 1), _is_list)
_prefix_length = _number(1, 126, "a prefix length, such as 26")

_IPAM = _keys(
    type=_choice("whereabouts", "nv_ipam", "spiderpool", "host_local", "static", "none"),
    range=_addresses,
    ranges=_by_rail(_addresses, "ranges by the number of their rail"),
    per_rail=_either(_prefix_length, _keys(ipv4=_prefix_length, ipv6=_prefix_length), _is_mapping),
    exclude=_strings,
    gateway=_addresses,
    routes=_strings,
    pods_per_node=_number(1, _MOST_PODS, f"a number of Pods from 1 to {_MOST_PODS}"),
    block_size=_number(1, _MOST_PODS, f"a number of addresses from 1 to {_MOST_PODS}"),
    namespace=_namespace,
)
_NETWORK = _keys(
    name=_matching(_NETWORK_NAME, "a name of lower case letters, digits and hyphens, at most 40, such as fabric"),
    kind=_choice(*_NETWORK_KINDS),
    namespace=_namespace,
    master=_either(_netdev, _by_rail(_netdev, "netdevs by the number of their rail"), _is_mapping),
    mode=_choice("bridge", "private", "vepa", "passthru"),
    mtu=_number(68, 65520, "a number of bytes from 68 to 65520"),
    vlan=_number(1, 4094, "a VLAN from 1 to 4094"),
    rails=_flag,
    operator=_flag,
    ipam=_IPAM,
    resource=_matching(_QUALIFIED, "a resource with its prefix, such as nvidia.com/hostdev"),
    isolate_rdma=_flag,
    trust=_flag,
    spoofchk=_flag,
    cni=_choice("macvlan", "ipvlan", "ipoib"),
    inject=_flag,
    sriov=_keys(
        vfs=_number(1, 4096, "a number of virtual functions, 1 or more"),
        prefix=_resource_prefix,
        namespace=_namespace,
    ),
)


def _network(where: str, value: t.Any) -> list[str]:
    """An entry of rdma_networks; without name and kind it is none."""
    found = _NETWORK(
        where, {key: item for key, item in value.items() if item is not None} if _is_mapping(value) else value
    )
    lacking = [key for key in ("name", "kind") if _is_mapping(value) and value.get(key) is None]
    return found + [f"{where} has no {key}" for key in lacking]


def _networks(where: str, value: t.Any) -> list[str]:
    found = _rows(_network, "a list of networks, each with name and kind")(where, value)
    if not found:
        names = [(each["name"], each.get("namespace") or "default") for each in value]
        found = [
            f"{where} names {name} twice"
            for name in sorted({name for name, _n in names if names.count((name, _n)) > 1})
        ]
    return found


_INSTALLED: dict[str, Check] = {
    "install": _flag,
    "operator": _flag,
    "version": _release,
    "image": _name,
    "namespace": _namespace,
    "crd": _flag,
    "nodes": _choice("all", "rdma"),
    "api_server": _matching(_ADDRESS_OF_SERVER, "HOST:PORT of the API server, as the nodes reach it"),
    "cni_conf_dir": _directory,
    "cni_bin_dir": _directory,
    "priority_class": _name,
    "tolerations": _rows(_TOLERATION, "a list of tolerations"),
    "resources": _keys(limits=_dictionary, requests=_dictionary),
    "max_unavailable": _share,
}
_CIDRS = _keys(pods=_strings, services=_strings, nodes=_strings)

# --- systems of the cluster side: storage and GPUs --------------------------------------------------------------------


def _data_path(where: str, value: t.Any) -> list[str]:
    if isinstance(value, str) and re.fullmatch(r"/(?:[^/\x00-\x1f]+/?)+", value) and ".." not in value.split("/"):
        return []
    return _wrong(where, value, "an absolute path, such as /var/lib/longhorn")


_TOLERATIONS = _rows(_TOLERATION, "a list of tolerations")
_LONGHORN = _keys(
    chart=_secret,
    data_engine=_choice("v1", "v2"),
    data_path=_data_path,
    default_class=_flag,
    delete_volumes=_flag,
    enabled=_flag,
    groups=_names,
    nodes=_names,
    replicas=_number(1, 20, "a number of replicas from 1 to 20"),
    repository=_secret,
    tolerations=_TOLERATIONS,
    values=_dictionary,
    version=_release,
)


def _auto_flag(where: str, value: t.Any) -> list[str]:
    """As _flag(), or the word that leaves it to the facts."""
    return [] if value == "auto" or isinstance(value, bool) else _wrong(where, value, "auto, true or false")


def _gpu_version(where: str, value: t.Any) -> list[str]:
    if isinstance(value, str):
        return []
    return _release(where, value) or _wrong(where, value, "a release in quotes")


_GPU_OPERATOR = _keys(
    cdi=_flag,
    chart=_secret,
    device_plugin=_flag,
    driver=_keys(
        auto_upgrade=_flag,
        distributions=_names,
        enabled=_auto_flag,
        max_parallel_upgrades=_number(1, None, "a number of nodes, 1 or more"),
        precompiled=_flag,
        version=_gpu_version,
    ),
    enabled=_flag,
    gdrcopy=_flag,
    gds=_flag,
    groups=_names,
    kernel_module_type=_choice("auto", "open", "proprietary"),
    mig_strategy=_choice("none", "single", "mixed"),
    nfd=_flag,
    nri=_flag,
    rdma=_auto_flag,
    repository=_secret,
    tolerations=_TOLERATIONS,
    toolkit=_keys(enabled=_flag, env=_dictionary),
    use_host_mofed=_auto_flag,
    values=_dictionary,
    version=_release,
)

# --- the table -------------------------------------------------------------------------------------------------------

# Wishes of a group, by which it is planned; all its hosts have the same.
PLANNED: dict[str, Check] = {
    "rdma_resource": _keys(
        name=_resource_name,
        prefix=_resource_prefix,
        hca_max=_shares,
    ),
    "rdma_want": NODE_WISHES["rdma_want"],
    "rdma_selector_strategy": _choice("auto", "ifnames", "device_ids"),
    "rdma_rails": _rails,
}

# What nodes are prepared for. As a rule a group's; a host may have its own.
OF_A_GROUP: dict[str, Check] = {
    **PLANNED,
    "rdma_ofed": _keys(
        activate=_optional(_choice("none", "reload", "reboot")),
        install_options=_strings,
        iso=_optional(_text),
        key=_optional(_secret),
        key_checksum=_optional(_text),
        method=_choice("none", "inbox", "doca", "mlnx_iso"),
        override=_reasons(REASONS),
        packages=_names,
        repository=_optional(_secret),
        version=_optional(_release),
    ),
    "rdma_memlock": NODE_WISHES["rdma_memlock"],
    "rdma_gpudirect": _choice("auto", "peermem", "dmabuf", "none"),
    "rdma_storage": _keys(iscsi=_flag, nfs=_flag, dm_crypt=_flag, multipath=_flag, path=_optional(_storage_path)),
    "rdma_roce_host": NODE_WISHES["rdma_roce_host"],
    "rdma_verify": _keys(
        min_gbps=_optional(_or_text(_rate)),
        min_share=_optional(_or_text(_share_of_rate)),
        max_us=_optional(_or_text(_microseconds)),
    ),
    "rdma_kubeconfig": _text,
    "rdma_networks": _networks,
    "rdma_compute_domain": _COMPUTE_DOMAIN,
}

# Read once for all hosts: a host with another value would silently not count.
CLUSTER_WIDE: dict[str, Check] = {
    "rdma_groups": _listing(_name, "a list of groups of the inventory, such as [ib-a100]", 1),
    "rdma_hosts": _pattern,
    "rdma_output_dir": _name,
    "rdma_rollout": _rollout,
    "rdma_rollout_method": _choice("apply", "render"),
    "rdma_serial": _waves,
    "rdma_max_unavailable": _share,
    "rdma_slices": _slices,
    "rdma_allow_unusable": _truth,
    "rdma_cluster_cidrs": _CIDRS,
    "rdma_multus": _keys(**_INSTALLED),
    "rdma_whereabouts": _keys(**_INSTALLED, reconcile=_matching(_CRON, "five fields of cron, such as '30 4 * * *'")),
    "rdma_spiderpool": _keys(
        install=_flag, inject=_flag, multus=_flag, namespace=_namespace, values=_dictionary, version=_release
    ),
    "rdma_vgpu": _VGPU,
    "rdma_gpu_operator": _GPU_OPERATOR,
    "rdma_longhorn": _LONGHORN,
    "rdma_topology": _keys(
        labels=_flag, label=_matching(_LABEL_KEY, "a key of a label, such as topology.fabric.rdma/leaf")
    ),
}

_OTHERS: dict[str, Check] = {
    "rdma_capture": _name,
    "rdma_capture_anonymize": _truth,
    "rdma_capture_text": _truth,
    "rdma_handover_to": _choice("dra", "daemonset"),
    "rdma_handover_groups": _names,
    "rdma_uninstall_groups": _names,
    "rdma_uninstall_systems": _names,
    "rdma_stale_resources": _names,
    "rdma_stale_nodes": _names,
    "rdma_stale_verify": _SECONDS,
}

VARIABLES: dict[str, Check] = {**CLUSTER_WIDE, **OF_A_GROUP, **_OTHERS}


def problems(variable: str, value: t.Any) -> list[str]:
    """What is wrong with the value of a variable, without a look at others. None is a variable that is not set."""
    return [] if value is None else VARIABLES[variable](variable, value)


# The defaults of what the planner reads. defaults.py has those of every variable.
PLAN_DEFAULTS: Json = {
    "rdma_resource": {"name": None, "prefix": "rdma", "hca_max": 63},
    "rdma_want": NODE_DEFAULTS["rdma_want"],
    "rdma_selector_strategy": "auto",
    "rdma_rails": False,
}


def _filled(variable: str, given: t.Any) -> Json:
    return {**PLAN_DEFAULTS[variable], **(given or {})}


def with_defaults(wishes: t.Mapping[str, t.Any]) -> tuple[Json, list[str]]:
    """(wishes of a group with their defaults, what is wrong with them; with that they are not to be used).

    wishes: {resource, want, strategy, rails} as the user wrote them. The result has the same keys; rails is the pattern of the
    names of the rails' resources, None when there are no rails.
    """
    rails = wishes.get("rails")
    given = wishes.get("resource")
    if isinstance(given, t.Mapping) and not given.get("name"):
        # said once, and also where there is no wish at all
        given = {**given, "name": given.get("name")}
    found = [
        *problems("rdma_resource", {"name": None} if given is None else given),
        *problems("rdma_want", wishes.get("want")),
        *problems("rdma_selector_strategy", wishes.get("strategy") or None),
        *problems("rdma_rails", rails),
    ]
    if found:
        return {}, found
    resource = _filled("rdma_resource", wishes.get("resource"))
    found = _rails_of(resource["name"], rails)
    pattern = None if rails is None or rails is False else _RAIL_NAMES if rails is True else rails
    checked = {
        "resource": resource,
        "want": _filled("rdma_want", wishes.get("want")),
        "strategy": wishes.get("strategy") or PLAN_DEFAULTS["rdma_selector_strategy"],
        "rails": pattern,
    }
    return checked, found
