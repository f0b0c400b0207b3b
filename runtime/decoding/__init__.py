"""Decoding: how logits and masks become tokens, and several sequences one answer.

step_sampler        fills the masks of a batch while there is time, and samples its sequences
masks               what a mask leaves of the model's distribution
sampling            draws a token for each sequence
truncation          `top_k`, `top_p`, `min_p`
token_writer        appends tokens to sequences: sampled, forced and closing ones
population          selects a choice's answer from several sequences: rejection sampling and particles
engine_populations  does what populations ask of their engine, and holds their outputs back until they select
"""
