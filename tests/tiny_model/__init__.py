"""The training of the tiny model, from conversations that are generated here and nowhere else.

`domains`, `values`, `parameters`, `tools`, `phrases` and `conversations` are the generator; `tokenizer` and
`examples` turn conversations into token ids; `recipe`, `batches`, `steps` and `trainer` train; `evaluate` measures;
`held_out` writes the questions that the study asks (`runtime/study/held_out.jsonl.gz`).
"""
