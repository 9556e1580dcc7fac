# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that hold for every module, what a row of the matrix says of one, and what keeps a module to its row."""

from __future__ import annotations

import importlib
import typing as t
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

Json = dict[str, t.Any]
# Each row proves a step, names the test that does, or says why the module has none.
STEPS = ("create", "change", "absent", "again", "check", "diff", "bad input")
KINDS: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "dict": dict,
    "float": (int, float),
    "int": int,
    "list": list,
    "raw": object,
    "str": str,
}


class World(t.Protocol):
    """What a module acts in, which lies in a directory of the test as far as it has files."""

    directory: Path

    def call(self, arguments: Json, check: bool = False) -> Json:
        """What the module returns, with differences."""

    def content(self) -> t.Any:
        """All that the module could have changed."""


class Step(t.NamedTuple):
    """what: create, change, absent, or look where nothing is to change. arguments: a text @/NAME is a path in the test's directory.

    files, links, before: what is written there, or done, before it.
    """

    what: str
    arguments: Json
    changed: bool
    files: Mapping[str, str] | None = None
    links: Mapping[str, str] | None = None
    before: Callable[[t.Any], None] | None = None

    def prepare(self, world: World) -> None:
        for name, text in (self.files or {}).items():
            (world.directory / name).parent.mkdir(parents=True, exist_ok=True)
            (world.directory / name).write_text(text)
        for name, target in (self.links or {}).items():
            (world.directory / name).parent.mkdir(parents=True, exist_ok=True)
            (world.directory / name).symlink_to(target)
        if self.before:
            self.before(world)


class Case(t.NamedTuple):
    """What a module is put through.

    bad: arguments that are refused, and what is said. without: the other STEPS, each with the reason, or the test that proves it.
    moving: what of a result may be another one at the next look.
    """

    steps: tuple[Step, ...]
    bad: tuple[Json, str]
    without: Mapping[str, str]
    moving: tuple[str, ...] = ()

    @property
    def shows_differences(self) -> bool:
        return "diff" not in self.without

    @property
    def proved(self) -> set[str]:
        """The STEPS that keep_the_rules() goes through."""
        always = {"again", "check", "diff", "bad input"} - set(self.without)
        return always | {step.what for step in self.steps} - {"look"}


def here(value: t.Any, directory: Path) -> t.Any:
    """@/NAME becomes a path in the directory."""
    if isinstance(value, dict):
        return {key: here(item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [here(item, directory) for item in value]
    return str(directory / value[2:]) if isinstance(value, str) and value.startswith("@/") else value


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def differs(shown: t.Any) -> bool:
    """Whether a difference shows anything. One that shows nothing must not be there."""
    entries = shown if isinstance(shown, list) else [shown] if shown is not None else []
    assert all(entry["prepared"] if "prepared" in entry else entry["before"] != entry["after"] for entry in entries)
    return bool(entries)


def documented(module: str, name: str) -> t.Any:
    source = importlib.import_module(f"ansible_collections.fabric.rdma.plugins.modules.{module}")
    return yaml.safe_load(getattr(source, name))


def insist_on_types(values: dict[str, t.Any], told: dict[str, t.Any]) -> None:
    """Each value has the type that is documented, and a dictionary no other keys than those that are."""
    for key, value in values.items():
        assert value is None or isinstance(value, KINDS[told[key]["type"]]), (key, value)
        items = value if isinstance(value, list) else [value]
        if told[key].get("elements"):
            assert all(isinstance(item, KINDS[told[key]["elements"]]) for item in value or [])
        for item in items if "contains" in told[key] else ():
            assert set(item or {}) <= set(told[key]["contains"]), (key, set(item) - set(told[key]["contains"]))
            insist_on_types(item or {}, told[key]["contains"])


def insist_on_return(module: str, result: dict[str, t.Any]) -> None:
    """Everything that a module returns is documented, has the type that is documented, and is there when it should be."""
    told = documented(module, "RETURN")
    own = set(result) - {"changed", "diff", "failed", "msg", "warnings", "deprecations", "exception"}
    # what exit_json() says of a file whose path is returned
    own -= {"size"} - set(told)
    assert own <= set(told), own - set(told)
    insist_on_types({key: result[key] for key in own}, told)
    if not result.get("failed"):
        assert {key for key, entry in told.items() if entry["returned"] == "success"} <= own


def keep_the_rules(module: str, case: Case, world: World) -> None:
    """Each step in a check, for real, again, and in a check after that; then what makes no sense."""
    for step in case.steps:
        _take(module, case, step, world)
    arguments, message = case.bad
    kept = world.content()
    for check in (True, False):
        result = world.call(arguments, check)
        assert result["failed"] is True
        assert message in result["msg"]
        assert "Traceback" not in result["msg"]
        assert world.content() == kept


def _take(module: str, case: Case, step: Step, world: World) -> None:
    step.prepare(world)
    before = world.content()
    predicted = world.call(step.arguments, check=True)
    assert not predicted.get("failed"), (step.what, predicted)
    predicts = "check" not in case.without
    assert (predicted["changed"], world.content()) == (step.changed and predicts, before), step.what
    result = world.call(step.arguments)
    assert result.get("changed") is step.changed, (step.what, result)
    assert (world.content() != before) is step.changed, step.what
    after = world.content()
    again = world.call(step.arguments)
    assert (again["changed"], world.content()) == (False, after), (step.what, again)
    last = world.call(step.arguments, check=True)
    assert (last["changed"], world.content()) == (False, after), (step.what, last)
    for each in (predicted, result, again, last):
        insist_on_return(module, each)
        assert differs(each.get("diff")) is (case.shows_differences and each["changed"]), (step.what, each)
    if step.changed and predicts:
        assert predicted.get("diff") == result.get("diff"), step.what
    elif not step.changed:
        shown = [{key: each[key] for key in each if key not in case.moving} for each in (predicted, result, again)]
        assert shown == [shown[0]] * 3, step.what
