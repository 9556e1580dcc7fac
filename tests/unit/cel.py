# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evaluator of the part of the Common Expression Language that selectors of ours are written in, stricter than the real one.

The real one forgives an error on one side of && and || when the other side decides, and compares values of different types. Here both
are errors, so that what is right here is right there. Written without a look at what makes the expressions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\\n]|\\["\\]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*")|(?P<number>[0-9]+)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<sign>&&|\|\||==|!=|[!.()\[\],]))""",
    re.ASCII,
)


class CelError(Exception):
    """A malformed expression, or one that cannot be evaluated for a device: the scheduler gives up the whole claim then."""


class Domains(dict[str, Any]):
    """device.attributes: a domain of which the device has nothing is an empty one, as Kubernetes has it."""

    def __missing__(self, key: str) -> Json:
        return {}


def device(driver: str, attributes: Mapping[str, Any]) -> Json:
    """The variables for a device: {domain/name: value} as an expression sees it."""
    domains = Domains()
    for name, value in attributes.items():
        domain, _slash, own = name.partition("/")
        domains.setdefault(domain, {})[own] = value
    return {"device": {"driver": driver, "attributes": domains}}


def published(attributes: Mapping[str, Any]) -> Json:
    """The variables of the filter of DRANET: attributes as Kubernetes' Go type has them."""
    fields = {bool: "BoolValue", int: "IntValue", str: "StringValue"}
    return {"attributes": {name: {fields[type(value)]: value} for name, value in attributes.items()}}


def tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise CelError(f"no token at {text[at : at + 20]!r}")
        found.append((str(match.lastgroup), match.group(str(match.lastgroup))))
        at = match.end()
    return found


class _Parser:
    """A tree of tuples; what binds less is looked for first."""

    def __init__(self, text: str) -> None:
        self.ahead = tokens(text)

    def take(self, *signs: str) -> str | None:
        if self.ahead and self.ahead[0][0] != "text" and self.ahead[0][1] in signs:
            return self.ahead.pop(0)[1]
        return None

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise CelError(f"expected {sign} before {self.ahead[:1]}")

    def either(self) -> Any:
        left = self.both()
        while self.take("||"):
            left = ("||", left, self.both())
        return left

    def both(self) -> Any:
        left = self.relation()
        while self.take("&&"):
            left = ("&&", left, self.relation())
        return left

    def relation(self) -> Any:
        left = self.unary()
        sign = self.take("==", "!=", "in")
        return (sign, left, self.unary()) if sign else left

    def unary(self) -> Any:
        return ("!", self.unary()) if self.take("!") else self.member()

    def member(self) -> Any:
        value = self.primary()
        while True:
            if self.take("."):
                kind, name = self.ahead.pop(0)
                if kind != "name":
                    raise CelError(f"{name} is not a field")
                value = ("field", value, name)
            elif self.take("["):
                value = ("field", value, self.either())
                self.need("]")
            else:
                return value

    def primary(self) -> Any:
        if self.take("("):
            value = self.either()
            self.need(")")
            return value
        if self.take("["):
            items = []
            while not self.take("]"):
                items.append(self.either())
                if not self.take(","):
                    self.need("]")
                    break
            return ("list", items)
        if not self.ahead:
            raise CelError("the expression ends too early")
        kind, text = self.ahead.pop(0)
        if kind == "text":
            return ("value", ast.literal_eval(text))
        if kind == "number":
            return ("value", int(text))
        if kind == "name":
            return ("value", text == "true") if text in ("true", "false") else ("name", text)
        raise CelError(f"{text} begins nothing")


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is not true or false")
    return value


def _same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        raise CelError(f"{left!r} and {right!r} are of different types")
    return bool(left == right)


def _field(value: Any, name: Any) -> Any:
    if not isinstance(value, Mapping):
        raise CelError(f"{value!r} has no fields")
    try:
        return value[name]
    except KeyError:
        raise CelError(f"no such key: {name}") from None


def _value(tree: Any, variables: Json) -> Any:
    sort, *parts = tree
    if sort == "value":
        return parts[0]
    if sort == "name":
        return _field(variables, parts[0])
    if sort == "list":
        return [_value(item, variables) for item in parts[0]]
    if sort == "field":
        name = parts[1] if isinstance(parts[1], str) else _value(parts[1], variables)
        return _field(_value(parts[0], variables), name)
    if sort == "!":
        return not _truth(_value(parts[0], variables))
    left = _value(parts[0], variables)
    if sort in ("&&", "||"):
        decided = _truth(left) is (sort == "||")
        return left if decided else _truth(_value(parts[1], variables))
    right = _value(parts[1], variables)
    if sort == "in":
        # all of them, so that one of another type is an error wherever it stands
        return left in right if isinstance(right, Mapping) else sum(_same(left, item) for item in right) > 0
    return _same(left, right) is (sort == "==")


def evaluate(text: str, variables: Json) -> bool:
    """Whether an expression holds. CelError for what the real evaluator would refuse, and for more."""
    parser = _Parser(text)
    tree = parser.either()
    if parser.ahead:
        raise CelError(f"left over: {parser.ahead}")
    return _truth(_value(tree, variables))
