// Chart: the hierarchical roofline with the kernel under it, in the figure language of the book.
import { decimal, digits, svgElement } from "./words.js";

const MARGIN = { left: 58, right: 14, top: 14, bottom: 42 };
const LABEL_STARTS = [0.03, 0.3, 0.55, 0.12]; // where along its roof each level is named, so that names keep apart
const NARROW = 480; // pixels, below which there is room for the names of the levels alone
const log = Math.log10;

function limits(values, below, above) {
  const known = values.filter((value) => Number.isFinite(value) && value > 0);
  return [Math.min(...known) / below, Math.max(...known) * above];
}

const powers = (base, [low, high]) => {
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9), last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => base ** (first + i));
};
const fraction = (value) => (value >= 1 ? String(value) : `1/${1 / value}`);

function axes(width, height, answers) {
  const xs = answers.flatMap((each) => [each.intensity, ...each.levels.map(([, rate]) => each.peak / rate)]);
  const xlim = limits(xs, 2.5, 4);
  const rates = answers.flatMap((each) => [each.peak, each.flops / each.seconds, each.levels[each.levels.length - 1][1] * xlim[0]]);
  const ylim = limits(rates, 1.6, 2.4);
  const along = ([low, high], from, to) => (value) => from + ((log(value) - log(low)) / (log(high) - log(low))) * (to - from);
  return { xlim, ylim, x: along(xlim, MARGIN.left, width - MARGIN.right), y: along(ylim, height - MARGIN.bottom, MARGIN.top) };
}

function frame(svg, { x, y, xlim, ylim }, width, height) {
  const bottom = height - MARGIN.bottom, right = width - MARGIN.right;
  const line = (from, to, name) => svg.append(svgElement("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: name }));
  const write = (at, text, anchor, more = {}) => svg.append(svgElement("text", { x: at[0], y: at[1], "text-anchor": anchor, ...more }, text));
  const every = log(xlim[1] / xlim[0]) / (width / 46) > log(2) * 1.01 ? 4 : 2;
  powers(every, xlim).forEach((value) => {
    line([x(value), bottom], [x(value), MARGIN.top], "wi-grid");
    write([x(value), bottom + 16], fraction(value), "middle");
  });
  const decades = powers(10, ylim);
  const ticks = decades.length > 2 ? decades : [0.01, 0.1, 1, 10, 100].flatMap((each) => [1, 2, 5].map((step) => each * step * decades[0] || 0));
  ticks.filter((value) => value >= ylim[0] && value <= ylim[1]).forEach((value) => {
    line([MARGIN.left, y(value)], [right, y(value)], "wi-grid");
    const [number, unit] = decimal(value, "").split(" ");
    write([MARGIN.left - 6, y(value) + 4], `${number} ${unit || ""}`.trim(), "end");
  });
  line([MARGIN.left, bottom], [right, bottom], "wi-axis");
  line([MARGIN.left, bottom], [MARGIN.left, MARGIN.top], "wi-axis");
  write([(MARGIN.left + right) / 2, height - 6], "arithmetic intensity (FLOP/byte)", "middle");
  write([0, 0], "performance (FLOP/s)", "middle", { transform: `translate(11 ${(bottom + MARGIN.top) / 2}) rotate(-90)` });
}

function roofs(svg, { x, y, xlim, ylim }, answer, before, narrow) {
  const slant = (rate, peak) => {
    const start = Math.max(xlim[0], ylim[0] / rate), ridge = Math.max(peak / rate, start);
    return [[x(start), y(start * rate)], [x(ridge), y(Math.min(peak, ridge * rate))]];
  };
  const line = ([from, to], attributes) => svg.append(svgElement("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], ...attributes }));
  const flat = (each) => {
    const start = each.peak / Math.max(...each.levels.map(([, rate]) => rate));
    return [[x(Math.max(start, xlim[0])), y(each.peak)], [x(xlim[1]), y(each.peak)]];
  };
  if (before) {
    before.levels.forEach(([, rate]) => line(slant(rate, before.peak), { class: "wi-before" }));
    line(flat(before), { class: "wi-before" });
  }
  line(flat(answer), { class: "wi-peak" });
  const count = answer.levels.length;
  answer.levels.forEach(([level, rate], i) => {
    const name = `wi-level-${count - i}`; // counted from DRAM, the darkest
    const [from, to] = slant(rate, answer.peak);
    line([from, to], { class: `wi-roof ${name}` });
    svg.append(svgElement("circle", { cx: to[0], cy: to[1], r: 3.2, class: `wi-ridge ${name}` }));
    const angle = (Math.atan2(to[1] - from[1], to[0] - from[0]) * 180) / Math.PI;
    const under = i === count - 1, share = under ? LABEL_STARTS[3] : LABEL_STARTS[i % 3];
    const at = [0, 1].map((axis) => from[axis] + share * (to[axis] - from[axis]));
    const place = `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)}) rotate(${angle.toFixed(1)})`;
    svg.append(svgElement("text", { transform: place, dy: under ? 13 : -4, class: `wi-name ${name}` }, narrow ? level : `${level} ${decimal(rate, "B/s")}`));
  });
  const end = flat(answer)[1];
  svg.append(svgElement("text", { x: end[0], y: end[1] - 11, "text-anchor": "end", class: "wi-name" }, `peak ${decimal(answer.peak, "FLOP/s")}`));
}

function diamond(svg, at, name) {
  const r = 7;
  svg.append(svgElement("path", { d: `M${at[0]} ${at[1] - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`, class: name }));
}

function kernel(svg, { x, y, xlim }, answer, before, verb) {
  const place = (each) => [x(each.intensity), y(each.flops / each.seconds)];
  const at = place(answer);
  const reach = Math.min(answer.peak, Math.max(...answer.levels.map(([, rate]) => rate)) * answer.intensity);
  svg.append(svgElement("line", { x1: at[0], x2: at[0], y1: at[1], y2: y(reach), class: "wi-gap" }));
  const moved = before && Math.abs(place(before)[1] - at[1]) > 2;
  if (moved) diamond(svg, place(before), "wi-mark-before");
  diamond(svg, at, "wi-mark");
  const left = answer.intensity > Math.sqrt(xlim[0] * xlim[1]) * 2;
  const beside = { "text-anchor": left ? "end" : "start", class: "wi-name" };
  // Text on a roof would be struck through: it goes below.
  const drop = (spot) => (Math.abs(spot[1] - y(answer.peak)) < 12 ? 20 : 4);
  const label = (spot, text) => svg.append(svgElement("text", { x: spot[0] + (left ? -12 : 12), y: spot[1] + drop(spot), ...beside }, text));
  label(at, `${verb} ${decimal(answer.flops / answer.seconds, "FLOP/s")}`);
  if (moved && Math.abs(place(before)[1] - at[1]) > 14) label(place(before), "as it is");
}

// answer, and the answer before the machine was changed (or null) -> an SVG of this width
export function drawChart({ width, answer, before, alt, verb }) {
  const height = Math.round(Math.min(400, Math.max(290, width * 0.6)));
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": alt, class: "wi-chart" });
  const flopless = !answer.flops;
  const shown = [answer, ...(before ? [before] : [])].map((each) => (flopless ? { ...each, intensity: NaN } : each));
  const scale = axes(width, height, shown);
  frame(svg, scale, width, height);
  roofs(svg, scale, answer, before, width < NARROW);
  if (!flopless && Number.isFinite(answer.seconds)) kernel(svg, scale, answer, before, verb);
  return svg;
}

export function describeChart({ title, answer, label }) {
  const slants = answer.levels.map(([level, rate]) => `${level} ${decimal(rate, "B/s")} with its ridge at ${digits(answer.peak / rate)} FLOP/byte`);
  const place = answer.flops ? `${label} does ${digits(answer.intensity)} FLOP/byte at ${decimal(answer.flops / answer.seconds, "FLOP/s")}` : `${label} does no FLOPs and so has no place under them`;
  return `Roofline. ${title} Roofs: peak ${decimal(answer.peak, "FLOP/s")}; ${slants.join("; ")}. ${place}.`;
}
