# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A measurement that is ended by a signal, and clears up all the same; whatever ends it, there is a word of it. Private to the collection."""

from __future__ import annotations

import signal
import traceback
import typing as t

__all__ = ["interrupt_on_signals", "raise_what_was_lost", "with_a_word"]

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


_ended: list[str] = []


def _interrupted(number: int, _frame: t.Any) -> None:
    # only once: whoever clears up is not interrupted again, by any of them
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    _ended.append(f"ended by signal {number}")
    raise KeyboardInterrupt(_ended[0])


def raise_what_was_lost() -> None:
    """KeyboardInterrupt when a signal has come. For loops that wait, and not for what clears up.

    Python loses what a handler raises while it destroys an object (object.__del__), and later signals do nothing.
    """
    if _ended:
        raise KeyboardInterrupt(_ended[0])


def interrupt_on_signals() -> None:
    """From now on, the first signal that ends a program raises KeyboardInterrupt, and later ones do nothing."""
    for number in _SIGNALS:
        signal.signal(number, _interrupted)


def with_a_word(act: t.Callable[[t.Any], None], module: t.Any) -> None:
    """act(module), an AnsibleModule, which fails with a message whatever happens.

    The role that calls it goes on, and has this message alone: of a module that ends with a traceback, ansible-core 2.19 keeps none where
    ``failed_when`` lets it pass.
    """
    try:
        act(module)
    except KeyboardInterrupt as exc:
        module.fail_json(msg=str(exc) or "interrupted")
    except Exception as exc:
        module.fail_json(msg=f"a mistake of this module: {exc!r}", exception=traceback.format_exc())
