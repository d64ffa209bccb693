"""Decoding: laws and draws, verification, the loop, and its record.

Read in this order: `sampling`, `verification`, `loop`, `bias`, `record`.
"""
