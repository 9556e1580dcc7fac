# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs behind `make test` and `make molecule`: what they say of stages and scenarios that pass, fail, or prove nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.molecule.shared.pace import limit

MAKEFILE = """\
three:
\t@echo "3 passed, 1 skipped in 0.1s"
two:
\t@echo "2 passed in 0.1s"
nothing:
\t@echo "PLAY RECAP ok=7 skipped=2"
skips:
\t@echo "4 skipped in 0.1s"
fails:
\t@printf 'FAILED tests/test_it.py::test_that - assert 1 == 2\\n1 failed, 6 passed in 0.1s\\n'; exit 1
crashes:
\t@printf 'fatal: [lab1]: FAILED! => it is gone\\n2 passed\\n'; exit 1
waits:
\t@while [ ! -e quick-was-here ]; do sleep 0.1; done; echo "1 passed"
paced:
\t@echo "$${FABRIC_RDMA_PACE_LEAST:-1} passed"
quick:
\t@touch quick-was-here; echo "1 passed, in fact"
strict:
\t@echo "$${FABRIC_RDMA_SKIPS-unset}: 1 passed"
slow:
\t@echo $$$$ > slow.pid; sleep 1000; echo "1 passed"
breaks:
\t@while [ ! -e slow.pid ]; do sleep 0.1; done; echo "1 failed"; exit 1
slower:
\t@trap 'sleep 1; rm slower.pid; exit 1' TERM; sleep 1000 & echo $$$$ > slower.pid; wait
"""


@pytest.fixture
def checkout(repo: Path, tmp_path: Path) -> Path:
    """The programs, with stages and scenarios that only say something."""
    for name in ("test", "molecule"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        shutil.copy(repo / "tools" / name, tmp_path / "tools" / name)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    return tmp_path


def start(checkout: Path, program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    # as by hand, also where these tests are a stage of the program themselves
    outer = ("MAKEFLAGS", "SCENARIOS", "FABRIC_RDMA_PACE_LEAST", "FABRIC_RDMA_SKIPS", "FABRIC_RDMA_LEFT_OUT")
    environment = {key: value for key, value in os.environ.items() if key not in outer}
    return subprocess.Popen(
        # SIGINT as at a terminal, also where these tests run in the background, which ignores it
        ["env", "--default-signal=INT", str(checkout / "tools" / program), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environment, **variables},
    )


def run(checkout: Path, program: str, *arguments: str, **variables: str) -> tuple[int, str]:
    """Exit code and output."""
    process = start(checkout, program, *arguments, **variables)
    output, _errors = process.communicate(timeout=limit(60))
    return process.returncode, output


def table(output: str) -> dict[str, list[str]]:
    """Stage -> result, passed, failed, skipped; the result alone of one that did not run to its end."""
    row = r"^  (\S+) +(?:(ok|FAILED) +(\d+) +(\d+) +(\d+) +\d+ s|(stopped|not run|left out))$"
    rows = re.findall(row, output, re.MULTILINE)
    return {stage: [word for word in words if word] for stage, *words in rows}


def test_stages_that_pass_are_counted(checkout: Path) -> None:
    code, output = run(checkout, "test", "three", "two")
    assert code == 0
    assert table(output) == {"three": ["ok", "3", "0", "1"], "two": ["ok", "2", "0", "0"]}
    assert output.splitlines()[-1] == "5 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize(("stage", "skipped"), [("nothing", "0"), ("skips", "4")])
def test_a_stage_that_proves_nothing_has_failed(checkout: Path, stage: str, skipped: str) -> None:
    code, output = run(checkout, "test", "two", stage)
    assert code == 1
    assert f"{stage}: error: not a single test ran" in output
    assert table(output)[stage] == ["FAILED", "0", "1", skipped]
    assert output.splitlines()[-1] == f"2 passed, 1 failed, {skipped} skipped"


@pytest.mark.parametrize(
    ("stage", "row", "named"),
    [
        ("fails", ["FAILED", "6", "1", "0"], "FAILED tests/test_it.py::test_that - assert 1 == 2"),
        ("crashes", ["FAILED", "2", "1", "0"], "fatal: [lab1]: FAILED! => it is gone"),
    ],
)
def test_the_first_stage_that_fails_is_the_last_and_says_what_failed(
    checkout: Path, stage: str, row: list[str], named: str
) -> None:
    code, output = run(checkout, "test", "three", stage, "two,strict+quick", "waits")
    assert code == 1
    assert list(table(output)) == ["three", stage, "two", "strict", "quick", "waits"]
    assert table(output)[stage] == row
    assert [table(output)[name] for name in ("two", "strict", "quick", "waits")] == [["not run"]] * 4
    assert not (checkout / "quick-was-here").exists()
    end = output[output.index("result") :].splitlines()
    assert named in end
    assert f'Stopped at the stage "{stage}": its output is above; run it alone with: make {stage}' in end


def test_stages_that_run_at_once_are_shown_one_after_the_other(checkout: Path) -> None:
    """The first of them ends only after the second one."""
    code, output = run(checkout, "test", "waits+quick", "two")
    assert code == 0
    assert list(table(output)) == ["waits", "quick", "two"]
    assert re.findall(r"^(?:=== (\w+) ===|(1 passed, in fact))$", output, re.MULTILINE) == [
        ("waits", ""),
        ("quick", ""),
        ("", "1 passed, in fact"),
        ("two", ""),
    ]


def test_of_stages_that_run_at_once_each_may_fail(checkout: Path) -> None:
    assert run(checkout, "test", "two+fails")[0] == 1
    code, output = run(checkout, "test", "fails+two")
    assert code == 1
    assert list(table(output)) == ["fails", "two"]
    assert table(output)["fails"] == ["FAILED", "6", "1", "0"]


def test_lists_of_stages_run_at_once_each_in_its_order(checkout: Path) -> None:
    """`waits` ends only once `quick`, which comes after another stage of the other list, has begun."""
    code, output = run(checkout, "test", "waits,two+three,quick", "two")
    assert code == 0
    assert list(table(output)) == ["waits", "two", "three", "quick"]
    assert re.findall(r"^=== (\w+) ===$", output, re.MULTILINE) == ["waits", "two", "three", "quick", "two"]
    assert output.splitlines()[-1] == "9 passed, 0 failed, 1 skipped"
    told = re.findall(r"^--- (\w+) has passed after \d+ s, its output comes later$", output, re.MULTILINE)
    assert told == ["three", "quick"]


def test_what_goes_behind_others_has_more_time(checkout: Path) -> None:
    """The lists that are not shown, for whose sake no other waits."""
    assert table(run(checkout, "test", "paced+two")[1])["paced"] == ["ok", "1", "0", "0"]
    assert table(run(checkout, "test", "two+paced")[1])["paced"] == ["ok", "3", "0", "0"]


@pytest.mark.parametrize("stages", ["strict", "two+strict"])
def test_what_is_skipped_in_a_stage_fails_unless_somebody_says_otherwise(checkout: Path, stages: str) -> None:
    """conftest.py goes by what stages are told, test_skips.py shows how."""
    assert "fail: 1 passed" in run(checkout, "test", stages)[1].splitlines()
    assert ": 1 passed" in run(checkout, "test", stages, FABRIC_RDMA_SKIPS="")[1].splitlines()


def bare(repo: Path, checkout: Path, programs: dict[str, str]) -> Path:
    """A checkout that has the Makefile, an environment that is complete, and programs in the place of its own."""
    checkout.mkdir(exist_ok=True)
    (checkout / "Makefile").write_text((repo / "Makefile").read_text())
    for name in ("requirements-dev.txt", "collections/requirements.yml", ".venv/.complete"):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).touch()
    for name, text in programs.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(f"#!/bin/sh\n{text}\n")
        (checkout / name).chmod(0o755)
    return checkout


def made(checkout: Path, target: str, **env: str) -> list[str]:
    """What `make TARGET` prints there."""
    done = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=checkout,
        env={**os.environ, "MAKEFLAGS": "", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_inner_loop_needs_no_part_of_a_node(repo: Path, tmp_path: Path) -> None:
    """`make check` is a stage of tools/test, too, but what its unit tests look at without a containerd may be skipped."""
    python = 'printf "%s\\n" "${FABRIC_RDMA_SKIPS-unset}|$*"'
    checkout = bare(repo, tmp_path, {"tools/apt-install": "true", ".venv/bin/python": python})
    env = {"FABRIC_RDMA_SKIPS": "fail", "FABRIC_RDMA_CONTAINERDS": "/nowhere"}
    said = {target: made(checkout, target, **env)[-1].partition("|") for target in ("quick", "unit")}
    assert said["quick"][0] == ""
    assert said["unit"][0] == "fail"
    assert all(arguments.startswith("-m pytest ") for _skips, _bar, arguments in said.values())


def test_a_list_ends_with_its_first_failure_which_is_reported_at_once(checkout: Path) -> None:
    """The list that is shown goes on to its end: what it has found so far counts, too."""
    code, output = run(checkout, "test", "waits,two+quick,fails,three", "paced")
    assert code == 1
    assert {name: row[0] for name, row in table(output).items()} == {
        "waits": "ok",
        "two": "ok",
        "quick": "ok",
        "fails": "FAILED",
        "three": "not run",
        "paced": "not run",
    }
    told, shown = output.index("--- fails has failed after "), output.index("=== fails ===")
    assert told < output.index("FAILED tests/test_it.py::test_that") < shown
    assert output.splitlines()[-2].startswith('Stopped at the stage "fails"')


def test_of_a_list_that_is_shown_the_first_failure_ends_all(checkout: Path) -> None:
    code, output = run(checkout, "test", "fails,three+slow")
    assert code == 1
    assert list(table(output)) == ["fails", "three", "slow"]
    assert table(output)["three"] == ["not run"]
    (other,) = pids(checkout, "slow.pid") if (checkout / "slow.pid").exists() else (0,)
    assert not other or gone(other)


def test_what_was_ended_and_what_has_ended_beside_a_failure_is_told(checkout: Path) -> None:
    """And what came after it in its list. One that has passed counts, and a stage is not taken for an earlier one of its name."""
    code, output = run(checkout, "test", "two", "breaks,two+quick,slow,strict")
    assert code == 1
    assert re.findall(r"^  (\w+) +(ok|FAILED|stopped|not run)\b", output, re.MULTILINE) == [
        ("two", "ok"),
        ("breaks", "FAILED"),
        ("two", "not run"),
        ("quick", "ok"),
        ("slow", "stopped"),
        ("strict", "not run"),
    ]
    assert "--- breaks has failed, what runs beside it is ended" in output.splitlines()
    assert output.splitlines()[-2].startswith('Stopped at the stage "breaks"')
    assert output.splitlines()[-1] == "3 passed, 1 failed, 0 skipped"
    (other,) = pids(checkout, "slow.pid")
    assert gone(other)


def pids(checkout: Path, *names: str) -> list[int]:
    """The processes that have told theirs in these files, when all have."""
    end = time.monotonic() + limit(30)
    while not all((checkout / name).exists() and (checkout / name).read_text().endswith("\n") for name in names):
        assert time.monotonic() < end, f"{names} did not start"
        time.sleep(0.05)
    return [int((checkout / name).read_text()) for name in names]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def ended(process: subprocess.Popen[str], others: list[int]) -> None:
    """Waits for its end. Whatever it leaves goes with the test."""
    try:
        process.communicate(timeout=limit(30))
    except subprocess.TimeoutExpired:
        process.kill()
        for pid in others:
            with contextlib.suppress(OSError):
                os.killpg(os.getpgid(pid), signal.SIGKILL)
        process.communicate()
        raise


@pytest.mark.parametrize("stages", ["slow+slower", "slower+slow"])
@pytest.mark.parametrize(("signal_", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stages_end_with_whoever_runs_them(checkout: Path, stages: str, signal_: signal.Signals, code: int) -> None:
    """At once, and not before they have cleaned up: both the shown and the other one."""
    process = start(checkout, "test", stages)
    running = pids(checkout, "slow.pid", "slower.pid")
    process.send_signal(signal_)
    ended(process, running)
    assert process.returncode == code
    assert [pid for pid in running if not gone(pid)] == []
    assert not (checkout / "slower.pid").exists()


# --- continuous integration ------------------------------------------------------------------------------------------

LEFT_OUT = "No recordings in ../shared/captures: make recorded is left out."


@pytest.mark.parametrize("target", ["test", "everything"])
def test_recordings_are_a_stage_or_said_to_be_missing(repo: Path, tmp_path: Path, target: str) -> None:
    checkout = bare(
        repo, tmp_path / "checkout", {"tools/test": 'echo "$*:$FABRIC_RDMA_LEFT_OUT"', "tools/apt-install": "true"}
    )

    def said() -> list[str]:
        return made(checkout, target)

    missing, last = said()
    assert missing == LEFT_OUT
    stages, left_out = last.split(":")
    assert left_out == "recorded"
    (tmp_path / "shared" / "captures").mkdir(parents=True)
    (last,) = said()
    with_them, left_out = last.split(":")
    assert left_out == ""
    assert sorted(with_them.split()) == sorted([*stages.split(), "recorded"])


@pytest.mark.parametrize(("last", "code"), [("two", 0), ("fails", 1)])
def test_the_table_names_stages_that_are_left_out(checkout: Path, last: str, code: int) -> None:
    done, output = run(checkout, "test", "three", last, FABRIC_RDMA_LEFT_OUT="recorded", CI="")
    assert done == code
    assert list(table(output)) == ["three", last, "recorded"]
    assert table(output)["recorded"] == ["left out"]
    # what has failed is another one
    assert (f'Stopped at the stage "{last}"' in output) is bool(code)
    assert "No such file" not in output


def test_a_stage_that_is_left_out_fails_where_ci_runs(checkout: Path) -> None:
    done, output = run(checkout, "test", "three", FABRIC_RDMA_LEFT_OUT="recorded", CI="true")
    assert done == 1
    assert table(output)["recorded"] == ["left out"]
    assert "Left out, which fails where CI runs (CI is set): recorded" in output
    assert output.rstrip().splitlines()[-1].split(", ")[1] == "1 failed"


@pytest.mark.parametrize(
    ("targets", "said"), [([], "make test, CI=true"), (["kubernetes"], "make kubernetes, CI=true")]
)
def test_continuous_integration_runs_make_test_or_what_it_is_told(
    repo: Path, tmp_path: Path, targets: list[str], said: str
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(repo / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "make").write_text('#!/bin/sh\necho "make $*, CI=$CI"\n')
    (tmp_path / "bin" / "make").chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "run", *targets],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit(60),
        check=True,
    )
    assert done.stdout.splitlines() == [said]


def test_what_continuous_integration_needs_is_what_sanity_looks_at(repo: Path) -> None:
    """The Pythons, and that one that is missing fails there alone."""
    sanity = (repo / "tools" / "sanity").read_text()
    (floor,) = re.findall(r"^floor=(\S+)$", sanity, re.MULTILINE)
    (may_miss,) = re.findall(r"^may_miss=(\S+)$", sanity, re.MULTILINE)
    last = f"3.{int(may_miss.rpartition('.')[2]) - 1}"
    for paper in (".ci/run", "CONTRIBUTING.md"):
        text = " ".join((repo / paper).read_text().replace("#", "").split())
        assert re.search(rf"Python {floor},? and those up to {last} that ansible-test supports", text), paper
        assert "CI=true" in text


# --- packages --------------------------------------------------------------------------------------------------------

# notes that it runs, and complains about another one that does
APT_GET = """\
#!/bin/sh
echo "$http_proxy $https_proxy" > "$(dirname "$0")/../proxies"
[ "$1" = update ] && exec "$(dirname "$0")/update"
mkdir "$0.lock" || { echo 'E: Could not get lock'; exit 100; }
sleep 0.5
shift 5
for package in "$@"; do echo installed > "$(dirname "$0")/../packages/$package"; done
echo "$*" >> "$(dirname "$0")/../asked"
rmdir "$0.lock"
"""
# of the variables of who calls it, it keeps those that are named
SUDO = """\
#!/bin/sh
echo "$@" >> "$(dirname "$0")/../logged"
keep=
case "$1" in --preserve-env=*) keep=${1#*=}; shift ;; esac
for name in $(echo "$keep" | tr , ' '); do eval "set -- \\"$name=\\$$name\\" \\"\\$@\\""; done
exec env -i "PATH=$PATH" "$@"
"""


@pytest.fixture
def installing(repo: Path, tmp_path: Path) -> list[str]:
    """tools/apt-install of two packages, where nothing is installed, by somebody who is not root."""
    for name in ("tools", "bin", "packages"):
        (tmp_path / name).mkdir()
    shutil.copy(repo / "tools" / "apt-install", tmp_path / "tools" / "apt-install")
    programs = {
        "apt-get": APT_GET,
        "update": "#!/bin/sh\n",
        "dpkg-query": f'#!/bin/sh\ncat "{tmp_path}/packages/$3"\n',
        "id": "#!/bin/sh\necho 1000\n",
        "sudo": SUDO,
    }
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"PATH={tmp_path / 'bin'}:{os.environ['PATH']}"
    return ["env", path, str(tmp_path / "tools" / "apt-install"), "one", "two"]


def test_stages_that_run_at_once_install_one_after_the_other(installing: list[str], tmp_path: Path) -> None:
    """What one has installed, the other does not ask for again."""
    processes = [
        subprocess.Popen(installing, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _number in range(2)
    ]
    outputs = [process.communicate(timeout=limit(60))[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert (tmp_path / "asked").read_text().splitlines() == ["one two"]


def test_packages_come_over_the_proxy_of_who_asks_for_them(installing: list[str], tmp_path: Path) -> None:
    """sudo keeps no variable by itself, and logs what it is given."""
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    env |= {"http_proxy": "http://me:secret@proxy.example.com:3128", "https_proxy": "http://proxy.example.com:3128"}
    subprocess.run(installing, env=env, check=True, capture_output=True, timeout=limit(60))
    assert (tmp_path / "proxies").read_text().split() == [env["http_proxy"], env["https_proxy"]]
    assert "secret" not in (tmp_path / "logged").read_text()


def test_packages_come_where_sudo_keeps_no_variable(installing: list[str], tmp_path: Path) -> None:
    """NOSETENV of sudoers(5): sudo refuses the command whole. The apt of the machine may know the proxy itself."""
    sudo = tmp_path / "bin" / "sudo"
    refuse = "case \"$1\" in --preserve-env=*) echo 'sudo: sorry, you are not allowed' >&2; exit 1 ;; esac\n"
    sudo.write_text(SUDO.replace("keep=\n", refuse + "keep=\n", 1))
    env = {**os.environ, "http_proxy": "http://proxy.example.com:3128"}
    subprocess.run(installing, env=env, check=True, capture_output=True, timeout=limit(60))
    assert (tmp_path / "asked").read_text().splitlines() == ["one two"]


def test_packages_wait_for_a_machine_that_updates_itself(installing: list[str], tmp_path: Path) -> None:
    """The lock is real, and so is apt-get, which does not wait for it."""
    state = tmp_path / "state"
    (state / "lists" / "partial").mkdir(parents=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "status").touch()
    places = {
        "Dir::State": state,
        "Dir::State::Status": tmp_path / "status",
        "Dir::Cache": tmp_path / "cache",
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": state / "none",
    }
    options = " ".join(f"-o {key}={value}" for key, value in places.items())
    (tmp_path / "bin" / "update").write_text(f"#!/bin/sh\nexec {shutil.which('apt-get')} {options} update\n")
    with open(state / "lists" / "lock", "w", encoding="utf-8") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with subprocess.Popen(installing, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout
            first = [process.stdout.readline() for _number in range(2)]
            fcntl.lockf(lock, fcntl.LOCK_UN)
            rest = process.stdout.read()
    assert first[0] == "apt: installing one two\n"
    assert first[1].startswith(f"apt: waiting: {state}/lists/lock. It is held by process {os.getpid()} ")
    assert (process.returncode, rest) == (0, "")
    assert (tmp_path / "asked").read_text().splitlines() == ["one two"]


def test_a_program_that_is_there_needs_no_package(installing: list[str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "one").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "one").chmod(0o755)
    subprocess.run(installing, check=True, capture_output=True, timeout=limit(60))
    assert (tmp_path / "asked").read_text().splitlines() == ["two"]


def test_packages_that_are_not_there_are_not_waited_for(installing: list[str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "update").write_text("#!/bin/sh\necho 'E: no network'\nexit 100\n")
    done = subprocess.run(installing, check=False, capture_output=True, text=True, timeout=limit(60))
    assert (done.returncode, done.stderr) == (1, "E: no network\nerror: could not install: one two\n")


# --- scenarios -------------------------------------------------------------------------------------------------------

MOLECULE = """\
#!/bin/sh
cd "$(dirname "$0")/../.."
echo "$1 $3" >> calls
[ "$1" = test ] || exit 0
if [ "$3" = hangs ]; then echo $$ > hangs.pid; exec sleep 1000; fi
cat "molecule/$3/says"
exit "$(cat "molecule/$3/status")"
"""
INSTALL = '#!/bin/sh\necho "$2" >> "$(dirname "$0")/../installed"\n'
# what a verifier says at the end
VERIFIED = "============ %s in 4.20s ============\n"
TASKS = """\
TASK [Look] *********
ok: [lab1]

TASK [Change it] *********
fatal: [lab1]: FAILED! => {"changed": false}
    msg: it is gone

PLAY RECAP *********
lab1 : ok=1 changed=0 unreachable=0 failed=1
"""


def scenario(checkout: Path, name: str, says: str = VERIFIED % "1 passed", status: int = 0) -> None:
    place = checkout / "molecule" / name
    place.mkdir(parents=True)
    (place / "molecule.yml").touch()
    (place / "says").write_text(says)
    (place / "status").write_text(str(status))
    for path, text in ((".venv/bin/molecule", MOLECULE), ("tools/apt-install", INSTALL)):
        program = checkout / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)


def test_tests_of_scenarios_are_counted(checkout: Path) -> None:
    scenario(checkout, "default", VERIFIED % "3 passed, 1 warning" + VERIFIED % "2 passed")
    scenario(checkout, "waves")
    code, output = run(checkout, "molecule")
    assert code == 0
    rows = {re.sub(r", \d+ s$", "", line) for line in output.splitlines() if re.search(r", \d+ s$", line)}
    assert rows == {"  default: ok, 5 passed", "  waves: ok, 1 passed"}
    assert output.splitlines()[-1] == "molecule: 6 passed"


def test_scenarios_that_have_targets_of_their_own_are_left_to_them(repo: Path, checkout: Path) -> None:
    own = ["cluster", "dranet", "driver", "kubernetes", "networks", "runtimes"]
    assert {path.parent.name for path in repo.glob("molecule/*/molecule.yml")} > set(own)
    for name in [*own, "default", "pods", "waves"]:
        scenario(checkout, name)
    assert run(checkout, "molecule")[0] == 0
    assert sorted((checkout / "calls").read_text().split("\n")) == ["", "test default", "test pods", "test waves"]


@pytest.mark.parametrize(
    ("says", "status", "line", "count"),
    [
        ("PLAY RECAP\n", 0, "it: FAILED: no verification ran, 0 passed", "0 passed, 1 failed"),
        (VERIFIED % "2 failed, 1 passed", 1, "it: FAILED: 2 tests, 1 passed", "1 passed, 2 failed"),
        (VERIFIED % "1 passed" + TASKS, 1, "it: FAILED, no test of it, 1 passed", "1 passed, 1 failed"),
    ],
    ids=["nothing", "tests", "tasks"],
)
def test_a_scenario_that_fails_fails_the_stage_and_names_its_end(
    checkout: Path, says: str, status: int, line: str, count: str
) -> None:
    scenario(checkout, "it", says, status)
    scenario(checkout, "other", VERIFIED % "1 passed")
    code, output = run(checkout, "molecule", SCENARIOS="it")
    assert code == 1
    assert re.search(rf"^  {re.escape(line)}, \d+ s$", output, re.M)
    assert output.splitlines()[-1] == f"molecule: {count}"
    # what failed where no test did, once more at the end
    assert ("    TASK [Change it] " in output) is ("TASK" in says)


@pytest.mark.parametrize(
    ("scenarios", "profiles"),
    [("kubernetes", ["kubernetes"]), ("driver", ["lab"]), ("default kubernetes", ["kubernetes", "lab"])],
)
def test_scenarios_get_the_packages_that_they_need(checkout: Path, scenarios: str, profiles: list[str]) -> None:
    for name in scenarios.split():
        scenario(checkout, name)
    assert run(checkout, "molecule", SCENARIOS=scenarios)[0] == 0
    assert (checkout / "installed").read_text().split() == profiles


def test_scenarios_are_destroyed_when_they_are_stopped(checkout: Path) -> None:
    scenario(checkout, "hangs")
    scenario(checkout, "other")
    process = start(checkout, "molecule", SCENARIOS="hangs other")
    (running,) = pids(checkout, "hangs.pid")
    process.terminate()
    ended(process, [running])
    assert process.returncode == 143
    assert gone(running)
    # at the same time, in any order
    assert sorted((checkout / "calls").read_text().splitlines()[-2:]) == ["destroy hangs", "destroy other"]
