"""Drafters: what proposes the tokens that the trunk then judges."""
