# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to measure, and what is enough. Private to the collection. Pure."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, fields, replace

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError
from ansible_collections.fabric.rdma.plugins.module_utils._plan.wishes import problems
from ansible_collections.fabric.rdma.plugins.module_utils._verify.perftest import LIMITS, PROGRAMS
from ansible_collections.fabric.rdma.plugins.module_utils._verify.rounds import TOPOLOGIES

__all__ = ["Settings", "settings_from"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "topology": TOPOLOGIES,
    "rails": ("same", "all"),
    "gpudirect": ("none", "auto", "peermem", "dmabuf"),
    "outliers": ("name", "fail"),
}
# As a host would refuse it, when all others wait for it.
_RANGES: dict[str, tuple[int, int]] = {
    "iterations": LIMITS["iterations"],
    "software_iterations": LIMITS["iterations"],
    "bandwidth_bytes": LIMITS["message_bytes"],
    "latency_bytes": LIMITS["message_bytes"],
    "qps": LIMITS["qps"],
}
# Below, everything would pass, or nothing.
_FLOORS = ("min_gbps", "software_min_gbps", "outlier_us")
_BOUNDS = ("max_us", "hardware_max_us", "software_max_us")
_LISTS = ("tests", "canaries", "pools")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Settings:
    """How to measure. Bounds: Gb/s and microseconds; min_gbps and max_us None: by the devices (see ends.floor()).

    partners, seed: of the topology sample; canaries: hosts of the topology canary; rails: ports of two hosts that meet, those of the
    same name or all; gpu_resource: what Pods ask for where they measure the memory of GPUs; pools: groups whose Pods get some of the
    devices of their resource (SR-IOV), and not all; timeout: seconds a client may take for one test; forks: how many hosts the controller works on at a time.
    outlier_share, outlier_us: how far from the median of its group a figure is named, in hardware; software_outlier_share without.
    allow_unusable: whether a host may have nothing to measure with.
    """

    tests: tuple[str, ...] = ("ib_write_bw", "ib_write_lat")
    topology: str = "pairs"
    partners: int = 3
    seed: int = 0
    canaries: tuple[str, ...] = ()
    rails: str = "same"
    iterations: int = 5000
    software_iterations: int = 100
    bandwidth_bytes: int = 65536
    latency_bytes: int = 2
    qps: int = 1
    all_sizes: bool = False
    bidirectional: bool = False
    gpudirect: str = "none"
    gpu_resource: str = "nvidia.com/gpu"
    pools: tuple[str, ...] = ()
    min_gbps: t.Optional[float] = None
    min_share: float = 0.9
    software_min_gbps: float = 0.001
    max_us: t.Optional[float] = None
    hardware_max_us: float = 20.0
    software_max_us: float = 1000000.0
    outliers: str = "name"
    outlier_share: float = 0.05
    outlier_us: float = 1.0
    software_outlier_share: float = 0.75
    allow_unusable: bool = False
    timeout: int = 60
    forks: int = 5

    def __post_init__(self) -> None:
        if not self.tests:
            raise WishError(f"tests is empty, and nothing would be measured; name some of {', '.join(PROGRAMS)}")
        unknown = [test for test in self.tests if test not in PROGRAMS]
        if unknown:
            raise WishError(f"test {unknown[0]} is unknown; expected one of {', '.join(PROGRAMS)}")
        for key, choices in _CHOICES.items():
            if getattr(self, key) not in choices:
                raise WishError(f"{key} {getattr(self, key)!r} is unknown; expected one of {', '.join(choices)}")
        for key in ("min_share", "outlier_share", "software_outlier_share"):
            if not 0 <= getattr(self, key) <= 1:
                raise WishError(f"{key} is {getattr(self, key):g}; allowed is 0 to 1")
        for key in ("timeout", "forks", "partners"):
            if getattr(self, key) < 1:
                raise WishError(f"{key} is {getattr(self, key)}; allowed is 1 or more")
        for key, (low, high) in _RANGES.items():
            if not low <= getattr(self, key) <= high:
                raise WishError(f"{key} is {getattr(self, key)}; allowed is {low} to {high}")
        for key in _FLOORS:
            if (getattr(self, key) or 0) < 0:
                raise WishError(f"{key} is {getattr(self, key):g}; allowed is 0 or more")
        for key in _BOUNDS:
            if getattr(self, key) is not None and getattr(self, key) <= 0:
                raise WishError(f"{key} is {getattr(self, key):g}; expected more than 0")

    def of_group(self, wish: t.Any) -> Settings:
        """With the bounds that a group wishes for (rdma_verify). WishError for anything else."""
        found = problems("rdma_verify", wish)
        if found:
            raise WishError(". ".join(found))
        own: t.Any = {key: float(value) for key, value in (wish or {}).items() if value is not None}
        return replace(self, **own)


def _number(key: str, value: t.Any) -> float:
    try:
        # A bound without a default is a float, too.
        number = float(value)
        if math.isfinite(number) and not isinstance(value, bool):
            return number
    except (OverflowError, TypeError, ValueError):
        pass
    raise WishError(f"setting {key} is {value!r}, which is not a number")


def _truth(key: str, value: t.Any) -> bool:
    found = _TRUTHS.get(str(value).lower())
    if found is None:
        raise WishError(f"setting {key} is {value!r}; expected true or false")
    return found


def settings_from(given: t.Mapping[str, t.Any]) -> Settings:
    """Settings from variables; None stands for the default. WishError names an unknown key or a value that makes no sense."""
    defaults = Settings()
    known = [each.name for each in fields(Settings)]
    values: dict[str, t.Any] = {}
    for key, value in given.items():
        if key not in known:
            raise WishError(f"setting {key} is unknown; expected one of {', '.join(known)}")
        if value is None or (value == "" and key in ("min_gbps", "max_us")):
            continue
        if key in _LISTS:
            if isinstance(value, str) or not isinstance(value, t.Iterable):
                raise WishError(f"setting {key} is {value!r}, which is not a list")
            values[key] = tuple(str(item) for item in value)
        elif key in _CHOICES or key == "gpu_resource":
            values[key] = str(value)
        elif isinstance(getattr(defaults, key), bool):
            values[key] = _truth(key, value)
        else:
            number = _number(key, value)
            values[key] = int(number) if isinstance(getattr(defaults, key), int) else number
    return Settings(**values)
