"""Scheduling: which sequences the next step computes, and on which pages.

    sequence          a prompt and its output so far; populations of sequences
    token_counts      how often each token is in an output, for penalties
    weights           what masks left of the model's distribution, for answers that are selected
    page_pool         the pages of the KV cache, shared by sequences with the same prefix
    batch             what a step computes: chunks of sequences, and the rows of their logits
    scheduler         puts sequences into batches, and preempts them where pages are short
    client_shares     divides batches and pages between clients
    slow_grammars     has sequences with slow grammars rest, and fails those that take too long

They decide, and `runtime.forward` computes.
"""
