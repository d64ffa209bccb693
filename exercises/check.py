"""Check the four blanks:  python exercises/check.py [module or file]      检查四个空。

Without an argument it checks exercises/multi_token_decoder.py; `mtviz.simulator` is the finished one. It tells what
was given, what was expected and what came back, and ends with status 1 while anything is missing.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOKENS = [10, 20, 30, 31]


def tables(draft, target, tokens=TOKENS):
    """Two (positions, vocabulary) tables that hold the given probabilities of the tokens."""
    both = np.zeros((2, len(tokens), max(tokens) + 1), dtype=np.float32)
    for at, token in enumerate(tokens):
        both[:, at, token] = draft[at], target[at]
    return both[0], both[1]


TUTORIAL = tables([0.5] * 4, [0.8, 0.8, 0.2, 0.2])
GOOD_BEHIND_BAD = tables([0.5] * 4, [0.8, 0.1, 0.9, 0.9])
FIRST_BAD = tables([0.5] * 4, [0.1, 0.9, 0.9, 0.9])
ZEROS = tables([0.4, 0.0, 0.0, 0.3], [0.5, 0.02, 0.0, 0.3])


def check_propose(sim):
    yield "propose([10, 20, 30, 31]) with length 3", sim(3, 0.6).propose(TOKENS), [10, 20, 30]
    yield "propose([10]) with length 3", sim(3, 0.6).propose([10]), [10]
    yield "propose([]) with length 3", sim(3, 0.6).propose([]), []


def check_accept_token(sim):
    for draft, target, threshold, expected in [
        (0.5, 0.31, 0.6, True), (0.5, 0.29, 0.6, False), (0.5, 0.25, 0.5, True), (0.1, 0.9, 1.0, True),
        (0.0, 0.02, 0.5, True), (0.0, 0.0, 0.5, False), (0.5, 0.45, 1.0, False), (0.2, 0.15, 0.5, True),
    ]:  # fmt: skip
        yield f"_accept_token({draft}, {target}) with ratio {threshold}", sim(4, threshold)._accept_token(draft, target), expected


def check_verify(sim):
    yield "verify, the tutorial's example", sim(3, 0.6).verify(*TUTORIAL, TOKENS), ([10, 20], 2)
    yield "verify, good tokens behind a bad one", sim(4, 0.6).verify(*GOOD_BEHIND_BAD, TOKENS), ([10], 1)
    yield "verify, the very first token refused", sim(4, 0.6).verify(*FIRST_BAD, TOKENS), ([], 0)
    yield "verify, all accepted", sim(4, 0.4).verify(*TUTORIAL, TOKENS), (TOKENS, None)
    yield "verify, draft probabilities of 0", sim(4, 0.5).verify(*ZEROS, TOKENS), ([10, 20], 2)


def check_decode(sim):
    decoder = sim(3, 0.6)
    first = {"proposed_tokens": [10, 20, 30], "accepted_tokens": [10, 20], "accepted_len": 2, "rejected_at": 2, "rejected_suffix": [30]}
    yield "decode, the tutorial's example", decoder.decode(*TUTORIAL, TOKENS), first
    yield "history after one decode", decoder.history, [first]
    all_accepted = {"proposed_tokens": TOKENS, "accepted_tokens": TOKENS, "accepted_len": 4, "rejected_at": None, "rejected_suffix": []}
    yield "decode, all accepted", sim(4, 0.4).decode(*TUTORIAL, TOKENS), all_accepted
    long_suffix = {"proposed_tokens": TOKENS, "accepted_tokens": [10], "accepted_len": 1, "rejected_at": 1, "rejected_suffix": [20, 30, 31]}
    yield "decode, a suffix of three", sim(4, 0.6).decode(*GOOD_BEHIND_BAD, TOKENS), long_suffix
    nothing = {"proposed_tokens": TOKENS, "accepted_tokens": [], "accepted_len": 0, "rejected_at": 0, "rejected_suffix": TOKENS}
    yield "decode, the very first token refused", sim(4, 0.6).decode(*FIRST_BAD, TOKENS), nothing
    decoder.propose(TOKENS)
    decoder.verify(*TUTORIAL, TOKENS)
    yield "history after propose and verify", len(decoder.history), 1


CHECKS = {"propose": check_propose, "_accept_token": check_accept_token, "verify": check_verify, "decode": check_decode}


def check(sim) -> dict[str, str | None]:
    """For each blank None where it is right, else what is wrong with it. `sim` is the class."""
    return {name: _first_fault(cases, sim) for name, cases in CHECKS.items()}


def _first_fault(cases, sim) -> str | None:
    try:
        for given, got, expected in cases(sim):
            if got != expected or type(got) is not type(expected):
                return f"{given}: expected {expected!r}, got {got!r}"
    except NotImplementedError as error:
        return f"still to be written / 还没有写: {error}"
    except Exception as error:  # whatever a learner's code raises is their answer, not the end of the check
        return f"{type(error).__name__}: {error}"
    return None


def load(name: str):
    """The class in a module or in a file."""
    if name.endswith(".py"):
        return runpy.run_path(name)["MultiTokenDecoderSim"]
    return importlib.import_module(name).MultiTokenDecoderSim


def main(name: str) -> int:
    faults = check(load(name))
    for blank, fault in faults.items():
        print(f"✗ {blank}: {fault}" if fault else f"✓ {blank}")
    print("All four are right. 四个空都对了。" if not any(faults.values()) else f"{sum(map(bool, faults.values()))} of 4 to go. 还差这么多。")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else str(HERE / "multi_token_decoder.py")))
