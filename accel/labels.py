"""Labels: place text beside points and along lines where it covers nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Labels", "spread"]

Point = tuple[float, float]

_DIRECTIONS = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
_SLIDES = (-0.5, -0.25, 0.25, 0.5)
"""A text left or right of its point may also stand higher or lower, by so much of its own height."""
_DISTANCES = (6.0, 10.0, 16.0, 24.0, 34.0, 48.0)
_LEADER_BEYOND = 12.0
"""A text farther from its point than this gets a thin line to it."""
_SIDE = 1.5
"""Space between a line and the text along it."""


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Move numbers apart until neighbors differ by at least `gap`, keeping their order and their middle.

    >>> from accel.labels import spread
    >>> spread([0.0, 1.0, 50.0], 10.0)
    [-4.5, 5.5, 50.0]
    """
    groups: list[list[int]] = []
    centers: list[float] = []
    for index in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        groups.append([index])
        centers.append(wanted[index])
        while len(groups) > 1 and centers[-1] - centers[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2:
            last = groups.pop()
            centers.pop()
            groups[-1] += last
            centers[-1] = sum(wanted[i] for i in groups[-1]) / len(groups[-1])
    placed = list(wanted)
    for group, center in zip(groups, centers, strict=True):
        for rank, index in enumerate(group):
            placed[index] = center + gap * (rank - (len(group) - 1) / 2)
    return placed


class Labels:
    """Text on one set of axes whose layout is final, and everything it must not cover.

    Lengths are in points. A box is (left, bottom, right, top); boxes are float64[n, 4].
    """

    def __init__(self, axes: Any) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        self.axes = axes
        self.texts = np.empty((0, 4))
        self.markers = np.empty((0, 4))
        self.dots = np.empty((0, 2))
        """Lines, as points a few points apart."""
        self._renderer = FigureCanvasAgg(axes.figure).get_renderer()
        self._frame = axes.get_window_extent().extents

    def avoid_marker(self, x: float, y: float, radius: float = 5.5) -> None:
        """Keep text off a marker at a place in data coordinates."""
        place = self._in_points(x, y)
        self.markers = np.vstack([self.markers, [*(place - radius), *(place + radius)]])

    def avoid_line(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Keep text off a polyline in data coordinates."""
        corners = [self._in_points(x, y) for x, y in zip(xs, ys, strict=True)]
        for start, end in itertools.pairwise(corners):
            self._avoid_straight(start, end)

    def together(self, places: Sequence[Point], within: float = 8.0) -> list[list[int]]:
        """Return which places in data coordinates lie so close that one text must name them all, highest first."""
        points = np.array([self._in_points(*place) for place in places]).reshape(-1, 2)
        groups: list[list[int]] = []
        for index, point in enumerate(points):
            near = [group for group in groups if np.hypot(*(points[group] - point).T).min() < within]
            groups = [group for group in groups if group not in near] + [[*itertools.chain(*near), index]]
        return [sorted(group, key=lambda index: -points[index, 1]) for group in sorted(groups, key=min)]

    def beside(self, text: str, x: float, y: float, **style: Any) -> None:
        """Write `text` next to a point in data coordinates, where there is most room."""
        artist = self.axes.annotate(
            text, (x, y), xytext=(0, 0), textcoords="offset points", annotation_clip=False, **style
        )
        place, size = self._in_points(x, y), self._size(artist)
        ways = [(_offset(distance, *way), way) for distance, way in itertools.product(_DISTANCES, _DIRECTIONS)]
        ways += [((right, up + share * size[1]), way) for (right, up), way in ways if not way[1] for share in _SLIDES]
        offsets = np.array([offset for offset, _ in ways])
        boxes = np.array([_beside_box(place + offset, size, way) for offset, way in ways])
        best = int(np.argmin(self._costs_beside(place, boxes, offsets)))
        (right, up), (side, above) = ways[best]
        artist.set_position((right, up))
        artist.set_horizontalalignment(("center", "left", "right")[side])
        artist.set_verticalalignment(("center", "bottom", "top")[above])
        self.texts = np.vstack([self.texts, boxes[best]])
        if math.hypot(right, up) > _LEADER_BEYOND:
            self._lead(x, y, right, up)

    def along(self, text: str, start: Point, end: Point, *, from_end: bool = False, **style: Any) -> None:
        """Write `text` along a straight line in data coordinates, above or below it, as near its start as is free."""
        origin, target = self._in_points(*start), self._in_points(*end)
        length = float(np.hypot(*(target - origin)))
        forward = (target - origin) / length
        inches = self.axes.figure.dpi_scale_trans  # so that the place holds for a figure saved with more dots, too
        artist = self.axes.text(0, 0, text, rotation_mode="anchor", transform=inches, **style)
        width, height = self._size(artist)
        last_step = max(4, int(length - width))
        ways = []
        for below, step in itertools.product((False, True), range(3, last_step, 4)):
            lead = length - width - step if from_end else step
            tiles = _tiles(origin, forward, lead, width, height, below)
            cost = float(self._costs(tiles, line_weight=4.0).sum()) + step / 8 + 2.0 * below
            ways.append((cost, lead, below, tiles))
        _, lead, below, tiles = min(ways, key=lambda way: way[0])
        place = origin + forward * (lead + width * from_end) + _across(forward, below) * _SIDE
        artist.set_position(place / self.axes.figure.dpi)
        artist.set(rotation=math.degrees(math.atan2(forward[1], forward[0])), va="top" if below else "bottom")
        artist.set_horizontalalignment("right" if from_end else "left")
        self.texts = np.vstack([self.texts, tiles])

    def _in_points(self, x: float, y: float) -> np.ndarray:
        return self.axes.transData.transform((x, y))

    def _size(self, artist: Any) -> tuple[float, float]:
        extent = artist.get_window_extent(self._renderer)
        return extent.width, extent.height

    def _avoid_straight(self, start: np.ndarray, end: np.ndarray) -> None:
        count = math.ceil(np.hypot(*(end - start)) / 3) + 2
        self.dots = np.vstack([self.dots, np.linspace(start, end, count)])

    def _lead(self, x: float, y: float, right: float, up: float) -> None:
        """Draw a thin line from a point in data coordinates to a text some points away."""
        look = {"arrowstyle": "-", "linewidth": 0.6, "alpha": 0.6, "shrinkA": 1, "shrinkB": 4}
        away: dict[str, Any] = {"xytext": (right, up), "textcoords": "offset points"}
        self.axes.annotate("", (x, y), annotation_clip=False, arrowprops=look, **away)
        start = self._in_points(x, y)
        self._avoid_straight(start, start + np.array([right, up]))

    def _costs_beside(self, place: np.ndarray, boxes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """How bad each place beside a point is: what it covers, how far it is, and whose it could be taken for."""
        distances = np.hypot(*offsets.T)
        others = self.markers[~_inside(place[None], self.markers)[0]]
        costs = self._costs(boxes) + distances / 4 + _overlaps(_grown(boxes, 4.0), others).sum(axis=1)
        crossable = np.vstack([self.texts, others])
        for share in np.linspace(0.1, 0.9, 9):
            hits = _inside(place + share * offsets, crossable).sum(axis=1)
            costs += np.where(distances > _LEADER_BEYOND, 15.0 * hits, 0.0)
        return costs

    def _costs(self, boxes: np.ndarray, line_weight: float = 12.0) -> np.ndarray:
        """How bad it is to cover each box: overlap with what is there, and area outside the axes."""
        covered = _overlaps(_grown(boxes, 1.0), np.vstack([self.texts, self.markers])).sum(axis=1)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        outside = areas - _overlaps(boxes, self._frame[None])[:, 0]
        crossed = _inside(self.dots, boxes).sum(axis=0)
        return 20 * covered + 30 * outside + line_weight * crossed


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Area that each box shares with each other: float64[n, 4], float64[m, 4] -> float64[n, m]."""
    sides = np.minimum(boxes[:, None, 2:], others[None, :, 2:]) - np.maximum(boxes[:, None, :2], others[None, :, :2])
    return np.prod(np.maximum(sides, 0.0), axis=2)


def _inside(points: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Whether each point is in each box: float64[n, 2], float64[m, 4] -> bool[n, m]."""
    points = points[:, None]
    return np.all((points > boxes[None, :, :2]) & (points < boxes[None, :, 2:]), axis=2)


def _grown(boxes: np.ndarray, by: float) -> np.ndarray:
    return boxes + np.array([-by, -by, by, by])


def _offset(distance: float, right: int, up: int) -> Point:
    """Return where a text is anchored, relative to its point; at corners it comes closer."""
    reach = distance * 0.75 if right and up else distance
    return right * reach, up * reach


def _beside_box(anchor: np.ndarray, size: tuple[float, float], way: tuple[int, int]) -> list[float]:
    """Return the box of a text of this size that lies to one side of where it is anchored."""
    left, bottom = (anchor[i] - (size[i] / 2, 0.0, size[i])[way[i]] for i in range(2))
    return [left, bottom, left + size[0], bottom + size[1]]


def _across(forward: np.ndarray, below: bool) -> np.ndarray:
    """Return the direction from a line to the text above or below it."""
    above = np.array([-forward[1], forward[0]])
    return -above if below else above


def _tiles(
    origin: np.ndarray, forward: np.ndarray, lead: float, width: float, height: float, below: bool
) -> np.ndarray:
    """Return boxes that cover a slanted text: two rows of squares so small that none reaches the line, at any slant."""
    half = 0.35 * height
    count = max(1, math.ceil(width / (2 * half)))
    along = lead + width * (np.arange(count) + 0.5) / count
    rows = _SIDE + height * np.array([0.5, 0.75])
    centers = origin + along[:, None, None] * forward + rows[:, None] * _across(forward, below)
    centers = centers.reshape(-1, 2)
    return np.hstack([centers - half, centers + half])
