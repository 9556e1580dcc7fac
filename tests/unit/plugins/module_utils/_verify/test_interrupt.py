# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A signal ends a measurement, whatever the program does when it comes."""

from __future__ import annotations

import subprocess
import sys

from ansible_collections.fabric.rdma.molecule.shared.pace import limit
from ansible_collections.fabric.rdma.tests.unit.machines import ROOT

# The handler runs while an object is destroyed, and Python loses what it raises.
LOST = """\
import os, signal, sys, types
sys.path.insert(0, sys.argv[1])
from ansible_collections.fabric.rdma.plugins.module_utils._verify import interrupt, pods_run

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _turn in range(1000):
            pass

interrupt.interrupt_on_signals()
dying = Dying()
del dying
print("nothing was raised")
pods_run._POLL_SECONDS = 0
api = types.SimpleNamespace(of_this_run=lambda: sys.exit("it goes on"))
try:
    pods_run.watch(api, lambda: [1], lambda _pods: None, lambda _exc: None)
except KeyboardInterrupt as exc:
    print(exc)
"""


def test_a_signal_that_python_loses_ends_a_measurement_all_the_same() -> None:
    command = [sys.executable, "-c", LOST, str(ROOT / ".collections")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit(60))
    assert done.stdout == "nothing was raised\nended by signal 15\n", done.stderr
