"""From recordings to a model that predicts them: search, uncertainty, and what recordings do not identify."""

from axbridge.fit.identify import identify
from axbridge.fit.result import Fit, write_params

__all__ = ["Fit", "identify", "write_params"]
