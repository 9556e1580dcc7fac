# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of what is pulled from elsewhere stand in one file, and every literal of one in the tree is the same."""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.fabric.rdma.plugins.module_utils._base import sources
from ansible_collections.fabric.rdma.plugins.module_utils._base.words import in_dots
from ansible_collections.fabric.rdma.plugins.module_utils._rollout.operator import operator_release
from ansible_collections.fabric.rdma.plugins.plugin_utils._lab.sources import AptSource, choose_sources

ROOT = Path(__file__).resolve().parents[2]
GO_PLACES = (
    *(f"roles/lab/files/{name}" for name in ("kubernetes", "device_plugin", "dranet", "networks")),
    "tests/judges",
)
SOURCES = "plugins/module_utils/_base/sources.py"
# What users and programs read. Tests of the modules themselves make up releases and digests as they need them.
PLACES = (
    # what lies in the root, but for the history: it tells of releases that were
    ":(glob)*",
    ":(exclude)CHANGELOG.rst",
    "benchmarks",
    "docs",
    "inventories",
    "molecule",
    "playbooks",
    "plugins",
    "roles",
    "tools",
)
PLACES += ("tests/cluster", "tests/judges")
# Tests name other releases of the operator for being others; the one of the example they import, as is tested below.
OTHERS = ("tests/cluster/test_operator.py",)

_LINES = list(map(in_dots, sources.LINES))
_DRA_LINES = list(map(in_dots, sources.DRA_LINES))
_REPOSITORIES = {row[0] for line in sources.LINES.values() for row in (line.shared, line.sriov) if row}
_EXAMPLE = operator_release(sources.OPERATOR)
_TAG = sources.DEVICE_PLUGIN.rpartition(":")[2]
# What a literal looks like, and what it may be. Where the pattern has a group, the literal is the group.
LITERALS: dict[str, tuple[str, set[str]]] = {
    "image": (
        r"\b(?:(?:nvcr|ghcr|quay|docker|registry\.k8s)\.io|registry\.fedoraproject\.org)/[\w./-]*\w(?::[\w.-]*\w)?",
        {sources.DEVICE_PLUGIN, sources.DRANET, sources.OPERATOR_IMAGES, sources.EXECUTION_BASE, *_REPOSITORIES},
    ),
    "tag": (rf"{sources.SHARED_PLUGIN_IMAGE}(?::|[ `|]+|\S* v)v?(\d+\.\d+\.\d+)", {_TAG.lstrip("v")}),
    "digest": (r"sha256:[0-9a-f]{64}", set(sources.DIGESTS.values())),
    "address of a chart": (r"https://(?:helm|charts)\.[\w.-]+[\w./-]*\w", {sources.CHARTS, sources.LONGHORN_CHARTS}),
    "release of the GPU Operator": (r'rdma_gpu_operator:\s*\{?\s*version: "?(v?\d+\.\d+\.\d+)', {sources.GPU_OPERATOR}),
    "release of Longhorn": (r'rdma_longhorn:\s*\{?\s*version: "?(\d+\.\d+\.\d+)', {sources.LONGHORN}),
    "release of DRANET": (r"`(\d+\.\d+\.\d+)` \| release of the line \d", {sources.DRANET.rpartition(":v")[2]}),
    "line of DRANET": (r"release of the line (\d+\.\d+) ", {sources.DRANET.rpartition(":v")[2].rpartition(".")[0]}),
    "driver": (
        r"\bdoca\d+\.\d+\.\d+-\d\d\.\d\d-[\d.]+-\d+",
        {driver for line in sources.LINES.values() for driver in line.drivers.values()},
    ),
    "release of the operator": (r"(?<![\w.=-])(?<!awx\.awx:)2[4-9]\.\d{1,2}\.\d+(?![\w-]|\.\d)", {sources.OPERATOR}),
    "release of the DRA driver": (
        r"rdma_compute_domain\.version` \| `([^`]+)`",
        {sources.DRA_DRIVER},
    ),
    "release of Volcano": (r"rdma_vgpu\.version` \| `([^`]+)`", {sources.VOLCANO}),
    "lines of Volcano": (
        r"Volcano, of the lines (\d+\.\d+ to \d+\.\d+)",
        {f"{in_dots(sources.VOLCANO_LINES[0])} to {in_dots(sources.VOLCANO_LINES[-1])}"},
    ),
    "lines of the DRA driver": (
        r"lines (25\.3, [\d., ]+ and 0\.\d+)",
        {", ".join(_DRA_LINES[:-1]) + " and " + _DRA_LINES[-1]},
    ),
    "first and last line": (
        r"lines (2\d\.\d+ to \d+\.\d+)",
        {f"{_LINES[0]} to {_LINES[-1]}"},
    ),
    "lines": (
        r"(?:release )?lines (24\.\d+, [\d., ]+ and \d+\.\d+)",
        {", ".join(_LINES[:-1]) + " and " + _LINES[-1]},
    ),
    "generations of containerd": (
        r"containerd (\d\.\d+, [\d., ]+(?:\s+and \d\b)?)",
        {", ".join(list(sources.CONTAINERDS)[:-1]) + " and " + list(sources.CONTAINERDS)[-1]},
    ),
    "chart of Spiderpool": (r"https://spidernet-io[\w./-]*\w", {sources.SPIDERPOOL_CHARTS}),
    "release of a CNI plugin": (
        r"\b(?:Multus|Whereabouts) v?(\d+\.\d+\.\d+)",
        {sources.MULTUS.rpartition(":v")[2], sources.WHEREABOUTS.rpartition(":v")[2]},
    ),
    "suite": (r"\b(?:bullseye|bookworm|trixie|forky|sid)\b", {sources.LAB_SUITE, *sources.CONTAINERDS.values()}),
    "suite of the lab": (r"always (\w+), whose kernel", {sources.LAB_SUITE}),
}


def strays(text: str) -> list[str]:
    """Literals of a text that are not those of sources.py."""
    found = []
    for what, (pattern, allowed) in LITERALS.items():
        for match in re.finditer(pattern, text):
            literal = " ".join(match[match.lastindex or 0].split())
            if literal not in allowed:
                found.append(f"{what}: {literal}")
    return found


def texts() -> dict[str, str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *PLACES]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    found = {}
    for name in names:
        # what Go keeps is compared below
        if name and name != SOURCES and not name.endswith((".sum", ".mod")) and (ROOT / name).is_file():
            found[name] = (ROOT / name).read_text(errors="replace")
    return found


def literals(what: str) -> set[str]:
    """Files that have a literal of a kind."""
    return {name for name, text in texts().items() if re.search(LITERALS[what][0], text)}


def test_every_literal_is_that_of_the_one_file() -> None:
    others = "release of the operator: "
    found = {
        name: [stray for stray in strays(text) if not (name in OTHERS and stray.startswith(others))]
        for name, text in texts().items()
    }
    assert {name: left for name, left in found.items() if left} == {}


@pytest.mark.parametrize(
    ("what", "files"),
    [
        (
            "image",
            {
                "roles/device_plugin/defaults/main.yml",
                "roles/device_plugin/meta/argument_specs.yml",
                "docs/variables.md",
                "execution-environment.yml",
            },
        ),
        ("tag", {"docs/variables.md", "tests/judges/README.md", "plugins/filter/rdma_rollout.py"}),
        ("address of a chart", {"roles/network_operator/tasks/helm.yml"}),
        ("driver", {"roles/network_operator/README.md"}),
        (
            "release of the operator",
            {"docs/variables.md", "roles/network_operator/README.md", "roles/network_operator/meta/argument_specs.yml"},
        ),
        ("release of the DRA driver", {"docs/variables.md"}),
        ("release of Volcano", {"docs/variables.md"}),
        ("lines of Volcano", {"docs/variables.md"}),
        ("lines of the DRA driver", {"docs/variables.md"}),
        ("release of DRANET", {"docs/variables.md"}),
        ("line of DRANET", {"docs/variables.md"}),
        ("first and last line", {"docs/variables.md"}),
        ("lines", {"roles/network_operator/README.md", "roles/network_operator/meta/argument_specs.yml"}),
        ("release of a CNI plugin", {"docs/variables.md"}),
        ("generations of containerd", {"docs/faults.md"}),
        ("suite of the lab", {"roles/lab/README.md"}),
        ("release of the GPU Operator", {"docs/variables.md", "roles/gpu_operator/README.md"}),
        ("release of Longhorn", {"docs/variables.md", "roles/longhorn/README.md"}),
    ],
)
def test_the_search_finds_what_is_there(what: str, files: set[str]) -> None:
    """Else a pattern that matches nothing any more would pass for ever."""
    assert files <= literals(what)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("default: ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.2", ["image: ", "tag: 1.5.2"]),
        ("| k8s-rdma-shared-dev-plugin | 1.4.0 |", ["tag: 1.4.0"]),
        ("name: registry.fedoraproject.org/fedora-minimal:41", ["image: registry.fedoraproject.org/fedora-minimal:41"]),
        ("repository: nvcr.io/nvidia/other", ["image: nvcr.io/nvidia/other"]),
        ("image_digest: sha256:" + "0" * 64, ["digest: sha256:000"]),
        ("https://helm.example.com/nvidia", ["address of a chart: "]),
        ("| `rdma_compute_domain.version` | `0.4.2` |", ["release of the DRA driver: 0.4.2"]),
        (
            "| `rdma_vgpu.version` | `1.14.4` | release of Volcano, of the lines 1.12 to 1.14 |",
            ["release of Volc", "lines of Volc"],
        ),
        ("of the lines 25.3, 25.8 and 0.4", ["lines of the DRA driver: 25.3, 25.8 and 0.4"]),
        ("image: registry.k8s.io/networking/dranet:v1.3.0", ["image: "]),
        ("version: doca3.4.2-26.04-1.1.0.0-1", ["driver: doca3.4.2"]),
        ("operator_version: 26.4.0", ["release of the operator: 26.4.0"]),
        ("(lines 24.10 to 26.4)", ["first and last line: "]),
        ("the release lines 24.10, 25.1 and 26.7", ["lines: 24.10, 25.1 and 26.7"]),
        ("from https://spidernet-io.github.io/other", ["chart of Spiderpool: https://spidernet-io.github.io/other"]),
        ("Multus 4.1.0 or Whereabouts v0.8.0", ["release of a CNI plugin: 4.1.0", "release of a CNI plugin: 0.8.0"]),
        ("with containerd 1.6, 1.7\nand 3", ["generations of containerd: 1.6, 1.7 and 3"]),
        ("Debian: bullseye", ["suite: bullseye"]),
        ("rdma_gpu_operator: {version: v26.3.2}", ["release of the GPU Operator: v26.3.2"]),
        ("rdma_longhorn:\n  version: 1.12.0", ["release of Longhorn: 1.12.0"]),
        ("https://charts.example.com", ["address of a chart: "]),
        ("Debian: always trixie, whose kernel", ["suite of the lab: trixie"]),
        ("ofed_version: 24.10-1.1.4.0, such as V(24.10-1.1.4.0), kubernetes>=24.2.0", []),
    ],
)
def test_another_literal_is_found(text: str, found: list[str]) -> None:
    given = strays(text)
    assert len(given) == len(found), given
    assert all(one.startswith(start) for one, start in zip(given, found, strict=True))


def test_python_code_names_what_it_could_import() -> None:
    """In tests and tools a literal would be right until the file is changed."""
    exact = [
        sources.DEVICE_PLUGIN,
        sources.DRANET,
        sources.OPERATOR,
        sources.OPERATOR_IMAGES,
        sources.CHARTS,
        sources.HELM_PACKAGE,
    ]
    exact += [
        *sources.DIGESTS.values(),
        *(driver for line in sources.LINES.values() for driver in line.drivers.values()),
    ]
    exact += [sources.GO_MODULES["k8s.io/kubernetes"], sources.GO]
    exact += [
        sources.MULTUS,
        sources.WHEREABOUTS,
        sources.SRIOV_PLUGIN,
        sources.SPIDERPOOL_CHARTS,
        *sources.SPIDERPOOL_IMAGES,
    ]
    code = {name: text for name, text in texts().items() if name.endswith(".py")}
    # documentation of filters, which no program reads
    code = {name: text for name, text in code.items() if not name.startswith("plugins/filter/")}
    assert {name: left for name, text in code.items() if (left := [word for word in exact if word in text])} == {}


def asked_for(where: str) -> dict[str, str]:
    """Modules that a go.mod asks for by itself, with their versions."""
    text = (ROOT / where / "go.mod").read_text()
    return dict(re.findall(r"^(?:\t|require )(\S+) (v\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize("where", GO_PLACES)
def test_go_asks_for_the_same_modules(where: str) -> None:
    text = (ROOT / where / "go.mod").read_text()
    (go,) = re.findall(r"^go (\S+)$", text, re.MULTILINE)
    assert go == sources.GO
    assert asked_for(where)
    assert asked_for(where).items() <= sources.GO_MODULES.items()


def test_every_module_is_asked_for() -> None:
    assert {name for where in GO_PLACES for name in asked_for(where)} == set(sources.GO_MODULES)


def test_the_plugin_that_judges_and_runs_is_the_one_that_is_rolled_out() -> None:
    assert sources.GO_MODULES["github.com/Mellanox/k8s-rdma-shared-dev-plugin"] == _TAG


def test_jobs_of_awx_run_the_collections_of_the_execution_environment() -> None:
    """AWX installs those that the project asks for, and puts them before those of the execution environment."""
    wanted = yaml.safe_load((ROOT / "collections" / "requirements.yml").read_text())["collections"]
    assert {entry["name"]: entry["version"] for entry in wanted} == sources.EXECUTION_COLLECTIONS


def test_the_collection_depends_on_others_in_the_same_versions() -> None:
    assert yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"] == sources.COLLECTIONS


def test_versions_of_python_packages_are_in_files_of_requirements_only() -> None:
    files = [path for path in [*(ROOT / "tools").iterdir(), ROOT / "Makefile", ROOT / ".ci" / "run"] if path.is_file()]
    assert len(files) > 20
    assert [path.name for path in files if re.search(r"\w==\d", path.read_text())] == []
    named = re.findall(r"^#release: (\S+)$", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    assert len(named) == 1
    assert re.fullmatch(r"galaxy-importer==\d+(\.\d+)+", named[0])


def test_the_execution_environment_pins_the_same() -> None:
    """Its YAML cannot read the file. Our Python packages are those of requirements-dev.txt, and tests/receptor runs jobs with all of it."""
    found = yaml.safe_load((ROOT / "execution-environment.yml").read_text())
    assert found["images"] == {"base_image": {"name": sources.EXECUTION_BASE}}
    wanted = found["dependencies"]
    assert wanted["ansible_core"] == {"package_pip": f"ansible-core=={sources.EXECUTION_CORE}"}
    assert wanted["galaxy"] == {
        "collections": [{"name": name, "version": version} for name, version in sources.EXECUTION_COLLECTIONS.items()]
    }
    # with what these need: tests/receptor compares
    assert list(sources.EXECUTION_COLLECTIONS)[: len(sources.COLLECTIONS)] == list(sources.COLLECTIONS)
    tested = (ROOT / "requirements-dev.txt").read_text().splitlines()
    ours = {line for line in wanted["python"] if line.partition("==")[0] in ("kubernetes", "netaddr")}
    assert len(ours) == 2
    assert {wanted["ansible_runner"]["package_pip"], *ours} <= set(tested)


def test_the_chart_of_the_tests_is_of_the_example() -> None:
    chart: dict[str, t.Any] = yaml.safe_load((ROOT / "tests" / "cluster" / "chart" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (sources.OPERATOR, f"v{sources.OPERATOR}")


def test_lines_are_in_their_order() -> None:
    """Texts tell of the first and the last."""
    assert list(sources.LINES) == sorted(sources.LINES)


def test_the_example_has_a_driver_that_is_known() -> None:
    assert sources.LINES[_EXAMPLE.line].drivers[_EXAMPLE.patch]


def test_the_example_of_the_gpu_operator_is_known() -> None:
    assert list(sources.GPU_LINES) == sorted(sources.GPU_LINES)
    assert sources.GPU_OPERATOR in {line.release for line in sources.GPU_LINES.values()}
    # a component without a tag would be left out without a word
    assert {len(set(line.tags) - {"operator.initContainer"}) for line in sources.GPU_LINES.values()} == {12}


def test_the_example_of_longhorn_is_the_newest_that_is_known() -> None:
    assert list(sources.LONGHORN_IMAGES) == sorted(sources.LONGHORN_IMAGES)
    assert sources.LONGHORN_IMAGES[max(sources.LONGHORN_IMAGES)][0] == f"v{sources.LONGHORN}"
    # a sidecar without a tag would be left out without a word
    assert {len(images) for _release, images in sources.LONGHORN_IMAGES.values()} == {13}


def test_the_default_image_is_pinned() -> None:
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", sources.DIGESTS[sources.DEVICE_PLUGIN])


def test_the_lab_is_of_its_suite() -> None:
    own = AptSource("http://mirror.example.com/debian", "trixie", ("main",), None)
    os_release = {"ID": "debian", "VERSION_CODENAME": "trixie"}
    assert choose_sources([own], os_release)[0] == sources.LAB_SUITE
