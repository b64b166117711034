"""dynamixel-sdk moves a Koch arm as its examples do: python sdk_driver.py PORT"""

import dynamixel_sdk
from vendor_sdk import move

move(dynamixel_sdk, 2.0, registers=(64, 116, 132), size=4)
