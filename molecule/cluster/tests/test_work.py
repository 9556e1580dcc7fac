# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver is changed on nodes that work: what runs there is asked to leave, in the order that its budget allows, and comes back.

The packages are a stand-in for the vendor's, which nobody may pass on; everything else is what it is.
"""

from __future__ import annotations

import subprocess
import threading
import time
import typing as t

import nodes
import pace
import pytest
from pods import NAMES, POD_IMAGE, RESOURCE, ROOT, Site

from ansible_collections.fabric.rdma.tests.unit.contracts import load

STAND_IN = "/usr/local/sbin/fabric-rdma-test"
LABELS = {"app": "training"}

# The stand-in's module as one that the kernel loads, and is told to load at boot: no hardware of a node asks for it. The headers that it
# is built with wait in the image, and are not installed, which would take minutes.
MODULE = """\
set -eu
kernel=$(uname -r)
for deb in /var/lib/fabric-rdma-lab/repository/linux-headers-*.deb /var/lib/fabric-rdma-lab/repository/linux-kbuild-*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar --extract --directory=/ --keep-directory-symlink ./usr
done
work=$(mktemp -d)
echo 'obj-m := mlx5_core.o' > "$work/Kbuild"
cat > "$work/mlx5_core.c" << 'END'
#include <linux/module.h>
MODULE_DESCRIPTION("stand-in for the vendor's driver");
MODULE_LICENSE("GPL");
MODULE_VERSION("24.10-2.9.1");
END
make --silent -C "/usr/src/linux-headers-$kernel" M="$work" modules
cp "$work/mlx5_core.ko" "/lib/modules/$kernel/updates/dkms/mlx5_core.ko"
depmod
echo mlx5_core > /etc/modules-load.d/stand-in.conf
rm -rf "$work" /usr/src/linux-headers-* /usr/src/linux-kbuild-* /usr/lib/linux-kbuild-*
"""


def send(node: str, data: bytes, command: str, seconds: float = 300) -> bytes:
    done = subprocess.run(
        nodes.command(node, command), input=data, capture_output=True, timeout=pace.limit(seconds), check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    """Wishes for a driver that a repository on each node has."""
    script = (ROOT / "molecule" / "waves" / "node").read_bytes()
    for name in NAMES:
        send(name, script, f"cat > {STAND_IN}; chmod 755 {STAND_IN}")
    place = "/var/lib/fabric-rdma-test"
    made = send("lab1", b"", f"{STAND_IN} repository >&2 && cat {place}/repository.tar")
    key = tmp_path_factory.mktemp("key") / "key.asc"
    key.write_bytes(send("lab1", b"", f"cat {place}/repository/key.asc"))
    for name in NAMES:
        send(name, made, "tar -C /var/lib -xf - && mkdir -p /etc/fabric-rdma-test && apt-get -q update")
    ofed = {
        "method": "doca",
        "version": "2.9.1",
        "repository": f"file:{place}/repository/",
        "key": str(key),
        "packages": ["doca-ofed"],
        "activate": "none",
        # the stand-in is compiled already
        "override": ["kernel_headers"],
    }
    return {"rdma_ofed": ofed, "ofed_log_window": 1, "ofed_min_free_mib": 256, "discover_wait_timeout": 60}


class Work:
    """A Pod on each node, of which one may be away at any time."""

    def __init__(self, site: Site) -> None:
        self.site, self.kube = site, site.kube
        container = {"name": "main", "image": POD_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "1000000"]}
        container["resources"] = {"limits": {RESOURCE: 1}}
        apart = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
        spec = {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        }
        template = {"metadata": {"labels": LABELS}, "spec": spec}
        deployment = {"replicas": len(NAMES), "selector": {"matchLabels": LABELS}, "template": template}
        self.paths = [
            "/apis/apps/v1/namespaces/default/deployments",
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        ]
        budget = {"minAvailable": len(NAMES) - 1, "selector": {"matchLabels": LABELS}}
        for path, body in zip(self.paths, (deployment, budget), strict=True):
            self.kube.request("POST", path, "make", body={"metadata": {"name": "training"}, "spec": body})
        site.wait("all work", lambda: self.at_work() == len(NAMES))
        self.least, self.away = len(NAMES), list[str]()
        # of nodes that are out: which start their kubelet has reported; of those that are back: that, and how much they offer
        self.out, self.back = dict[str, str](), dict[str, tuple[str, int]]()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._watch)

    def at_work(self) -> int:
        found = self.kube.find(f"{self.paths[0]}/training", "read")
        return int((found or {}).get("status", {}).get("availableReplicas") or 0)

    def _watch(self) -> None:
        # who sees nothing any more must not prove that nothing has happened
        try:
            self._look()
        except BaseException as exc:
            self._error = exc

    def _look(self) -> None:
        while not self._ended.is_set():
            self.least = min(self.least, self.at_work())
            for item in self.kube.list("/api/v1/nodes", "list"):
                name, status = item["metadata"]["name"], item["status"]
                start = status["nodeInfo"]["bootID"]
                if item["spec"].get("unschedulable"):
                    if name not in self.away[-1:]:
                        self.away.append(name)
                    self.out.setdefault(name, start)
                elif name in self.out:
                    self.back.setdefault(name, (start, int(status["allocatable"].get(RESOURCE, 0))))
            time.sleep(0.5)

    def __enter__(self) -> Work:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()
        for path in self.paths:
            self.kube.request("DELETE", f"{path}/training", "delete")
        self.site.wait(
            "work has gone",
            lambda: not self.kube.list("/api/v1/namespaces/default/pods", "list", labelSelector="app=training"),
        )
        if self._error:
            raise RuntimeError("work was not watched to the end") from self._error


def test_a_budget_that_allows_nothing(site: Site, driver: dict[str, t.Any]) -> None:
    """The node keeps its work and its driver, and the run says which node could not be drained."""
    with Work(site) as work:
        path = f"{work.paths[1]}/training"
        work.kube.merge(path, "allow nothing", {"spec": {"minAvailable": len(NAMES)}}, dry_run=False)
        options = {"ignore_daemonsets": True, "delete_emptydir_data": True, "wait_timeout": 30, "wait_sleep": 2}
        site.run("prepare", fails=True, rdma_kubeconfig=str(site.kubeconfig), ofed_drain_options=options, **driver)
        assert work.at_work() == len(NAMES)
    outcomes = load(site.output / "outcomes.json")["hosts"]
    (failed,) = [one for one in outcomes.values() if one["state"] == "failed"]
    assert failed["step"] == "ofed"
    assert "disruption budget" in failed["message"]
    assert work.least == len(NAMES)
    for name in NAMES:
        assert "no driver" in site.on(name, "command -v ofed_info || echo no driver")
        node = site.node(name)
        assert not node["spec"].get("unschedulable")
        assert "rdma.fabric/away" not in node["metadata"]["labels"]


def test_work_is_taken_off_as_its_budget_allows(site: Site, driver: dict[str, t.Any]) -> None:
    before = {name: site.plugin_pod(name)["metadata"]["uid"] for name in NAMES}
    with Work(site) as work:
        site.run("prepare", rdma_kubeconfig=str(site.kubeconfig), **driver)
        site.wait("all work again", lambda: work.at_work() == len(NAMES))
    outcomes = load(site.output / "outcomes.json")["hosts"]
    assert {name: outcomes[name]["state"] for name in NAMES} == dict.fromkeys(NAMES, "finished")
    # one after the other, and never two
    assert sorted(work.away) == NAMES
    assert work.least == len(NAMES) - 1
    for name in NAMES:
        assert "2.9.1" in site.on(name, "ofed_info")
        node = site.node(name)
        assert not node["spec"].get("unschedulable")
        assert site.allocatable(name) == 63
        # what belongs to the node stays there
        assert site.plugin_pod(name)["metadata"]["uid"] == before[name]


def test_a_driver_that_comes_with_a_reboot(site: Site, driver: dict[str, t.Any]) -> None:
    """It waits on the node since the run before. The node is drained, restarts with it, and goes back when it offers what it did.

    Only lab2, where the kernel can load it.
    """
    assert "2.9.1" in site.on("lab2", "ofed_info")
    assert "none" in site.on("lab2", "cat /sys/module/mlx5_core/version || echo none")
    send("lab2", MODULE.encode(), "sh", 900)
    before = nodes.boot_id("lab2")
    wishes = {
        **driver,
        "rdma_ofed": {**driver["rdma_ofed"], "activate": "reboot"},
        "rdma_hosts": "lab2",
        # what comes with the boot takes its time, and the kernel's log tells of it
        "discover_wait_timeout": int(pace.limit(300)),
        "ofed_log_limit": 200,
        # while the node is away, QEMU takes its connections all the same, and nothing answers on them
        "ansible_ssh_timeout": int(pace.limit(20)),
    }
    with Work(site) as work:
        site.run("prepare", rdma_kubeconfig=str(site.kubeconfig), **wishes)
        site.wait("all work again", lambda: work.at_work() == len(NAMES), seconds=300)
    assert load(site.output / "outcomes.json")["hosts"]["lab2"]["state"] == "finished"
    now = nodes.boot_id("lab2")
    assert before
    assert now not in ("", before)
    # it left before it restarted, and came back after its kubelet and the plugin had reported again
    assert (work.away, work.out) == (["lab2"], {"lab2": before})
    assert work.back == {"lab2": (now, 63)}
    assert work.least == len(NAMES) - 1
    assert "2.9.1" in site.on("lab2", "ofed_info")
    assert site.on("lab2", "cat /sys/module/mlx5_core/version").strip() == "24.10-2.9.1"
    assert site.allocatable("lab2") == 63
    metadata = site.node("lab2")["metadata"]
    assert "rdma.fabric/away" not in metadata["labels"]
    assert "rdma.fabric/had" not in metadata["annotations"]
