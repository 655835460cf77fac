"""Tools with schemas of many kinds, and questions that call for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TEXT = {"type": "string"}
POINT = {
    "type": "object",
    "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
    "required": ["lat", "lon"],
    "additionalProperties": False,
}


def _function(name: str, description: str, properties: dict[str, Any], required: list[str], **more: Any) -> Any:
    parameters = {"type": "object", "properties": properties, "required": required, **more}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


CLOSED = {"additionalProperties": False}
DAY = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}

WEATHER = _function(
    "get_weather",
    "Current weather in a city",
    {
        "city": {**TEXT, "maxLength": 40},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
    ["city", "unit"],
    **CLOSED,
)
ORDER = _function(
    "place_order",
    "Order goods from the shop",
    {
        "customer": {
            "type": "object",
            "properties": {"name": TEXT, "address": {"type": "object", "properties": {"street": TEXT, "zip": TEXT}}},
            "required": ["name"],
            "additionalProperties": False,
        },
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {"sku": TEXT, "count": {"type": "integer", "minimum": 1, "maximum": 99}},
                "required": ["sku", "count"],
                "additionalProperties": False,
            },
        },
        "express": {"type": "boolean"},
    },
    ["customer", "items"],
    **CLOSED,
)
TICKET = _function(
    "create_ticket",
    "Open a ticket for the support team",
    {
        "title": TEXT,
        "priority": {"enum": ["low", "normal", "high", 1, 2, 3]},
        "labels": {"type": "array", "items": {"enum": ["bug", "question", "billing"]}, "maxItems": 3},
        "due": {"anyOf": [{"type": "null"}, DAY]},
    },
    ["title", "priority", "due"],
)
ROUTE = _function(
    "find_route",
    "Find the way between two places on a map",
    {"start": {"$ref": "#/$defs/point"}, "end": {"$ref": "#/$defs/point"}, "by": {"const": "car"}},
    ["start", "end"],
    **{"$defs": {"point": POINT}},
)
DICTIONARY = _function(
    "wörterbuch_nachschlagen",
    'Sucht ein Wort; "genau" heißt ohne Umlaute',
    {"wort": TEXT, "sprache": {"enum": ["Deutsch", "Русский", "日本語", "Ελληνικά"]}, "größe": {"type": "integer"}},
    ["wort", "sprache"],
    **CLOSED,
)
TREE = _function(
    "make_folders",
    "Create a tree of folders",
    {"root": {"$ref": "#/$defs/folder"}},
    ["root"],
    **{
        "$defs": {
            "folder": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z]{1,12}$"},
                    "inside": {"type": "array", "items": {"$ref": "#/$defs/folder"}, "maxItems": 2},
                },
                "required": ["name"],
                "additionalProperties": False,
            }
        },
        **CLOSED,
    },
)
PING = {"type": "function", "function": {"name": "ping", "description": "Check that the service is alive"}}
MATH = _function(
    "math.evaluate",
    "Evaluate a sum of numbers",
    {
        "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 6},
        "round": {"type": "boolean"},
    },
    ["numbers"],
)
QUERY = _function(
    "run_query",
    'Run SQL like SELECT "name" FROM users',
    {"sql": {**TEXT, "maxLength": 120}, "limit": {"type": ["integer", "null"]}, "options": {"type": "object"}},
    ["sql"],
    **CLOSED,
)
CONTACT = _function(
    "add_contact",
    "Save a person in the address book",
    {
        "name": TEXT,
        "reach": {
            "oneOf": [
                {"type": "object", "properties": {"email": TEXT}, "required": ["email"], **CLOSED},
                {"type": "object", "properties": {"phone": TEXT}, "required": ["phone"], **CLOSED},
            ]
        },
    },
    ["name", "reach"],
    **CLOSED,
)

SETS: list[list[dict[str, Any]]] = [
    [WEATHER, PING, TICKET],
    [ORDER, CONTACT],
    [ROUTE, MATH],
    [DICTIONARY, QUERY],
    [TREE, WEATHER, CONTACT],
]
"""What one request offers; few sets, so that their prompts share their beginnings."""

_CITIES = ["Rome", "São Paulo", "京都", "Zürich", "New York", "Αθήνα", "Łódź", "Nairobi", "Reykjavík", "Москва"]
_ASKS: dict[str, str] = {
    "get_weather": "What will the weather be like in {} this week?",
    "ping": "Are you still there? I am calling from {}.",
    "create_ticket": 'Our printer in {} says "paper\\jam". Please open a ticket.',
    "place_order": "Send two lamps and a chair to Ann Lee in {}.",
    "add_contact": "Please remember Bob from {}, bob@example.org.",
    "find_route": "How do I get from {} to Berlin by car?",
    "math.evaluate": "What is 3.5 + 20 + -7? It is for my trip to {}.",
    "wörterbuch_nachschlagen": "Was heißt „Straße“ in der Sprache von {}?",
    "run_query": "Show the names of all users who live in '{}'.",
    "make_folders": "Make folders for the photos of {}, one for each day.",
}


@dataclass(frozen=True)
class Case:
    """A question, the tools that go with it, and the one that it is about."""

    ask: str
    tools: list[dict[str, Any]]
    name: str


def cases(count: int) -> list[Case]:
    """The first ``count`` of 120 different cases, every tool of every set early among them."""
    pairs = [(tools, tool["function"]["name"]) for tools in SETS for tool in tools]
    found = [Case(_ASKS[name].format(city), tools, name) for city in _CITIES for tools, name in pairs]
    return found[:count]
