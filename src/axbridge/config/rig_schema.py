"""The JSON schema of rig files: editors take it to complete keys, explain them, and mark mistakes while one types."""

from __future__ import annotations

import inspect
from typing import Any

from axbridge.config.rig import Rig
from axbridge.config.toml_tables import TomlTable, described
from axbridge.file_reading import FORMAT


def rig_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a rig file, a description beside each key.

    Written by hand are only the keys of the file that are no fields of a `Rig`: ``base`` with what it makes optional,
    and ``format``.
    """
    schema = Rig.model_json_schema(by_alias=True)
    places = {"Rig": schema, **schema["$defs"]}
    for table in (table for table in TomlTable.__subclasses__() if table.__name__ in places):
        place = places[table.__name__]
        place["description"] = (inspect.getdoc(table) or "").splitlines()[0]
        for name, text in described(table).items():
            alias = table.model_fields[name].alias or name
            place["properties"][alias]["description"] = text
    for own in ("path", "bases"):
        schema["properties"].pop(own, None)
    schema["properties"]["base"] = {
        "type": "string",
        "description": "Rig that this one is laid over: a name, or the path of a .toml beside this file.",
    }
    schema["properties"]["format"] = {"const": FORMAT, "description": "Of the file; absent = 1."}
    numbers = schema["properties"]["parameters"]
    numbers["additionalProperties"] = {"anyOf": [{"type": "number"}, numbers["additionalProperties"]]}
    required, of_servo = schema.pop("required"), schema["$defs"]["ServoConfig"].pop("required")
    schema["$defs"]["ServoConfig"]["required"] = ["name"]
    schema["if"] = {"required": ["base"]}
    schema["else"] = {
        "required": required,
        "properties": {"servo": {"items": {"required": of_servo}}},
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "axbridge rig"}
