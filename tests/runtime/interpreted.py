"""Run the Triton kernel in Triton's interpreter, which has to be chosen before Triton is imported.

Prints the relative error of each case against float64, as JSON.
"""

import json
import os

os.environ["TRITON_INTERPRET"] = "1"

from paged_attention_cases import CASES, reference

from runtime.forward.paged_triton_kernel import attend_pages


def error(case):
    query, keys, values, queries, scoring = case.make()
    found = attend_pages(query, keys, values, queries, scoring, case.num_splits)
    assert found.dtype == query.dtype
    expected = reference(query.double(), keys, values, queries, scoring)
    return float((found.double() - expected).norm() / expected.norm())


if __name__ == "__main__":
    print(json.dumps({case.name: error(case) for case in CASES}))
