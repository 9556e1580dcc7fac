# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config import (
    ConfigError,
    ConfigFile,
    effective,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.config_edit import (
    Plan,
    dump_difference,
    plan_edits,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.toml import parse
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._containerd.configurations import (
    ALL,
    CONFIGS,
    DROP_2,
    NEW,
    OLD,
    ROOT,
    RUNC,
    SPEC,
    TWO,
    V2,
    V3,
    Files,
    each,
    loaded,
    pair,
    runtime,
    specs_of,
    texts,
)

EDITS = [(name, generation) for name in CONFIGS for generation in ALL]


def after(files: Files, plan: Plan) -> Files:
    texts = {os.path.join("/etc/containerd", path): text for path, text in files.items()}
    texts.update({**plan.edits, **plan.creates})
    return texts


@pytest.mark.parametrize(("name", "generation"), EDITS)
def test_an_edit_reaches_every_handler_once_and_can_be_taken_back(name: str, generation: tuple[int, int]) -> None:
    files = CONFIGS[name]
    try:
        before = effective(loaded(files, generation), generation)
    except ConfigError:
        return
    specs = specs_of(before)
    plan = plan_edits(loaded(files, generation), generation, specs)
    if plan.refusals:
        assert plan == Plan({}, {}, plan.refusals)
        assert all("/etc/containerd/" in refusal for refusal in plan.refusals)
        return
    new = after(files, plan)
    then = effective(loaded(new, generation), generation)
    assert {n: h[:2] for n, h in then.items()} == {n: (specs[n], h.runtime_type) for n, h in before.items()}
    assert plan_edits(loaded(new, generation), generation, specs) == Plan({}, {}, [])
    back = plan_edits(loaded(new, generation), generation, dict.fromkeys(specs))
    assert not back.refusals
    found = effective(loaded(after(new, back), generation), generation)
    assert {n: h.runtime_type for n, h in found.items()} == {n: h.runtime_type for n, h in before.items()}
    assert not set(specs.values()) & {h.base_runtime_spec for h in found.values()}
    # what was there stays, but for the values themselves
    for path, text in plan.edits.items():
        old = files[os.path.relpath(path, "/etc/containerd")]
        for line in old.splitlines():
            assert line in text.splitlines() or "base_runtime_spec" in line
    for text in plan.creates.values():
        assert text.startswith("# Made by fabric.rdma.\nversion = ")


REFUSED_EDITS = {
    (name, generation)
    for name in ("eks", "k3s", "kubeadm, version 3", "nvidia-ctk, version 3", "nvidia-ctk, version 3 over 2")
    for generation in [(1, 6)]
}


@pytest.mark.parametrize("name", [name for name in CONFIGS if not name.startswith("merged")])
def test_ordinary_configurations_are_not_refused(name: str) -> None:
    for generation in ALL:
        try:
            files = loaded(CONFIGS[name], generation)
        except ConfigError:
            assert generation == (1, 7) or name == "nvidia-ctk, version 3 over 2"
            continue
        refusals = plan_edits(files, generation, specs_of(effective(files, generation))).refusals
        if (name, generation) in REFUSED_EDITS or (name == "version 1" and generation in ((2, 1), (2, 2))):
            assert len(refusals) >= 1
        else:
            assert refusals == []


def planned(name: str, generation: tuple[int, int], *handlers: str) -> tuple[list[str], list[str]]:
    """Paths of edited files, of new files."""
    plan = plan_edits(loaded(CONFIGS[name], generation), generation, each(handlers, SPEC))
    assert plan.refusals == []
    return [path[len("/etc/containerd/") :] for path in plan.edits], [
        path[len("/etc/containerd/") :] for path in plan.creates
    ]


def test_edits_are_made_where_they_have_their_effect() -> None:
    for generation in ALL:
        assert planned("no file", generation, "runc") == ([], ["config.toml"])
        assert planned("kubeadm", generation, "runc") == (["config.toml"], [])
    for generation in OLD:
        # in the main file, too, of which nvidia-ctk makes the other one again and again
        assert planned("nvidia-ctk", generation, "runc", "nvidia") == (["config.toml", "d/a.toml"], [])
    for generation in NEW:
        assert planned("nvidia-ctk", generation, "runc", "nvidia") == ([], ["d/zz-fabric-rdma.toml"])
        assert planned("k3s", generation, "runc", "nvidia") == ([], ["config-v3.toml.d/zz-fabric-rdma.toml"])
    # a drop-in of version 2 would take the new name from all files, one of version 3 would be above the main file
    for generation in NEW[:2]:
        assert planned("nvidia-ctk, version 3 over 2", generation, "nvidia") == (["d/a.toml"], [])


def test_a_drop_in_goes_behind_all_others() -> None:
    files = {**CONFIGS["k3s"], "config-v3.toml.d/zzz.toml": ""}
    plan = plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": SPEC, "nvidia": "/n"})
    assert plan.creates == {
        "/etc/containerd/config-v3.toml.d/zzzz-fabric-rdma.toml": "# Made by fabric.rdma.\nversion = 3\n"
        '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]\nbase_runtime_spec = "/n"\n'
        '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]\nbase_runtime_spec = "/etc/containerd/base.json"\n'
    }
    new = after(files, plan)
    # ours is edited from then on
    again = plan_edits(loaded(new, (2, 1)), (2, 1), {"nvidia": "/m"})
    assert list(again.edits) == list(plan.creates)


def test_an_import_into_which_nobody_writes_is_left_alone() -> None:
    files = {"config.toml": CONFIGS["k3s"]["config.toml"]}
    assert list(plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": SPEC}).edits) == [ROOT]
    # who knows that the directory is kept for others says so with an empty file in it
    kept = [*loaded(files, (2, 1)), ConfigFile("/etc/containerd/config-v3.toml.d/.toml", "", 3, {})]
    plan = plan_edits(kept, (2, 1), {"runc": SPEC})
    assert (list(plan.creates), plan.edits) == (["/etc/containerd/config-v3.toml.d/zz-fabric-rdma.toml"], {})


def test_a_drop_in_that_would_be_read_too_early_is_not_planned() -> None:
    files = {
        "config.toml": 'version = 3\nimports = ["/etc/containerd/d/*.toml", "e.toml"]\n' + runtime(V3, "kata"),
        "d/a.toml": "",
        "e.toml": runtime(V3, "runc", 'base_runtime_spec = ""'),
    }
    plan = plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": SPEC, "kata": SPEC})
    assert (list(plan.edits), list(plan.creates)) == (
        ["/etc/containerd/e.toml"],
        ["/etc/containerd/d/zz-fabric-rdma.toml"],
    )


def test_before_2_0_the_default_runtime_is_written_down_whole() -> None:
    plan = plan_edits(loaded(CONFIGS["packaged by Debian"], (1, 7)), (1, 7), {"runc": SPEC})
    table = parse(plan.edits[ROOT])["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["runc"]
    assert (table["runtime_type"], table["base_runtime_spec"], table["sandbox_mode"]) == (RUNC, SPEC, "podsandbox")
    assert table["options"]["SystemdCgroup"] is False
    # a dump knows better
    dump = f'[{V2}.containerd.runtimes.runc]\nruntime_type = "{RUNC}"\nempty = ""\n[{V2}.containerd.runtimes.runc.options]\nX = ""\n'
    plan = plan_edits(loaded(CONFIGS["packaged by Debian"], (1, 7)), (1, 7), {"runc": SPEC}, dump)
    table = parse(plan.edits[ROOT])["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]["runc"]
    assert table == {"runtime_type": RUNC, "base_runtime_spec": SPEC, "options": {"X": ""}}


def test_the_main_file_is_made_where_the_daemon_looks_for_it() -> None:
    plan = plan_edits([], (2, 1), {"runc": SPEC}, root_path="/opt/c.toml")
    assert plan.creates == {
        "/opt/c.toml": "# Made by fabric.rdma.\nversion = 3\n"
        '\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]\nbase_runtime_spec = "/etc/containerd/base.json"\n'
    }


def test_a_setting_is_taken_away_wherever_it_is() -> None:
    files = pair(TWO, "version = 2\n" + DROP_2.replace('""', '"/new"'))
    plan = plan_edits(loaded(files, (2, 1)), (2, 1), {"runc": None})
    assert [text.count("base_runtime_spec") for text in plan.edits.values()] == [0, 0]
    assert effective(loaded(after(files, plan), (2, 1)), (2, 1))["runc"].base_runtime_spec is None
    assert plan_edits(loaded(files, (2, 1)), (2, 1), {"kata": None}) == Plan({}, {}, [])


INLINE = f"version = 2\n[{V2}.containerd.runtimes]\nrunc = {{ runtime_type = 'x', base_runtime_spec = '/old' }}\n"


@pytest.mark.parametrize(
    ("files", "generation", "specs", "message"),
    [
        (
            CONFIGS["microk8s"],
            (1, 7),
            {"kata": SPEC},
            "containerd has no runtime handler kata; it has nvidia-container-runtime, runc",
        ),
        (
            CONFIGS["kubeadm"],
            (1, 7),
            {"runc": "base.json"},
            "base.json: the path of a base runtime spec has to be absolute, ",
        ),
        (
            {"config.toml": INLINE},
            (2, 1),
            {"runc": SPEC},
            f"{ROOT}: {V2}.containerd.runtimes.runc on line 3 is an inline table, in which nothing can be edited safely; write it "
            "as a table with a header. Set base_runtime_spec of the runtime handler runc there by hand",
        ),
        (
            {"config.toml": INLINE},
            (2, 1),
            {"runc": None},
            f"{ROOT}: {V2}.containerd.runtimes.runc on line 3 is an inline table, in which nothing can be edited safely; write it "
            "as a table with a header. Remove base_runtime_spec of the runtime handler runc by hand",
        ),
        (
            CONFIGS["eks"],
            (1, 6),
            {"runc": SPEC},
            f"{ROOT} has version 3, in which containerd 1.6 reads no CRI settings; convert it to version 2",
        ),
        (
            CONFIGS["version 1"],
            (2, 1),
            {"runc": SPEC},
            f"{ROOT} has version 1, whose table [plugins.cri] containerd 2.1 does not read; convert it with `containerd config "
            "migrate`",
        ),
        (
            CONFIGS["merged: 2 and 3"],
            (2, 1),
            {"runc": SPEC},
            f"{ROOT} defines the runtime handler kata under [{V2}], which containerd 2.1 does not use, because of "
            "/etc/containerd/d/a.toml: its next start would be without. Define it where that counts, or remove it",
        ),
        (
            CONFIGS["merged: 2 and 2"],
            (1, 7),
            {"runc": SPEC},
            f"{ROOT} defines the runtime handler kata under [{V2}], which containerd 1.7 does not use, because of "
            "/etc/containerd/d/a.toml: its next start would be without. Define it where that counts, or remove it",
        ),
    ],
)
def test_a_refusal_says_what_to_do_by_hand(
    files: Files, generation: tuple[int, int], specs: dict[str, str | None], message: str
) -> None:
    plan = plan_edits(loaded(files, generation), generation, specs)
    assert (plan.edits, plan.creates) == ({}, {})
    assert [refusal[: len(message)] for refusal in plan.refusals[:1]] == [message]


def test_a_removal_that_is_refused() -> None:
    plan = plan_edits(loaded({"config.toml": INLINE}, (2, 1)), (2, 1), {"runc": None})
    assert (plan.edits, len(plan.refusals)) == ({}, 1)
    assert plan.refusals[0].endswith("Remove base_runtime_spec of the runtime handler runc by hand")


def test_a_handler_that_is_lost_already_is_no_reason_to_refuse() -> None:
    files = loaded(CONFIGS["merged: 2 and 2"], (1, 7))
    assert plan_edits(files, (1, 7), {"runc": SPEC}, running=["runc"]).refusals == []
    assert len(plan_edits(files, (1, 7), {"runc": SPEC}, running=["runc", "kata"]).refusals) == 1


@given(texts, st.lists(texts, max_size=2), st.sampled_from(ALL), st.sampled_from(["runc", "nvidia", "kata"]))
def test_one_file_is_edited_for_one_handler(
    root: str, others: list[str], generation: tuple[int, int], name: str
) -> None:
    files = {"config.toml": 'imports = ["/etc/containerd/d/*.toml"]\n' + root}
    files.update({f"d/{number}.toml": text for number, text in enumerate(others)})
    try:
        first = loaded(files, generation)
    except ConfigError:
        return
    before = effective(first, generation)
    plan = plan_edits(first, generation, {name: SPEC})
    assert bool(plan.refusals) != bool(plan.edits or plan.creates)
    if name not in before:
        assert plan.refusals
    if plan.refusals:
        return
    assert len(plan.edits) + len(plan.creates) == 1
    assert not plan.creates or generation >= (2, 0)
    then = effective(loaded(after(files, plan), generation), generation)
    assert {n: h[:2] for n, h in then.items()} == {
        n: (SPEC if n == name else h.base_runtime_spec, h.runtime_type) for n, h in before.items()
    }


# --- dumps --------------------------------------------------------------------------------------------------------------


def test_a_difference_of_dumps_names_each_key() -> None:
    one = "version = 2\n[a]\nx = 1\ny = ['b']\ngone = ''\n[a.'b.c']\n[z]\n"
    other = "version = 2\n[a]\nx = true\ny = ['b', 'c']\n[a.'b.c']\nnew = 0\n[z]\n"
    assert dump_difference(one, one) == []
    assert dump_difference(one, other) == [
        ('a."b.c"', {}, None),
        ('a."b.c".new', None, 0),
        ("a.gone", "", None),
        ("a.x", 1, True),
        ("a.y", ["b"], ["b", "c"]),
    ]
