# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cluster_state does where the cluster does not tell the networks of its Services. A real one is in tests/cluster."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._rollout.client import Kube, KubeError, Unreachable
from ansible_collections.fabric.rdma.plugins.modules.cluster_state import service_cidrs


class Refusing:
    def __init__(self, error: KubeError) -> None:
        self.error = error

    def list(self, _path: str, _doing: str) -> list[dict[str, t.Any]]:
        raise self.error


@pytest.mark.parametrize("code", [403, 404])
def test_a_cluster_that_does_not_tell_its_networks_of_services_is_no_error(code: int) -> None:
    assert service_cidrs(t.cast(Kube, Refusing(KubeError("no", code)))) is None


@pytest.mark.parametrize("error", [KubeError("broken", 500), Unreachable("gone")])
def test_one_that_does_not_answer_is(error: KubeError) -> None:
    with pytest.raises(KubeError):
        service_cidrs(t.cast(Kube, Refusing(error)))
