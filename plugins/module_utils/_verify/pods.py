# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that measure: what they look like, how they are doing, what they print. Private. Pure.

A pair of nodes gets two Pods that ask for the resource of their group, as a workload does. Each prints what it was given (user,
limit of locked memory, device files). Then the server's runs all its perftests at once, and the client's connects to one after the other.
Values reach the script in a container as its arguments, never as a part of it.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.fabric.rdma.plugins.module_utils._base.dns import LABEL, SUBDOMAIN, SUBDOMAIN_LIMIT
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._base.text import printable
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import (
    MOST_OUTPUT,
    Side,
    command_line,
    measured,
)

__all__ = [
    "CONTAINER",
    "GIVEN",
    "LOOK",
    "SCRIPT",
    "SIDES",
    "START_SECONDS",
    "Wish",
    "budget",
    "bytes_of",
    "checked",
    "checked_look",
    "first_user",
    "give_up",
    "given_up",
    "in_words",
    "insist_on_memory",
    "limit_of",
    "look_words",
    "misplaced",
    "name_of",
    "not_again",
    "not_done",
    "parse_log",
    "pod_body",
    "problem_of",
    "result_of",
    "senseless",
    "stage_of",
    "succeeded",
    "words_of",
]

Json = t.Dict[str, t.Any]

# At the beginning of a line that the script prints about itself.
_MARK = "@fabric.rdma"
SIDES: tuple[Side, ...] = ("client", "server")
# A Pod that measures nothing, and only tells what it was given.
LOOK = "look"
# Of the one container that is ours. Others come into a Pod by way of admission.
CONTAINER = "perftest"
_MAX_FILES = 1000
# What a Pod tells of what it was given.
GIVEN = ("user", "memlock", "ipc_lock", "memory", "files", "hcas", "lacks")
# include/uapi/linux/capability.h, and what cgroup v1 has where there is no limit (PAGE_COUNTER_MAX in bytes).
_IPC_LOCK, _NO_LIMIT = 14, 1 << 60
# Seconds beside the time limit: for an image to come to a node, and between two tests.
START_SECONDS = 180
_BETWEEN = 30
# sh kills a perftest whose time is over: 128 + SIGKILL. The script has another status for one that was killed before. And what sh says
# of a program that is not there.
_KILLED, _KILLED_EARLY, _NOT_FOUND = 137, 99, 127

# In a Pod with a server: its address. And behind a command line: its client comes to that address.
_POD_IP, _AT_POD = "FABRIC_RDMA_POD_IP", "@pod"

# POSIX sh with perftest, id, sleep and date. $1: server, client or look; $2: seconds for a test; each further one: a command line, words
# parted by blanks. An unquoted variable is parted there, and nothing else in it has a meaning (set -f). What a program prints is told
# line by line, each behind a mark of ours: it can say nothing in our name, and two programs can print at the same time.
SCRIPT = r"""
role=$1 limit=$2
shift 2
say() { printf '@fabric.rdma %s\n' "$*"; }
say user "$(id -u)"
say memlock "$(ulimit -S -l)" "$(ulimit -H -l)"
while read -r key value; do
  [ "$key" != CapEff: ] || say caps "$value"
done </proc/self/status
memory=
read -r memory </sys/fs/cgroup/memory.max || read -r memory </sys/fs/cgroup/memory/memory.limit_in_bytes || :
say memory "$memory"
for file in /dev/infiniband/*; do
  hca=
  [ ! -e "$file" ] || {
    read -r hca <"/sys/class/infiniband_verbs/${file##*/}/ibdev" || read -r hca <"/sys/class/infiniband_mad/${file##*/}/ibdev" || :
    say file "${file##*/}" "$hca"
  }
done 2>/dev/null
for program in sleep date; do
  command -v "$program" >/dev/null 2>&1 || say lacks "$program"
done
set -f
if [ "$role" = look ]; then
  for program in "$@"; do
    command -v "$program" >/dev/null 2>&1 || say lacks "$program"
  done
  exit 0
fi
LC_ALL=C
export LC_ALL
# a pipe gets what perftest prints when it ends; what was killed has printed nothing then
before=
if command -v stdbuf >/dev/null 2>&1; then before='stdbuf -oL'; fi
# what is left of a timer must hold no pipe open
bounded() {
  over=$(($(date +%s) + limit))
  "$@" 2>&1 3>&- 4>&- &
  child=$!
  { sleep "$limit"; kill -9 "$child"; } >/dev/null 2>&1 3>&- 4>&- &
  timer=$!
  wait "$child"
  status=$?
  kill "$timer" >/dev/null 2>&1
  [ "$status" -ne 137 ] || [ "$(date +%s)" -ge "$over" ] || status=99
  return "$status"
}
told() {
  while IFS= read -r line || [ -n "$line" ]; do
    say out "$1" "$line"
  done
}
serve() {
  { status=$({ { bounded $before $2; printf %s "$?" >&3; } | told "$1" >&4; } 3>&1); } 4>&1
  say end "$1" "$status"
  [ "$status" -eq 0 ]
}
number=0 failed=0 servers=
for words in "$@"; do
  say begin "$number"
  if [ "$role" = server ]; then
    case "$words" in
      *' @pod')
        words=${words% @pod}
        case "${FABRIC_RDMA_POD_IP:-}" in *:*) words="$words --ipv6-addr" ;; esac
        ;;
    esac
    # All at once, each on a port of its own: one to which no client comes, since that has failed before, keeps no other waiting.
    serve "$number" "$words" &
    servers="$servers $!"
    number=$((number + 1))
    continue
  fi
  late=$(($(date +%s) + limit))
  while :; do
    output=$(bounded $before $words)
    status=$?
    # the server may not have come to this test yet
    case "$status $output" in
      0\ *) break ;;
      *"Couldn't connect to"*) [ "$(date +%s)" -lt "$late" ] || break ;;
      *) break ;;
    esac
    sleep 1
  done
  printf '%s\n' "$output" | told "$number"
  say end "$number" "$status"
  [ "$status" -eq 0 ] || failed=1
  number=$((number + 1))
done
for server in $servers; do
  wait "$server" || failed=1
done
exit "$failed"
"""

# k8s.io/apimachinery/pkg/util/validation: keys and values of labels. github.com/distribution/reference.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_RESOURCE = re.compile(SUBDOMAIN.pattern + r"/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NETWORK = re.compile(rf"{LABEL.pattern}/{SUBDOMAIN.pattern}")
_IMAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/-]{0,480}[A-Za-z0-9])?(?:@sha256:[0-9a-f]{64})?")


@dataclass(frozen=True)
class Wish:
    """How Pods should be. timeout: seconds for one test; labels: of every Pod; run: of this one, a part of every name.

    memory: limit of memory in bytes, None for none; ipc_lock: with this capability; networks: secondary ones (namespace/name).
    """

    image: str
    namespace: str
    host_network: bool
    user: int
    timeout: int
    first_port: int
    labels: t.Mapping[str, str]
    run: str
    memory: t.Optional[int] = None
    ipc_lock: bool = False
    networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _IMAGE.fullmatch(self.image):
            raise WishError(f"image {self.image!r} is not a reference to an image", "Set verify_pod_image")
        if not LABEL.fullmatch(self.namespace):
            raise WishError(
                f"namespace {self.namespace!r} cannot be the name of a namespace", "Set verify_pod_namespace"
            )
        for label, text in self.labels.items():
            if not _LABEL_VALUE.fullmatch(text):
                raise WishError(f"{text!r} cannot be the value of the label {label}", "Set rdma_rollout.inventory")
        for name, value, low, high in (
            ("user", self.user, 0, (1 << 31) - 1),
            ("timeout", self.timeout, 1, 86400),
            ("first_port", self.first_port, 1, 65535),
        ):
            if not low <= value <= high:
                raise WishError(f"{name} is {value}; allowed is {low} to {high}")
        for network in self.networks:
            if not _NETWORK.fullmatch(network):
                raise WishError(f"network {network!r} is not namespace/name", "Set verify_pod_networks")


_UNITS = {
    "": 1,
    "k": 1000,
    "Ki": 1 << 10,
    "M": 10**6,
    "Mi": 1 << 20,
    "G": 10**9,
    "Gi": 1 << 30,
    "T": 10**12,
    "Ti": 1 << 40,
}
# What a perftest takes beside the memory of its messages, and the sizes of a table of all.
_PROGRAM_BYTES, _LARGEST_BYTES = 64 << 20, 8 << 20


def bytes_of(quantity: str) -> t.Optional[int]:
    """A quantity of memory as Kubernetes writes it; None for none. WishError for what is not one."""
    if not quantity:
        return None
    found = re.fullmatch(r"(\d{1,15})(|k|M|G|T|Ki|Mi|Gi|Ti)", quantity)
    if not found:
        raise WishError(f"memory {quantity!r} is not a quantity such as 2Gi", "Set verify_pod_memory")
    return int(found.group(1)) * _UNITS[found.group(2)]


def needed_bytes(tests: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """Memory that the server's Pod takes at most, whose programs wait all at once: both buffers of each queue pair count."""
    sizes = (_LARGEST_BYTES if test.get("all_sizes") else int(test["message_bytes"]) for test in tests)
    both = ((2 if test.get("bidirectional") else 1) * 2 * int(test["qps"]) for test in tests)
    return sum(_PROGRAM_BYTES + size * count for size, count in zip(sizes, both))


def insist_on_memory(wish: Wish, rounds: t.Sequence[t.Sequence[Json]]) -> None:
    """WishError where Pods would get less memory than they register: the kernel would end them, and nobody would know why."""
    most = max((needed_bytes(pair["tests"]) for pairs in rounds for pair in pairs), default=0)
    if wish.memory is not None and wish.memory < most:
        raise WishError(
            f"memory is {wish.memory >> 20} MiB, and the tests of a Pod take up to {-(-most >> 20)} MiB, which count since they are locked",
            "Raise verify_pod_memory, leave it empty for no limit, or measure fewer tests, queue pairs or bytes",
        )


# --- what a Pod is ----------------------------------------------------------------------------------------------------


def checked(pair: t.Any, node_names: t.Mapping[str, t.Any]) -> Json:
    """A pair as pair_pods() gives it, with the nodes of both hosts. WishError for what can be no pair."""
    try:
        own: Json = {"tests": [dict(test) for test in pair["tests"]], "nodes": {}, "resources": {}}
        for side in SIDES:
            host = str(pair[side])
            own["nodes"][side] = str(node_names.get(host) or host)
            own["resources"][side] = [str(name) for name in pair["pods"][side]["resources"]]
            own[side] = host
        own["command"] = {side: [_command(test, side, 1, "192.0.2.1") for test in own["tests"]] for side in SIDES}
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise WishError(f"a pair is not one of fabric.rdma.rdma_pairs: {exc!r}") from exc
    for side in SIDES:
        _insist_on_names(own[side], own["nodes"][side], own["resources"][side])
    return own


def checked_look(look: t.Any, node_names: t.Mapping[str, t.Any]) -> Json:
    """A host as pair_pods() gives it to be looked at, with its node. WishError for what can be none."""
    try:
        host = str(look["host"])
        own: Json = {"host": host, "node": str(node_names.get(host) or host)}
        own["resources"] = [str(name) for name in look["resources"]]
    except (AttributeError, KeyError, TypeError) as exc:
        raise WishError(f"a host to look at is not one of fabric.rdma.rdma_pairs: {exc!r}") from exc
    _insist_on_names(host, own["node"], own["resources"])
    return own


def _insist_on_names(host: str, node: str, resources: t.Sequence[str]) -> None:
    if not SUBDOMAIN.fullmatch(node) or len(node) > SUBDOMAIN_LIMIT:
        raise WishError(
            f"host {host}: {node!r} cannot be the name of a node",
            "Name its node in rdma_rollout.node_names",
        )
    for name in resources:
        if not _RESOURCE.fullmatch(name):
            raise WishError(f"{name!r} cannot be the name of a resource")


def first_user(users: t.Sequence[int]) -> int:
    """The user that traffic is measured as. WishError names one that cannot be."""
    for user in users:
        if not 0 <= user < 1 << 31:
            raise WishError(f"user is {user}; allowed is 0 to {(1 << 31) - 1}")
    if not users:
        raise WishError("there is no user to measure as", "Set verify_pod_users")
    return users[0]


def _command(test: t.Mapping[str, t.Any], side: str, port: int, address: t.Optional[str]) -> list[str]:
    end = test[side]
    gid = end["gid_index"]
    return command_line(
        str(test["test"]),
        str(end["device"]),
        port=int(end["port"]),
        gid_index=None if gid is None else int(gid),
        message_bytes=int(test["message_bytes"]),
        iterations=int(test["iterations"]),
        qps=int(test["qps"]),
        all_sizes=bool(test.get("all_sizes")),
        bidirectional=bool(test.get("bidirectional")),
        memory=str(test.get("memory") or "host"),
        traffic_class=(test.get("traffic_classes") or {}).get(side),
        tcp_port=port,
        address=address if side == "client" else None,
        ipv6=":" in (address or ""),
    )


def in_words(rounds: t.Sequence[t.Sequence[Json]], networks: t.Sequence[str] = ()) -> str:
    """What would be measured."""
    pings = [f"ping in {network}" for network in networks]
    pairs = [
        f"{pair['client']} and {pair['server']} ({', '.join(pings or dict.fromkeys(str(test['test']) for test in pair['tests']))})"
        for each in rounds
        for pair in each
    ]
    more = f" and {len(pairs) - 20} more pairs" if len(pairs) > 20 else ""
    return printable(f"between Pods would be measured: {'; '.join(pairs[:20]) or 'nothing'}{more}")


def words_of(tests: t.Sequence[Json], side: str, wish: Wish, first_port: int, address: str = "") -> list[str]:
    """The arguments of the script: a port for each test; address: of the server's Pod, where a test names none."""
    limit = wish.timeout if side == "client" else _of_server(wish, len(tests))
    lines = []
    for number, test in enumerate(tests):
        # in a network of its own, a Pod is not reached by the address of its node
        own = test["server"]["address"] if wish.host_network else None
        line = _command(test, side, first_port + number, str(own or address))
        lines.append(" ".join(line if own or side == "client" else [*line, _AT_POD]))
    return [side, str(limit), *lines]


def look_words(programs: t.Iterable[str]) -> list[str]:
    """The arguments of the script of a Pod that only looks: the programs that are to be in its image."""
    names = sorted(set(programs))
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,63}", name):
            raise WishError(f"{name!r} is not the name of a program")
    return [LOOK, "1", *names]


def _of_server(wish: Wish, tests: int) -> int:
    # its client may take its time to start, and for all tests before
    return START_SECONDS + budget(wish, tests)


def budget(wish: Wish, tests: int) -> int:
    """Seconds that the client's Pod may run."""
    return tests * (2 * wish.timeout + _BETWEEN)


def name_of(wish: Wish, number: int, side: str) -> str:
    return f"fabric-rdma-verify-{wish.run}-{number}-{side}"


def misplaced(pod: t.Mapping[str, t.Any], node: str) -> t.Optional[Json]:
    """{cause, remedy} of a Pod that came to another node than meant, None where it is where it should be, or nowhere yet."""
    found = (pod.get("spec") or {}).get("nodeName")
    if not found or found == node:
        return None
    name = str((pod.get("metadata") or {}).get("name"))
    return {
        "cause": f"the Pod {name} landed on the node {found} and not on {node}, so its measurement says nothing about {node}",
        "remedy": "find out what schedules Pods there: an admission webhook or another scheduler has changed its affinity",
    }


def pod_body(
    wish: Wish, name: str, node: str, resources: t.Sequence[str], words: t.Sequence[str], user: t.Optional[int] = None
) -> Json:
    """A Pod on a node, through the scheduler, that asks for one of each resource and for no privilege; words: of words_of().

    user: another than that of the wish.
    """
    tests = len(words) - 2
    limits: Json = dict.fromkeys(resources, "1")
    if wish.memory is not None:
        limits["memory"] = str(wish.memory)
    # users that are not root have no capability by it; the kernel gives it to programs of root alone
    capabilities: Json = {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if wish.ipc_lock else {})}
    container: Json = {
        "name": CONTAINER,
        "image": wish.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", SCRIPT, "fabric-rdma", *words],
        # no limit of memory where none is wished for: what is locked counts
        "resources": {"limits": limits},
        "securityContext": {
            "runAsUser": wish.user if user is None else user,
            "allowPrivilegeEscalation": False,
            "capabilities": capabilities,
        },
    }
    if words[0] == "server":
        container["env"] = [{"name": _POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": wish.namespace, "labels": dict(wish.labels)},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "hostNetwork": wish.host_network,
            "affinity": {"nodeAffinity": required},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            # its kubelet ends it when nobody is left to do so
            "activeDeadlineSeconds": START_SECONDS + _of_server(wish, tests) + _BETWEEN,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        },
    }


# --- how a Pod is doing -----------------------------------------------------------------------------------------------

# Reasons of a container that waits, and does not stop waiting by itself (kubelet, pkg/kubelet/images and kuberuntime).
_IMAGE_REASONS = (
    "ErrImageNeverPull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
)
_STUCK = (*_IMAGE_REASONS, "CreateContainerConfigError", "CreateContainerError", "RunContainerError")


def _maps(value: t.Any) -> list[Json]:
    return [dict(item) for item in value or () if isinstance(item, t.Mapping)]


def _container(pod: t.Mapping[str, t.Any], state: str) -> Json:
    """What the status of our container says of a state (waiting, running, terminated), {} when it is not in it."""
    for status in _maps((pod.get("status") or {}).get("containerStatuses")):
        if status.get("name") == CONTAINER:
            return dict((status.get("state") or {}).get(state) or {})
    return {}


def _unscheduled(pod: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """What the scheduler says of a Pod that it has no place for."""
    for condition in _maps((pod.get("status") or {}).get("conditions")):
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            return str(condition.get("message") or condition.get("reason") or "")
    return None


def stage_of(pod: t.Mapping[str, t.Any]) -> str:
    """pending | unschedulable | stuck | running | ended."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed") or _container(pod, "terminated"):
        return "ended"
    if _container(pod, "running"):
        return "running"
    if _container(pod, "waiting").get("reason") in _STUCK:
        return "stuck"
    return "pending" if _unscheduled(pod) is None else "unschedulable"


def succeeded(pod: t.Mapping[str, t.Any]) -> bool:
    """Whether a Pod that has ended has done all that it was to do. Another container of it may run on."""
    phase = (pod.get("status") or {}).get("phase")
    return phase == "Succeeded" or _container(pod, "terminated").get("exitCode") == 0


def problem_of(pod: t.Mapping[str, t.Any], wish: Wish, name: str, node: str, late: str = "") -> Json:
    """{cause, remedy}: why a Pod does not do its part: which, where, in which phase, with which message. late: what it did not in time."""
    status = pod.get("status") or {}
    waiting, ended = _container(pod, "waiting"), _container(pod, "terminated")
    unscheduled = _unscheduled(pod)
    reason = str(waiting.get("reason") or ended.get("reason") or status.get("reason") or "")
    said = str(waiting.get("message") or ended.get("message") or status.get("message") or unscheduled or "")
    words = ": ".join(word for word in (reason, said) if word)
    if ended and "exitCode" in ended:
        words += f" (exit status {ended['exitCode']})"
    phase = str(status.get("phase") or "gone")
    cause = f"the Pod {wish.namespace}/{name} on {node} is {phase}{', ' + late if late else ''}: {words or 'no reason is given'}"
    return {"cause": cause[:2000], "remedy": _remedy(reason, said, unscheduled is not None, wish, name)}


_MORE_MEMORY = (
    "raise verify_pod_memory, or the LimitRange of the namespace; without a limit, see which Pods take the memory of the node "
    "(dmesg there says what was killed)"
)


def _remedy(reason: str, said: str, unscheduled: bool, wish: Wish, name: str) -> str:
    if unscheduled:
        return (
            "see that the node is there, ready, and lists the resource as allocatable (kubectl describe node), and which Pods have "
            "taken all of it; a node of another name than its host is named in rdma_rollout.node_names"
        )
    if reason in _IMAGE_REASONS or reason == "ErrImagePull":
        return f"let the node have the image {wish.image} (registry, credentials, network), or name another one with verify_pod_image"
    if reason == "UnexpectedAdmissionError" or "device plugin" in said:
        return "look at the log of the device plugin on the node: it did not give the device that it offers"
    if reason == "OOMKilled":
        return _MORE_MEMORY
    if reason == "DeadlineExceeded":
        return "see why it took so long, or raise verify_timeout"
    if reason in ("StartError", "ContainerCannotRun", *_STUCK):
        return "see the message; the image of verify_pod_image must have sh and perftest"
    return f"kubectl -n {wish.namespace} describe pod {name} tells more while it is there, and the kubelet of the node afterwards"


# --- what a Pod has printed -------------------------------------------------------------------------------------------


def limit_of(word: str) -> t.Optional[str]:
    """A limit as ulimit prints it, None for everything else."""
    return word if re.fullmatch(r"unlimited|\d{1,20}", word) else None


def _told(found: Json, what: str, words: t.Sequence[str]) -> None:
    """What a line says of what the Pod was given."""
    first = words[0] if words else ""
    if what == "user" and re.fullmatch(r"\d{1,9}", first):
        found["user"] = int(first)
    elif what == "memlock" and len(words) == 2:
        found["memlock"] = {"soft": limit_of(first), "hard": limit_of(words[1])}
    elif what == "caps" and re.fullmatch(r"[0-9a-f]{1,16}", first):
        found["ipc_lock"] = bool(int(first, 16) >> _IPC_LOCK & 1)
    elif what == "memory" and re.fullmatch(r"\d{1,18}", first):
        # cgroup v1 has a number without a limit, too: all pages that there can be
        found["memory"] = int(first) if int(first) < _NO_LIMIT else None
    elif what == "lacks" and re.fullmatch(r"[\w.+-]{1,64}", first) and len(found["lacks"]) < _MAX_FILES:
        found["lacks"].append(first)
    elif what == "file" and re.fullmatch(r"[\w.-]{1,64}", first) and len(found["files"]) < _MAX_FILES:
        found["files"].append(first)
        if len(words) == 2 and re.fullmatch(r"[\w.-]{1,64}", words[1]):
            found["hcas"][first] = words[1]


def parse_log(text: str) -> Json:
    """{user, memlock: {soft, hard}, ipc_lock, memory, files, hcas, lacks, runs: {number: {status, output}}} of what the script printed.

    None: it was not. memlock is as ulimit prints it: unlimited, or KiB; memory: limit in bytes; hcas: of each file that is of one;
    lacks: programs. A run without an end has status None. What the script was given it tells before the first test.
    """
    found: Json = {"user": None, "memlock": {"soft": None, "hard": None}, "ipc_lock": None, "memory": None}
    found.update(files=[], hcas={}, lacks=[], runs={})
    runs: dict[int, Json] = found["runs"]
    for line in text.split("\n"):
        if not line.startswith(_MARK + " "):
            continue
        what, *words = line[len(_MARK) + 1 :].split(" ", 2)
        number = int(words[0]) if words and re.fullmatch(r"\d{1,9}", words[0]) else None
        if what == "out" and number in runs:
            runs[number]["output"].append(words[1] if len(words) == 2 else "")
        elif what == "begin" and number is not None:
            runs.setdefault(number, {"status": None, "output": []})
        elif what == "end" and number in runs and len(words) == 2:
            status = int(words[1]) if re.fullmatch(r"\d{1,3}", words[1]) else None
            runs[number]["status"] = status
        elif not runs:
            _told(found, what, [word for word in words if word])
    for run in runs.values():
        run["output"] = "\n".join(run["output"])[:MOST_OUTPUT]
    found["files"].sort()
    return found


def result_of(log: str, name: str, tests: t.Sequence[Json], wish: Wish, problem: t.Optional[Json] = None) -> Json:
    """What one Pod of a pair gives: {pod, user, memlock, files, problem, results}, a result for each test.

    problem: why there is not a result for all; a test that has one keeps it.
    """
    said = parse_log(log)
    if problem and all((said["runs"].get(number) or {}).get("status") is not None for number in range(len(tests))):
        problem = None
    results = []
    for number, test in enumerate(tests):
        run = said["runs"].get(number) or {"status": None, "output": ""}
        status, why = run["status"], None
        if status is None:
            why = problem or {
                "cause": f"the Pod {wish.namespace}/{name} ended before {test['test']} did",
                "remedy": "see what else it printed, and the events of its node",
            }
        elif status == _NOT_FOUND:
            why = {
                "cause": f"{test['test']} is not in the image {wish.image}",
                "remedy": "name an image with sh and perftest in verify_pod_image",
            }
            status = None
        elif status == _KILLED_EARLY:
            limit = f"a limit of {said['memory']} bytes" if said["memory"] else "no limit of memory of its own"
            why = {
                "cause": f"{test['test']} was killed before its time was over, as the kernel does where memory is short; the Pod has {limit}",
                "remedy": _MORE_MEMORY,
            }
            status = None
        results.append(
            {
                "output": run["output"],
                "status": status,
                "timed_out": status == _KILLED,
                "timeout": wish.timeout,
                "problem": why,
                "repeated": False,
            }
        )
    return {
        "pod": name,
        **{key: said[key] for key in GIVEN},
        "problem": problem,
        "results": results,
    }


def give_up(gone: dict[str, Json], host: str, problem: Json, stage: str, resources: t.Iterable[str]) -> None:
    """Notes that no Pod starts on a host: of one without a place, none that asks for the same resources, or for more of them."""
    asked = sorted(resources) if stage == "unschedulable" else []
    if host not in gone or set(asked) < set(_listed(gone[host])):
        gone[host] = {**problem, "resources": asked}


def given_up(gone: t.Mapping[str, Json], host: str, resources: t.Iterable[str]) -> t.Optional[Json]:
    """Why a Pod that asks for these resources is not tried on a host, {cause, remedy}; None where it is to be tried."""
    problem = gone.get(host)
    return problem if problem is not None and set(_listed(problem)) <= set(resources) else None


def _listed(problem: t.Mapping[str, t.Any]) -> list[str]:
    value = problem.get("resources")
    return [str(name) for name in value] if isinstance(value, (list, tuple)) else []


def not_again(host: str, problem: t.Mapping[str, t.Any]) -> Json:
    """{cause, remedy} of what was not tried on a host, since none of its Pods started before: problem says why."""
    cause = f"{host} did not start its Pod before, and is not tried again: {problem.get('cause')}"
    return {"cause": cause[:2000], "remedy": str(problem.get("remedy") or "")}


def not_done(rounds: t.Sequence[t.Sequence[Json]], wish: Wish, why: str) -> list[list[Json]]:
    """The results where nothing could be asked of the cluster."""
    problem = {"cause": why, "remedy": ""}
    return [
        [{side: result_of("", "", pair["tests"], wish, problem) for side in SIDES} for pair in pairs]
        for pairs in rounds
    ]


def senseless(tests: t.Sequence[Json], client: Json) -> list[int]:
    """Numbers of the tests whose figures cannot be: they are worth a second try."""
    return [
        number
        for number, (test, result) in enumerate(zip(tests, client["results"]))
        if result["status"] == 0 and measured(str(test["test"]), result["output"])["senseless"]
    ]
