# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A strict reader of Prometheus' text format, version 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/), and of what
`promtool check metrics` and the textfile collector of node_exporter want beyond it."""

from __future__ import annotations

import re

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
# Units that are not base units, and what may not end the name of a metric of these kinds.
_OTHER_UNITS = ("milliseconds", "microseconds", "us", "gbps", "bits", "kilobytes", "gigabytes", "percent")


def read_metrics(text: str) -> Samples:
    """All samples; AssertionError for what a reader would refuse, or a reviewer."""
    assert text.endswith("\n")
    assert "\r" not in text
    samples: Samples = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _blank, words = line.removeprefix("# HELP ").partition(" ")
            assert re.fullmatch(_NAME, name)
            assert words.endswith("."), line
            assert name not in helped, f"{name} has two texts"
            helped.add(name)
            current = name
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name == current, "TYPE follows HELP"
            assert name not in kinds
            assert kind in ("counter", "gauge")
            assert name.endswith("_total") is (kind == "counter"), f"{name} is a {kind}"
            assert not set(name.split("_")) & set(_OTHER_UNITS), name
            kinds[name] = kind
        else:
            assert not line.startswith("#"), line
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name, inside, value = match.groups()
            assert name == current, f"samples of {name} are not together"
            assert name in kinds
            key = (name, frozenset(_labels(inside or "")))
            assert key not in samples, f"two samples of {line}"
            samples[key] = float(value)
    return samples


def _labels(inside: str) -> list[tuple[str, str]]:
    found = []
    while inside:
        match = _LABEL.match(inside)
        assert match, inside
        assert not match[1].startswith("__")
        # Prometheus gives them to what it scrapes, and renames those of others
        assert match[1] not in ("job", "instance"), match[1]
        found.append((match[1], re.sub(r"\\(.)", lambda part: {"n": "\n"}.get(part[1], part[1]), match[2])))
        inside = inside[match.end() :]
    assert len({name for name, _value in found}) == len(found)
    return found


def value_of(samples: Samples, name: str, **labels: str) -> float:
    """The only sample of that name with these labels, whatever others it has."""
    [found] = [
        value
        for (own, given), value in samples.items()
        if own == f"fabric_rdma_{name}" and set(labels.items()) <= given
    ]
    return found
