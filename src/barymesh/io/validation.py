"""Validation errors of pydantic as sentences that name the key, the value and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


def error_text(item: ErrorDetails, model: type[BaseModel]) -> str:
    """One error of ``ValidationError.errors()`` for this model, as a sentence."""
    location, text = item["loc"], item["msg"].removeprefix("Value error, ").rstrip(".")
    if not location:
        return f"{text}."
    key = str(location[0]) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location[1:])
    if item["type"] == "extra_forbidden":
        return f"unknown key {key!r}. Known keys: {', '.join(_fields(model, location[:-1]))}."
    if item["type"] == "missing":
        description = _fields(model, location[:-1])[str(location[-1])].description
        return f"the key {key!r} is missing. It holds {description}."
    # the sentences of our own validators have the value in them
    given = "" if item["type"] == "value_error" else f", not {item['input']!r}"
    return f"{key}: {text}{given}."


def _fields(model: type[BaseModel], location: Sequence[int | str]) -> dict[str, FieldInfo]:
    """The fields of the model at this location: of the model itself, or of a model inside it."""
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = next(_models(model.model_fields[part].annotation), model)
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation such as ``list[Model] | None`` names."""
    if hasattr(annotation, "model_fields"):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
