"""Four blanks: write the multi-token decoding simulator yourself.  四个空：自己写出多 token 解码的模拟器。

Check it with / 检查：    python exercises/check.py
"""


class MultiTokenDecoderSim:
    def __init__(self, max_proposal_len=4, min_accept_ratio=0.5):
        if max_proposal_len <= 0:
            raise ValueError("max_proposal_len must be a positive whole number")
        if not 0 < min_accept_ratio <= 1:
            raise ValueError("min_accept_ratio must be in (0, 1]")
        self.max_proposal_len = max_proposal_len
        self.min_accept_ratio = min_accept_ratio
        self.history = []

    def propose(self, draft_tokens):
        """The tokens of this round's proposal, as a list of ints.  本轮提议的 token（整数列表）。"""
        # TODO 1. Only the first max_proposal_len tokens are proposed. Fewer may be there: that is no error.
        #         只提议前 max_proposal_len 个；不足时有几个就提议几个，不算错。
        raise NotImplementedError("propose")

    def _accept_token(self, draft_prob, target_prob):
        """True if the token passes the gate, else False.  过了闸门为 True，否则为 False。"""
        # TODO 2. A token passes when target_prob / draft_prob reaches min_accept_ratio. What if draft_prob is 0?
        #         Then any target_prob above 0 passes. Write the test so that nothing is divided.
        #         target_prob / draft_prob 达到 min_accept_ratio 就通过。draft_prob 为 0 时，
        #         target_prob 大于 0 即通过。请写成不用除法的形式。
        raise NotImplementedError("_accept_token")

    def verify(self, draft_probs, target_probs, draft_tokens):
        """(accepted tokens, index of the first rejected token or None).  （接受的 token，第一个被拒绝的位置或 None）。"""
        # TODO 3. Judge from left to right, draft_probs[i][token] against target_probs[i][token]. The first rejection
        #         ends the round: what stands behind it is never judged.
        #         从左到右逐个判定，比较 draft_probs[i][token] 与 target_probs[i][token]。
        #         第一个拒绝就结束本轮：其后的不再判定。
        raise NotImplementedError("verify")

    def decode(self, draft_probs, target_probs, draft_tokens):
        """One round as a dict; it is also appended to history.  一轮的结果（字典），同时记入 history。"""
        # TODO 4. Propose, verify, and return a dict with proposed_tokens, accepted_tokens, accepted_len, rejected_at
        #         and rejected_suffix. The suffix begins with the rejected token; it is [] where all were accepted.
        #         先提议，再验证，返回含 proposed_tokens、accepted_tokens、accepted_len、rejected_at、
        #         rejected_suffix 的字典。被回退的后缀从被拒绝的那个开始；全部接受时为 []。
        raise NotImplementedError("decode")
