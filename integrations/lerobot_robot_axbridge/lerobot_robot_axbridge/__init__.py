"""Robots of axbridge for LeRobot, which imports every distribution whose name begins with ``lerobot_robot_``."""

from lerobot_robot_axbridge.config import AxbridgeConfig, AxbridgeLimpConfig
from lerobot_robot_axbridge.robot import Axbridge, AxbridgeLimp

__all__ = ["Axbridge", "AxbridgeConfig", "AxbridgeLimp", "AxbridgeLimpConfig"]
