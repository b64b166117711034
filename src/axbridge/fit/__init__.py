"""From recordings to a model that predicts them: search, uncertainty, and what recordings do not identify."""

from axbridge.fit.identify import identify
from axbridge.fit.params_file import write_params
from axbridge.fit.result import Fit

__all__ = ["Fit", "identify", "write_params"]
