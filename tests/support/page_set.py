"""A RoboPlus page set written by hand, with every feature of the format."""

from axbridge.motion.mtn import checksum

IDS = range(26)
# ROBOTIS' pose of a Bioloid Type A, ids 1 to 18: page 31 of bio_prm_humanoidtypea_en.mtn, robkwan/bioloid_ros2
WALK_READY = (235, 788, 279, 744, 462, 561, 358, 666, 507, 516, 341, 682, 240, 783, 647, 376, 507, 516)


def line(values):
    return " ".join(str(value) for value in values)


def step(pause, play, **counts):
    """One line: 512 but for the ids named ``id7=600``."""
    return f"step={line(counts.get(f'id{id_}', 512) for id_ in IDS)} {pause} {play}\n"


def page(*steps, name="", levels=(), param="0 0 1 1.0 32"):
    compliance = line(dict(levels).get(id_, 5) for id_ in IDS)
    return f"page_begin\nname={name}\ncompliance={compliance}\nplay_param={param}\n{''.join(steps)}page_end\n"


def page_set(*pages, version="1.01", ids=range(1, 19), fill=True):
    """The bytes of a file; empty pages up to 255 unless `fill` is False."""
    head = f"type=motion\nversion={version}\nenable={line(int(id_ in ids) for id_ in IDS)}\n"
    if version != "1.00":
        head += f"motor_type={line(0 for _ in IDS)}\n"
    body = b"\xef\xbb\xbf" + (head + "".join(pages) + page() * (255 - len(pages) if fill else 0)).encode()
    return body + checksum(body)


EVERYTHING = (
    page(step("0.0", "1.0", id1=500), name="Stand"),
    page(
        step("0.104", "0.504", id2=600, id4=1023),
        step("0.0", "0.504", id2=400, id4=0),
        name="Wave: Größe",
        levels={2: 6, 4: 7, 6: 0}.items(),
        param="3 4 2 2.0 4",
    ),
    page(*(step("0.0", "0.304", id2=500 + 10 * n) for n in range(7)), name="Wave 2", param="2 4 1 1.5 5"),
    page(step("0.0", "0.504"), name="Home"),
    page(name="Only a name"),
)
