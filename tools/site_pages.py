"""The pages of the site that are made from something else: the README, the command line, the rigs, the docstrings.

MkDocs calls `on_files` and `on_page_markdown` (see `hooks` in mkdocs.yml). Nothing is written into docs/.
"""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
OWN = [str(ROOT / "src"), str(ROOT / "tools")]  # the code of this checkout
sys.path[:0] = OWN

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

# what users hold, in the order one meets it; then what they replace or look into
API = {
    "Robots and servos": (
        "axbridge.robot.open.open_robot",
        "axbridge.robot.robot.Robot",
        "axbridge.robot.servo.Servo",
        "axbridge.state",
        "axbridge.robot.simulation.Simulation",
    ),
    "Rigs and models": (
        "axbridge.config.rig",
        "axbridge.config.rig_tables",
        "axbridge.config.profile.FirmwareProfile",
        "axbridge.config.model.ServoModel",
    ),
    "Recordings": (
        "axbridge.recording.recording",
        "axbridge.recording.stored",
        "axbridge.recording.recorder.Recorder",
        "axbridge.recording.robot_recorder.RobotRecorder",
        "axbridge.recording.sample_logs",
    ),
    "Compare and identify": ("axbridge.comparison.comparison", "axbridge.fit.pipeline"),
    "Moves and walking": (
        "axbridge.motion.moves",
        "axbridge.motion.player",
        "axbridge.motion.teaching",
        "axbridge.motion.gait",
        "axbridge.motion.walking",
    ),
    "Errors": ("axbridge.errors",),
}
HEADINGS = {  # where the last name says too little, or is not what people write
    "axbridge.robot.open.open_robot": "axbridge.open",
    "axbridge.state": "What a robot reports",
    "axbridge.config.rig": "A rig",
    "axbridge.config.rig_tables": "Rig files",
    "axbridge.recording.recording": "What is in a recording",
    "axbridge.recording.stored": "Reading and writing recordings",
    "axbridge.recording.sample_logs": "Recordings that come along",
    "axbridge.comparison.comparison": "Comparing",
    "axbridge.fit.pipeline": "Fitting",
    "axbridge.motion.moves": "Moves",
    "axbridge.motion.player": "Playing moves",
    "axbridge.motion.teaching": "Teaching by hand",
    "axbridge.motion.gait": "Gaits",
    "axbridge.motion.walking": "Walking",
    "axbridge.errors": "All errors",
    "axbridge.bus.base": "A bus",
    "axbridge.virtual.faults": "Faults",
    "axbridge.sim.engine": "An engine",
    "axbridge.testing": "For your own tests",
}
INSIDE = {
    "Buses": ("axbridge.bus.base", "axbridge.bus.serial.SerialBus", "axbridge.virtual.bus.VirtualBus"),
    "The virtual servos": ("axbridge.virtual.world.World", "axbridge.virtual.faults"),
    "Physics engines": ("axbridge.sim.engine",),
    "Contract suites": ("axbridge.testing",),
}
LINK = re.compile(r"(\]\()(?:\.\./)*(?:docs/)?(README|CONTRIBUTING|CHANGELOG|benchmarks/RESULTS)\.md")
_COPIES = {
    "README": "index",
    "CONTRIBUTING": "contributing",
    "CHANGELOG": "changelog",
    "benchmarks/RESULTS": "results",
}


def on_config(config: MkDocsConfig) -> None:
    """Put pages of docs/ that mkdocs.yml does not place at the end, so that none is out of reach."""
    sys.path[:0] = OWN  # MkDocs has put its own path back after the import
    placed = set(re.findall(r"[\w-]+\.md", str(config.nav)))
    others = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in placed)
    registers = sorted(f"registers/{path.name}" for path in (ROOT / "docs" / "registers").glob("*.md"))
    for title, pages in {"Registers": registers, "More": others}.items():
        if pages and config.nav is not None:
            config.nav.append({title: pages})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file of docs/ holds."""
    from mkdocs.structure.files import File

    for name, content in _pages().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links out of docs/ lead to the site's own pages, and show a bar in the code of a table as GitHub does."""
    text = re.sub(r"\]\((?:\.\./)?examples/README\.md\)", "](examples.md)", markdown).replace("](../docs/", "](")
    text = LINK.sub(lambda found: f"{found[1]}{_COPIES[found[2]]}.md", text)
    if page.file.src_uri in {f"{copy}.md" for copy in _COPIES.values()}:
        text = text.replace("](docs/", "](")
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace(r"\|", "|"), text)


def on_page_content(html: str, **_: Any) -> str:
    """Name the function that opens a robot as people write it, in its signature too."""
    return html.replace('<span class="nf">open_robot</span>', '<span class="nf">axbridge.open</span>')


def _pages() -> dict[str, str | bytes]:
    pages: dict[str, str | bytes] = {
        f"{copy}.md": (ROOT / f"{name}.md").read_text(encoding="utf-8") for name, copy in _COPIES.items()
    }
    pages["examples.md"] = _examples()
    pages["cli.md"] = _command_line()
    pages["api.md"] = _docstrings("Python", "What `import axbridge` gives, and what it returns.", API)
    inside = "What you meet when you write a bus, an engine or a fault of your own."
    pages["api-inside.md"] = _docstrings("Python, for builders", inside, INSIDE)
    return pages | _gallery()


def _examples() -> str:
    """The page of examples/, with the text of each program below what it shows."""
    folder = ROOT / "examples"
    front = (folder / "README.md").read_text(encoding="utf-8")
    lines = [re.sub(r"\[([\w.]+)\]\(\1\)", r"`\1`", front)]
    for name, shows in re.findall(r"^\| \[([\w.]+\.py)\]\(\1\) \| (.+) \|$", front, re.MULTILINE):
        text = (folder / name).read_text(encoding="utf-8").rstrip()
        lines += [f"## {shows[0].upper()}{shows[1:]}", "", f"`{name}`:", "", "```python", text, "```", ""]
    return "\n".join(lines)


def _docstrings(title: str, about: str, groups: dict[str, tuple[str, ...]]) -> str:
    lines = [f"# {title}", "", about, ""]
    for group, names in groups.items():
        lines += [f"## {group}", ""]
        for name in names:
            lines += [f"::: {name}", "    options:", "      heading_level: 3"]
            if name in HEADINGS:
                title = HEADINGS[name]
                heading = title if title.startswith("axbridge.") else f"{title} ({name})"  # that is what one imports
                lines += [f"      heading: {heading}", f"      toc_label: {title}"]
            lines += [""]
    return "\n".join(lines)


# ---- the command line


def _command_line() -> str:
    """Every verb with its options and its example, from the program itself."""
    from importlib import import_module
    from pkgutil import iter_modules

    import typer.main

    from axbridge import cli
    from axbridge.cli.app import app

    for module in iter_modules(cli.__path__):
        import_module(f"axbridge.cli.{module.name}")
    lines = ["# Command line", "", f"{app.info.help} `axbridge VERB -h` shows what is below.", ""]
    group = ""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        if command.rich_help_panel != group:
            group = command.rich_help_panel
            lines += [f"## {group}", ""]
        below = getattr(command, "commands", None)
        if below:
            lines += [f"### {name}", "", command.help or "", ""]
            for part, one in below.items():
                lines += _verb(f"{name} {part}", one, "####")
        else:
            lines += _verb(name, command, "###")
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += ["| 0 | done |", "| 1 | the check that the verb makes has failed |", "| 2 | wrong use, or bad input |"]
    lines += ["| 3 | trouble with the hardware or the bus |", "| 130, 143 | ended by Ctrl-C, by SIGTERM |", ""]
    return "\n".join(lines)


def _verb(name: str, command: Any, mark: str) -> list[str]:
    parameters = [one for one in command.params if one.name != "help"]
    words = [one.metavar or one.name.upper() for one in parameters if one.param_type_name == "argument"]
    usage = " ".join(["axbridge", name, *words, "[OPTIONS]"])
    lines = [f"{mark} {name}", "", command.help or "", "", "```text", usage, "```", ""]
    options = [one for one in parameters if one.param_type_name == "option"]
    if options:
        lines += ["| option | what it does | default |", "|---|---|---|"]
        lines += [_option(one) for one in options] + [""]
    example = (command.epilog or "").removeprefix("Example: ")
    return [*lines, "```console", f"$ {example}", "```", ""] if example else lines


def _option(option: Any) -> str:
    names = ", ".join(f"`{one}`" for one in [*option.opts, *option.secondary_opts])
    about = (option.help or "").replace("|", "\\|").replace("\n", " ")
    default = option.default
    shown = "" if default in ((), "") or default is None or default is False or callable(default) else f"`{default}`"
    return f"| {names} | {about}{' **Needed.**' if option.required else ''} | {shown} |"


# ---- the rigs


def _gallery() -> dict[str, str | bytes]:
    """A page with each rig drawn at its start, and its picture."""
    from axbridge.config.rig import FOLDER, Rig
    from axbridge.config.toml_tables import shipped_names
    from axbridge.robot.rig_check import check_rig

    pages: dict[str, str | bytes] = {}
    lines = ["# All rigs, drawn", "", "Each robot as it stands at the start of a simulation.", ""]
    lines += ["`axbridge rig copy NAME my_robot` makes one yours; [Rig files](rigs.md) says how it goes on.", ""]
    for name in shipped_names(FOLDER):
        rig = Rig.load(name)
        picture = f"rigs/{name}.png"
        pages[picture] = _drawing(rig)
        lines += [f"## {name}", "", f"{rig.description[:1].upper()}{rig.description[1:]}.", ""]
        lines += [f"![{name}]({picture})", "", "```text", *check_rig(rig).tree, "```", ""]
    return {**pages, "rigs-gallery.md": "\n".join(lines)}


def _drawing(rig: Any) -> bytes:
    from matplotlib.figure import Figure
    from robot_png import draw_robot, extent

    import axbridge
    from axbridge.config.urdf import read_shapes

    with axbridge.open(rig) as robot:
        assert robot.simulation is not None
        assert robot.simulation.engine is not None
        poses = robot.simulation.engine.poses()
    shapes = read_shapes(rig.urdf_path(), "visual", rig.urdf_text())
    figure = Figure(figsize=(2.6, 2.6), dpi=130, facecolor="white")
    draw_robot(
        figure.add_axes((0, 0, 1, 1)),
        shapes,
        poses,
        extent(shapes, [poses], floor=rig.world.ground),
        floor=rig.world.ground,
    )
    stream = BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()
