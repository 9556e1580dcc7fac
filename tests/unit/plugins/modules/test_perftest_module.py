# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest as a process: a server, a client and their end, with a program that behaves like perftest and needs no device."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._verify.test_perftest_run import PROGRAM
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.examples import run_examples
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.matrix import insist_on_return
from ansible_collections.fabric.rdma.tests.unit.plugins.modules.test_modules import run

Json = dict[str, t.Any]


class Here(t.NamedTuple):
    """This machine as both hosts: the program writes there that it was started, servers of a run have a directory there."""

    path: Path

    @property
    def runs(self) -> list[Path]:
        return list((self.path / "run").iterdir())

    @property
    def started(self) -> int:
        """How often the program was started."""
        return len((self.path / "started").read_text())

    def call(self, check: bool = False, **arguments: t.Any) -> Json:
        # it need not have a default route
        place = {"address": "127.0.0.1", "first_port": 24000} if arguments["role"] == "server" else {}
        prelude = (
            "import ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest_run as perftest_run\n"
            f"perftest_run._run_base = lambda: {str(self.path / 'run')!r}\n"
        )
        return run("perftest", check, prelude, _ansible_diff=True, **{**place, **arguments})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    program, first = tmp_path / "ib_write_bw", f"open({str(tmp_path / 'started')!r}, 'a').write('x')\n"
    line, _newline, rest = PROGRAM.partition("\n")
    program.write_text(f"{line}\n{first}{rest}")
    program.chmod(0o755)
    (tmp_path / "started").touch()
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return Here(tmp_path)


TESTS = [{"test": "ib_write_bw", "device": "mlx5_0", "iterations": 100}]
SERVERS = [{"tcp_port": 24000, "listening": True}]
NOTHING = {
    "changed": False,
    "msg": "nothing was measured in check mode",
    "results": [],
    "run_dir": None,
    "started": False,
    "address": None,
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"role": "server", "tests": TESTS},
        {"role": "client", "tests": TESTS, "servers": SERVERS, "address": "127.0.0.1"},
    ],
    ids=lambda arguments: arguments["role"],
)
def test_a_check_starts_no_process_and_says_so(arguments: Json, here: Here) -> None:
    result = here.call(True, **arguments)
    assert result == {**NOTHING, "address": "127.0.0.1"}
    assert (here.started, here.runs) == (0, [])


def test_a_check_stops_no_server(here: Here) -> None:
    """A second end of servers finds nothing to do."""
    server = here.call(role="server", tests=TESTS)
    assert (server["changed"], server["started"], here.started) == (False, True, 2)
    assert here.call(True, role="stop", run_dir=server["run_dir"]) == NOTHING
    assert [str(path) for path in here.runs] == [server["run_dir"]]
    client = here.call(role="client", tests=TESTS, servers=server["results"], address="127.0.0.1")
    assert (client["changed"], client["results"][0]["problem"]) == (False, None)
    ended = [here.call(role="stop", run_dir=server["run_dir"]) for _time in range(2)]
    assert [(each["changed"], each["stopped"]) for each in ended] == [(False, 1), (False, 0)]
    assert here.runs == []
    for each in (server, client, *ended):
        insist_on_return("perftest", each)
        assert "diff" not in each


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"role": "measure"}, "value of role must be one of: server, client, stop"),
        ({"role": "server"}, "role is server but all of the following are missing: tests"),
        ({"role": "client", "tests": TESTS}, "role is client but all of the following are missing: servers"),
        ({"role": "server", "tests": [{"test": "rm", "device": "mlx5_0"}]}, "value of test must be one of"),
        ({"role": "server", "tests": [{"test": "ib_write_bw"}]}, "missing required arguments: device"),
        ({"role": "server", "tests": TESTS, "timeout": 0}, "timeout is 0, deadline is None; allowed is 1 or more"),
        ({"role": "server", "tests": TESTS, "deadline": 0}, "timeout is 60, deadline is 0; allowed is 1 or more"),
        ({"role": "server", "tests": [{**TESTS[0], "iterations": 1}]}, "iterations is 1; allowed is 5 to"),
        (
            {"role": "client", "tests": [{**TESTS[0], "iterations": 1}], "servers": SERVERS, "address": "127.0.0.1"},
            "iterations is 1; allowed is 5 to",
        ),
        (
            {
                "role": "client",
                "tests": [*TESTS, {**TESTS[0], "qps": 0}],
                "servers": SERVERS * 2,
                "address": "127.0.0.1",
            },
            "qps is 0; allowed is 1 to",
        ),
        ({"role": "server", "tests": TESTS, "address": "-k"}, "address '-k' is neither an IP address nor a host name"),
    ],
)
def test_bad_input_is_named_and_nothing_is_started(arguments: Json, words: str, check: bool, here: Here) -> None:
    result = here.call(check, **arguments)
    assert result["failed"] is True
    assert words in result["msg"]
    assert "Traceback" not in result["msg"]
    assert (here.started, here.runs) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"role": "client", "tests": TESTS, "servers": []}, "each test needs a server: tests are 1, servers 0"),
        ({"role": "stop"}, "role is stop but run_dir is missing"),
    ],
)
def test_what_the_other_side_gives_is_asked_for_in_a_run_alone(arguments: Json, words: str, here: Here) -> None:
    """In a check, no server was started that could be named."""
    assert here.call(True, **arguments) == NOTHING
    result = here.call(**arguments)
    assert (result["failed"], result["msg"]) == (True, words)
    assert (here.started, here.runs) == (0, [])


def test_a_directory_of_others_is_never_that_of_a_run(here: Here) -> None:
    (here.path / "mine").mkdir()
    result = here.call(role="stop", run_dir=str(here.path / "mine"))
    assert result["msg"] == f"run_dir '{here.path / 'mine'}' is not one that role server has made"
    assert (here.path / "mine").is_dir()


def test_a_check_goes_through_both_sides(here: Here) -> None:
    """Each call with what the check of the one before it has returned."""
    server = here.call(True, role="server", tests=TESTS)
    client = here.call(True, role="client", tests=TESTS, servers=server["results"], address=server["address"])
    stopped = here.call(True, role="stop", run_dir=server["run_dir"])
    assert [server, client, stopped] == [{**NOTHING, "address": "127.0.0.1"}] * 2 + [NOTHING]
    insist_on_return("perftest", server)
    assert (here.started, here.runs) == (0, [])


def test_the_examples_measure(here: Here) -> None:
    def call(_module: str, arguments: Json) -> Json:
        return here.call(**arguments)

    server, client, stopped = run_examples("perftest", call)
    assert [server["started"], server["changed"], client["changed"], stopped["changed"]] == [True, False, False, False]
    assert client["results"][0]["bandwidth_gbps"] == {"peak": 97.2, "average": 97.1}
    # the spare one
    assert stopped["stopped"] == 1
    assert here.runs == []
