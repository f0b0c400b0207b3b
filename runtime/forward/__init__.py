"""The forward pass: a batch of token ids in, logits out; attention over the pages of the KV cache.

It knows a step's batch, as the scheduler makes it, and nothing of requests.
"""
