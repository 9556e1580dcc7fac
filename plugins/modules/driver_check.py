#!/usr/bin/python
# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: driver_check
short_description: Check an installed RDMA driver
version_added: "0.1.0"
description:
  - Looks at what DKMS built for the running kernel, at the driver on disk and in the kernel, at the one in the initramfs, and
    at how fast the kernel's log grows.
  - What is not right is a sentence in RV(problems), and no failure of the module, so that a play can restore what was before.
extends_documentation_fragment:
  - fabric.rdma.attributes.reads
options:
  driver:
    description: The kernel module that decides whether the vendor's driver is there.
    type: str
    default: mlx5_core
  dkms_modules:
    description:
      - Modules of DKMS that must be C(installed) for the running kernel if DKMS knows them. Others that are not are a warning.
      - A driver that DKMS does not know may have been built before it was packed. Then the path of O(driver) tells.
    type: list
    elements: str
    default: [mlnx-ofed-kernel, mlnx-ofa_kernel]
  log_window:
    description: Seconds to watch the kernel's log. V(0) does not look at it.
    type: int
    default: 0
  log_limit:
    description:
      - Records a second, on the average of O(log_window), above which the growth is a problem.
      - A steady 20 are about 150 MB a day, once in the journal and once again in every file of a syslog daemon.
    type: int
    default: 20
author:
  - fabric.rdma contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at what DKMS built
  fabric.rdma.driver_check:
  register: check

- name: Watch the kernel's log for half a minute
  fabric.rdma.driver_check:
    log_window: 30
"""

RETURN = r"""
kernel:
  description: Release of the running kernel.
  returned: success
  type: str
  sample: 6.1.0-38-amd64
dkms:
  description: What DKMS knows, one entry for each module, version and kernel.
  returned: success
  type: list
  elements: dict
  sample: [{name: mlnx-ofed-kernel, version: 24.10.OFED, kernel: 6.1.0-38-amd64, arch: x86_64, state: installed, note: ""}]
build_log:
  description: The log of a build that failed, and the first and the last of its lines that speak of an error.
  returned: success
  type: dict
  sample: {path: /var/lib/dkms/mlnx-ofed-kernel/24.10/build/make.log, errors: "make: *** [Makefile:7: all] Error 2"}
driver:
  description:
    - Path of the driver on disk below the modules of the kernel, V(kind) V(inbox) or V(updates), and whether the kernel runs
      another one (V(pending)), by their source versions.
  returned: success
  type: dict
  sample: {path: updates/dkms/mlx5_core.ko, kind: updates, pending: true}
initramfs:
  description:
    - The initramfs of the running kernel, path of the driver in it, whether it is another one than on disk (V(stale)), and the
      command that rebuilds it.
  returned: success
  type: dict
  sample: {path: /boot/initrd.img-6.1.0-38-amd64, holds: null, stale: false, rebuild: [update-initramfs, -u, -k, 6.1.0-38-amd64]}
log:
  description: Growth of the kernel's log, with the text that came most often.
  returned: O(log_window) is not 0
  type: dict
  sample: {records: 2, seconds: 30.1, per_second: 0.1, text: "mlx5_core N:3b:N.N: firmware version: N", times: 1}
problems:
  description: What is not right, in words. Empty when all is well.
  returned: success
  type: list
  elements: str
  sample: []
warnings_found:
  description: What is odd and does no harm to the driver, in words.
  returned: success
  type: list
  elements: str
  sample: []
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.fabric.rdma.plugins.module_utils._base.programs import run_program
from ansible_collections.fabric.rdma.plugins.module_utils._base.tree import DirectoryTree
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.driver_check import (
    DRIVER_NAMES,
    check_driver,
    with_log,
)
from ansible_collections.fabric.rdma.plugins.module_utils._prepare.kernel_log import measure_log


def run(module: AnsibleModule) -> dict[str, t.Any]:
    def has(program: str) -> bool:
        return module.get_bin_path(program) is not None

    def ask(name: str, *arguments: str) -> t.Optional[str]:
        program = module.get_bin_path(name)
        if program is None:
            return None
        try:
            status, text, _error = run_program([program, *arguments])
        except OSError:
            return None
        return text if status == 0 else None

    params = module.params
    kernel = os.uname().release
    result = check_driver(DirectoryTree("/"), kernel, params["driver"], params["dkms_modules"], ask, has)
    window = params["log_window"]
    return with_log(result, measure_log(window), params["log_limit"]) if window > 0 else result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "driver": {"type": "str", "default": "mlx5_core"},
            "dkms_modules": {"type": "list", "elements": "str", "default": list(DRIVER_NAMES)},
            "log_window": {"type": "int", "default": 0},
            "log_limit": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or '/dev/kmsg'}: {exc.strerror}")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
