"""The `controller` package on a rig."""

import pytest

from axbridge.webots import install, uninstall


@pytest.fixture
def controller(tmp_path, request):
    """Install the package on the rig of the test's file."""
    (tmp_path / "robot.urdf").write_text(request.module.URDF)
    (tmp_path / "robot.toml").write_text(request.module.RIG)
    session = install(tmp_path / "robot.toml", "sim")
    import controller

    yield controller
    session.close()
    uninstall()
