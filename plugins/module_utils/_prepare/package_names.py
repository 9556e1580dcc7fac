# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What families of distributions call their packages: the one table of it. Private to the collection. Pure.

Facts name a family by a word of their own (``storage.family``), Ansible by another (``os_family``).
"""

from __future__ import annotations

import typing as t

from ansible_collections.fabric.rdma.plugins.module_utils._base.errors import WishError

__all__ = ["DRIVER", "FAMILIES", "names_of", "names_of_family"]

# Of the vendor's release, the package that brings all of its driver.
DRIVER = "doca-ofed"


class PackageNames(t.NamedTuple):
    """Of one family. The first package of a part of rdma_storage is the one that its check names."""

    iscsi: tuple[str, ...]
    nfs: tuple[str, ...]
    dm_crypt: tuple[str, ...]
    # by the program that is wanted
    tools: t.Mapping[str, str]
    # verbs, their providers and diagnostics, the program rdma, perftest
    user_space: tuple[str, ...]
    # of the vendor's driver; empty where its repositories have none for the family
    driver: tuple[str, ...] = ()
    # of a kernel, in front of its release
    headers: t.Optional[str] = None


def _tools(awk: str) -> dict[str, str]:
    same = {name: name for name in ("bash", "curl", "grep")}
    return {"awk": awk, **same, **dict.fromkeys(("blkid", "findmnt", "lsblk"), "util-linux")}


_DEBIAN = PackageNames(
    iscsi=("open-iscsi",),
    nfs=("nfs-common",),
    dm_crypt=("cryptsetup", "dmsetup"),
    tools=_tools("mawk"),
    user_space=("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags", "iproute2", "perftest"),
    driver=(DRIVER,),
    headers="linux-headers-",
)
_RHEL = PackageNames(
    iscsi=("iscsi-initiator-utils",),
    nfs=("nfs-utils",),
    dm_crypt=("cryptsetup", "device-mapper"),
    tools=_tools("gawk"),
    user_space=("rdma-core", "libibverbs", "libibverbs-utils", "infiniband-diags", "iproute", "perftest"),
    driver=(DRIVER,),
    headers="kernel-devel-",
)
_SUSE = PackageNames(
    iscsi=("open-iscsi",),
    nfs=("nfs-client",),
    dm_crypt=("cryptsetup", "device-mapper"),
    tools=_tools("gawk"),
    user_space=("rdma-core", "libibverbs", "libibverbs-utils", "infiniband-diags", "iproute2", "perftest"),
)
# For any other distribution, a check gives the name that most of these use; no role installs anything there.
_OTHER = _SUSE._replace(nfs=("nfs-utils",))
_BY_WORD = {"debian": _DEBIAN, "rhel": _RHEL, "suse": _SUSE}
# By what Ansible calls a family.
FAMILIES = {"Debian": _DEBIAN, "RedHat": _RHEL, "Suse": _SUSE}


def names_of(word: t.Any) -> PackageNames:
    """Names for the family that the facts tell of: debian, rhel, suse, anything else."""
    return _BY_WORD.get(word, _OTHER) if isinstance(word, str) else _OTHER


def names_of_family(os_family: t.Any) -> PackageNames:
    """Names for what Ansible calls the family. A node says what it is, so that the word is looked up, and nothing is made of it."""
    found = FAMILIES.get(os_family) if isinstance(os_family, str) else None
    if found is None:
        raise WishError(f"package names are known for {', '.join(FAMILIES)}, and not for {os_family!r:.40}")
    return found
