"""The JSON Schema of the `index.json` files of the exported graph, which is beside them."""

from typing import Any

_LINK = {
    "type": "object",
    "required": ["href"],
    "properties": {
        "href": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "similarity": {"type": "number", "minimum": -1, "maximum": 1},
    },
    "additionalProperties": False,
}
_LINKS = {"type": "array", "items": {"$ref": "#/$defs/link"}}
_ENTRY = {
    "type": "object",
    "required": ["id", "title", "_links"],
    "properties": {
        "id": {"type": "string"},
        "title": {"type": "string"},
        "count": {"type": "integer", "minimum": 0, "description": "chunks of the document"},
        "_links": {"type": "object", "required": ["self"], "properties": {"self": {"$ref": "#/$defs/link"}}},
    },
    "additionalProperties": False,
}
_KEYWORDS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "score"],
        "properties": {"name": {"type": "string"}, "score": {"type": "number"}},
        "additionalProperties": False,
    },
}
_ORDER = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0},
    "uniqueItems": True,
    "description": "indexes of all chunks but the baseline; ask for n: the baseline, then the first n - 1 of these",
}
_SIMILARITY = {"type": "number", "minimum": -1, "maximum": 1}
_ITEM = {
    "type": "object",
    "required": ["index", "id", "href", "title", "is_code", "bytes", "similarity_conceptual", "keywords"],
    "properties": {
        "index": {"type": "integer", "minimum": 0},
        "id": {"type": "string", "description": "changes with the content of the chunk"},
        "href": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "is_code": {"type": "boolean"},
        "bytes": {"type": "integer", "minimum": 0, "description": "length of the file"},
        "similarity_conceptual": _SIMILARITY,
        "similarity_technical": _SIMILARITY,
        "prompt_hashes": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[0-9]{1,20}$"},
            "description": "SimHashes of questions, 64 bits unsigned; texts, as a JSON number would lose bits",
        },
        "keywords": {"$ref": "#/$defs/keywords"},
    },
    "additionalProperties": False,
}
_CHUNKS = {
    "type": "object",
    "required": ["source", "count", "baseline_conceptual", "stripe_order", "items"],
    "properties": {
        "source": {"type": "string", "description": "file name of the document"},
        "count": {"type": "integer", "minimum": 1},
        "baseline_conceptual": {"type": "integer", "minimum": 0},
        "baseline_technical": {"type": "integer", "minimum": 0},
        "stripe_order": _ORDER,
        "stripe_order_technical": _ORDER,
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1},
    },
    "dependentRequired": {
        "baseline_technical": ["stripe_order_technical"],
        "stripe_order_technical": ["baseline_technical"],
    },
    "additionalProperties": False,
}

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A folder or document of a Weft graph (HAL+JSON)",
    "type": "object",
    "required": ["id", "title", "_links", "_embedded"],
    "properties": {
        "id": {"type": "string"},
        "title": {"type": "string"},
        "keywords": {"$ref": "#/$defs/keywords"},
        "_links": {
            "type": "object",
            "required": ["self", "describedby"],
            "properties": {
                **dict.fromkeys(("self", "parent", "describedby"), {"$ref": "#/$defs/link"}),
                **dict.fromkeys(("similar", "links", "linked_from"), _LINKS),
            },
            "additionalProperties": False,
        },
        "_embedded": {
            "type": "object",
            "required": ["topics"],
            "properties": {
                "topics": {"type": "array", "items": {"$ref": "#/$defs/entry"}, "description": "folders"},
                "documents": {"type": "array", "items": {"$ref": "#/$defs/entry"}},
                "chunks": {"type": "object", "additionalProperties": {"$ref": "#/$defs/chunks"}},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
    "$defs": {"link": _LINK, "entry": _ENTRY, "keywords": _KEYWORDS, "item": _ITEM, "chunks": _CHUNKS},
}
"""The schema that tests validate every exported `index.json` against."""
