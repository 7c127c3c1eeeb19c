"""Just enough of Helm's template language for the chart in deploy/helm: values by their path, ``if``, ``range``, and
the functions in ``FILTERS``. Anything else is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

ACTION = re.compile(r"(\s*)\{\{-\s+(.*?)\s+\}\}|\{\{\s+(.*?)\s+\}\}", re.DOTALL)
FILTERS = {
    "quote": lambda value: json.dumps(str(value)),
    "default": lambda value, otherwise: value or otherwise,
    "nindent": lambda value, count: "".join(f"\n{' ' * count}{line}" for line in value.splitlines()),
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).strip(),
}


def render(template: str, scope: dict) -> str:
    """The text of the template; ``scope`` has what ``.`` has in Helm: Values, Release, Chart."""
    parts, end = [], 0
    for found in ACTION.finditer(template):
        # {{- takes the white space before it away
        parts += [template[end : found.start()] + ("" if found[2] else found[1] or ""), (found[2] or found[3]).split()]
        end = found.end()
    parts.append(template[end:])
    text = "".join(_block(parts, scope))
    assert "{{" not in text, text
    return text


def _block(parts: list, scope: object) -> Iterator[str]:
    place = 0
    while place < len(parts):
        part = parts[place]
        if isinstance(part, str):
            yield part
        elif part[0] in ("if", "range"):
            end = _end(parts, place)
            value = _value(part[1:], scope)
            for one in value if part[0] == "range" else [scope] if value else []:
                yield from _block(parts[place + 1 : end], one)
            place = end
        else:
            yield _text(_value(part, scope))
        place += 1


def _end(parts: list, start: int) -> int:
    depth = 0
    for place in range(start, len(parts)):
        if isinstance(parts[place], list):
            depth += (parts[place][0] in ("if", "range")) - (parts[place] == ["end"])
            if depth == 0:
                return place
    raise AssertionError(f"no end of {parts[start]}")


def _value(words: list[str], scope: object) -> object:
    """Of a pipeline: ``operand``, or ``function operand``, then ``| function argument`` again and again."""
    first, *further = " ".join(words).split(" | ")
    *function, operand = first.split()
    value = _operand(operand, scope)
    for name in function:
        value = FILTERS[name](value)
    for step in further:
        name, *arguments = step.split()
        value = FILTERS[name](value, *(_operand(word, scope) for word in arguments))
    return value


def _operand(word: str, scope: object) -> object:
    if not word.startswith("."):
        return json.loads(word)
    for key in word[1:].split(".") if word != "." else []:
        scope = scope[key]
    return scope


def _text(value: object) -> str:
    assert isinstance(value, str | int), value
    return str(value)
