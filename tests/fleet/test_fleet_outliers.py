from dataclasses import replace

import pytest
from bs4 import BeautifulSoup
from fleets import NETWORK, VERSIONS, fleet_of, worker
from machines import CALIBRATED

from accel import plot, roofline
from accel.fleet import Unmeasured, fleet_table, network_table, outlier_table, outliers
from accel.machine import MatmulRate

ROOFS = CALIBRATED.roofs


def slower(factor, *fields):
    """Return the machine with some of its roofs lower."""
    changes = {}
    if "peaks" in fields:
        changes["peaks"] = tuple(replace(p, flops_per_second=p.flops_per_second / factor) for p in ROOFS.peaks)
    if "bandwidths" in fields:
        changes["bandwidths"] = tuple(
            replace(b, bytes_per_second=tuple(rate / factor for rate in b.bytes_per_second)) for b in ROOFS.bandwidths
        )
    if "matmuls" in fields:
        changes["matmuls"] = tuple(replace(m, seconds=m.seconds * factor) for m in FAST.roofs.matmuls)
    return FAST.with_calibration(replace(FAST.roofs, **changes))


FAST = CALIBRATED.with_calibration(
    replace(ROOFS, matmuls=(MatmulRate("float32", 1, 512, 512, 512, 2 * 512**3 / 0.9e11),))
)


def found_in(*changed):
    usual = [worker("a", machine=FAST), worker("b", machine=FAST), worker("c", machine=FAST)]
    return {(outlier.worker, outlier.what) for outlier in outliers(fleet_of(*usual, *changed))}


def test_equal_workers_have_no_outlier():
    assert found_in(worker("z", machine=FAST)) == set()
    assert "No worker stands out" in str(fleet_of(worker("a", machine=FAST)))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"machine": slower(3, "peaks")}, "slow compute"),
        ({"machine": slower(3, "bandwidths")}, "slow memory"),
        ({"machine": slower(3, "matmuls")}, "unoptimised BLAS"),
        ({"machine": replace(FAST, blas=replace(FAST.blas, name="reference"))}, "unoptimised BLAS"),
        ({"machine": replace(FAST, blas=replace(FAST.blas, kernel="Prescott"))}, "unoptimised BLAS"),
        ({"machine": replace(FAST, quota_cpus=1.5)}, "quota"),
        ({"machine": FAST, "cpu_share_fraction": 0.33}, "throttled"),
        ({"machine": FAST, "versions": VERSIONS | {"numpy": "2.3.5"}}, "mixed versions"),
        ({"machine": FAST, "versions": VERSIONS | {"numba": "missing"}}, "mixed versions"),
    ],
)
def test_what_is_wrong_is_named(changed, what):
    assert found_in(worker("z", **changed)) == {("z", what)}


def test_of_two_workers_the_slower_one_is_named():
    pair = fleet_of(worker("a", machine=FAST), worker("b", machine=slower(3, "bandwidths")))
    [outlier] = outliers(pair)
    assert (outlier.worker, outlier.what) == ("b", "slow memory")
    assert "3.0 times slower" in outlier.detail


def test_small_differences_are_none():
    assert found_in(worker("z", machine=slower(1.2, "peaks", "bandwidths"))) == set()


def test_workers_that_could_not_be_measured_are_named():
    fleet = replace(fleet_of(worker("a")), unmeasured=(Unmeasured("b", "tcp://x", "ModuleNotFoundError: accel"),))
    assert [(o.worker, o.what) for o in outliers(fleet)] == [("b", "not measured")]


@pytest.mark.parametrize("tolerance", [0, 1, -1, 2])
def test_a_tolerance_is_a_share(tolerance):
    with pytest.raises(ValueError, match="between 0 and 1"):
        outliers(fleet_of(worker("a")), tolerance=tolerance)


SLOW = fleet_of(worker("a", machine=FAST), worker("b", machine=FAST), worker("z<b>", machine=slower(3, "bandwidths")))


def test_tables_show_every_worker_in_text_and_html():
    text = repr(fleet_table(SLOW))
    assert "3 workers on 1 host" in text
    assert "slow memory" in text
    assert "Between hosts: latency 200 µs, bandwidth 500 MB/s" in text
    soup = BeautifulSoup(SLOW._repr_html_(), "html.parser")
    assert [row.th.text for row in soup.select("table")[0].select("tbody tr")] == ["a", "b", "z<b>"]
    assert soup.select("table")[1].select_one("tbody tr").text.startswith("z<b>slow memory")
    assert len(repr(network_table(NETWORK)).splitlines()) == 2 + len(NETWORK.sizes_bytes)
    assert repr(outlier_table(fleet_of(worker("a", machine=FAST)))).startswith("No worker stands out")


def test_the_rooflines_of_a_fleet_name_who_is_slow_and_the_network():
    chart = plot.fleet_rooflines(SLOW, title="One has slow memory")
    assert chart.alt.startswith("One has slow memory. z<b>: peak")
    assert "Network 500 MB/s with its ridge at 200 FLOP/byte" in chart.alt
    assert ">network 500 MB/s<" in chart.svg
    with pytest.raises(KeyError):
        plot.fleet_rooflines(SLOW, title="", highlight=["nobody"])


def test_rooflines_without_a_network():
    chart = plot.fleet_rooflines(replace(SLOW, network=None), title="No network")
    assert "etwork" not in chart.alt.removeprefix("No network")


def test_the_chart_of_the_network_tells_its_times():
    chart = plot.network(NETWORK, title="Latency first")
    assert "8 B: 0.2 ms" in chart.alt
    assert "workers on different hosts" in chart.svg


def test_a_roofline_gains_the_networks_roof_and_ridge():
    point = roofline.Position("matmul", 50.0, 4e10, None)
    arguments = ({"float32 peak": 1e11}, {"L1": 2e11, "DRAM": 2e10}, [point])
    chart = plot.roofline(*arguments, title="Two ridges", machine="m", threads=1, network=1e9)
    assert "the network between workers 1 GB/s with its ridge at 100 FLOP/byte" in chart.alt
    assert ">network 1 GB/s<" in chart.svg
    assert "network" not in plot.roofline(*arguments, title="One ridge", machine="m", threads=1).svg
    with pytest.raises(ValueError, match="network"):
        plot.roofline(*arguments, title="", machine="m", threads=1, network=0.0)


def test_attainable_between_workers_is_the_lower_of_both_roofs():
    assert roofline.attainable_between(10, 50, 1e11, 2e10, 1e9) == 5e10
    assert roofline.attainable_between(1, float("inf"), 1e11, 2e10, 1e9) == 2e10
    assert roofline.network_ridge(FAST, 1e9) == pytest.approx(100)
    with pytest.raises(ValueError, match="positive"):
        roofline.network_ridge(FAST, 0)
