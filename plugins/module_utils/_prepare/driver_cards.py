# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cards have a driver in which release of a vendor's stack. Private to the collection. Pure.

The table follows NVIDIA's release notes of MLNX_OFED and of DOCA-Host, whose DOCA-OFED is what MLNX_OFED was until 24.10.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError

__all__ = ["ROWS", "VENDORS", "Plan", "check_cards", "release_number"]

Number = t.Tuple[int, ...]

# Stacks of the vendor by rdma_ofed.method.
VENDORS = {"doca": "DOCA", "mlnx_iso": "MLNX_OFED"}


class Row(t.NamedTuple):
    """Cards with the first and last releases that have a driver for them.

    doca and mlnx_ofed are (first, last), None where there is no bound; NO where no release ever had one.
    """

    models: tuple[str, ...]
    doca: tuple[t.Optional[Number], t.Optional[Number]]
    mlnx_ofed: tuple[t.Optional[Number], t.Optional[Number]]
    text: str
    remedy: str
    # the release notes do not settle it: a warning from this DOCA release on
    unsure_from: t.Optional[Number] = None


# A first release that no release reaches.
_NO = ((10**6,), None)
_ANY = (None, None)

ROWS: tuple[Row, ...] = (
    Row(
        ("ConnectX-3", "ConnectX-3 Pro", "Connect-IB"),
        _NO,
        (None, (4, 9)),
        "MLNX_OFED up to 4.9 LTS only",
        "use the kernel's own driver (method: inbox), or MLNX_OFED 4.9 with a kernel of its time",
    ),
    Row(
        ("ConnectX-4",),
        (None, (2, 9)),
        _ANY,
        "DOCA up to 2.9 LTS, or MLNX_OFED up to 24.10",
        "use version 2.9.x (LTS), or the kernel's own driver (method: inbox)",
    ),
    Row(
        ("ConnectX-4 Lx", "ConnectX-5", "ConnectX-5 Ex"),
        _ANY,
        _ANY,
        "DOCA 2.9 LTS for certain; the list of a newer release says whether it has them",
        "read the list of supported cards of the release, or use 2.9.x (LTS)",
        unsure_from=(2, 10),
    ),
    Row(
        ("ConnectX-6", "ConnectX-6 Dx", "ConnectX-6 Lx", "ConnectX-7", "BlueField-2"),
        _ANY,
        _ANY,
        "every DOCA, every MLNX_OFED since the card",
        "",
    ),
    Row(("BlueField-3",), _ANY, _NO, "DOCA only, never MLNX_OFED", "use method: doca"),
    Row(
        ("ConnectX-8",),
        ((2, 10), None),
        _NO,
        "DOCA from 2.10 on, or the build 2.9.0_CX8; never MLNX_OFED",
        "use method: doca with version 2.10 or newer",
    ),
    # Newer than the last cards of MLNX_OFED (ConnectX-7, BlueField-2).
    Row(
        ("ConnectX-9", "ConnectX-10", "BlueField-4"),
        ((2, 10), None),
        _NO,
        "newer than the table: a recent DOCA; never MLNX_OFED",
        "use method: doca with a release that lists the card",
        unsure_from=(2, 10),
    ),
)

_ROW_OF = {model: row for row in ROWS for model in row.models}


class Plan(t.NamedTuple):
    """Why a wish is not for this host, and what could not be told for certain; sentences that name device and row."""

    refusals: list[str]
    warnings: list[str]


def release_number(version: str) -> Number:
    """The first two numbers of a release: 2.9.1 and 2.9.0_CX8 are (2, 9), 24.10-1.1.4.0 is (24, 10). WishError for no release."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})(?![\d])", version, re.ASCII)
    if not found:
        raise WishError(
            f"rdma_ofed.version is {version!r}; expected a release such as 2.9.1 (DOCA) or 24.10-1.1.4.0 (MLNX_OFED)"
        )
    return int(found.group(1)), int(found.group(2))


def check_cards(cards: t.Iterable[tuple[str, t.Optional[str]]], method: str, version: str) -> Plan:
    """What a release would leave without a driver, among cards given as (name for people, model or None)."""
    refusals: list[str] = []
    warnings: list[str] = []
    if method not in VENDORS:
        return Plan(refusals, warnings)
    release, wished = release_number(version), f"{VENDORS[method]} {version}"
    for name, model in cards:
        plain = (model or "").replace(" Virtual Function", "")
        row = _ROW_OF.get(plain)
        if row is None:
            # not a card of this vendor, a virtual function that does not tell its model, or one that the table lacks
            if plain.startswith(("ConnectX", "BlueField", "Connect-IB")):
                warnings.append(f"{name} ({plain}) is not in the table of cards; read the release notes of {wished}")
            continue
        first, last = row.doca if method == "doca" else row.mlnx_ofed
        if method == "doca" and plain == "ConnectX-8" and re.match(r"2\.9\.\d+_CX8", version, re.IGNORECASE):
            first = None
        if (first is not None and release < first) or (last is not None and release > last):
            refusals.append(
                f"{name} ({plain}) would be without a driver under {wished}: its row says {row.text}; {row.remedy}"
            )
        elif method == "doca" and row.unsure_from is not None and release >= row.unsure_from:
            warnings.append(f"{name} ({plain}) under {wished}: its row says {row.text}")
    return Plan(refusals, warnings)
