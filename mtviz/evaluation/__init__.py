"""Evaluation: what drafting yields and what it costs, measured by running the real loop."""
