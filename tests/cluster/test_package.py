# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends of the range of versions of the Python package kubernetes, on a real API server. The other cases use one between them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.cluster.test_ownership import request

if t.TYPE_CHECKING:
    from conftest import Site

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
ENDS = re.findall(r"^#ends: (kubernetes==\S+)$", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)

# A module as a process that reads its arguments.
PROGRAM = """
import json, runpy, sys
from ansible.module_utils.testing import patch_module_args
import kubernetes
assert kubernetes.__version__ == sys.argv[2], kubernetes.__version__
with patch_module_args(json.load(sys.stdin)):
    runpy.run_module("ansible_collections.fabric.rdma.plugins.modules." + sys.argv[1], run_name="__main__")
"""


@pytest.fixture(scope="module", params=ENDS)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A version, and a directory with it and what it needs."""
    target = tmp_path_factory.mktemp("package")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(target)]
    subprocess.run([*pip, request.param], check=True)
    return request.param.partition("==")[2], target


def run(package: tuple[str, Path], module: str, arguments: dict[str, t.Any], fails: bool = False) -> dict[str, t.Any]:
    version, target = package
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module, version],
        input=json.dumps({**arguments, "_ansible_remote_tmp": "/tmp"}),
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{target}:{ROOT / '.collections'}"},
    )
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return t.cast("dict[str, t.Any]", json.loads(done.stdout))


def test_there_are_two_ends() -> None:
    assert len(ENDS) == 2
    allowed = re.findall(r"^kubernetes>=([\d.]+),<(\d+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    oldest, newest = (end.partition("==")[2] for end in ENDS)
    assert [(oldest, str(int(newest.split(".")[0]) + 1))] == allowed


def test_every_request_works(site: Site, package: tuple[str, Path]) -> None:
    """Discovery, reading, lists, server-side apply, merge patches, deletion, refusals, nodes and their status."""
    site.groups = {"ib-v100": site.groups["ib-v100"]}
    site.nodes()
    wanted = request("g")
    arguments = {"kubeconfig": str(site.kubeconfig), "objects": wanted["objects"], "keep": []}
    arguments |= {"nodes": {"v100-1": "g"}, "known": ["v100-1"]}
    done = run(package, "rollout", arguments)
    assert set(done["objects"].values()) == {"created"}
    assert site.classes() == {"v100-1": "g"}
    assert "tested are versions" not in str(done.get("warnings"))
    assert run(package, "rollout", arguments)["changed"] is False
    waited = {"name": "g", "namespace": "rdma", "daemon_set": "rdma-shared-dp-g", "nodes": ["v100-1"]}
    waited |= {"resources": {"rdma/r": 63}, "kubeconfig": str(site.kubeconfig), "timeout": 60}
    assert run(package, "rollout_ready", waited)["missing"] == []
    arguments["objects"][2]["spec"]["templat"] = {}
    assert "does not know a field: " in run(package, "rollout", arguments, fails=True)["msg"]
    done = run(package, "rollout", {**arguments, "objects": [], "nodes": {}})
    assert {what for name, what in done["objects"].items() if "-dp-g" in name} == {"removed"}
    site.kubelets.give_up("v100-2", "rdma/old")
    stale = {"kubeconfig": str(site.kubeconfig), "resources": ["rdma/old"], "verify": 0}
    assert run(package, "stale_resources", stale)["removed"] == {"v100-2": ["rdma/old"]}
