# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the RoCE settings of a host has to change, in which order, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.needs import host_needs
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.roce import (
    Plan,
    firmware_functions,
    parse_firmware,
    parse_tos,
    plan_roce,
    roce_needs,
)
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.roce_node import (
    ETHERNET,
    PROGRAMS,
    default_route,
    facts_of_host,
    rails,
)

IB = "Configurations:              Default       Current       Next Boot\n"


def planned(machine: Machine, wish: dict[str, Any], want: Any = None, **more: Any) -> Plan:
    return plan_roce(facts_of_host(machine), {"persist": False, **wish}, want or ETHERNET, **more)


def words(plan: Plan) -> list[str]:
    return [f"{step.setting} {step.target} {step.before} {step.after}" for step in plan.steps]


# --- what programs print ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            IB + "*       LINK_TYPE_P1        IB(1)    IB(1)     ETH(2)   \n        LINK_TYPE_P2   IB(1) IB(1) IB(1)\n",
            {1: "ETH", 2: "IB"},
        ),
        # as of a query without -e, and as versions without numbers have it
        ("Configurations:                  Next Boot\n        LINK_TYPE_P1      ETH(2)\n", {1: "ETH"}),
        ("        LINK_TYPE_P1       IB                  IB                  ETH\n", {1: "ETH"}),
        # neither one nor the other, and a card of one protocol
        ("        LINK_TYPE_P1       VPI(3)\n", {1: None}),
        ("        LINK_TYPE_P1       N/A\n", {1: None}),
        ("        KEEP_IB_LINK_UP_P1                          False(0)\n        NUM_OF_VFS    16\n", {}),
        ("", {}),
    ],
)
def test_link_types_are_read_from_mlxconfig(text: str, found: dict[int, str | None]) -> None:
    assert parse_firmware(text) == found


@given(st.dictionaries(st.integers(1, 4), st.sampled_from(["IB", "ETH"])), st.booleans(), st.booleans())
def test_every_link_type_is_read_as_it_is_printed(ports: dict[int, str], extended: bool, marked: bool) -> None:
    other = {"IB": "ETH(2)", "ETH": "IB(1)"}
    numbered = {"IB": "IB(1)", "ETH": "ETH(2)"}
    lines = [
        f"{'*' if marked else ' '}       LINK_TYPE_P{port}          {(other[word] + '   ') * 2 if extended else ''}{numbered[word]}   \n"
        for port, word in ports.items()
    ]
    assert parse_firmware("Device type:        ConnectX7\n" + "".join(lines)) == ports


@given(st.text(), st.text())
def test_no_output_is_a_traceback(start: str, end: str) -> None:
    found = parse_firmware(f"{start}\n        LINK_TYPE_P1 {end}")
    assert set(found.values()) <= {"IB", "ETH", None}
    assert parse_tos(start) is None or 0 <= (parse_tos(start) or 0) <= 255


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("106\n", 106),
        ("0", 0),
        ("mounted configfs\n104\n", 104),
        ("256\n", None),
        ("-1\n", None),
        ("You must be root to run this\n", None),
        ("", None),
    ],
)
def test_the_tos_is_read_from_cma_roce_tos(text: str, found: int | None) -> None:
    assert parse_tos(text) == found


# --- wishes -----------------------------------------------------------------------------------------------------------

W = "rdma_roce_host"


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"mtu": 900}, f"{W}.mtu is 900; expected a number of bytes from 1280 to 9978, such as 9000"),
        ({"mtu": 9979}, f"{W}.mtu is 9979; expected a number of bytes from 1280 to 9978, such as 9000"),
        ({"pfc": {"priorities": [8]}}, f"{W}.pfc.priorities is [8]; expected a list of priorities from 0 to 7"),
        ({"pfc": {"priorities": 3}}, f"{W}.pfc.priorities is 3; expected a list of priorities from 0 to 7"),
        ({"ecn": {"priorities": [-1]}}, f"{W}.ecn.priorities is [-1]; expected a list of priorities from 0 to 7"),
        ({"ecn": True}, f"{W}.ecn is of type bool; expected a dictionary"),
        ({"pfc": {}}, f"{W}.pfc has no priorities; name them, such as [3], or none with []"),
        ({"trust": "port"}, f"{W}.trust is 'port'; expected one of dscp, pcp"),
        ({"dscp": 64}, f"{W}.dscp is 64; expected a DSCP from 0 to 63, such as 26"),
        ({"tos": 256}, f"{W}.tos is 256; expected a ToS from 0 to 255, such as 106"),
        (
            {"dscp": 26, "tos": 106},
            f"{W} has both dscp and tos, which say the same thing in two ways; keep one (dscp 26 is the ToS 106)",
        ),
        ({"link_type": "Ethernet"}, f"{W}.link_type is 'Ethernet'; expected one of ETH, IB"),
        ({"netns": "none"}, f"{W}.netns is 'none'; expected one of shared, exclusive"),
        ({"arp": {"ignore": 3}}, f"{W}.arp.ignore is 3; expected 0, 1 or 2"),
        ({"rp_filter": 3}, f"{W}.rp_filter is 3; expected 0 (off), 1 (strict) or 2 (loose)"),
        ({"arp_ignore": 1}, f"{W} has no key arp_ignore; it knows arp, dscp, ecn, link_type, mtu, multi_rail,"),
        ([], f"{W} is of type list; expected a dictionary"),
    ],
)
def test_an_invalid_wish_is_refused(wish: Any, message: str) -> None:
    [found] = problems(W, wish)
    assert found.startswith(message)
    if wish:
        with pytest.raises(WishError) as caught:
            roce_needs(facts_of_host(rails()), wish, ETHERNET)
        assert str(caught.value).startswith(message)


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    assert len(problems(W, {"mtu": 1, "trust": "x", "pfc": {"priorities": [9]}})) == 3


# --- steps ------------------------------------------------------------------------------------------------------------


def test_a_host_without_a_wish_needs_nothing() -> None:
    plan = plan_roce(facts_of_host(rails()), {}, ETHERNET)
    assert plan == Plan([], {}, [], [], [], {}, drain=False)
    needs = host_needs(facts_of(rails()), {"ofed": {"method": "none"}, "want": ETHERNET})
    assert "roce_host" not in needs


@pytest.mark.parametrize(
    ("wish", "steps"),
    [
        ({"mtu": 9000}, ["mtu eth0 1500 9000"]),
        ({"mtu": "9000"}, ["mtu eth0 1500 9000"]),
        ({"mtu": 1500}, []),
        ({"trust": "dscp"}, ["trust eth0 unknown dscp"]),
        ({"pfc": {"priorities": [4, 3]}}, ["pfc eth0 unknown 3, 4"]),
        ({"pfc": {"priorities": []}}, ["pfc eth0 unknown none"]),
        ({"rp_filter": 2}, ["rp_filter eth0 1 2"]),
        ({"rp_filter": 1}, []),
        ({"arp": {"ignore": 2, "filter": 1}}, ["arp_filter eth0 0 1", "arp_ignore eth0 0 2"]),
        ({"multi_rail": True}, ["arp_announce eth0 0 2", "arp_ignore eth0 0 1", "rp_filter eth0 1 2"]),
        (
            {"multi_rail": True, "arp": {"ignore": 2}},
            ["arp_announce eth0 0 2", "arp_ignore eth0 0 2", "rp_filter eth0 1 2"],
        ),
        ({"multi_rail": False}, []),
        ({"dscp": 26}, ["tos mlx5_0 port 1 unknown 106", "traffic_class mlx5_0 port 1 unknown 106"]),
        ({"tos": 104}, ["tos mlx5_0 port 1 unknown 104", "traffic_class mlx5_0 port 1 unknown 104"]),
        ({"netns": "exclusive"}, ["netns RDMA devices shared exclusive"]),
        ({"netns": "shared"}, []),
        ({"link_type": "ETH"}, []),
    ],
)
def test_only_what_is_wished_is_changed(wish: dict[str, Any], steps: list[str]) -> None:
    plan = planned(rails(1), wish)
    assert (words(plan), plan.problems) == (steps, [])


def test_ecn_is_for_the_named_priorities_alone() -> None:
    steps = words(planned(rails(1), {"ecn": {"priorities": [3]}}))
    others = [0, 1, 2, 4, 5, 6, 7]
    assert steps == [f"ecn eth0 {point} priority {each} 1 0" for point in ("np", "rp") for each in others]


def test_settings_come_in_an_order() -> None:
    """The mode of namespaces first, trust before PFC, the firmware last."""
    machine = rails(1)
    wish = {
        "link_type": "IB",
        "netns": "exclusive",
        "mtu": 9000,
        "trust": "dscp",
        "pfc": {"priorities": [3]},
        "ecn": {"priorities": []},
        "dscp": 26,
        "rp_filter": 2,
    }
    plan = planned(machine, wish, firmware={"0000:3b:00.0": {1: "ETH"}})
    order = list(dict.fromkeys(step.setting for step in plan.steps))
    assert order == ["netns", "mtu", "trust", "pfc", "ecn", "tos", "traffic_class", "rp_filter", "link_type"]
    assert plan.pending == ["reboot: mlx5_0 (0000:3b:00.0) gets the link type IB with it"]


def test_each_setting_is_one_command() -> None:
    wish = {"trust": "dscp", "pfc": {"priorities": [3]}, "tos": 106, "netns": "exclusive", "link_type": "IB"}
    plan = planned(rails(1), wish, firmware={"0000:3b:00.0": {1: "ETH"}})
    assert [" ".join(step.command) for step in plan.steps if step.command] == [
        "/usr/bin/rdma system set netns exclusive",
        "/usr/bin/mlnx_qos -i eth0 --trust=dscp",
        "/usr/bin/mlnx_qos -i eth0 --pfc=0,0,0,1,0,0,0,0",
        "/usr/bin/cma_roce_tos -d mlx5_0 -p 1 -t 106",
        "/usr/bin/mlxconfig -y -d 0000:3b:00.0 set LINK_TYPE_P1=1",
    ]
    assert [" ".join(step.undo) for step in plan.steps if step.command] == [
        "/usr/bin/rdma system set netns shared",
        # what nobody knows cannot be put back
        "",
        "",
        "/usr/bin/cma_roce_tos -d mlx5_0 -p 1 -t 0",
        "/usr/bin/mlxconfig -y -d 0000:3b:00.0 set LINK_TYPE_P1=2",
    ]


def test_which_devices_it_is_for() -> None:
    """Kinds and names decide, not the state of a port."""
    machine = rails(3)
    machine.files("/sys/devices/pci0000:10/0000:10:00.0/0000:3c:00.0/infiniband/mlx5_1/ports/1", state="1: DOWN")
    want = {**ETHERNET, "exclude": ["eth2"]}
    assert words(planned(machine, {"mtu": 9000}, want)) == ["mtu eth0 1500 9000", "mtu eth1 1500 9000"]
    assert planned(machine, {"mtu": 9000}, {**ETHERNET, "kinds": ["vf"]}).problems == [
        "the host has no Ethernet port that rdma_want lets pass, so mtu of rdma_roce_host has nowhere to go; "
        "set rdma_want.link_layer: Ethernet for the group, or take the wish out"
    ]


def test_the_settings_of_a_lag_go_to_the_bond_and_its_cards() -> None:
    """The MTU and the addresses are the bond's, queues are the cards'."""
    facts = {**facts_of(open_tree(str(CAPTURES / "ib-a100-1.capture")))}
    facts["roce"] = {**facts["roce"], "under_default_route": [], "programs": {"mlnx_qos": "/usr/bin/mlnx_qos"}}
    wish = {"mtu": 9000, "trust": "dscp", "persist": False}
    assert words(plan_roce(facts, wish, ETHERNET)) == [
        "mtu bond0 1500 9000",
        "trust enp225s0f0np0 unknown dscp",
        "trust enp225s0f1np1 unknown dscp",
    ]


# --- refusals ---------------------------------------------------------------------------------------------------------

UNSAFE = "carries the default route or the connection to the host"
MANAGED = (
    "so its MTU is not changed; set it in the host's network configuration, or leave mlx5_0 out (rdma_want.exclude)"
)


def test_the_mtu_of_the_default_route_stays() -> None:
    machine = rails()
    default_route(machine, "eth0")
    plan = planned(machine, {"mtu": 9000})
    assert plan.problems == [f"eth0 {UNSAFE}, {MANAGED}"]
    # what is right already is nobody's problem
    assert planned(machine, {"mtu": 1500}).problems == []


def test_the_mtu_of_the_connection_stays() -> None:
    assert planned(rails(), {"mtu": 9000}, ssh={"eth0"}).problems == [f"eth0 {UNSAFE}, {MANAGED}"]


def test_the_mtu_of_a_member_of_a_bond_is_the_bonds() -> None:
    machine = rails(1)
    machine.link("/sys/devices/pci0000:00/0000:00:00.0/0000:3b:00.0/net/eth0/master", "/sys/devices/virtual/net/bond0")
    [problem] = planned(machine, {"mtu": 9000}).problems
    assert problem == (
        "eth0 is a member of bond0, which gives it its MTU; "
        "set the MTU where bond0 is configured, or leave mlx5_0 out (rdma_want.exclude)"
    )


@pytest.mark.parametrize(
    ("wish", "program"),
    [
        ({"trust": "dscp"}, "rdma_roce_host.trust needs mlnx_qos, which is not there; install mlnx-tools"),
        ({"pfc": {"priorities": [3]}}, "rdma_roce_host.pfc needs mlnx_qos, which is not there; install mlnx-tools"),
        ({"dscp": 26}, "rdma_roce_host.tos needs cma_roce_tos, which is not there; install mlnx-tools"),
        ({"netns": "exclusive"}, "rdma_roce_host.netns needs the program rdma, which is not there; install iproute2"),
    ],
)
def test_a_program_that_is_not_there(wish: dict[str, Any], program: str) -> None:
    [problem] = planned(rails(programs=()), wish).problems
    assert problem.startswith(program)


def test_a_driver_without_ecn_is_a_problem_of_each_netdev() -> None:
    problems_found = planned(rails(2, vendor=False), {"ecn": {"priorities": [3]}}).problems
    assert [each.partition(";")[0] for each in problems_found] == [
        f"eth{rail} has no files for ECN (/sys/class/net/eth{rail}/ecn)" for rail in range(2)
    ]


def test_queues_of_devices_that_have_none() -> None:
    machine = Machine()
    machine.soft_roce("rxe0")
    [problem] = planned(machine, {"trust": "dscp"}, {**ETHERNET, "kinds": ["software"]}).problems
    assert problem.startswith("rdma_roce_host.trust is a setting of cards, and rxe0 is not one")


def test_a_value_that_the_one_of_all_netdevs_hides() -> None:
    machine = rails()
    machine.files("/proc/sys/net/ipv4/conf/all", rp_filter=2)
    [problem] = planned(machine, {"rp_filter": 1}).problems
    assert problem == (
        "net.ipv4.conf.all.rp_filter is 2, and the kernel takes the larger one, so no netdev gets 1; "
        "set net.ipv4.conf.all.rp_filter to 1 at most where your site sets it, or wish for 2"
    )
    assert planned(machine, {"rp_filter": 2}).problems == []


FIRMWARE = {f"0000:{0x3B + rail:02x}:00.0": {1: "IB"} for rail in range(2)}


def test_a_link_type_comes_with_the_next_boot() -> None:
    machine = rails(2, layer="InfiniBand")
    plan = planned(machine, {"link_type": "ETH"}, firmware=FIRMWARE)
    assert words(plan) == [
        "link_type mlx5_0 (0000:3b:00.0) IB ETH",
        "link_type mlx5_1 (0000:3c:00.0) IB ETH",
    ]
    assert plan.pending[0] == "reboot: mlx5_0 (0000:3b:00.0) gets the link type ETH with it"
    assert plan.noted == {"0000:3b:00.0/LINK_TYPE_P1": "ETH", "0000:3c:00.0/LINK_TYPE_P1": "ETH"}
    assert firmware_functions(facts_of_host(machine), {"link_type": "ETH"}, ETHERNET) == list(FIRMWARE)
    assert firmware_functions(facts_of_host(machine), {"link_type": "IB"}, ETHERNET) == []
    assert firmware_functions(facts_of_host(machine), {"mtu": 9000}, ETHERNET) == []


def test_the_firmware_that_has_it_already_needs_a_reboot_alone() -> None:
    plan = planned(rails(1, layer="InfiniBand"), {"link_type": "ETH"}, firmware={"0000:3b:00.0": {1: "ETH"}})
    assert plan.steps == []
    assert plan.pending == [
        "the firmware of mlx5_0 (0000:3b:00.0) has LINK_TYPE_P1 ETH, which comes with a reboot, or with power off and on"
    ]


def test_a_second_function_is_the_second_port() -> None:
    machine = Machine()
    for number in range(2):
        function = machine.function(f"0000:3b:00.{number}")
        machine.port(machine.hca(f"mlx5_{number}", function), link_layer="InfiniBand")
    machine.file("/usr/bin/mstconfig")
    both = {1: "IB", 2: "IB"}
    plan = planned(machine, {"link_type": "ETH"}, firmware={"0000:3b:00.0": both, "0000:3b:00.1": both})
    assert [" ".join(step.command) for step in plan.steps] == [
        f"/usr/bin/mstconfig -y -d 0000:3b:00.{number} set LINK_TYPE_P{number + 1}=2" for number in range(2)
    ]


@pytest.mark.parametrize(
    ("firmware", "message"),
    [
        ({}, "the link type of mlx5_0 (0000:3b:00.0) cannot be asked for: /usr/bin/mlxconfig says nothing of it"),
        ({"0000:3b:00.0": {}}, "mlx5_0 (0000:3b:00.0) has no LINK_TYPE_P1: it is a card of one protocol"),
    ],
)
def test_a_card_whose_link_type_cannot_be_set(firmware: Any, message: str) -> None:
    [problem] = planned(rails(1, layer="InfiniBand"), {"link_type": "ETH"}, firmware=firmware).problems
    assert problem.startswith(message)


def test_without_a_program_the_link_type_is_a_problem() -> None:
    machine = rails(1, layer="InfiniBand", programs=())
    [problem] = planned(machine, {"link_type": "ETH"}, firmware={}).problems
    assert "neither mlxconfig nor mstconfig is there" in problem


def test_the_card_of_the_default_route_keeps_its_link_type() -> None:
    machine = rails(2, layer="InfiniBand")
    default_route(machine, "ib0")
    plan = planned(machine, {"link_type": "ETH"}, firmware=FIRMWARE)
    [problem] = plan.problems
    assert problem == (
        f"ib0 of mlx5_0 (0000:3b:00.0) {UNSAFE}, which would not come back after the boot; leave mlx5_0 out (rdma_want.exclude)"
    )
    want = {**ETHERNET, "exclude": ["mlx5_0"]}
    assert planned(machine, {"link_type": "ETH"}, want, firmware=FIRMWARE).problems == []


def test_a_card_that_storage_may_need_keeps_its_link_type() -> None:
    machine = rails(1, layer="InfiniBand")
    machine.file("/proc/self/mounts", "server:/x /data nfs4 rw,proto=rdma 0 0\n")
    [problem] = planned(machine, {"link_type": "ETH"}, firmware=FIRMWARE).problems
    assert problem.startswith("server:/x is mounted over RDMA on /data, which may need mlx5_0 (0000:3b:00.0) as it is")


# --- what facts alone tell ----------------------------------------------------------------------------------------------


def test_what_a_killed_run_has_left_is_a_reason() -> None:
    """Also where all is as wished: Pods may still be out of service for it."""
    machine = rails()
    machine.file("/var/lib/fabric.rdma/roce-change.json", "{}")
    needs = roce_needs(facts_of_host(machine), {"mtu": 1500, "persist": False}, ETHERNET)
    assert (needs["needed"], needs["drain"]) == (True, True)
    assert needs["reasons"] == ["a change of RoCE settings has not finished"]


def test_a_host_needs_what_differs_from_its_wish() -> None:
    needs = roce_needs(facts_of_host(rails()), {"mtu": 9000, "persist": False}, ETHERNET)
    assert needs == {
        "needed": True,
        "reasons": ["mtu of eth0, eth1 is 1500 instead of 9000"],
        "blocked": [],
        "pending": [],
        "drain": True,
    }


@pytest.mark.parametrize(
    ("wish", "drain"),
    [
        ({"mtu": 9000}, True),
        ({"trust": "dscp"}, True),
        ({"pfc": {"priorities": [3]}}, True),
        ({"netns": "exclusive"}, True),
        ({"link_type": "IB"}, True),
        ({"mtu": 9000, "dscp": 26}, True),
        ({"ecn": {"priorities": [3]}}, False),
        ({"dscp": 26}, False),
        ({"multi_rail": True}, False),
        ({"netns": "shared"}, False),
        # files alone
        ({"mtu": 1500, "persist": True}, False),
    ],
)
def test_pods_leave_only_for_what_hurts_them(wish: dict[str, Any], drain: bool) -> None:
    needs = roce_needs(facts_of_host(rails(1)), {"persist": False, **wish}, ETHERNET)
    assert (needs["drain"], needs["blocked"]) == (drain, [])


def test_pods_stay_where_nothing_is_done() -> None:
    machine = rails(1, layer="InfiniBand")
    assert roce_needs(facts_of_host(machine), {"link_type": "ETH", "persist": False}, ETHERNET)["drain"] is True
    blocked = roce_needs(facts_of_host(rails(programs=())), {"mtu": 9000, "trust": "dscp"}, ETHERNET)
    assert blocked["blocked"]
    assert blocked["drain"] is False


def test_pods_may_have_to_leave_for_what_the_driver_stack_makes_possible() -> None:
    """The role decides again once it is there, and a node that leaves takes a turn of its own."""
    facts = facts_of_host(rails(programs=()))
    wishes: dict[str, Any] = {"roce_host": {"mtu": 9000, "trust": "dscp"}, "want": ETHERNET, "link_layer": "Ethernet"}
    alone = host_needs(facts, {**wishes, "ofed": {"method": "none"}})
    assert (alone["ofed"]["needed"], alone["roce_host"]["drain"]) == (False, False)
    first = host_needs(facts, wishes)
    assert first["ofed"]["needed"]
    assert first["roce_host"]["blocked"]
    assert first["roce_host"]["drain"]


def test_many_files_that_say_one_thing_are_one_reason() -> None:
    needs = roce_needs(facts_of_host(rails()), {"ecn": {"priorities": [3]}, "persist": False}, ETHERNET)
    assert needs["reasons"] == ["ECN of eth0, eth1 is not enabled for exactly the requested priorities"]


def test_a_link_type_is_needed_until_it_waits_for_a_boot() -> None:
    machine = rails(1, layer="InfiniBand")
    wish = {"link_type": "ETH", "mtu": 9000}
    needs = roce_needs(facts_of_host(machine), wish, ETHERNET)
    assert (needs["needed"], needs["reasons"]) == (True, ["mlx5_0 is InfiniBand, Ethernet is wanted"])
    machine.file(
        "/var/lib/fabric.rdma/roce.json", '{"boot_id": "b1", "link_types": {"0000:3b:00.0/LINK_TYPE_P1": "ETH"}}'
    )
    needs = roce_needs(facts_of_host(machine), wish, ETHERNET)
    assert (needs["needed"], needs["blocked"]) == (False, [])
    assert needs["pending"] == [
        "mlx5_0 (0000:3b:00.0) is Ethernet from the next boot on",
        "mtu follow when the ports are Ethernet: run again after the boot",
    ]
    # booted, and still what it was
    machine.files("/proc/sys/kernel/random", boot_id="b2")
    assert roce_needs(facts_of_host(machine), wish, ETHERNET)["needed"]


def test_what_is_blocked_is_needed() -> None:
    """Otherwise nobody would be told."""
    needs = roce_needs(facts_of_host(rails(programs=())), {"trust": "dscp"}, ETHERNET)
    assert needs["needed"]
    assert needs["reasons"][-1:] == needs["blocked"]


def test_the_mode_of_namespaces_waits_for_a_boot_once_it_is_kept() -> None:
    machine = rails()
    wish = {"netns": "exclusive"}
    assert [step.later for step in plan_roce(facts_of_host(machine), wish, ETHERNET).steps] == [True]
    [(path, data)] = plan_roce(facts_of_host(machine), wish, ETHERNET).files.items()
    assert data is not None
    machine.file(path, data)
    needs = roce_needs(facts_of_host(machine), wish, ETHERNET)
    assert (needs["needed"], needs["pending"]) == (
        False,
        ["the RDMA network namespace mode is shared, exclusive is wanted: it comes with the next boot"],
    )


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "mtu": st.integers(1280, 9978),
        "trust": st.sampled_from(["dscp", "pcp"]),
        "pfc": st.fixed_dictionaries({"priorities": st.lists(st.integers(0, 7))}),
        "ecn": st.fixed_dictionaries({"priorities": st.lists(st.integers(0, 7))}),
        "tos": st.integers(0, 255),
        "multi_rail": st.booleans(),
        "rp_filter": st.integers(0, 2),
        "netns": st.sampled_from(["shared", "exclusive"]),
        "link_type": st.sampled_from(["ETH", "IB"]),
        "persist": st.booleans(),
    },
)


@given(
    SETTINGS,
    st.sampled_from(sorted(CAPTURES.glob("*.capture"))),
    st.sampled_from([{}, ETHERNET, {**ETHERNET, "kinds": ["software", "vf", "pf"]}]),
    st.one_of(st.none(), st.just({}), st.just({"0000:0b:00.0": {1: "ETH"}})),
)
def test_no_wish_that_passes_the_table_is_a_traceback(wish: Any, path: Any, want: Any, firmware: Any) -> None:
    """Whatever the host is: what is wanted is there, will be, or is a sentence."""
    assert problems(W, wish) == []
    plan = plan_roce(facts_of(open_tree(str(path))), wish, want, firmware)
    assert all(step.path or step.command for step in plan.steps)
    assert all("; " in sentence for sentence in plan.problems)


def test_programs_of_the_stand_ins_are_those_that_are_looked_for() -> None:
    found = facts_of_host(rails())["roce"]["programs"]
    assert {name for name, path in found.items() if path} == set(PROGRAMS)
