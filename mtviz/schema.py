"""Holding plain JSON against a JSON Schema: the keywords that the Trace's schema uses, and no others.

A general validator needs half a second for a trace that the page should open on at once. The tests hold this one
against `jsonschema`.
"""

from __future__ import annotations

import math
import re
from typing import Any, Mapping

KEYWORDS = {
    "$ref", "anyOf", "const", "enum", "type", "properties", "required", "additionalProperties", "items", "maxItems",
    "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
}  # fmt: skip


def first_problem(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any], place: str = "$") -> str | None:
    """The first place in `value` that `schema` forbids, with the reason, or None.

    What the schema must keep to: a `$ref` names one of `definitions`, objects list all their properties, lists and texts
    have a greatest length, patterns are for the whole text.
    """
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in schema:
        problems = [first_problem(value, option, definitions, place) for option in schema["anyOf"]]
        return None if None in problems else problems[0]
    if "enum" in schema or "const" in schema:
        allowed = schema.get("enum") or [schema["const"]]
        known = any(type(value) is type(choice) and value == choice for choice in allowed)
        return None if known else f"{place}: must be one of {allowed}"
    match schema["type"]:
        case "object":
            return _object_problem(value, schema, definitions, place)
        case "array":
            if type(value) is not list or len(value) > schema["maxItems"]:
                return f"{place}: must be a list of at most {schema['maxItems']}"
            problems = (first_problem(entry, schema["items"], definitions, f"{place}[{i}]") for i, entry in enumerate(value))
            return next((problem for problem in problems if problem is not None), None)
        case "string":
            fits = type(value) is str and len(value) <= schema["maxLength"] and re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL)
            return None if fits else f"{place}: must be text of at most {schema['maxLength']} characters" + _form(schema)
        case "integer" | "number":
            return _number_problem(value, schema, place)
        case "boolean":
            return None if type(value) is bool else f"{place}: must be true or false"
        case "null":
            return None if value is None else f"{place}: must be null"
    raise ValueError(f"unknown type {schema['type']!r}")


def _form(schema: Mapping[str, Any]) -> str:
    return f" of the form {schema['pattern']}" if "pattern" in schema else ""


def _object_problem(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any], place: str) -> str | None:
    if type(value) is not dict:
        return f"{place}: must be an object"
    for name in schema["required"]:
        if name not in value:
            return f"{place}: lacks {name}"
    for name, entry in value.items():
        if name not in schema["properties"]:
            return f"{place}: has an unknown key {str(name)[:40]!r}"
        problem = first_problem(entry, schema["properties"][name], definitions, f"{place}.{name}")
        if problem is not None:
            return problem
    return None


def _number_problem(value: Any, schema: Mapping[str, Any], place: str) -> str | None:
    kinds = (int,) if schema["type"] == "integer" else (int, float)
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
    if type(value) in kinds and low <= value <= high and above < value < below:
        return None
    bounds = {key: schema[key] for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum") if key in schema}
    return f"{place}: must be {'an integer' if kinds == (int,) else 'a number'}, {bounds}"
