"""What every test needs: one thread for tiny tensors, the same examples in every run, and one browser."""

import programs
import pytest
import torch
from hypothesis import settings
from playwright.sync_api import expect, sync_playwright

torch.set_num_threads(1)
# The same examples in every run: a failure is a fault that was brought in, never a fresh draw.
settings.register_profile("mtviz", deadline=None, derandomize=True, max_examples=100, database=None)
settings.load_profile("mtviz")

expect.set_options(timeout=30_000)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=programs.chromium(), args=QUIET)
        yield running
        running.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, so that parallel workers end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
