"""What every test needs: the repository on the path, one thread for tiny tensors, the same examples in every run."""

import sys
from pathlib import Path

import torch
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
torch.set_num_threads(1)
# The same examples in every run: a failure is a fault that was brought in, never a fresh draw.
settings.register_profile("mtviz", deadline=None, derandomize=True, max_examples=200, database=None)
settings.load_profile("mtviz")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than 20 seconds; CI runs it too")
