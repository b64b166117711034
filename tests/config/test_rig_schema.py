"""The JSON schema of rig files: it takes what the loader takes, and explains every key."""

import jsonschema  # comes with nbclient
import pytest

from axbridge.config.rig import FOLDER
from axbridge.config.rig_schema import rig_schema
from axbridge.config.toml_tables import find_toml, read_toml, shipped_names
from axbridge.errors import RigError


@pytest.mark.parametrize("name", shipped_names(FOLDER))
def test_every_shipped_rig_fits(name):
    jsonschema.validate(read_toml(find_toml(name, FOLDER, RigError), RigError), rig_schema())


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({"base": "bioloid", "servo": [{"name": "head", "id": 3}]}, []),
        ({"name": "x"}, ["'servo' is a required property"]),
        ({"name": "x", "servo": [{"name": "a", "id": 1}]}, ["'joint' is a required property"]),
        ({"base": "x", "servos": []}, ["'servos' was unexpected"]),
        ({"base": "x", "servo": [{"name": "a", "drive": "magic"}]}, ["'magic' is not one of"]),
        ({"base": "x", "parameters": {"mass": 0.2}}, []),
        ({"base": "x", "path": "y"}, ["'path' was unexpected"]),
    ],
)
def test_mistakes_are_found_and_a_base_makes_keys_optional(table, wrong):
    found = [error.message for error in jsonschema.Draft202012Validator(rig_schema()).iter_errors(table)]
    assert len(found) == len(wrong)
    assert all(said in text for text, said in zip(found, wrong, strict=True))


def test_every_key_is_explained():
    schema = rig_schema()
    for table in (schema, *schema["$defs"].values()):
        for key, field in table["properties"].items():
            assert field.get("description"), key
