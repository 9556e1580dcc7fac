# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.plugin_utils._systems.cel import FILTER, NOTHING, expression, literal
from ansible_collections.fabric.rdma.tests.unit.cel import CelError, device, evaluate, published

NIC = {
    "dra.net/rdma": True,
    "dra.net/pciAddress": "0000:3b:00.0",
    "dra.net/pciVendor": "Mellanox Technologies",
    "dra.net/encapsulation": "infiniband",
    "dra.net/numaNode": 0,
    "dra.net/ifName": "ibp59s0",
}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in NIC.items() if name.partition("/")[2] not in names}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_literal_means_itself(text: str) -> None:
    made = literal(text)
    assert made.isascii()
    assert evaluate(f"x == {made}", {"x": text})


@pytest.mark.parametrize(
    ("selectors", "attributes", "found"),
    [
        ({}, NIC, True),
        ({}, without("rdma"), False),
        ({}, {**NIC, "dra.net/rdma": False}, False),
        # a bond on which there is Soft-RoCE
        ({}, without("pciAddress"), False),
        ({"encapsulation": ["infiniband"]}, NIC, True),
        ({"encapsulation": ["ether"]}, NIC, False),
        ({"encapsulation": ["ether", "infiniband"]}, NIC, True),
        ({"encapsulation": ["infiniband"]}, without("encapsulation"), False),
        ({"encapsulation": ["none"]}, without("encapsulation"), True),
        ({"encapsulation": ["none"]}, NIC, False),
        ({"encapsulation": ["infiniband", "none"]}, NIC, True),
        ({"encapsulation": ["infiniband", "none"]}, without("encapsulation"), True),
        ({"encapsulation": ["ether", "none"]}, NIC, False),
        ({"numaNode": ["0", "1"]}, NIC, True),
        ({"numaNode": ["1"]}, NIC, False),
        ({"numaNode": ["1"]}, without("numaNode"), False),
        ({"pciVendor": ["Mellanox Technologies"], "ifName": ["ibp59s1"]}, NIC, False),
    ],
)
def test_a_selector_matches_by_kinds(selectors: Any, attributes: Any, found: bool) -> None:
    assert evaluate(expression(selectors), device("dra.net", attributes)) is found


@pytest.mark.parametrize("attributes", [{}, {"type": "gpu", "uuid": "GPU-1"}, NIC])
def test_devices_of_other_drivers_are_passed_over_without_an_error(attributes: Any) -> None:
    text = expression({"encapsulation": ["none"], "numaNode": ["0"], "ifName": ["a"]})
    assert evaluate(text, device("gpu.nvidia.com", attributes)) is False


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        (NIC, True),
        # its netdev is in a Pod
        ({"dra.net/rdma": True, "dra.net/pciAddress": "0000:3b:00.0", "dra.net/rdmaDevice": "mlx5_0"}, True),
        ({**NIC, "dra.net/rdma": False}, False),
        ({"dra.net/type": "veth", "dra.net/virtual": True, "dra.net/rdma": False}, False),
        ({}, False),
    ],
)
def test_nothing_but_functions_with_rdma_is_published(attributes: Any, found: bool) -> None:
    assert evaluate(FILTER, published(attributes)) is found
    assert evaluate(NOTHING, published(attributes)) is False


@pytest.mark.parametrize(
    "text",
    [
        'device.attributes["dra.net"].mtu == 1500',
        'device.attributes["dra.net"].numaNode == "0"',
        'device.attributes["dra.net"].ifName',
        'device.driver == "dra.net" &&',
        'device.driver == "dra.net" true',
        "device.driver == 'dra.net'",
        'device.driver in ["dra.net", 1]',
    ],
)
def test_the_evaluator_forgives_nothing(text: str) -> None:
    with pytest.raises(CelError):
        evaluate(text, device("dra.net", NIC))
