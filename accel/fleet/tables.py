"""Tables of a fleet: its machines side by side, its network, and what is wrong with which worker."""

from __future__ import annotations

from collections.abc import Sequence

from accel.fleet.comparison import outliers, product_efficiency
from accel.fleet.records import Fleet, Network
from accel.measurement import format_seconds
from accel.tables import Column, Table, counts_column, numbers_column
from accel.units import TIME, format_bytes, format_decimal, unit_for

__all__ = ["fleet_table", "network_table", "outlier_lines", "outlier_table"]


def fleet_table(fleet: Fleet, *, caption: str | None = None) -> Table:
    """Return the machines of a fleet, a row for each worker; roofs of one thread.

    Examples
    --------
    >>> from accel import fleet
    >>> fleet.fleet_table(fleet.Fleet.load("fleet.json"))  # doctest: +SKIP
    """
    workers = fleet.workers
    machines = [worker.machine for worker in workers]
    levels = [machine.level_bandwidths() for machine in machines]
    strange: dict[str, list[str]] = {worker.name: [] for worker in workers}
    for outlier in outliers(fleet):
        if outlier.worker in strange and outlier.what not in strange[outlier.worker]:
            strange[outlier.worker].append(outlier.what)
    return Table(
        caption or f"{_counted(len(workers), 'worker')} on {_counted(len(fleet.hosts), 'host')}, one thread each",
        (
            Column("worker", tuple(worker.name for worker in workers), is_text=True),
            Column("host", tuple(worker.host for worker in workers), is_text=True),
            Column("processor", tuple(machine.cpu_name for machine in machines), is_text=True),
            Column("CPUs", tuple(str(machine.usable_cpus) for machine in machines)),
            counts_column("peak, float32", [m.peak_flops_per_second("float32") for m in machines], "FLOP/s"),
            counts_column("DRAM", [level["DRAM"] for level in levels], "B/s"),
            Column("BLAS", tuple(f"{product_efficiency(machine):.0%}" for machine in machines)),
            Column("CPU share", tuple(f"{worker.cpu_share_fraction:.0%}" for worker in workers)),
            Column("stands out by", tuple(", ".join(strange[w.name]) or "–" for w in workers), is_text=True),
        ),
        _network_line(fleet),
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _network_line(fleet: Fleet) -> str:
    scheduler = f"Scheduler: {format_seconds(fleet.scheduler_seconds_per_task)} for each task."
    if fleet.network is None:
        return f"{scheduler} No network was measured."
    network = fleet.network
    where = "Within one host" if network.same_host else "Between hosts"
    bandwidth = format_decimal(network.bandwidth_bytes_per_second, "B/s")
    return f"{scheduler} {where}: latency {format_seconds(network.latency_seconds)}, bandwidth {bandwidth}."


def network_table(network: Network, *, caption: str | None = None) -> Table:
    """Return what messages of each size take: the median link, and the fastest and slowest one.

    Examples
    --------
    >>> from accel import fleet
    >>> fleet.network_table(fleet.Fleet.load("fleet.json").network)  # doctest: +SKIP
    """
    curves = [link.seconds for link in network.links] or [network.seconds]
    fastest, slowest = ([pick(times) for times in zip(*curves, strict=True)] for pick in (min, max))
    unit, size = unit_for([*network.seconds, *fastest], TIME)
    return Table(
        caption or f"Messages between workers, {_counted(len(curves), 'link')}",
        (
            Column("message", tuple(map(format_bytes, network.sizes_bytes))),
            numbers_column(f"median link ({unit})", network.seconds, size),
            numbers_column(f"fastest ({unit})", fastest, size),
            numbers_column(f"slowest ({unit})", slowest, size),
            counts_column("bandwidth", network.bandwidths_bytes_per_second(), "B/s"),
        ),
    )


def outlier_table(fleet: Fleet) -> Table:
    """Return what sets workers apart, a row for each difference; without rows where none stands out."""
    found = outliers(fleet)
    columns: Sequence[tuple[str, tuple[str, ...]]] = (
        ("worker", tuple(outlier.worker for outlier in found)),
        ("what", tuple(outlier.what for outlier in found)),
        ("detail", tuple(outlier.detail for outlier in found)),
    )
    caption = "Workers that stand out" if found else "No worker stands out"
    return Table(caption, tuple(Column(head, cells, is_text=True) for head, cells in columns))


def outlier_lines(fleet: Fleet) -> list[str]:
    """Return what sets workers apart in words, a line for each difference."""
    found = outliers(fleet)
    return [f"{o.worker}: {o.what}: {o.detail}" for o in found] or ["No worker stands out."]
