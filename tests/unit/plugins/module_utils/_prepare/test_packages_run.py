# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of a change, with a package manager of a few lines. Real ones are asked by the molecule scenario driver."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.fabric.rdma.plugins.module_utils._base.remembered import (
    RememberedError,
    forget,
    recall,
    remember,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare import packages_run as _packages_run
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages import File, Snapshot, no_way_back
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.packages_run import (
    Apt,
    Dnf,
    Manager,
    PackagesError,
    Record,
    Zypper,
    find_manager,
)
from ansible_collections.fabric.rdma.tests.unit.plugins.module_utils._prepare.test_openpgp import KEY


@pytest.fixture(autouse=True)
def lists(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory of this machine is made."""
    monkeypatch.setattr(Apt, "lists", str(tmp_path_factory.mktemp("lists")))


class Small(Manager):
    """One that has what it is given; a version that its repositories lack cannot be installed."""

    def __init__(self, directory: Path, **packages: str) -> None:
        super().__init__(lambda _command: (0, "", ""), 0)
        self.paths = (f"{directory}/",)
        self.packages = dict(packages)
        self.offers = {("clusterkit", "1"), ("clusterkit", "2")}
        self.held: set[str] = set()
        self.wanted: dict[str, list[list[str]]] = {"doca-ofed": [["clusterkit"]]}
        self.marks: list[str] | None = None

    def snapshot(self) -> Snapshot:
        return Snapshot(dict(self.packages), sorted(self.held), self.files())

    def needs(self) -> tuple[dict[str, list[list[str]]], dict[str, list[str]]]:
        return {name: self.wanted.get(name, []) for name in self.packages}, {}

    def automatic(self) -> list[str] | None:
        return self.marks

    def owners(self, paths: Sequence[str]) -> dict[str, list[str]]:
        return {path: [os.path.basename(path).partition(".")[0]] for path in paths if path.endswith(".packaged")}

    def refresh(self) -> None:
        pass

    def change(self, install: Sequence[tuple[str, str]], remove: Sequence[str]) -> None:
        missing = [pair for pair in install if pair not in self.offers]
        if missing:
            raise PackagesError(f"apt-get install: E: no {missing[0]}")
        self.packages.update(install)
        for name in remove:
            del self.packages[name]

    def mark(self, holds: dict[str, bool], automatic: Sequence[str]) -> None:
        self.held = (self.held | {name for name in holds if holds[name]}) - {name for name in holds if not holds[name]}


@pytest.fixture
def small(tmp_path: Path) -> Small:
    (tmp_path / "etc").mkdir()
    return Small(tmp_path / "etc", clusterkit="1", other="1")


def change(manager: Small, path: str) -> None:
    """A driver's: another version of a package, a new one, a pin, a hold that goes; and what others do beside it."""
    manager.held = {"clusterkit"}
    Record(manager, path).open()
    manager.packages.update({"clusterkit": "2", "doca-ofed": "1"})
    manager.held = set()
    (Path(manager.paths[0]) / "fabric-rdma-pin").write_text("1001", encoding="ascii")
    Record(manager, path).close()
    manager.packages.update(theirs="1", other="2")


def test_what_was_changed_is_undone_by_a_later_run(tmp_path: Path, small: Small) -> None:
    path = str(tmp_path / "state" / "packages.json")
    change(small, path)
    predicted = Record(small, path).predict()
    outcome = Record(small, path).undo()
    assert predicted == outcome
    assert outcome == (
        ["clusterkit is 1", "doca-ofed is out", "clusterkit is held", f"{small.paths[0]}fabric-rdma-pin is out"],
        [],
        True,
    )
    assert small.packages == {"clusterkit": "1", "other": "2", "theirs": "1"}
    assert small.held == {"clusterkit"}
    assert os.listdir(small.paths[0]) == []
    assert not Record(small, path).found
    assert Record(small, path).undo() == ([], [], True)


def test_what_cannot_be_put_back_is_told_with_the_reason(tmp_path: Path, small: Small) -> None:
    path = str(tmp_path / "packages.json")
    small.offers = set()
    change(small, path)
    outcome = Record(small, path).undo()
    assert outcome.left == ["clusterkit is 2, and was 1", "apt-get install: E: no ('clusterkit', '1')"]
    assert not outcome.complete
    assert "doca-ofed" not in small.packages, "the new driver goes all the same"
    # once a repository has the version, a later run puts back the rest
    small.offers = {("clusterkit", "1")}
    again = Record(small, path)
    assert again.found
    assert again.undo().complete
    assert small.packages["clusterkit"] == "1"
    assert not Record(small, path).found


def test_what_no_repository_has_any_more_keeps_no_stack_away(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a package of the site's own that was in the way of the driver, or the headers of a kernel of long ago."""
    path = str(tmp_path / "packages.json")
    small.packages.update({"sites-own": "1", "libfabric1:amd64": "1"})
    small.offers.add(("libfabric1:amd64", "1"))
    monkeypatch.setattr(small, "offered", lambda names: [("libfabric1", "1")] if "libfabric1:amd64" in names else [])
    Record(small, path).open()
    del small.packages["sites-own"], small.packages["libfabric1:amd64"]
    small.packages.update({"clusterkit": "2", "doca-ofed": "1"})
    Record(small, path).close()
    outcome = Record(small, path).undo()
    assert small.packages == {"clusterkit": "1", "other": "1", "libfabric1:amd64": "1"}
    assert outcome.left == ["sites-own is not there, and was 1", "apt-get install: E: no ('sites-own', '1')"]
    # what is missing stays remembered
    assert not outcome.complete


def test_a_hold_outlives_that_its_package_is_put_back(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there before the change and after it; what apt installs by name is no longer held."""
    path = str(tmp_path / "packages.json")
    small.held = {"clusterkit"}
    Record(small, path).open()
    small.packages.update({"clusterkit": "2", "doca-ofed": "1"})
    Record(small, path).close()
    install = small.change

    def change_packages(wanted: Sequence[tuple[str, str]], remove: Sequence[str]) -> None:
        install(wanted, remove)
        small.held -= {name for name, _version in wanted}

    monkeypatch.setattr(small, "change", change_packages)
    assert Record(small, path).undo().complete
    assert small.held == {"clusterkit"}


LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 712 (apt-get)"


@pytest.mark.parametrize(("timeout", "looks"), [(60, 3), (0, 1)])
def test_apt_waits_for_the_lock_of_its_lists(timeout: int, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        calls.append(command)
        return (100, "", LOCKED) if len(calls) < 3 else (0, "", "")

    monkeypatch.setattr(_packages_run, "_LOCK_LOOK", 0)
    with contextlib.nullcontext() if timeout else pytest.raises(PackagesError, match="held by process 712"):
        Apt(run, timeout).refresh()
    assert len(calls) == looks


CONFIGURE = ["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"]


@pytest.mark.parametrize("cut", [True, False])
def test_what_dpkg_has_not_ended_is_ended_before_packages_go(tmp_path: Path, cut: bool) -> None:
    """And what is gone already is not named: apt would say that there is no such package, and do nothing."""
    if cut:
        (tmp_path / "0001").touch()
    calls: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        calls.append(command)
        return 0, "doca-ofed\t1\tinstalled\tinstall\t\t\t\n" if command[0] == "dpkg-query" else "", ""

    apt = Apt(run, 0)
    apt.journal = str(tmp_path)
    apt.change([], ["doca-ofed", "gone"])
    assert (CONFIGURE in calls) is cut
    assert [word for word in calls[-1] if word.endswith("-")] == ["doca-ofed-"]


@pytest.mark.parametrize("mine", [False, True], ids=["of somebody else", "of a run of ours"])
def test_what_dpkg_has_not_ended_is_ended_before_packages_come(tmp_path: Path, mine: bool) -> None:
    """apt installs nothing until then. What dpkg ends is of the change that was cut short, where it was cut short in ours."""
    calls: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        calls.append(command)
        if command == CONFIGURE:
            (tmp_path / "0001").unlink()
            (tmp_path / "ended").touch()
        there = command[0] == "dpkg-query" and (tmp_path / "ended").exists()
        return 0, "doca-ofed\t1\tinstalled\tinstall\t\t\t\n" if there else "", ""

    apt = Apt(run, 0)
    apt.journal, apt.paths = str(tmp_path), ()
    if mine:
        Record(apt, str(tmp_path / "notes")).open()
    (tmp_path / "0001").touch()
    calls.clear()
    Record(apt, str(tmp_path / "notes")).open()
    assert calls[0] == CONFIGURE
    assert Record(apt, str(tmp_path / "notes")).before() == ({} if mine else {"doca-ofed": "1"})
    calls.clear()
    Record(apt, str(tmp_path / "notes")).open()
    assert CONFIGURE not in calls


def test_a_full_disk_is_no_end_of_the_undoing(tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither notes nor files nor packages find room before something is removed."""
    path = str(tmp_path / "packages.json")
    directory = Path(small.paths[0])
    (directory / "fabric-rdma-sources").write_text("theirs", encoding="ascii")
    Record(small, path).open()
    small.packages.update({"clusterkit": "2", "doca-ofed": "1"})
    (directory / "fabric-rdma-sources").write_text("ours", encoding="ascii")
    put, install = small.put_files, small.change

    def full(name: str = path) -> None:
        if "doca-ofed" in small.packages:
            raise OSError(errno.ENOSPC, "No space left on device", name)

    def change_packages(wanted: Sequence[tuple[str, str]], remove: Sequence[str]) -> None:
        if wanted and "doca-ofed" in small.packages:
            raise PackagesError("apt-get install: E: You don't have enough free space")
        install(wanted, remove)

    monkeypatch.setattr(_packages_run, "remember", lambda name, _value: full(name))
    monkeypatch.setattr(small, "put_files", lambda files: (full(next(iter(files))), put(files)))
    monkeypatch.setattr(small, "change", change_packages)
    outcome = Record(small, path).undo()
    assert outcome == (["clusterkit is 1", "doca-ofed is out", f"{directory}/fabric-rdma-sources is back"], [], True)
    assert small.packages == {"clusterkit": "1", "other": "1"}
    assert (directory / "fabric-rdma-sources").read_text(encoding="ascii") == "theirs"


@pytest.mark.parametrize("removes", [True, False])
def test_files_find_room_once_packages_are_gone(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch, removes: bool
) -> None:
    """Also when the packages go at the first attempt, when they do not go at all, and somebody else makes the room."""
    path = str(tmp_path / "packages.json")
    change(small, path)
    put, install, calls = small.put_files, small.change, []

    def put_files(files: dict[str, File | None]) -> None:
        if not calls:
            raise OSError(errno.ENOSPC, "No space left on device", next(iter(files)))
        put(files)

    def change_packages(wanted: Sequence[tuple[str, str]], remove: Sequence[str]) -> None:
        calls.append(remove)
        if not removes:
            raise PackagesError("apt-get install: E: no")
        install(wanted, remove)

    monkeypatch.setattr(small, "put_files", put_files)
    monkeypatch.setattr(small, "change", change_packages)
    outcome = Record(small, path).undo()
    assert os.listdir(small.paths[0]) == []
    assert f"{small.paths[0]}fabric-rdma-pin is out" in outcome.restored
    assert outcome.complete == removes


def test_files_find_room_where_no_package_was_changed(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "packages.json")
    pin = Path(small.paths[0]) / "fabric-rdma-pin"
    Record(small, path).open()
    pin.write_text("1001", encoding="ascii")
    Record(small, path).close()
    put, calls = small.put_files, []

    def put_files(files: dict[str, File | None]) -> None:
        calls.append(files)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device", next(iter(files)))
        put(files)

    monkeypatch.setattr(small, "put_files", put_files)
    assert Record(small, path).undo() == ([f"{pin} is out"], [], True)
    assert not pin.exists()


def test_what_cannot_be_looked_at_is_not_forgotten(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a look at what there is, nobody knows what the change did; a later run may."""
    path = str(tmp_path / "packages.json")
    Record(small, path).open()
    small.packages.update({"clusterkit": "2", "doca-ofed": "1"})
    look, answers = small.snapshot, [PackagesError("dpkg-query: busy")]

    def snapshot() -> Snapshot:
        if answers:
            raise answers.pop()
        return look()

    monkeypatch.setattr(small, "snapshot", snapshot)
    with pytest.raises(PackagesError, match=r"^dpkg-query: busy$"):
        Record(small, path).undo()
    assert Record(small, path).found
    assert Record(small, path).undo().restored == ["clusterkit is 1", "doca-ofed is out"]
    assert small.packages == {"clusterkit": "1", "other": "1"}


def test_what_nobody_asked_for_is_marked_so_again(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dpkg tells the architecture of a package that may be there for several, apt-mark does not."""
    path = str(tmp_path / "packages.json")
    small.packages = {"libibverbs1:amd64": "1", "rdma-clusterkit": "1", "theirs": "1"}
    small.offers = {("libibverbs1:amd64", "1"), ("rdma-clusterkit", "1")}
    monkeypatch.setattr(small, "automatic", lambda: ["libibverbs1", "theirs"])
    marked: list[str] = []
    monkeypatch.setattr(small, "mark", lambda _holds, automatic: marked.extend(automatic))
    Record(small, path).open()
    small.packages = {"libibverbs1:amd64": "2", "rdma-clusterkit": "2", "theirs": "1"}
    Record(small, path).close()
    assert Record(small, path).undo().complete
    assert marked == ["libibverbs1"]


def test_what_others_need_is_no_failure(tmp_path: Path, small: Small) -> None:
    path = str(tmp_path / "packages.json")
    change(small, path)
    small.wanted = {"theirs": [["doca-ofed"]]}
    outcome = Record(small, path).undo()
    assert outcome.left == ["doca-ofed stays, since theirs needs it, which this change did not bring"]
    assert outcome.complete


def test_several_changes_are_one(tmp_path: Path, small: Small) -> None:
    path = str(tmp_path / "packages.json")
    change(small, path)
    Record(small, path).open()
    small.packages.update(clusterkit="3")
    Record(small, path).close()
    Record(small, path).undo()
    assert small.packages["clusterkit"] == "1"


def test_a_run_that_was_killed_in_its_change(tmp_path: Path, small: Small) -> None:
    """What others did since then is not its doing, and only packages of the stack are known not to be theirs."""
    path = str(tmp_path / "packages.json")
    Record(small, path).open()
    small.packages.update({"doca-ofed": "1", "theirs": "1"})
    small.held = {"theirs"}
    assert Record(small, path).before() == {"clusterkit": "1", "other": "1"}
    Record(small, path).open()
    # what it goes back to is what was there before the run that was killed, and what others did
    assert Record(small, path).before() == {"clusterkit": "1", "other": "1", "theirs": "1"}
    outcome = Record(small, path).undo()
    assert outcome.restored == ["doca-ofed is out"]
    assert small.packages == {"clusterkit": "1", "other": "1", "theirs": "1"}


def test_what_others_install_during_the_change_stays(tmp_path: Path, small: Small) -> None:
    """A package manager waits for another one, after the change was opened. What the driver needs is of the change."""
    path = str(tmp_path / "packages.json")
    small.wanted = {"doca-ofed": [["dkms", "nothing"]], "dkms": [["gcc"]], "mail": [["gcc"]], "other": [["mta"]]}
    small.wanted["gcc"] = [["clusterkit"]]
    small.marks = ["dkms", "gcc", "libpq"]
    Record(small, path).open()
    # theirs: with what it needs, another version of what was there, and what might be needed by what was there
    small.packages.update(postgresql="15", libpq="15", other="2", mta="1")
    small.packages.update({"doca-ofed": "1", "dkms": "3", "gcc": "12", "clusterkit": "2"})
    Record(small, path).close()
    stays = "stays, since it came beside the driver, which does not need it"
    left = [f"libpq 15 {stays}", f"mta 1 {stays}", f"other 2 {stays}", f"postgresql 15 {stays}"]
    assert Record(small, path).predict().left == left
    outcome = Record(small, path).undo()
    assert outcome == (["clusterkit is 1", "dkms is out", "doca-ofed is out", "gcc is out"], left, True)
    assert small.packages == {"clusterkit": "1", "other": "2", "postgresql": "15", "libpq": "15", "mta": "1"}


def test_what_others_install_stays_also_when_the_change_was_not_closed(tmp_path: Path, small: Small) -> None:
    path = str(tmp_path / "packages.json")
    Record(small, path).open()
    small.packages.update({"doca-ofed": "1", "postgresql": "15"})
    outcome = Record(small, path).undo()
    assert outcome.restored == ["doca-ofed is out"]
    assert outcome.left == ["postgresql 15 stays, since it came beside the driver, which does not need it"]
    assert outcome.complete
    assert "postgresql" in small.packages


def test_what_somebody_asked_for_by_name_stays(tmp_path: Path, small: Small) -> None:
    """Where the package manager knows it; what the wish names was asked for by us."""
    path = str(tmp_path / "packages.json")
    small.wanted = {"doca-ofed": [["dkms"], ["gcc"]]}
    small.marks = ["gcc"]
    Record(small, path).open(["tools=1.*"])
    small.packages.update({"doca-ofed": "1", "dkms:amd64": "3", "gcc:amd64": "12", "tools": "1"})
    Record(small, path).close()
    outcome = Record(small, path).undo()
    assert outcome.restored == ["doca-ofed is out", "gcc:amd64 is out", "tools is out"]
    assert outcome.left == ["dkms:amd64 3 stays, since somebody asked for it by name"]
    assert outcome.complete
    assert small.packages == {"clusterkit": "1", "other": "1", "dkms:amd64": "3"}


def test_sources_pins_and_holds_of_others_stay(tmp_path: Path, small: Small) -> None:
    """Also those that they write while the driver is being installed."""
    path = str(tmp_path / "packages.json")
    directory = Path(small.paths[0])
    for name in ("preferences", "gone.list"):
        (directory / name).write_text("before", encoding="ascii")
    small.held = {"other"}
    Record(small, path).open()
    small.packages.update({"doca-ofed": "1", "theirs": "1"})
    small.held = {"doca-ofed", "theirs"}
    for name in ("preferences", "kubernetes.list", "theirs.packaged"):
        (directory / name).write_text("of somebody else", encoding="ascii")
    for name in ("fabric-rdma-ofed.pref", "RPM-GPG-KEY-Mellanox", "doca.list", "doca-ofed.packaged"):
        (directory / name).write_text("the driver's", encoding="ascii")
    (directory / "gone.list").unlink()
    Record(small, path).close()
    outcome = Record(small, path).undo()
    stays = "stays, since it belongs to somebody else, who wrote it in the meantime"
    assert outcome.left == [
        f"{directory}/kubernetes.list {stays}",
        f"{directory}/preferences {stays}",
        f"{directory}/theirs.packaged {stays}",
        "other 1 stays, since somebody else released it meanwhile",
        "theirs 1 stays, since it came beside the driver, which does not need it",
    ]
    assert outcome.complete
    assert small.held == {"theirs"}
    assert sorted(os.listdir(directory)) == ["gone.list", "kubernetes.list", "preferences", "theirs.packaged"]
    assert (directory / "preferences").read_text(encoding="ascii") == "of somebody else"


def test_a_key_that_rpm_trusts_since_the_change_goes_with_its_file(tmp_path: Path, small: Small) -> None:
    """RPM keeps it as a package of another name; a key that somebody else has it trust meanwhile stays."""
    path = str(tmp_path / "packages.json")
    for closes in (True, False):
        Record(small, path).open()
        (Path(small.paths[0]) / "RPM-GPG-KEY-fabric-rdma-ofed").write_text(KEY, encoding="ascii")
        small.packages.update({"gpg-pubkey-549b7549-6b0667bb": "0:549b7549-6b0667bb", "gpg-pubkey-1234abcd-1": "0:1"})
        if closes:
            Record(small, path).close()
        else:
            # killed
            Record(small, path).open()
        outcome = Record(small, path).undo()
        assert "gpg-pubkey-549b7549-6b0667bb is out" in outcome.restored
        assert small.packages == {"clusterkit": "1", "other": "1", "gpg-pubkey-1234abcd-1": "0:1"}
        assert os.listdir(small.paths[0]) == []
        assert outcome.complete


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        (Dnf, "versionlock.list", "rdma-clusterkit-0:44.0-2.el9.*"),
        (Dnf, "versionlock.toml", '[[packages]]\nname = "mlnx-tools"'),
        (Zypper, "locks", "type: package\nsolvable_name: libibverbs1"),
    ],
)
def test_locks_of_the_stack_are_of_the_change(
    tmp_path: Path, small: Small, kind: type[Dnf], name: str, line: str
) -> None:
    """With dnf and zypper they are lines of a file; those of other packages are somebody else's."""
    assert any(path.endswith(f"/{name}") for path in kind.paths)
    path = str(tmp_path / "packages.json")
    locks = Path(small.paths[0]) / name
    locks.write_text("kernel-5.14\n", encoding="ascii")
    for more, left in ((line, "kernel-5.14\n"), ("glibc-2.34", "kernel-5.14\nglibc-2.34\n")):
        Record(small, path).open()
        locks.write_text(f"kernel-5.14\n{more}\n", encoding="ascii")
        Record(small, path).close()
        Record(small, path).undo()
        assert locks.read_text(encoding="ascii") == left


def test_the_packages_that_a_file_is_of_are_told() -> None:
    """As dpkg-query and rpm tell it; a file of nobody is an error of theirs, which is none here."""
    said = (
        1,
        "doca-host, diversion:amd64: /etc/apt/a.list\n",
        "dpkg-query: no path found matching pattern /etc/apt/b.list\n",
    )
    assert Apt(lambda _command: said, 0).owners(["/etc/apt/a.list", "/etc/apt/b.list"]) == {
        "/etc/apt/a.list": ["doca-host", "diversion:amd64"]
    }

    def rpm(command: list[str]) -> tuple[int, str, str]:
        mine = command[-1].endswith("a.repo")
        return (0, "doca-host.noarch\n", "") if mine else (1, f"file {command[-1]} is not owned by any package\n", "")

    assert Dnf(rpm, 0).owners(["/etc/a.repo", "/etc/b.repo"]) == {"/etc/a.repo": ["doca-host.noarch"]}


def test_what_came_beside_one_change_and_is_needed_by_the_next(tmp_path: Path, small: Small) -> None:
    """It was there when the second one began."""
    path = str(tmp_path / "packages.json")
    small.wanted = {"doca-ofed": [["dkms"]]}
    Record(small, path).open()
    small.packages["dkms"] = "3"
    Record(small, path).close()
    Record(small, path).open()
    small.packages["doca-ofed"] = "1"
    Record(small, path).close()
    assert Record(small, path).undo().restored == ["doca-ofed is out"]
    assert small.packages == {"clusterkit": "1", "other": "1", "dkms": "3"}


def test_only_one_change_is_forgotten(tmp_path: Path, small: Small) -> None:
    path = str(tmp_path / "packages.json")
    change(small, path)
    assert Record(small, path).forget()
    assert not Record(small, path).forget()
    assert small.packages["clusterkit"] == "2"


def test_files_are_put_back_with_their_owners_and_modes(tmp_path: Path, small: Small) -> None:
    directory = Path(small.paths[0])
    (directory / "old").write_bytes(b"\xff1")
    (directory / "old").chmod(0o640)
    if os.geteuid() == 0:
        os.chown(directory / "old", 12, 34)
    owner = (directory / "old").stat()
    before = small.files()
    assert before == {f"{directory}/old": File("/zE=", 0o640, (owner.st_uid, owner.st_gid))}
    (directory / "old").unlink()
    small.put_files({**before, f"{directory}/new": None})
    assert small.files() == before
    # also when it is there with another mode
    (directory / "old").chmod(0o600)
    (directory / "old").write_bytes(b"2")
    small.put_files(before)
    assert small.files() == before


def test_a_record_of_an_earlier_version_has_no_owners(tmp_path: Path, small: Small) -> None:
    """They were root's, as all files of a package manager are."""
    path = str(tmp_path / "packages.json")
    pin = f"{small.paths[0]}fabric-rdma-pin"
    remember(path, {"changes": {"files": {pin: [["b2xk", 0o644], ["bmV3", 0o644]]}}, "window": None})
    (Path(pin)).write_text("new", encoding="ascii")
    outcome = Record(small, path).undo()
    if os.geteuid() == 0:
        assert outcome.restored == [f"{pin} is back"]
        assert Path(pin).read_text(encoding="ascii") == "old"


@pytest.mark.parametrize("call", ["fsync", "fchmod", "replace"])
def test_a_file_that_finds_no_room_is_named_and_leaves_nothing(
    small: Small, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = f"{small.paths[0]}sources"

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        small.put_files({path: File("eA==", 0o644)})
    assert caught.value.filename == path
    assert os.listdir(small.paths[0]) == []


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"version": 2}', "[" * 100000])
def test_what_is_remembered_may_be_damaged(tmp_path: Path, small: Small, text: str) -> None:
    path = tmp_path / "packages.json"
    path.write_text(text, encoding="ascii")
    with pytest.raises(RememberedError, match=rf"^{path} is (damaged|of another version)"):
        Record(small, str(path))


def test_what_is_remembered_is_read_back_until_it_is_forgotten(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "memory.json")
    assert recall(path) is None
    assert not forget(path)
    remember(path, {"a": 1})
    assert recall(path) == {"a": 1, "version": 1}
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "new") == ["memory.json"]
    assert recall(path + "/below") is None
    assert forget(path)


@pytest.mark.parametrize(("name", "kind"), [("apt", Apt), ("dnf", Dnf), ("zypper", Zypper)])
def test_the_named_manager_is_taken_without_a_search(name: str, kind: type[Manager]) -> None:
    assert find_manager(lambda _command: (0, "", ""), 0, name).__class__ is kind


def test_what_repositories_have_of_a_package() -> None:
    apt = Apt(
        lambda _command: (0, " rdma-clusterkit | 44.0-2 | http://x bookworm/main amd64 Packages\nnonsense\n", ""), 0
    )
    assert apt.offered(["rdma-clusterkit"]) == [("rdma-clusterkit", "44.0-2")]
    dnf = Dnf(lambda _command: (0, "rdma-clusterkit.x86_64 0:48.0-1.el9\n\n", ""), 0)
    assert dnf.offered(["rdma-clusterkit.x86_64"]) == [("rdma-clusterkit.x86_64", "0:48.0-1.el9")]
    text = (
        "S  | Name      | Type    | Version  | Arch   | Repository\n"
        "---+-----------+---------+----------+--------+-----------\n"
        "v  | rdma-clusterkit | package | 42.0-1.1 | x86_64 | Main\n"
        "i+ | rdma-clusterkit | package | 41.0-1.1 | x86_64 | (System Packages)\n"
    )
    zypper = Zypper(lambda _command: (0, text, ""), 0)
    assert zypper.offered(["rdma-clusterkit.x86_64"])[-1:] == [("rdma-clusterkit.x86_64", "0:42.0-1.1")]


def test_a_package_manager_that_fails_says_why() -> None:
    apt = Apt(lambda _command: (100, "Reading\n", "W: x\nE: Could not get lock /var/lib/dpkg/lock-frontend\n"), 0)
    with pytest.raises(PackagesError, match=r"^apt-get install: E: Could not get lock /var/lib/dpkg/lock-frontend$"):
        apt.change([("a", "1")], [])


def test_it_says_so_without_the_password_of_a_repository() -> None:
    dnf = Dnf(lambda _command: (1, "", "Error: Failed to download https://admin:hunter2@host/doca/repomd.xml\n"), 0)
    with pytest.raises(PackagesError, match=r": Error: Failed to download https://host/doca/repomd.xml$"):
        dnf.snapshot()


def test_packages_of_rpm_have_versions_and_needs() -> None:
    rows = (
        "rdma-clusterkit\tx86_64\t0:48.0-1\tglibc /bin/sh \tudev rdma-clusterkit \n"
        "gpg-pubkey\t(none)\t0:1-2\t\t\n"
        "kernel-clusterkit\tx86_64\t0:5.14-1\t\tkernel \n"
        "kernel-clusterkit\tx86_64\t0:5.14-2\t\tkernel \n"
    )
    dnf = Dnf(lambda _command: (0, rows, ""), 0)
    assert dict(dnf.snapshot().packages) == {
        "rdma-clusterkit.x86_64": "0:48.0-1",
        "gpg-pubkey-1-2": "0:1-2",
        "kernel-clusterkit-5.14-1.x86_64": "0:5.14-1",
        "kernel-clusterkit-5.14-2.x86_64": "0:5.14-2",
    }
    needs, provides = dnf.needs()
    assert needs["rdma-clusterkit.x86_64"] == [["/bin/sh"], ["glibc"]]
    assert provides["rdma-clusterkit.x86_64"] == ["rdma-clusterkit", "udev"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Dnf, ["kernel-devel-0:5.14-1.el9.x86_64", "kernel-mft-1:4.27-1.x86_64", "rdma-clusterkit-0:48.0-1.x86_64"]),
        (Zypper, ["kernel-devel.x86_64=5.14-1.el9", "kernel-mft.x86_64=4.27-1", "rdma-clusterkit.x86_64=48.0-1"]),
    ],
)
def test_packages_that_are_known_by_their_whole_names_come_back(kind: type[Dnf], words: list[str]) -> None:
    """What a package manager does not know would keep all others from being put back, too; and no repository has a key."""
    said: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        said.append(command)
        return 0, "", ""

    install = [
        ("gpg-pubkey-549b7549-6b0667bb", "0:549b7549-6b0667bb"),
        ("kernel-devel-5.14-1.el9.x86_64", "0:5.14-1.el9"),
        ("kernel-mft-4.27-1.x86_64", "1:4.27-1"),
        ("rdma-clusterkit.x86_64", "0:48.0-1"),
    ]
    kind(run, 0).change(install, [])
    assert said[0][-3:] == words
    said.clear()
    kind(run, 0).change(install[:1], [])
    assert [command[0] for command in said] == ["rpm"]


def test_a_way_back_to_packages_that_are_known_by_their_whole_names() -> None:
    rows = "kernel-mft\tx86_64\t0:4.27-1\t\t\n"
    dnf = Dnf(lambda command: (0, rows if command[0] == "rpm" else "kernel-mft.x86_64 0:4.27-1\n", ""), 0)
    installed = dict(dnf.snapshot().packages)
    assert no_way_back(installed, dnf.offered(sorted(installed))) == []
    asked: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, "v  | kernel-mft | package | 4.27-1 | x86_64 | Main\n", ""

    assert no_way_back(installed, Zypper(run, 0).offered(sorted(installed))) == []
    assert asked[0][-1] == "kernel-mft"


def test_what_the_driver_needs_and_others_upgrade_meanwhile_is_not_taken_back(tmp_path: Path, small: Small) -> None:
    """Nobody can say who did it, and it may be what closes a hole."""
    path = str(tmp_path / "packages.json")
    small.wanted = {"doca-ofed": [["other"], ["clusterkit"]]}
    Record(small, path).open()
    small.packages.update({"doca-ofed": "1", "other": "2", "clusterkit": "2"})
    Record(small, path).close()
    outcome = Record(small, path).undo()
    assert outcome == (
        ["clusterkit is 1", "doca-ofed is out"],
        ["other 2 stays, since it was there before, as 1, and nobody knows who brought another version"],
        True,
    )
    assert small.packages == {"clusterkit": "1", "other": "2"}
