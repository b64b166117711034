"""The JSON schema of rig files: it takes what the loader takes, and explains every key."""

import pytest

from axbridge.config.rig import FOLDER
from axbridge.config.rig_schema import rig_schema
from axbridge.config.toml_tables import find_toml, read_toml, shipped_names
from axbridge.errors import RigError

KINDS = {"string": str, "number": (int, float), "integer": int, "boolean": bool, "object": dict, "array": list}


def misfits(value, schema, root, where=""):
    """What is wrong with a value: the few words of JSON Schema that a rig's uses, worked out plainly."""
    if "$ref" in schema:
        schema = {**root["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
    if "anyOf" in schema and all(misfits(value, one, root, where) for one in schema["anyOf"]):
        return [f"{where}: none of anyOf"]
    kind = KINDS.get(schema.get("type"), object)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in {bool, object}):
        return [f"{where}: not {schema['type']}"]
    if value not in schema.get("enum", [value]):
        return [f"{where}: not one of {schema['enum']}"]
    wrong = []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key, below in value.items():
            if key not in known and others is False:
                wrong.append(f"{where}.{key}: unknown")
            else:
                place = known.get(key) or (others if isinstance(others, dict) else {})
                wrong += misfits(below, place, root, f"{where}.{key}")
        wrong += [f"{where}.{key}: missing" for key in schema.get("required", []) if key not in value]
        if "if" in schema and misfits(value, schema["if"], root):
            wrong += misfits(value, schema["else"], root, where)
    if isinstance(value, list) and "items" in schema:
        wrong += [text for below in value for text in misfits(below, schema["items"], root, f"{where}[]")]
    return wrong


@pytest.mark.parametrize("name", shipped_names(FOLDER))
def test_every_shipped_rig_fits(name):
    schema = rig_schema()
    assert misfits(read_toml(find_toml(name, FOLDER, RigError), RigError), schema, schema) == []


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({"base": "bioloid", "servo": [{"name": "head", "id": 3}]}, []),
        ({"name": "x"}, [".servo: missing"]),
        ({"name": "x", "servo": [{"name": "a", "id": 1}]}, [".servo[].joint: missing"]),
        ({"base": "x", "servos": []}, [".servos: unknown"]),
        ({"base": "x", "servo": [{"name": "a", "drive": "magic"}]}, [".servo[].drive: not one of"]),
        ({"base": "x", "parameters": {"mass": 0.2}}, []),
        ({"base": "x", "path": "y"}, [".path: unknown"]),
    ],
)
def test_mistakes_are_found_and_a_base_makes_keys_optional(table, wrong):
    schema = rig_schema()
    found = misfits(table, schema, schema)
    assert len(found) == len(wrong)
    assert all(text.startswith(start) for text, start in zip(found, wrong, strict=True))


def test_every_key_is_explained():
    schema = rig_schema()
    for table in (schema, *schema["$defs"].values()):
        for key, field in table["properties"].items():
            assert field.get("description"), key
