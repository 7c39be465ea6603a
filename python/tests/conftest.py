import binade as bn
import pytest


@pytest.fixture(autouse=True)
def seeded():
    bn.manual_seed(0)
