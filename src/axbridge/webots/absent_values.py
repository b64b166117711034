"""What the methods of a device that is not there return: of the type that Webots gives, so that controllers go on.

Source: the Python API of Webots R2025a, `lib/controller/python/controller/*.py`: each method's result type.
"""

from __future__ import annotations

import math
import re
from typing import Any

_NAN, _NANS = math.nan, [math.nan]
_BY_METHOD: dict[str, Any] = {
    method: value
    for value, methods in [
        (0, "getQueueLength getDataSize getChannel getBufferSize getWidth getHeight getType getId getCount getSFInt32"),
        (0, "getNumberOfPoints getNumberOfLayers getHorizontalResolution getNumberOfTargets getPresence"),
        (0, "getRecognitionNumberOfObjects getRecognitionSamplingPeriod getNumberOfFields getBaseNodeNumberOfFields"),
        (0, "getNumberOfAxes getNumberOfPovs getAxisValue getPovValue"),
        (-1, "getPressedButton"),
        (_NAN, "getValue getMaxValue getMinValue getAperture getNoise getSpeed getSignalStrength getRange getSFFloat"),
        (_NAN, "getFov getVerticalFov getMinFov getMaxFov getNear getMinRange getMaxRange getExposure"),
        (_NAN, "getFrequency getMinFrequency getMaxFrequency"),
        (_NAN, "getFocalLength getFocalDistance getMinFocalDistance getMaxFocalDistance"),
        (_NANS * 2, "getSFVec2f"),
        (_NANS * 3, "getValues getRollPitchYaw getSpeedVector getEmitterDirection"),
        (_NANS * 3, "getPosition getCenterOfMass getSFVec3f getSFColor"),
        (_NANS * 4, "getQuaternion getSFRotation"),
        (_NANS * 6, "getVelocity"),
        (_NANS * 9, "getOrientation"),
        ([], "getRangeImage getLayerRangeImage getPointCloud getLayerPointCloud getTargets getRecognitionObjects"),
        ([], "getLookupTable getFloats getInts getContactPoints"),
        ("", "getString getLanguage getEngine getCoordinateSystem getTypeName getBaseTypeName getDef getSFString"),
        (b"", "getBytes getData"),
        (False, "isConnected isLocked isOn isSpeaking isSoundPlaying hasRecognition"),
    ]
    for method in methods.split()
}
_BY_PROPERTY = {
    re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", method).lower().removeprefix("get_"): value
    for method, value in _BY_METHOD.items()
}


def is_property(name: str) -> bool:
    """Whether this is a property (``queue_length``), which is not called."""
    return name in _BY_PROPERTY


def absent_value(name: str) -> Any:
    """What a method or property returns: a list of its own each time; None where Webots may return None, too."""
    value = _BY_METHOD.get(name, _BY_PROPERTY.get(name))
    if name.startswith(("is", "has")) and value is None:
        return False
    return list(value) if isinstance(value, list) else value
