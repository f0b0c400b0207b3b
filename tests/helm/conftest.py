"""What tests of the chart share: each combination of values, rendered."""

import pytest
from rendered_chart import VARIANTS, render


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def variant(request):
    return render(request.param)
