"""Accessibility as axe-core judges it."""

from axe_playwright_python.sync_playwright import Axe


def serious_faults(page, within: str | None = None) -> list[str]:
    """Each serious or critical violation on the page, or within a selector: its rule and the first three elements."""
    found = Axe().run(page, context=within, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{fault['id']}: {[node['html'][:160] for node in fault['nodes'][:3]]}" for fault in found if fault["impact"] in ("serious", "critical")
    ]
