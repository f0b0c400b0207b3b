"""From a batch of token ids to logits, with attention over the pages of the KV cache.

A batch of two sequences, one of which has 7 tokens to prefill and one of which decodes a single token:

    chunks      Chunk(a, start=0, num_tokens=7), Chunk(b, start=20, num_tokens=1)
    packed row  [a0 a1 a2 a3 a4 a5 a6 b20]: one forward pass computes all 8 tokens (`forward_pass`)
    attention   each layer writes 8 keys and values into the pages of a and b, then an attention backend lets
                a0 to a6 attend to the pages of a, and b20 to the pages of b (`attention`)
    logits      of a6 and b20 alone: the tokens that are sampled after them (`model_runner`)

`gather_backend` runs anywhere. `paged_triton_backend`, its `paged_triton_kernel` and `cuda_graphs` are what
`device_operations` adds on CUDA. `probe` checks a model when it is loaded. Nothing here knows of requests.
"""
