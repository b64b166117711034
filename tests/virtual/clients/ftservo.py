"""Feetech's own SDK (ftservo-python-sdk) on served STS servos: python ftservo.py PORT"""

import sys
import time

from scservo_sdk import COMM_SUCCESS, PortHandler, sms_sts

port = PortHandler(sys.argv[1])
servos = sms_sts(port)
assert port.openPort()
assert port.setBaudRate(1_000_000)
assert servos.ping(1) == (777, COMM_SUCCESS, 0)
for id_ in (1, 2, 3):
    assert servos.WritePosEx(id_, 2300, 2000, 50) == (COMM_SUCCESS, 0)
time.sleep(1.5)
position, speed, result, error = servos.ReadPosSpeed(2)
assert (result, error) == (COMM_SUCCESS, 0)
assert abs(position - 2300) < 12, position
assert abs(speed) < 20, speed
for id_ in (1, 2, 3):
    assert servos.SyncWritePosEx(id_, 2048, 2000, 50)
assert servos.groupSyncWrite.txPacket() == COMM_SUCCESS
servos.groupSyncWrite.clearParam()
assert servos.RegWritePosEx(1, 2200, 2000, 50) == (COMM_SUCCESS, 0)
servos.RegAction()
time.sleep(1.5)
assert abs(servos.ReadPos(1)[0] - 2200) < 12
assert abs(servos.ReadPos(3)[0] - 2048) < 12
assert servos.ReadMoving(1)[0] == 0
assert servos.unLockEprom(1) == (COMM_SUCCESS, 0)
assert servos.LockEprom(1) == (COMM_SUCCESS, 0)
port.closePort()
print("ok")
