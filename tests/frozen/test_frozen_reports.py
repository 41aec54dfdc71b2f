"""The numbers of twelve runs are those of the day on which they were frozen."""

from importlib.metadata import version

import pytest
from packaging.version import Version

from bias_core.services import Services
from bias_core.settings import Settings
from tests.frozen.runs import NAMES, as_json, frozen, run

pytestmark = pytest.mark.skipif(
    Version(version("torch")) < Version("2.9"),
    reason="torch 2.6 to 2.8 differs from later versions in the third digit (docs/environments.md)",
)


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    services = Services(Settings(data_dir=tmp_path_factory.mktemp("frozen")))
    yield services
    services.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_a_frozen_report_is_found_again(name, calibration, tmp_path):
    now = {path: as_json(value) for path, value in run(name, calibration, tmp_path).items()}
    then = frozen(name)
    missing = sorted(set(then) - set(now))
    changed = [
        f"{path}: {then[path]} -> {now[path]}" for path in then if path in now and differs(then[path], now[path])
    ]
    assert not missing, f"{len(missing)} numbers are gone, e.g. {missing[:5]}"
    assert not changed, f"{len(changed)} of {len(then)} numbers changed, e.g. {changed[:5]}"


def differs(then, now):
    """Return true if a number changed by more than another build of torch rounds 32-bit readings."""
    if isinstance(then, float) and isinstance(now, (int, float)):
        return now != pytest.approx(then, rel=1e-5, abs=1e-6)
    return then != now
