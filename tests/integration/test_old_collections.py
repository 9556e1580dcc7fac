# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that are newer than a collection knows: the error names the version of the collection that does."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.tests.integration.test_secrets_systems import ran, serving_cluster

if t.TYPE_CHECKING:
    from pathlib import Path

    from conftest import User

pytestmark = pytest.mark.integration

__all__ = ["serving_cluster"]

# As Helm 4 answers kubernetes.core before 6.4.0.
HELM = """#!/bin/sh
if [ "$1" = version ]; then
  echo 'version.BuildInfo{Version:"v3.19.0", GitCommit:"", GitTreeState:"clean", GoVersion:"go1.25.0"}'
  exit
fi
echo 'Error: unknown flag: --all' >&2
exit 1
"""


def test_a_helm_that_is_too_new_is_told(user: User, tmp_path: Path, serving_cluster: str) -> None:
    program = tmp_path / "helm"
    program.write_text(HELM)
    program.chmod(0o755)
    code, said = ran(user, tmp_path, serving_cluster, ["longhorn"], "apply")
    assert code == 2, said[-3000:]
    assert "unknown flag: --all" in said
    assert "Helm 4 needs kubernetes.core 6.4.0 or newer" in said
