"""Views: pure functions from a Trace to a chart, text or page."""
