# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's DRA driver stays as long as somebody has something of it."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fabric.rdma.plugins.filter.rdma_dra_users import rdma_dra_users
from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.compute_domain_removal import removal_problems

Json = dict[str, t.Any]
SERVED = {"": ["v1"], "resource.k8s.io": ["v1"], "resource.nvidia.com": ["v1beta1"]}


def claim(name: str, *drivers: str) -> Json:
    results = [{"driver": driver, "pool": "n1", "device": "gpu-0"} for driver in drivers]
    status = {"allocation": {"devices": {"results": results}}} if drivers else {}
    return {"metadata": {"namespace": "training", "name": name}, "status": status}


def domain(name: str) -> Json:
    return {"metadata": {"namespace": "training", "name": name}}


@pytest.mark.parametrize("driver", ["compute-domain.nvidia.com", "gpu.nvidia.com"])
def test_claims_that_have_devices_of_the_driver_keep_it(driver: str) -> None:
    (said,) = removal_problems([claim("a", "dra.net", driver), claim("b", driver), claim("c")], [], SERVED)
    assert "training/a (node n1), training/b (node n1)" in said
    assert "training/c" not in said
    assert "End these Pods first" in said


def test_claims_of_other_drivers_or_without_a_device_do_not() -> None:
    spoilt = [{"metadata": {"name": "x"}, "status": None}, {"metadata": {"name": "y"}}]
    assert removal_problems([claim("a", "dra.net"), claim("b"), *spoilt], [], SERVED) == []


def test_compute_domains_keep_it() -> None:
    (said,) = removal_problems([], [domain("a"), domain("b")], SERVED)
    assert "training/a, training/b" in said
    assert "Delete them first" in said


@pytest.mark.parametrize(
    ("claims", "domains", "served", "words"),
    [
        (None, [], SERVED, ["ResourceClaims"]),
        ([], None, SERVED, ["ComputeDomains"]),
        (None, None, SERVED, ["ResourceClaims", "ComputeDomains"]),
        # a version that nobody here can read
        (None, [], {"resource.k8s.io": ["v1alpha3"], "resource.nvidia.com": ["v1beta1"]}, ["(v1alpha3)"]),
        # a cluster that has none of both
        (None, None, {"": ["v1"]}, []),
        ([], None, {"resource.k8s.io": ["v1"]}, []),
    ],
)
def test_what_nobody_has_told_is_not_nothing(claims: t.Any, domains: t.Any, served: Json, words: list[str]) -> None:
    found = removal_problems(claims, domains, served)
    assert len(found) == len(words)
    assert all(word in said and "not known" in said for word, said in zip(words, found, strict=True))


def test_the_filter_takes_what_the_modules_return() -> None:
    known, unknown = {"known": True, "resources": [claim("a", "gpu.nvidia.com")]}, {"known": False, "resources": []}
    assert len(rdma_dra_users(known, {"known": True, "resources": []}, SERVED)) == 1
    assert len(rdma_dra_users(known, unknown, SERVED)) == 2
    # a task that was skipped has not asked
    assert len(rdma_dra_users({"skipped": True, "changed": False}, unknown, SERVED)) == 2
    with pytest.raises(AnsibleFilterError, match="expects"):
        rdma_dra_users([], unknown, SERVED)
