// A chart of curves against the working set, as SVG that takes the colours of the page.

const WIDTH = 374; // at this width text of 10 is legible on a phone
const HEIGHT = 250;
const FRAME = { left: 42, right: 364, top: 16, bottom: 208 };
const SYMBOL = 3.6;

function draw(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...children);
  return made;
}

/** Return a function from a value to its place between two ends, on a logarithmic axis. */
function scale(low, high, from, to) {
  return (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
}

/** Return 1, 2, 5, 10, ... within limits; powers of ten alone where that would be many. */
function ticks(low, high) {
  const found = (steps) => {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
      all.push(...steps.map((step) => Number((step * 10 ** power).toPrecision(1))));
    }
    return all.filter((value) => value >= low && value <= high);
  };
  return found([1, 2, 5]).length <= 7 ? found([1, 2, 5]) : found([1]);
}

function binaryTicks(low, high) {
  const all = [];
  for (let bytes = 2 ** Math.ceil(Math.log2(low)); bytes <= high; bytes *= 8) {
    all.push(bytes);
  }
  return all;
}

function axes(x, y, xs, ys, unit) {
  const text = (content, place) => draw("text", { fill: "currentColor", ...place }, content);
  const line = (place) => draw("line", { stroke: "currentColor", "stroke-width": 0.7, ...place });
  return [
    ...ys.map((value) => line({ x1: FRAME.left, x2: FRAME.right, y1: y(value), y2: y(value), "stroke-opacity": 0.18 })),
    ...ys.map((value) => text(String(value), { x: FRAME.left - 5, y: y(value) + 3.5, "text-anchor": "end" })),
    line({ x1: FRAME.left, x2: FRAME.right, y1: FRAME.bottom, y2: FRAME.bottom }),
    line({ x1: FRAME.left, x2: FRAME.left, y1: FRAME.top, y2: FRAME.bottom }),
    ...xs.map((bytes) => line({ x1: x(bytes), x2: x(bytes), y1: FRAME.bottom, y2: FRAME.bottom + 4 })),
    ...xs.map((bytes) => text(size(bytes), { x: x(bytes), y: FRAME.bottom + 15, "text-anchor": "middle" })),
    text("working set", { x: (FRAME.left + FRAME.right) / 2, y: FRAME.bottom + 30, "text-anchor": "middle" }),
    text(unit, { x: 4, y: 9 }),
  ];
}

/** The caches of the book's machine: thin lines with their names on them. */
function cacheLines(x, caches, high) {
  return caches.filter(({ bytes }) => bytes < high).flatMap(({ name, bytes }) => [
    draw("line", { x1: x(bytes), x2: x(bytes), y1: FRAME.top, y2: FRAME.bottom, stroke: "currentColor", "stroke-width": 0.7, "stroke-opacity": 0.45 }),
    draw("text", { x: x(bytes) - 3, y: FRAME.top + 8, "text-anchor": "end", fill: "currentColor", "font-size": 9 }, name),
  ]);
}

function curveOf({ curve, look }, x, y) {
  const points = curve.map(([bytes, value]) => [x(bytes).toFixed(1), y(value).toFixed(1)]);
  const line = draw("polyline", { class: `accel-browser-${look}-line`, points: points.join(" "), fill: "none" });
  return [line, ...points.map(([cx, cy]) => symbol(look, cx, cy))];
}
/** What stands for a measurement: a filled circle for the reader's own, a small square for the book's. */
function symbol(look, x, y) {
  return look === "yours"
    ? draw("circle", { class: "accel-browser-yours", cx: x, cy: y, r: SYMBOL })
    : draw("rect", { class: "accel-browser-book", x: x - 2.2, y: y - 2.2, width: 4.4, height: 4.4 });
}

/** Which sign is whose; in the corner that the curves leave empty. */
function key(series, top) {
  return series.flatMap(({ name, look }, index) => {
    const y = top + 14 * index;
    return [
      draw("line", { class: `accel-browser-${look}-line`, x1: FRAME.left + 8, x2: FRAME.left + 28, y1: y, y2: y }),
      symbol(look, FRAME.left + 18, y),
      draw("text", { x: FRAME.left + 34, y: y + 3.5, fill: "currentColor" }, name),
    ];
  });
}

/**
 * Draw series of {name, look: "yours" or "book", curve: [[bytes, value], ...]}; `keyAt` is "top" or "bottom".
 * Nothing at all to draw gives an empty frame.
 */
function chart(series, { unit, alt, caches, keyAt }) {
  const points = series.flatMap(({ curve }) => curve);
  const all = (index, otherwise) => (points.length ? points.map((point) => point[index]) : otherwise);
  const [bytes, values] = [all(0, [4096, 2 ** 27]), all(1, [1, 100])];
  const high = Math.max(...bytes) * 1.3;
  const [lowest, highest] = [Math.min(...values) / 1.5, Math.max(...values) * 1.6];
  const x = scale(Math.min(...bytes) / 1.3, high, FRAME.left, FRAME.right);
  const y = scale(lowest, highest, FRAME.bottom, FRAME.top);
  return draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": alt, "font-size": 10, color: "currentColor" },
    ...axes(x, y, binaryTicks(Math.min(...bytes), high), ticks(lowest, highest), unit),
    ...cacheLines(x, caches, high),
    ...series.flatMap((one) => curveOf(one, x, y)),
    ...key(series, keyAt === "top" ? FRAME.top + 26 : FRAME.bottom - 14 * series.length),
  );
}
