# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cluster_access says of the way to a cluster before it asks. What a real API server answers is in tests/cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig of whoever runs the tests."""
    for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_HOST", "K8S_AUTH_VERIFY_SSL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_without_a_kubeconfig_it_is_an_error_that_says_what_to_do() -> None:
    assert "no kubeconfig: " in run("cluster_access")["msg"]


def test_a_server_of_the_environment_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of kubernetes.core reach it without a kubeconfig."""
    monkeypatch.setenv("K8S_AUTH_HOST", "https://admin:secret@cluster.example:6443")
    result = run("cluster_access")
    assert (result["server"], result["version"]) == ("https://cluster.example:6443", None)
    assert "warnings" not in result


@pytest.mark.parametrize(("value", "warned"), [("no", True), ("False", True), ("yes", False)])
def test_a_verification_that_the_environment_turns_off_is_reported(
    monkeypatch: pytest.MonkeyPatch, value: str, *, warned: bool
) -> None:
    monkeypatch.setenv("K8S_AUTH_HOST", "https://cluster.example:6443")
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", value)
    assert ("K8S_AUTH_VERIFY_SSL turns off" in str(run("cluster_access").get("warnings"))) is warned
