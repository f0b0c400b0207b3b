"""`PYTHONPATH=.:tests python -m tiny_model.held_out`: write the questions that come with the study.

They are conversations of domains, words and shapes of parameters that the tiny model is not trained on.
"""

import gzip
import json
from collections.abc import Iterator

from runtime.study.questions import HELD_OUT_FILE, NUM_HELD_OUT
from tiny_model.conversations import HELD_OUT, converse

SEED = 1 << 42
"""No conversation of training or of its probe has this seed."""


def held_out_lines(count: int) -> Iterator[str]:
    """One question a line, as `runtime.study.questions.held_out` reads them."""
    for number in range(count):
        conversation = converse(SEED, number, HELD_OUT)
        (call,) = conversation.expected
        question = {
            "messages": [{"role": m.role, "content": m.content} for m in conversation.prompt],
            "tools": [
                {"name": t.name, "description": t.description, "parameters": t.parameters}
                for t in conversation.tools
            ],
            "name": call.name,
            "arguments": json.loads(call.arguments),
        }
        yield json.dumps(question, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    content = "".join(held_out_lines(NUM_HELD_OUT)).encode()
    HELD_OUT_FILE.write_bytes(gzip.compress(content, mtime=0))
