"""From recordings to a model that predicts them: search, uncertainty, and what recordings do not identify.

`identify` fits a model to recordings of one servo on one arm; `paper_procedure` does it as Lima et al. 2009 did.
"""

from axbridge.fit.identify import identify
from axbridge.fit.params_file import write_params
from axbridge.fit.result import Fit

__all__ = ["Fit", "identify", "write_params"]
