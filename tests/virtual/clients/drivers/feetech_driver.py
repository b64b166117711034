"""Feetech's SDK moves an SO-101: python feetech_driver.py PORT"""

import scservo_sdk
from vendor_sdk import move

move(scservo_sdk, 0, registers=(40, 42, 56), size=2)
