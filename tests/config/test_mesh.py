import numpy as np
import pytest
import trimesh

from axbridge.config.urdf import read_mesh, with_checked_meshes
from axbridge.errors import RigError
from axbridge.sim.engine import Scene
from axbridge.sim.engines.choice import build_engine
from tests.support.one_joint import left_alone

URDF = """<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
<{kind}><geometry><mesh filename="{file}"/></geometry></{kind}></link></robot>"""
CORNERS = [(x, y, z) for x in (0.0, 1.0) for y in (0.0, 2.0) for z in (0.0, 3.0)]
SIDES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
FACES = [face for a, b, c, d in SIDES for face in ((a, b, c), (a, c, d))]


def stl(faces=FACES, corners=CORNERS):
    raw = bytes(80) + len(faces).to_bytes(4, "little")
    for face in faces:
        raw += bytes(12) + np.array([corners[c] for c in face], "<f4").tobytes() + bytes(2)
    return raw


def text_stl():
    return trimesh.Trimesh(CORNERS, FACES).export(file_type="stl_ascii").encode()


def obj(sides=SIDES, start=1):
    corners = "".join("v {} {} {}\n".format(*corner) for corner in CORNERS)
    faces = "".join("f " + " ".join(f"{c + start}/1/1" for c in side) + "\n" for side in sides)
    return f"# a box\nmtllib none.mtl\n{corners}vt 0 0\nvn 0 0 1\no box\n{faces}".encode()


def box_of(mesh):
    used = mesh.corners[mesh.triangles]
    return used.min(axis=(0, 1)).tolist(), used.max(axis=(0, 1)).tolist()


@pytest.mark.parametrize(
    ("name", "content"),
    [("box.stl", stl()), ("BOX.STL", text_stl()), ("box.obj", obj()), ("counted_from_the_end.obj", obj(start=-8))],
)
def test_a_box_is_a_box_in_every_kind_of_file(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    mesh = read_mesh(tmp_path / name)
    assert len(mesh.triangles) == 12
    assert box_of(mesh) == ([0, 0, 0], [1, 2, 3])
    corners = mesh.corners[mesh.triangles]  # of a closed body, the triangles' areas point nowhere together
    assert np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).sum(axis=0).tolist() == [0, 0, 0]


def test_the_parts_of_a_convex_decomposition_stay_apart(tmp_path):
    two = obj() + b"o other\n" + b"f 1 2 3\n"
    (tmp_path / "two.obj").write_bytes(two)
    mesh = read_mesh(tmp_path / "two.obj")
    assert [len(part) for part in mesh.parts] == [12, 1]
    (tmp_path / "again.obj").write_bytes(mesh.file())
    again = read_mesh(tmp_path / "again.obj")
    assert [part.tolist() for part in again.parts] == [part.tolist() for part in mesh.parts]
    np.testing.assert_array_equal(again.corners, mesh.corners)


HOSTILE = {
    "box.dae": b"<COLLADA/>",
    "cut.stl": stl()[:-1],
    "many.stl": bytes(80) + b"\xff\xff\xff\xff",
    "nan.stl": stl(corners=[(np.nan, 0, 0), *CORNERS[1:]]),
    "empty.stl": b"",
    "no_triangles.stl": stl(faces=[]),
    "half.stl": b"solid x\nvertex 0 0 0\nvertex 1 0 0\n",
    "beyond.obj": obj(start=5),
    "before.obj": b"v 0 0 0\nf -5 -4 -3\n",
    "digits.obj": b"v 0 0 0\nf " + b"9" * 5000 + b" 1 1\n",
    "words.obj": b"v a b c\n",
    "no_corners.obj": b"f 1 2 3\n",
    "other.ply": b"ply\n",
}


@pytest.fixture(params=["bullet", "mujoco"])
def world(tmp_path, request):
    """Return a function that creates a world with a link of this mesh."""

    def make(name, content, kind="collision", **scene):
        (tmp_path / name).write_bytes(content)
        text = URDF.format(kind=kind, file=name).replace("<mesh", '<mesh scale="1 1 0.1"')
        (tmp_path / "arm.urdf").write_text(text)
        return build_engine(request.param, Scene(tmp_path / "arm.urdf", **scene))

    return make


@pytest.mark.parametrize("name", HOSTILE)
def test_an_invalid_mesh_is_refused_before_an_engine_reads_it(world, name):
    with pytest.raises(RigError, match=rf"{name}: .+\n.+"):
        world(name, HOSTILE[name])  # <COLLADA/> crashed the process here


def test_an_engine_without_a_window_loads_no_visual_mesh(world):
    world("bare.dae", b"<COLLADA/>", "visual").close()


@pytest.mark.parametrize(("name", "content"), [("box.stl", stl()), ("box.obj", obj())])
@pytest.mark.slow
def test_a_body_rests_on_its_collision_mesh(world, name, content):
    world = world(name, content, fixed_base=False, ground=True, base_height=0.01)
    left_alone(world, 0.5)
    place, orientation = world.base()
    world.close()
    assert place[2] == pytest.approx(0.0, abs=3e-3)
    assert orientation[3] == pytest.approx(1.0, abs=0.02)


def test_engines_get_mesh_files_written_by_axbridge(tmp_path):
    (tmp_path / "box.stl").write_bytes(stl())
    kept = []

    def keep(mesh):
        kept.append(box_of(mesh))
        return tmp_path / "copy.stl"

    text = with_checked_meshes(tmp_path / "arm.urdf", URDF.format(kind="collision", file="box.stl"), keep)
    assert f'filename="{tmp_path / "copy.stl"}"' in text
    assert kept == [([0, 0, 0], [1, 2, 3])]
