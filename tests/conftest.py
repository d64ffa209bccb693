"""What every test needs: one thread for tiny tensors, and the same examples in every run."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
# The same examples in every run: a failure is a fault that was brought in, never a fresh draw.
settings.register_profile("mtviz", deadline=None, derandomize=True, max_examples=100, database=None)
settings.load_profile("mtviz")
