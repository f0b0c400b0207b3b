"""The engine: decodes under the masks of a grammar.

A request becomes token ids once, and events once; in between there are only ids:

    embedded        renders the prompt (`text.template`), gets a matcher and a closer from the grammar
    engine_thread   owns the engine; takes jobs from event loops, and sends events back
    engine          one step: schedule, run, mask, sample, postprocess
      scheduler       which tokens of which sequences the step computes; pages of the KV cache (`page_pool`)
      forward         computes the logits of these tokens (`forward.model_runner`)
      masks           forbids all tokens that the matcher does not allow
      sampling        chooses a token for each sequence
      token_writer    appends sampled tokens, and those that the grammar forces (`jump_forward`)
    transcript      turns each sequence's tokens into events (`text.detokenizer`)

`protocol`, `request`, `events` and `errors` need no model, and are all that a gateway sees.
"""
