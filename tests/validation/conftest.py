"""The validity studies, which the app does not know, are found in these tests."""

import pytest

from validation import validity_studies


@pytest.fixture(autouse=True, scope="module")
def _known_studies():
    with validity_studies():
        yield
