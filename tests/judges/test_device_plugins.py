# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random clusters as trees of files: what the plan says is what the device plugins' own code offers.

The trees are read twice: by ib_facts, from whose facts the plan is made, and by the code of both plugins (tests/judges), each
with the configuration that the plan has for it. What netlink tells on a node is taken from the tree; default routes are not
known to the kernel that the plugins ask. The SR-IOV plugin is of a version between 3.5.1 and 3.6.0; of later ones a matcher of our own
says what they offer. Nodes of the demo, and cards that the lab lacks, are also met by the shared plugin as it is, running.
"""

from __future__ import annotations

import os
import random
import typing as t
from collections import Counter
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base.captures import open_tree
from ansible_collections.fabric.rdma.plugins.module_utils._discover.facts import gather
from ansible_collections.fabric.rdma.plugins.module_utils._discover.record import record
from ansible_collections.fabric.rdma.plugins.module_utils._plan.cluster import plan_groups
from ansible_collections.fabric.rdma.tests.judges.judges import judges as running
from ansible_collections.fabric.rdma.tests.judges.running import Node, gives
from ansible_collections.fabric.rdma.tests.unit.machines import CAPTURES, Machine, checked, facts_of
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._plan.plans import SRIOV_VERSIONS, sriov_pools

Json = dict[str, t.Any]

DEMO = CAPTURES.parents[1] / "inventories" / "demo" / "group_vars"

CLUSTERS = int(os.environ.get("FABRIC_RDMA_JUDGED_CLUSTERS", "500"))
SEED = int(os.environ.get("FABRIC_RDMA_JUDGED_SEED", "1"))
# of each plugin, so that a generator that makes nothing but refusals does not pass
FEWEST = 100

pytestmark = pytest.mark.judges


def a_function(machine: Machine, rng: random.Random, index: int, model: str) -> None:
    """A function of a card, with what it may lack, and virtual functions below it."""
    bus = f"0000:{16 + index:02x}:00"
    infiniband = rng.random() < 0.5
    vendor = rng.choice(["0x15b3"] * 5 + ["0x8086"])
    if rng.random() < 0.15:
        a_soft_device(machine, rng, index, f"{bus}.0")
        return
    if rng.random() < 0.15:
        rng.choice([a_card_with_functions, a_bonded_card])(machine, rng, index, model)
        return
    values = {
        "vendor": vendor,
        "device": model,
        "class": rng.choice(["0x020000", "0x020700", "0x020700", "0x020000", "0x068000"]),
        "driver": rng.choice(["mlx5_core"] * 6 + ["irdma", None]),
    }
    numbers = {"sriov_totalvfs": 4, "sriov_numvfs": rng.choice([0, 0, 0, 1])} if rng.random() < 0.6 else {}
    function = machine.function(f"{bus}.0", **values, **numbers)
    a_device(machine, rng, function, f"mlx5_{index}", f"rdt{index}p0", infiniband)
    if numbers.get("sriov_numvfs"):
        if has_uplink(machine, index) and rng.random() < 0.5:
            machine.files(f"{function}/net/rdt{index}p0", phys_switch_id="ab12", phys_port_name=f"p{index}")
            machine.netdev(f"rda{index}r0", function, phys_switch_id="ab12", phys_port_name=f"pf{index}vf0")
        virtual = machine.function(f"{bus}.2", **{**values, "device": "0x101e"})
        machine.link(f"{virtual}/physfn", function)
        machine.link(f"{function}/virtfn0", virtual)
        a_device(machine, rng, virtual, f"mlx5_{index}v", f"rdt{index}v0", infiniband)
    elif rng.random() < 0.1:
        lag(machine, f"{bus}.1", f"rdt{index}p1", values)


def has_uplink(machine: Machine, index: int) -> bool:
    """In switchdev mode a physical function has one netdev beside its representors, and not another one before it."""
    return f"/sys/class/net/rdt{index}p0" in machine.entries and f"/sys/class/net/rdA{index}p0" not in machine.entries


def a_card_with_functions(machine: Machine, rng: random.Random, index: int, model: str) -> None:
    """A physical function with several virtual ones, in switchdev mode or not. Some lack the netdev, or the RDMA device."""
    bus, infiniband = f"0000:{16 + index:02x}:00", rng.random() < 0.5
    values = {"vendor": "0x15b3", "class": rng.choice(["0x020000", "0x020700"])}
    count = rng.choice([1, 2, 3])
    physical = machine.function(f"{bus}.0", **values, device=model, sriov_totalvfs=4, sriov_numvfs=count)
    a_device(machine, rng, physical, f"mlx5_{index}", f"rdt{index}p0", infiniband, netdev_chance=0.9)
    switchdev = not infiniband and has_uplink(machine, index) and rng.random() < 0.5
    if switchdev:
        machine.files(f"{physical}/net/rdt{index}p0", phys_switch_id="ab12", phys_port_name="p0")
    for number in range(count):
        if switchdev:
            machine.netdev(f"rda{index}r{number}", physical, phys_switch_id="ab12", phys_port_name=f"pf0vf{number}")
        function = machine.function(f"{bus}.{number + 2}", **values, device="0x101e")
        machine.link(f"{function}/physfn", physical)
        machine.link(f"{physical}/virtfn{number}", function)
        a_device(
            machine, rng, function, f"mlx5_{index}v{number}", f"rdt{index}v{number}", infiniband, netdev_chance=0.5
        )


def a_bonded_card(machine: Machine, rng: random.Random, index: int, model: str) -> None:
    """Two functions of a LAG: the first has the RDMA device of both. They may have virtual ones."""
    bus, bond = f"0000:{16 + index:02x}:00", f"rdb{index}"
    values = {"vendor": "0x15b3", "class": "0x020000", "device": model}
    numbers = {"sriov_totalvfs": 4, "sriov_numvfs": rng.choice([0, 0, 1])} if rng.random() < 0.5 else {}
    functions = [machine.function(f"{bus}.{port}", **values, **numbers) for port in (0, 1)]
    for port, function in enumerate(functions):
        an_alias(machine, function)
        machine.netdev(f"rdt{index}p{port}", function, master=bond)
        if numbers.get("sriov_numvfs"):
            virtual = machine.function(f"{bus}.{port + 2}", **{**values, "device": "0x101e"})
            machine.link(f"{virtual}/physfn", function)
            machine.link(f"{function}/virtfn0", virtual)
            a_device(machine, rng, virtual, f"mlx5_{index}v{port}", f"rdt{index}v{port}", False, netdev_chance=0.5)
    machine.bond(bond, f"rdt{index}p0 rdt{index}p1")
    machine.port(machine.hca(f"mlx5_bond_{index}", functions[0]))


def a_default_route(machine: Machine, rng: random.Random) -> None:
    """Over a netdev that is there. The plugins ask a kernel that knows it not, so they offer what carries it."""
    netdevs = sorted(path.rpartition("/")[2] for path in machine.entries if path.rpartition("/")[0] == "/sys/class/net")
    if netdevs:
        machine.file("/proc/net/route", f"Iface\n{rng.choice(netdevs)}\t00000000\t0\t3\t0\t0\t0\t00000000\n")


def an_alias(machine: Machine, function: str) -> None:
    """What ghw takes vendor, device and class of a function from."""
    codes = (machine.entries[f"{function}/{key}"].data.decode().strip()[2:] for key in ("vendor", "device", "class"))
    vendor, device, kind = (code.upper() for code in codes)
    machine.files(
        function,
        modalias=f"pci:v0000{vendor}d0000{device}sv00000000sd00000000bc{kind[:2]}sc{kind[2:4]}i{kind[4:]}",
        revision="0x00",
    )


def a_soft_device(machine: Machine, rng: random.Random, index: int, pci: str) -> None:
    """Soft-RoCE at the function of an ordinary network card, or at none; on a bond, or with its port down."""
    name, netdev = f"mlx5_{index}", f"rdt{index}p0"
    if rng.random() < 0.2:
        machine.port(machine.hca(name, None, parent=machine.netdev(netdev).rpartition("/")[2]))
        return
    card = {"device": rng.choice(["0x10d3", "0x1017"]), "driver": rng.choice(["e1000e", "mlx5_core"])}
    bond = f"rdb{index}" if rng.random() < 0.3 else None
    state = rng.choice(["4: ACTIVE"] * 4 + ["1: DOWN"])
    function = machine.soft_roce(name, netdev, pci, parent=bond, state=state, **card)
    an_alias(machine, function)
    if bond:
        machine.netdev(netdev, function, master=bond)
        machine.bond(bond, netdev)


def a_device(
    machine: Machine,
    rng: random.Random,
    function: str,
    name: str,
    netdev: str,
    infiniband: bool,
    whole: bool = False,
    netdev_chance: float = 0.85,
) -> None:
    """The RDMA device of a function, its port and its netdev, or some of that, unless it is to be whole."""
    an_alias(machine, function)
    if whole or rng.random() < 0.9:
        hca = machine.hca(name, function, nodes=whole or rng.random() < 0.9)
        for number in range(1, rng.choice([1, 1, 1, 2]) + 1):
            machine.port(
                hca,
                number,
                link_layer="InfiniBand" if infiniband else "Ethernet",
                state=rng.choice(["4: ACTIVE"] * 4 + ["1: DOWN"]),
                rate=rng.choice(["100 Gb/sec (4X EDR)", "10 Gb/sec (1X QDR)"]),
            )
    if whole or rng.random() < netdev_chance:
        machine.netdev(netdev, function, type=32 if infiniband else 1)
        if rng.random() < 0.1:
            # the first name in the order of bytes counts
            machine.netdev("rdA" + netdev[3:], function, type=32 if infiniband else 1)


def lag(machine: Machine, pci: str, netdev: str, values: Json) -> None:
    """The second function of a card, that has lost its device to a LAG."""
    second = machine.function(pci, **values)
    machine.files(second, modalias="pci:v000015B3d00001017sv00000000sd00000000bc02sc00i00", revision="0x00")
    machine.netdev(netdev, second)


def a_machine(rng: random.Random, models: list[str]) -> Machine:
    machine = Machine()
    machine.directory("/sys/class/net")
    machine.directory("/sys/bus/pci/devices")
    for index, model in enumerate(models):
        a_function(machine, rng, index, model)
    if rng.random() < 0.2:
        a_default_route(machine, rng)
    return machine


def wishes(rng: random.Random, hosts: list[str], name: str) -> Json:
    want: Json = {
        "link_layer": rng.choice(["InfiniBand", "Ethernet"]),
        "state": rng.choice(["Active", "Active", "any"]),
        "kinds": rng.choice([["pf"], ["pf"], ["pf", "vf"], ["vf"], ["software"], ["pf", "software"]]),
        "exclude": rng.choice([[], [], ["mlx5_0"], ["rdt1p0"]]),
    }
    return {
        "hosts": hosts,
        "resource": {"name": name},
        "want": want,
        "strategy": rng.choice(["auto"] * 4 + ["ifnames"]),
    }


def test_a_wrong_configuration_is_found() -> None:
    """The judges go by what the configuration says, and by what the tree has."""
    machine = Machine()
    machine.directory("/sys/class/net")
    rng = random.Random(1)
    for bus, name, model in (("10", "mlx5_0", "0x1017"), ("20", "mlx5_1", "0x101b")):
        function = machine.function(f"0000:{bus}:00.0", vendor="0x15b3", device=model, **{"class": "0x020700"})
        a_device(machine, rng, function, name, f"rdt{bus}p0", infiniband=True, whole=True)

    def offered(judges: t.Any, tree: t.Any, model: str) -> Json:
        shared = {"configList": [{"resourceName": "r", "rdmaHcaMax": 63, "selectors": {"deviceIDs": [model]}}]}
        sriov = {
            "resourceList": [
                {"resourceName": "r", "deviceType": "netDevice", "selectors": {"devices": [model], "isRdma": True}}
            ]
        }
        found: Json = judges.offers(tree, shared, sriov)
        return found

    with running() as judges:
        tree = judges.tree(machine.entries)
        for model, pcis in (("1017", ["0000:10:00.0"]), ("101b", ["0000:20:00.0"]), ("1021", [])):
            assert offered(judges, tree, model) == {"shared": {"r": pcis}, "sriov": {"r": pcis}}


# Kind of node -> its captures, and the name of its resource. The wishes are those of the demo.
RECORDED = {
    "ib-v100": (["ib-v100-1", "ib-v100-2"], "rdma_v100"),
    "ib-a100": (["ib-a100-1", "ib-a100-2", "ib-a100-3"], "rdma_a100"),
    "gb200": (["gb200-1", "gb200-2"], "rdma_gb200"),
    "roce-rails": (["roce-rails-1", "roce-rails-2"], "rdma_roce"),
}


class Group:
    """Recorded nodes of one kind, and the plan for them."""

    def __init__(self, name: str) -> None:
        self.names, resource = RECORDED[name]
        variables = yaml.safe_load((DEMO / f"{name}.yml").read_text())
        assert variables["rdma_resource"]["name"] == resource
        trees = {host: open_tree(str(CAPTURES / f"{host}.capture")) for host in self.names}
        self.entries = {host: dict(record(tree)) for host, tree in trees.items()}
        self.wish = {key.removeprefix("rdma_"): value for key, value in variables.items() if key != "rdma_capture"}
        facts = {host: checked(gather(tree)) for host, tree in trees.items()}
        self.classes = plan_groups(facts, {name: {"hosts": self.names, **self.wish}})["groups"][name]["classes"]

    def hosts(self) -> t.Iterator[tuple[str, Json]]:
        """Each with its class, which has a configuration."""
        for own_class in self.classes:
            assert own_class["config"], own_class["reason"]
            for host in own_class["hosts"]:
                yield host, own_class


def planned(own_class: Json, host: str) -> dict[str, set[tuple[str, str]]]:
    """Resource, without its prefix -> devices and their PCI addresses that the plan says."""
    found: dict[str, set[tuple[str, str]]] = {pool["resource"].partition("/")[2]: set() for pool in own_class["pools"]}
    for row in own_class["matches"][host]:
        # rows of a class with one resource do not name it
        found[row.get("resource", own_class["pools"][0]["resource"]).partition("/")[2]].add((row["device"], row["pci"]))
    return found


@pytest.mark.parametrize("group", RECORDED)
def test_the_plugins_offer_on_nodes_of_the_demo_what_the_plan_says(group: str) -> None:
    """Whole nodes, with all the functions that such a machine has."""
    recorded = Group(group)
    judged: dict[str, Json] = {}
    with running() as judges:
        for host, own_class in recorded.hosts():
            judged[host] = judges.offers(judges.tree(recorded.entries[host]), own_class["config"])["shared"]
            # every resource of the plan, what it offers once, and all together what the plan says
            assert sorted(judged[host]) == sorted(pool["resource"].partition("/")[2] for pool in own_class["pools"])
            offered = sorted(pci for pcis in judged[host].values() for pci in pcis)
            assert offered == sorted(row["pci"] for row in own_class["matches"][host])
            if "rails" in recorded.wish:
                assert {len(pcis) for pcis in judged[host].values()} == {1}
    assert sorted(judged) == recorded.names
    print(f"\n{group}: " + "; ".join(f"{host}: {found}" for host, found in judged.items()))


@pytest.mark.parametrize("group", RECORDED)
def test_a_running_plugin_gives_what_was_planned(group: str, tmp_path: Path) -> None:
    """Of each resource the files of its devices, all of them and no others, when a kubelet asks for one."""
    recorded = Group(group)
    asked = []
    for host, own_class in recorded.hosts():
        node = Node(recorded.entries[host], tmp_path / host)
        devices = node.devices()
        given = gives(node, own_class["config"])
        wanted = planned(own_class, host)
        assert sorted(given) == sorted(wanted)
        for resource, own in wanted.items():
            files = {file for file, device in devices.items() if device in own}
            # uverbs and umad of each
            assert len(files) == 2 * len(own) > 0
            assert given[resource] == files | {"rdma_cm"}
        print(f"\n{host}: " + "; ".join(f"{resource}: {sorted(files)}" for resource, files in given.items()), end="")
        asked.append(host)
    assert sorted(asked) == recorded.names


def cards(*names: str, down: str = "") -> Machine:
    """A machine with ConnectX-6 of one model, one function each. down: the device whose cable is out."""
    machine = Machine()
    for index, name in enumerate(names):
        function = machine.function(f"0000:{16 + index:02x}:00.0", device="0x101b")
        an_alias(machine, function)
        machine.port(machine.hca(name, function), state="1: DOWN" if name == down else "4: ACTIVE")
        machine.netdev(f"rdt{index}p0", function)
    return machine


def virtual(functions: int = 2) -> Machine:
    """A card with virtual functions, and another one of its model without."""
    machine = cards("mlx5_0", "mlx5_9")
    physical = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:10:00.0"
    machine.files(physical, sriov_totalvfs=8, sriov_numvfs=functions)
    for number in range(functions):
        function = machine.function(f"0000:10:00.{number + 2}", device="0x101e")
        an_alias(machine, function)
        machine.link(f"{function}/physfn", physical)
        machine.link(f"{physical}/virtfn{number}", function)
        machine.port(machine.hca(f"mlx5_{number + 1}", function))
        machine.netdev(f"rdt0v{number}", function)
    return machine


def bonded() -> Machine:
    """Two functions of a LAG beside a card."""
    machine = cards("mlx5_0")
    functions = [machine.function(f"0000:20:00.{port}", device="0x101d") for port in (0, 1)]
    for port, function in enumerate(functions):
        an_alias(machine, function)
        machine.netdev(f"rdt9p{port}", function, master="bond0")
    machine.bond("bond0", "rdt9p0 rdt9p1")
    machine.port(machine.hca("mlx5_bond_0", functions[0]))
    return machine


def software() -> Machine:
    """Soft-RoCE at the function of an ordinary network card, beside a card."""
    machine = cards("mlx5_0")
    an_alias(machine, machine.soft_roce("rxe0", "eth1"))
    return machine


@pytest.mark.parametrize(
    ("machine", "want", "devices"),
    [
        (virtual(), {"kinds": ["pf"]}, {"mlx5_0", "mlx5_9"}),
        (virtual(), {"kinds": ["pf"], "exclude": ["mlx5_0"]}, {"mlx5_9"}),
        (virtual(), {"kinds": ["vf"]}, {"mlx5_1", "mlx5_2"}),
        (virtual(3), {"kinds": ["vf"]}, {"mlx5_1", "mlx5_2", "mlx5_3"}),
        (virtual(), {"kinds": ["pf", "vf"], "exclude": ["mlx5_9"]}, {"mlx5_0", "mlx5_1", "mlx5_2"}),
        (bonded(), {}, {"mlx5_0", "mlx5_bond_0"}),
        (bonded(), {"exclude": ["mlx5_bond_0"]}, {"mlx5_0"}),
        (bonded(), {"exclude": ["mlx5_0"]}, {"mlx5_bond_0"}),
        (cards("mlx5_0", "mlx5_1", down="mlx5_0"), {}, {"mlx5_1"}),
        (cards("mlx5_0", "mlx5_1", down="mlx5_1"), {}, {"mlx5_0"}),
        (cards("roce0", "ibs3f1"), {"exclude": ["roce0"]}, {"ibs3f1"}),
        (software(), {"kinds": ["software"]}, {"rxe0"}),
        (software(), {"kinds": ["pf"]}, {"mlx5_0"}),
    ],
)
def test_a_running_plugin_gives_what_was_planned_of_functions_that_the_lab_lacks(
    machine: Machine, want: Json, devices: set[str], tmp_path: Path
) -> None:
    """Virtual functions, a LAG, cables that are out, other names: a card of each kind, and no other device beside what is planned."""
    wish = {"hosts": ["node"], "resource": {"name": "any"}, "want": {"link_layer": "Ethernet", **want}}
    (own_class,) = plan_groups({"node": facts_of(machine)}, {"group": wish})["groups"]["group"]["classes"]
    assert own_class["config"], own_class["reason"]
    assert {row["device"] for row in own_class["matches"]["node"]} == devices
    node = Node(machine.entries, tmp_path / "node")
    given = gives(node, own_class["config"])["any"]
    files = {path.name: (path / "ibdev").read_text().strip() for path in node.root.glob("sys/class/infiniband_*/u*")}
    assert given == {"rdma_cm"} | {name for name, device in files.items() if device in devices}
    assert len(given) == 1 + 2 * len(devices)


@pytest.mark.parametrize(("link_type", "names"), [("infiniband", {"mlx5_0", "mlx5_1"}), ("ether", {"mlx5_bond_0"})])
def test_the_type_of_a_link_counts(link_type: str, names: set[str], tmp_path: Path) -> None:
    """A running plugin takes it from netlink, where the recorded node has it."""
    node = Node(Group("ib-a100").entries["ib-a100-1"], tmp_path / "node")
    devices = node.devices()
    entry = {"resourceName": "any", "rdmaHcaMax": 1, "selectors": {"linkTypes": [link_type]}}
    given = gives(node, {"configList": [entry]})["any"]
    assert {devices[file][0] for file in given - {"rdma_cm"}} == names


def random_cluster(rng: random.Random) -> tuple[dict[str, Machine], Json]:
    """Hosts, and groups of them with wishes."""
    machines: dict[str, Machine] = {}
    groups: Json = {}
    for group in range(rng.choice([1, 1, 2])):
        models = [rng.choice(["0x1017", "0x101b", "0x1021"]) for _card in range(rng.randint(1, 4))]
        own = {f"g{group}n{host}": a_machine(rng, models) for host in range(rng.randint(1, 3))}
        machines.update(own)
        groups[f"g{group}"] = wishes(rng, list(own), f"r{group}")
    return machines, groups


def offers_of(judges: t.Any, tree: Path, facts: Json, own_class: Json) -> t.Iterator[tuple[str, Json, Json]]:
    """(who says so, configuration, what it offers on a host) for each configuration of a class and each who knows the plugin."""
    config, sriov = own_class["config"], own_class["sriov"]
    older = sriov["config"] if str(sriov["versions"]).startswith("3.5.1") else None
    found = judges.offers(tree, config, older)
    yield "shared", config, found["shared"]
    if older:
        yield "sriov", older, found["sriov"]
    if sriov["config"]:
        for version in SRIOV_VERSIONS[sriov["versions"]]:
            pools = sriov_pools(facts, sriov["config"], version)
            yield "matcher", sriov["config"], {name.rpartition("/")[2]: pcis for name, pcis in pools.items()}


# Of what planned devices may be, how they are called.
SORTS = {"software": "software devices", "vf": "virtual functions", "lag": "bonds"}


def sorts_of(device: Json) -> set[str]:
    return {device["kind"], *(["lag"] if device["lag"] else [])} & set(SORTS)


def test_the_plugins_offer_what_the_plan_says() -> None:
    compared: Counter[str] = Counter()
    wrong: list[str] = []
    with running() as judges:
        for number in range(CLUSTERS):
            machines, groups = random_cluster(random.Random(f"{SEED}.{number}"))
            facts = {host: facts_of(machine) for host, machine in machines.items()}
            sorts = {
                host: {device["name"]: sorts_of(device) for device in own["devices"]} for host, own in facts.items()
            }
            trees = {host: judges.tree(machine.entries) for host, machine in machines.items()}
            plan = plan_groups(facts, groups)
            everything: dict[str, dict[str, set[str]]] = {host: {} for host in machines}
            for group, entry in plan["groups"].items():
                resource = groups[group]["resource"]["name"]
                for own_class in entry["classes"]:
                    for host in own_class["hosts"] if own_class["config"] else ():
                        devices = [row["device"] for row in own_class["matches"][host]]
                        compared.update({sort for device in devices for sort in sorts[host].get(device, ())})
                        expected = {resource: {row["pci"] for row in own_class["matches"][host]}}
                        everything[host].update(expected)
                        for who, config, found in offers_of(judges, trees[host], facts[host], own_class):
                            compared[who] += 1
                            offered = {name: set(pcis) for name, pcis in found.items()}
                            if offered != expected:
                                wrong.append(f"{number} {host} {who}: {config} offers {offered}, not {expected}")
            cluster = plan["cluster"]["config"]
            for host in machines if cluster else ():
                compared["cluster"] += 1
                found = judges.offers(trees[host], cluster)["shared"]
                offered = {name: set(pcis) for name, pcis in found.items() if pcis}
                if offered != everything[host]:
                    wrong.append(f"{number} {host} cluster: {cluster} offers {offered}, not {everything[host]}")
    models, *counts = (compared.pop(key) for key in ("matcher", *SORTS))
    print(
        f"\ndevice plugins: {sum(compared.values())} configurations compared {dict(compared)}, "
        f"{', '.join(f'{count} with {SORTS[sort]}' for sort, count in zip(SORTS, counts, strict=True))}, "
        f"{models} answers of the matcher, {len(wrong)} wrong"
    )
    assert not wrong, "\n".join(wrong[:10])
    assert min(models, *(compared[plugin] for plugin in ("shared", "sriov", "cluster"))) >= FEWEST, compared
    assert min(counts) >= FEWEST // 10
