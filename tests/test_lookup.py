"""N-gram lookup: what it copies, and that a proposal's cost does not grow with the text."""

from random import Random

import pytest

from mtviz.drafting.lookup import LONGEST_NGRAM, LookupDrafter

VOCAB = 20


def propose(drafter, sequence, k=4):
    return drafter.propose(sequence, k)


def by_searching(sequence, k):
    """What lookup means, searched for afresh: the continuation of the last earlier occurrence of the longest suffix."""
    for n in range(min(LONGEST_NGRAM, len(sequence)), 0, -1):
        suffix = sequence[-n:]
        for end in range(len(sequence) - 1, n - 1, -1):
            if sequence[end - n : end] == suffix:
                return sequence[end : end + k]
    return []


@pytest.mark.parametrize(
    "sequence, drafts",
    [
        ([], []),
        ([1], []),
        ([1, 2, 3], []),
        ([1, 1], [1]),
        ([5, 6, 7, 8, 9, 5, 6], [7, 8, 9, 5]),
        ([1, 2, 3, 9, 1, 2, 4, 2, 3], [9, 1, 2, 4]),  # 2 3 beats the later 2
        ([1, 2, 7, 1, 2, 8, 1, 2], [8, 1, 2]),  # the last occurrence of several
        ([4, 4, 4, 4], [4]),  # never more than is there
    ],
)
def test_it_continues_the_last_occurrence_of_the_longest_suffix(sequence, drafts):
    assert propose(LookupDrafter(VOCAB), sequence).tokens == drafts == by_searching(sequence, 4)


def test_an_index_kept_over_rounds_finds_what_a_fresh_search_finds():
    for seed in range(20):
        dice, drafter, sequence = Random(seed), LookupDrafter(VOCAB), []
        while len(sequence) < 120:
            sequence += [dice.randrange(4) for _ in range(dice.randrange(1, 6))]
            k = dice.randrange(1, 9)
            assert propose(drafter, sequence, k).tokens == by_searching(sequence, k)


def test_its_law_is_one_on_each_of_its_tokens():
    proposal = propose(LookupDrafter(VOCAB), [5, 6, 7, 8, 9, 5, 6])
    for row, raw, token in zip(proposal.draft_probs.tolist(), proposal.raw_draft_probs.tolist(), proposal.tokens, strict=True):
        assert row == raw == [float(id_ == token) for id_ in range(VOCAB)]
    empty = propose(LookupDrafter(VOCAB), [1])
    assert empty.draft_probs.shape == empty.raw_draft_probs.shape == (0, VOCAB)


def test_start_forgets_the_last_text():
    drafter = LookupDrafter(VOCAB)
    propose(drafter, [1, 2, 3, 4, 5, 1, 2])
    drafter.start()
    assert propose(drafter, [9, 8, 1, 2]).tokens == []


def test_a_round_reads_only_what_is_new():
    """Not quadratic: the index takes each token once."""

    class Counting(list):
        reads = 0

        def __getitem__(self, key):
            Counting.reads += 1
            return super().__getitem__(key)

    drafter, sequence = LookupDrafter(VOCAB), Counting()
    dice = Random(1)
    for _ in range(500):
        sequence.append(dice.randrange(VOCAB))
        propose(drafter, sequence)
    assert Counting.reads <= 500 * (LONGEST_NGRAM + 1 + LONGEST_NGRAM + 1)
