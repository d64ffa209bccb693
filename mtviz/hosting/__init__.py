"""Standing in front of many: limits, the line, the device, the web's edge, logs. Nothing here knows the page.

Imported before torch, as ZeroGPU asks (`device`).
"""

from mtviz.hosting.device import Device, warm
from mtviz.hosting.hall import Hall, View
from mtviz.hosting.limits import Limits
from mtviz.hosting.line import Line, LineFull
from mtviz.hosting.logs import log_as_json
from mtviz.hosting.web import Guard

__all__ = ["Device", "Guard", "Hall", "Limits", "Line", "LineFull", "View", "log_as_json", "warm"]
