"""Plot: charts of results. Each function takes data and returns a `Chart`; none of them measures anything.

Measured values are filled vermillion marks, predictions are blue: open diamonds or dashed lines. Roofs are thin
lines with their name on the line. The title states the finding and comes from the caller, who knows it.
"""

from accel.figure import Chart, style
from accel.plot.agreement import measured_against_predicted
from accel.plot.bars import steps
from accel.plot.calls import call_positions, call_times
from accel.plot.curves import bandwidth
from accel.plot.fleet import fleet_rooflines, network
from accel.plot.latency import latency
from accel.plot.lines import Line, lines
from accel.plot.misses import miss_map
from accel.plot.roofline import Position, roofline
from accel.plot.sweep import scaling

__all__ = [
    "Chart",
    "Line",
    "Position",
    "bandwidth",
    "call_positions",
    "call_times",
    "fleet_rooflines",
    "latency",
    "lines",
    "measured_against_predicted",
    "miss_map",
    "network",
    "roofline",
    "scaling",
    "steps",
    "style",
]
