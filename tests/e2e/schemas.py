"""Random JSON schemas of many kinds, the same ones for the same seed."""

from __future__ import annotations

import random
from typing import Any

NAMES = ["id", "name", "größe", "ключ", "名前", 'quo"te', "back\\slash", "with space", "🦙"]
PATTERNS = [
    "^[a-z]{3,8}$",
    "^\\d{4}-\\d{2}$",
    "^[а-яё]{2,5}$",
    "^[٠-٩]{2}$",
    "\\S",
    "^(red|green|blue)$",
    "^#[0-9a-f]{6}$",
]


def random_schema(seed: int) -> dict[str, Any]:
    """An object schema with definitions that its parts may refer to."""
    rng = random.Random(seed)
    definitions: dict[str, Any] = {"leaf": _leaf(rng)}
    if rng.random() < 0.5:
        definitions["tree"] = {
            "type": "object",
            "properties": {"value": _leaf(rng), "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]}},
            "required": ["value", "next"],
            "additionalProperties": False,
        }
    schema = _object(rng, 2, sorted(definitions))
    return {**schema, "$defs": definitions}


def _schema(rng: random.Random, depth: int, definitions: list[str]) -> dict[str, Any]:
    kind = rng.random()
    if depth == 0 or kind < 0.45:
        return _leaf(rng)
    if kind < 0.6:
        return {"$ref": f"#/$defs/{rng.choice(definitions)}"}
    if kind < 0.7:
        return {"anyOf": [_schema(rng, depth - 1, definitions) for _ in range(rng.randint(1, 3))]}
    if kind < 0.75:
        return {"oneOf": [{"type": "integer"}, {"type": "boolean"}]}
    if kind < 0.88:
        low = rng.randint(0, 2)
        array = {"type": "array", "items": _schema(rng, depth - 1, definitions), "maxItems": low + rng.randint(0, 2)}
        return {**array, "minItems": low} if low else array
    return _object(rng, depth - 1, definitions)


def _object(rng: random.Random, depth: int, definitions: list[str]) -> dict[str, Any]:
    names = rng.sample(NAMES, rng.randint(1, 4))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _schema(rng, depth, definitions) for name in names},
        "required": [name for name in names if rng.random() < 0.7],
    }
    if rng.random() < 0.7:
        schema["additionalProperties"] = False
    return schema


def _leaf(rng: random.Random) -> dict[str, Any]:
    low = rng.randint(-50, 50)
    length = rng.randint(0, 3)
    return rng.choice(
        [
            {"type": "boolean"},
            {"type": "null"},
            {"type": ["boolean", "null"]},
            {"type": "integer"},
            {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 500)},
            {"type": "number", "exclusiveMinimum": low, "maximum": low + 10},
            {"type": "integer", "multipleOf": rng.choice([2, 5, 12]), "minimum": 0},
            {"enum": rng.sample(["a", 'b"c', 7, None, True, "é\n"], rng.randint(1, 4))},
            {"const": rng.choice(["fixed", 12, None])},
            {"type": "string", "minLength": length, "maxLength": length + rng.randint(0, 12)},
            {"type": "string", "pattern": rng.choice(PATTERNS), "maxLength": 16},
            {"type": "string", "format": rng.choice(["date", "uuid", "ipv4", "time"])},
        ]
    )
