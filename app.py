"""Start the page: settings → service → page → launch. `MTVIZ_MODEL`, `MTVIZ_HEADS` and `MTVIZ_DTYPE` choose another trunk and its
heads (docs/models.md); docs/hosting.md has the rest."""

import gc
import os
from pathlib import Path

if __name__ == "__main__":
    gc.disable()  # until the model is there: what is imported stays, and looking through it for garbage is a tenth of the start

from mtviz import hosting  # before anything that imports torch
from mtviz.service import Service
from mtviz.ui import build_ui, launch

hosting.log_as_json()

given = os.environ.get
heads = Path(directory) if (directory := given("MTVIZ_HEADS")) else None
service = Service(model=given("MTVIZ_MODEL"), dtype=given("MTVIZ_DTYPE", "bfloat16"), heads=heads)
demo = build_ui(service, hosting.Limits.from_environment())

if __name__ == "__main__":
    hosting.warm(service)
    launch(demo)
