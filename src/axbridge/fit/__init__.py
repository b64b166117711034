"""Fit servo models to recordings: search, uncertainty, and parameters that the recordings do not identify."""

from axbridge.fit.pipeline import identify
from axbridge.fit.result import Fit, write_params

__all__ = ["Fit", "identify", "write_params"]
