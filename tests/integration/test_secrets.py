# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is secret in the wishes for the Network Operator is in no output, however much of it is asked for."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.tests.integration.test_failures import replayed, write_inventory

if t.TYPE_CHECKING:
    from conftest import User

pytestmark = pytest.mark.integration

SECRET, PASSWORD = "hunter2-of-the-values", "hunter2-of-the-repository"
# A helm that fails, and quotes all that it was given.
HELM = """#!/bin/sh
case " $* " in
  *" version "*) echo 'version.BuildInfo{Version:"v3.17.2", GitCommit:"x"}'; exit 0 ;;
  *" list "*) echo '[]'; exit 0 ;;
  *" show chart "*) echo 'name: network-operator'; echo 'version: 26.4.1'; exit 0 ;;
esac
echo "Error: cannot do $*" >&2
for word in "$@"; do file=${word#*=}; if [ -f "$file" ]; then cat "$file" >&2; fi; done
exit 1
"""


@pytest.mark.parametrize("method", ["render", "apply"])
def test_values_and_addresses_of_the_chart(user: User, tmp_path: Path, method: str) -> None:
    helm = tmp_path / "helm"
    helm.write_text(HELM)
    helm.chmod(0o755)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    rollout = {
        "method": method,
        "engine": "network_operator",
        "operator_version": "26.4.1",
        "kubeconfig": str(kubeconfig),
        "helm": {
            "binary": str(helm),
            "pod_security": False,
            "repository": f"https://admin:{PASSWORD}@charts.example/stable",
            "values": {"operator": {"nameOverride": SECRET}},
        },
    }
    groups = {"v100": replayed("ib-v100-1")}
    inventory = write_inventory(tmp_path, groups, rdma_rollout=rollout)
    playbook = "plan" if method == "render" else "rollout"
    done = user.run("ansible-playbook", f"fabric.rdma.{playbook}", "-i", str(inventory), "-vvv", "--diff", check=False)
    said = done.stdout + done.stderr
    if method == "render":
        assert done.returncode == 0, said
        written = tmp_path / "output" / "rendered" / "network-operator-values.yaml"
        assert yaml.safe_load(written.read_text())["operator"]["nameOverride"] == SECRET
        assert written.stat().st_mode & 0o777 == 0o600
    else:
        assert done.returncode == 2, said
        assert "Insist that Helm has done it: " in said, said[-2000:]
        assert "https://charts.example/stable" in said, "the cause is told all the same"
    assert SECRET not in said
    assert PASSWORD not in said
