"""Training of heads on a frozen trunk."""
