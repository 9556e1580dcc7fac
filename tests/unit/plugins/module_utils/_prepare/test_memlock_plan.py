# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RLIMIT_MEMLOCK of containers: wishes, limits, specifications, needs."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import FabricError
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.limits import (
    limit_text,
    parse_limits,
    parse_unit_limit,
)
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci import UNLIMITED
from ansible_collections.fabric.rdma.plugins.module_utils._containerd.oci_edit import Rlimit
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.memlock_plan import (
    MemlockError,
    drop_in,
    memlock_needs,
    parse_wish,
    plan_specs,
    reaches,
)

MEMLOCK = Rlimit("RLIMIT_MEMLOCK", UNLIMITED, UNLIMITED)
ENTRY = {"type": "RLIMIT_MEMLOCK", "hard": UNLIMITED, "soft": UNLIMITED}
INVENTED = {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}
NOFILE = {"type": "RLIMIT_NOFILE", "hard": 65535, "soft": 65535}
OURS = "/etc/containerd/fabric-rdma-base.json"


def spec(*rlimits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"ociVersion": "1.2.0", "process": {"cwd": "/", "rlimits": list(rlimits)}, **more}


FRESH = spec(INVENTED, linux={"maskedPaths": ["/proc/kcore"]})


def plan(handlers: dict[str, str | None], files: dict[str, Any], rlimit: Rlimit = MEMLOCK) -> Any:
    raw = {path: value if isinstance(value, bytes) else json.dumps(value).encode() for path, value in files.items()}
    return plan_specs(handlers, raw.get, copy.deepcopy(FRESH), rlimit, "/etc/containerd")


# --- wishes -----------------------------------------------------------------------------------------------------------


def test_a_wish_is_filled_with_defaults() -> None:
    assert parse_wish({}) == ("spec", None, MEMLOCK)
    assert parse_wish({"enabled": True, "method": "limit", "handlers": ["all"]}) == ("limit", None, MEMLOCK)
    assert parse_wish({"handlers": ["runc", "nvidia", "runc"], "soft": 5, "hard": "7"}) == (
        "spec",
        ["nvidia", "runc"],
        Rlimit("RLIMIT_MEMLOCK", 5, 7),
    )


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (
            {"methd": 1},
            "rdma_memlock has no key methd; it knows enabled, handlers, hard, method, soft; did you mean method?",
        ),
        ({"method": "nri"}, "rdma_memlock.method is 'nri'; expected one of spec, limit"),
        ({"handlers": []}, "rdma_memlock.handlers is []; expected 'all' or a list of names of runtime handlers"),
        (
            {"handlers": "runc"},
            "rdma_memlock.handlers is 'runc'; expected 'all' or a list of names of runtime handlers",
        ),
        ({"hard": 5}, "RLIMIT_MEMLOCK: soft 18446744073709551615 is above hard 5"),
        ({"soft": -1}, "RLIMIT_MEMLOCK: soft is -1; expected 'unlimited' or an integer from 0 to 18446744073709551615"),
    ],
)
def test_wishes_that_make_no_sense(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(FabricError, match=f"^{re.escape(message)}$"):
        parse_wish(wish)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_limits_are_read_in_the_words_of_the_kernel_and_of_systemd() -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 524288               files     \n"
        "Max locked memory         8388608              unlimited            bytes     \n"
    )
    limits = parse_limits(text)
    assert limits == {"memlock": (8388608, UNLIMITED), "nofile": (1024, 524288)}
    assert limit_text(limits["memlock"]) == "8388608 (hard: unlimited)"
    assert (limit_text(None), limit_text((1, 1)), limit_text((UNLIMITED, UNLIMITED))) == ("unknown", "1", "unlimited")
    assert parse_limits("") == {}
    assert parse_unit_limit({"LimitMEMLOCK": "infinity", "LimitMEMLOCKSoft": "5"}) == (5, UNLIMITED)
    assert parse_unit_limit({}) is None
    assert reaches((5, 7), Rlimit("RLIMIT_MEMLOCK", 5, 7))
    assert not reaches((4, 7), Rlimit("RLIMIT_MEMLOCK", 5, 7))
    assert not reaches(None, MEMLOCK)


def test_the_drop_in_sets_the_limit_in_the_words_of_systemd() -> None:
    assert drop_in(MEMLOCK).endswith(b"\n[Service]\nLimitMEMLOCK=infinity\n")
    assert drop_in(Rlimit("RLIMIT_MEMLOCK", 5, UNLIMITED)).endswith(b"\nLimitMEMLOCK=5:infinity\n")


# --- specifications ---------------------------------------------------------------------------------------------------


def test_handlers_without_a_specification_share_one() -> None:
    result = plan({"runc": None, "nvidia": None}, {})
    assert result.paths == {"runc": OURS, "nvidia": OURS}
    assert json.loads(result.files[OURS])["process"]["rlimits"] == [ENTRY]
    # a new file has only what is in it: the NOFILE of 1024 never was a limit of these containers
    assert result.changes[OURS] == [("RLIMIT_MEMLOCK", None, "soft unlimited hard unlimited")]
    again = plan({"runc": OURS, "nvidia": OURS}, {OURS: result.files[OURS]})
    assert (again.paths, again.files, again.refusals) == ({"runc": OURS, "nvidia": OURS}, {}, [])


def test_a_specification_of_somebody_else_is_adopted() -> None:
    foreign = spec(NOFILE, hostname="kept")
    result = plan(
        {"runc": "/etc/containerd/cri-base.json", "nvidia": "/opt/base.json"},
        {
            "/etc/containerd/cri-base.json": foreign,
            "/opt/base.json": spec(INVENTED, {**ENTRY, "soft": 5}),
        },
    )
    ours = "/etc/containerd/fabric-rdma-from-cri-base.json"
    other = result.paths["nvidia"]
    assert (result.paths["runc"], sorted(result.files)) == (ours, sorted([ours, other]))
    assert re.fullmatch(r"/etc/containerd/fabric-rdma-from-base-[0-9a-f]{8}\.json", other)
    adopted = json.loads(result.files[ours])
    assert adopted == spec(NOFILE, ENTRY, hostname="kept")
    assert json.loads(result.files[other])["process"]["rlimits"] == [ENTRY]
    assert result.drift[ours] == ["hostname", "linux"]
    assert list(adopted) == list(foreign)
    again = plan(result.paths, result.files)
    assert (again.paths, again.files) == (result.paths, {})


def test_a_name_that_is_only_like_ours_is_somebody_elses() -> None:
    theirs = "/etc/containerd/fabric-rdma-from-base_json"
    result = plan({"runc": theirs}, {theirs: spec(hostname="kept")})
    assert result.paths["runc"] != theirs
    assert [json.loads(data)["hostname"] for data in result.files.values()] == ["kept"]


def test_a_specification_of_somebody_else_with_the_limit_stays() -> None:
    result = plan({"runc": "/x/base.json"}, {"/x/base.json": spec(NOFILE, ENTRY)})
    assert (result.paths, result.files, result.changes) == ({"runc": "/x/base.json"}, {}, {})


def test_ours_is_rebuilt_when_containerd_would_make_another_one() -> None:
    old = spec(NOFILE, ENTRY, linux={"maskedPaths": []})
    result = plan({"runc": OURS}, {OURS: old})
    assert json.loads(result.files[OURS]) == {**FRESH, "process": {"cwd": "/", "rlimits": [NOFILE, ENTRY]}}
    assert result.changes[OURS] == []
    # another version alone changes nothing: a restart would be for nothing
    assert (
        plan({"runc": OURS}, {OURS: {**FRESH, "ociVersion": "9", "process": {"cwd": "/", "rlimits": [ENTRY]}}}).files
        == {}
    )


@pytest.mark.parametrize("broken", [b"", b"[]", b"{", b'{"ociVersion": "1", "process": {"rlimits": [{"type": "X"}]}}'])
def test_ours_is_rebuilt_when_it_is_broken(broken: bytes) -> None:
    for handlers in ({"runc": OURS}, {"runc": None}):
        result = plan(handlers, {OURS: broken})
        assert json.loads(result.files[OURS])["process"]["rlimits"] == [ENTRY]


def test_a_file_of_ours_that_nobody_names_is_not_started_from() -> None:
    assert json.loads(plan({"runc": None}, {OURS: spec(NOFILE)}).files[OURS])["process"]["rlimits"] == [ENTRY]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            None,
            "base_runtime_spec /x/a.json of the runtime handler runc is not there; after its next start containerd would",
        ),
        (b"{", "/x/a.json is not JSON that containerd could read: "),
        (
            spec({**ENTRY, "type": "RLIMIT_NOPE"}),
            "/x/a.json has the rlimit RLIMIT_NOPE, which runc does not know: no container",
        ),
        (
            spec({**NOFILE, "soft": 65536}),
            "/x/a.json: RLIMIT_NOFILE has soft 65536 above hard 65535: no container starts",
        ),
    ],
)
def test_a_specification_with_which_nothing_would_start_is_refused(data: Any, message: str) -> None:
    result = plan({"runc": "/x/a.json", "nvidia": None}, {} if data is None else {"/x/a.json": data})
    assert len(result.refusals) == 1
    assert result.refusals[0].startswith(message)


ENTRIES = st.lists(
    st.builds(
        lambda name, soft, more: {"type": f"RLIMIT_{name}", "hard": min(soft + more, UNLIMITED), "soft": soft},
        st.sampled_from(["MEMLOCK", "NOFILE", "CORE"]),
        st.integers(0, UNLIMITED),
        st.integers(0, UNLIMITED),
    ),
    max_size=4,
)


@given(
    st.dictionaries(
        st.sampled_from(["runc", "nvidia", "kata", "crun"]), st.sampled_from([None, "/a.json", "/b/a.json", OURS])
    ),
    ENTRIES,
    ENTRIES,
    ENTRIES,
)
def test_a_plan_that_was_carried_out_asks_for_nothing(
    handlers: dict[str, str | None], first: list[Any], second: list[Any], third: list[Any]
) -> None:
    files: dict[str, Any] = {"/a.json": spec(*first), "/b/a.json": spec(*second), OURS: spec(*third)}
    result = plan(handlers, files)
    assert set(result.paths) == set(handlers)
    files.update(result.files)
    for path in result.paths.values():
        data = files[path]
        rlimits = (json.loads(data) if isinstance(data, bytes) else data)["process"]["rlimits"]
        assert [entry for entry in rlimits if entry["type"] == "RLIMIT_MEMLOCK"] == [ENTRY]
        assert INVENTED not in rlimits
    again = plan(result.paths, files)
    assert (again.paths, again.files, again.refusals) == (result.paths, {}, [])


# --- needs ------------------------------------------------------------------------------------------------------------


def facts(**more: Any) -> dict[str, Any]:
    containerd: dict[str, Any] = {
        "handlers": {
            "nvidia": {"base_runtime_spec": "/etc/containerd/a.json"},
            "runc": {"base_runtime_spec": "/etc/containerd/a.json"},
        },
        "daemon_rlimits": {"memlock": {"soft": "unlimited", "hard": "unlimited"}},
        "stale": False,
        **more,
    }
    return {
        "runtime": {
            "containerd": containerd,
            "specs": {"/etc/containerd/a.json": {"rlimits": [ENTRY], "error": None}},
            "services": {"containerd": True},
        }
    }


def test_a_node_that_has_it_needs_nothing() -> None:
    assert memlock_needs(facts(), {}) == {
        "needed": False,
        "reasons": [],
        "method": "spec",
        "handlers": ["nvidia", "runc"],
        "containerd": True,
    }
    for nothing in ({}, {"runtime": None}, {"runtime": {"containerd": None}}):
        assert memlock_needs(nothing, {}) == {
            "needed": False,
            "reasons": [],
            "method": "spec",
            "handlers": [],
            "containerd": False,
        }
    assert memlock_needs(facts(stale=True), {"enabled": False})["needed"] is False


@pytest.mark.parametrize(
    ("more", "specs", "wish", "reasons"),
    [
        (
            {"handlers": {"runc": {"base_runtime_spec": None}}},
            {},
            {},
            ["the runtime handler runc has no base_runtime_spec"],
        ),
        (
            {"daemon_rlimits": {"memlock": {"soft": 8388608, "hard": 8388608}}},
            None,
            {"method": "limit"},
            ["containerd itself may lock 8388608, wanted is unlimited"],
        ),
        ({"daemon_rlimits": None}, None, {}, ["containerd itself may lock unknown, wanted is unlimited"]),
        ({"stale": True}, None, {}, ["containerd runs with an older configuration than the one in its files"]),
        (
            {},
            {"/etc/containerd/a.json": {"rlimits": [], "error": "it is not JSON"}},
            {"handlers": ["runc"]},
            ["base_runtime_spec /etc/containerd/a.json of runc cannot be used: it is not JSON"],
        ),
        (
            {},
            {},
            {"handlers": ["runc"]},
            ["base_runtime_spec /etc/containerd/a.json of runc cannot be used: it is not there"],
        ),
        (
            {},
            {"/etc/containerd/a.json": {"rlimits": [NOFILE], "error": None}},
            {"handlers": ["runc"]},
            ["base_runtime_spec /etc/containerd/a.json of runc does not set memlock"],
        ),
        (
            {},
            {"/etc/containerd/a.json": {"rlimits": [{**ENTRY, "soft": 5}], "error": None}},
            {"handlers": ["runc"]},
            ["base_runtime_spec /etc/containerd/a.json of runc sets memlock to 5 (hard: unlimited)"],
        ),
        (
            {},
            {"/etc/containerd/a.json": {"rlimits": [INVENTED, ENTRY], "error": None}},
            {"handlers": ["runc"]},
            ["base_runtime_spec /etc/containerd/a.json of runc takes the number of open files down to 1024"],
        ),
    ],
)
def test_a_need_tells_its_reasons(more: dict[str, Any], specs: Any, wish: dict[str, Any], reasons: list[str]) -> None:
    given_facts = facts(**more)
    if specs is not None:
        given_facts["runtime"]["specs"] = specs
    result = memlock_needs(given_facts, wish)
    assert (result["needed"], result["reasons"]) == (True, reasons)


def test_a_daemon_that_does_not_run_and_a_handler_that_is_not_there() -> None:
    down = facts()
    down["runtime"]["services"]["containerd"] = False
    assert memlock_needs(down, {})["reasons"] == ["containerd does not run"]
    with pytest.raises(MemlockError, match=r"^containerd has no runtime handler kata; it has nvidia, runc$"):
        memlock_needs(facts(), {"handlers": ["kata", "runc"]})
