"""Start the page: settings → service → page → launch. `MTVIZ_MODEL` and `MTVIZ_DTYPE` choose another trunk."""

import logging
import os

from mtviz.service import Service
from mtviz.ui import build_ui, launch

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

service = Service(model=os.environ.get("MTVIZ_MODEL"), dtype=os.environ.get("MTVIZ_DTYPE", "bfloat16"))
demo = build_ui(service)

if __name__ == "__main__":
    service.load_in_background()
    launch(demo)
