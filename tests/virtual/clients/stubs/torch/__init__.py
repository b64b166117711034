"""A stand-in for torch, of 2 GB: LeRobot imports it, but needs nothing of it to speak to motors."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
