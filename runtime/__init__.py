"""The engine: decodes under the masks of a grammar.

A request becomes token ids once, and events once; in between there are only ids:

    embedded        renders the prompt (`text.template`), gets a matcher and a closer from the grammar
    engine_thread   owns the engine; takes jobs from event loops, and sends events back
    engine          one step: schedule, run, mask, sample, postprocess
      scheduling      which tokens of which sequences the step computes, and on which pages of the KV cache
      forward         computes the logits of these tokens
      decoding        forbids all tokens that the matcher does not allow, samples a token for each sequence,
                      and appends it with those that the grammar forces after it (`jump_forward`)
    transcript      turns each sequence's tokens into events (`text.detokenizer`)

The gateway speaks with a runtime by `protocol`, `request`, `selection`, `events`, `inspection` and `errors`,
which need no model. It also takes a few things for itself, such as `sentence_embedder`. Only what chooses and
studies models (`gateway.served_models`, `callgate study`) imports files that load them.
"""
