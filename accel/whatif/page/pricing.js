// Pricing: accel.pricing and accel.prediction over described calls, with the same names and the same answers.
// A call is what accel/whatif/description.py makes of it; a machine is what accel saves, or a part of it.
import { fitProducts, productSeconds } from "./products.js";

const RAMP_ELEMENTS = 512;
const ITEM_BYTES = { bool: 1, int8: 1, uint8: 1 };
const itemBytes = (dtype) => ITEM_BYTES[dtype] || Number(dtype.replace(/\D/g, "")) / 8;
const floatLike = (dtype) => (itemBytes(dtype) <= 4 ? "float32" : "float64");
const distance = (value) => (value === null ? Infinity : value);

// Linear in log x, flat beyond both ends.
export function interpolate(x, xs, ys) {
  if (x <= xs[0]) return ys[0];
  if (x >= xs[xs.length - 1]) return ys[xs.length - 1];
  let i = 1;
  while (xs[i] <= x) i += 1;
  const share = Math.log(x / xs[i - 1]) / Math.log(xs[i] / xs[i - 1]);
  return ys[i - 1] + share * (ys[i] - ys[i - 1]);
}

export const cacheName = (cache) => "L" + cache.level;

export function levelOf(machine, bytes) {
  const cache = machine.caches.find((each) => bytes <= each.size_bytes);
  return cache ? cacheName(cache) : "DRAM";
}

// --- roofs --------------------------------------------------------------------------------------------------------

export function peakOf(machine, dtype, threads) {
  const peaks = machine.calibration.peaks.filter((peak) => peak.threads === threads);
  const found = peaks.find((peak) => peak.dtype === dtype) || peaks.find((peak) => itemBytes(peak.dtype) === itemBytes(dtype));
  return found ? found.flops_per_second : NaN;
}

function roof(bytes, curve) {
  let first = 0;
  while (first + 1 < curve.working_set_bytes.length && curve.working_set_bytes[first + 1] <= bytes) first += 1;
  return Math.max(...curve.bytes_per_second.slice(first));
}

export function bandwidthOf(machine, bytes, threads) {
  const curves = machine.calibration.bandwidths.filter((curve) => curve.threads === threads);
  return curves.length ? Math.max(...curves.map((curve) => roof(bytes, curve))) : NaN;
}

const lastOf = (list) => list[list.length - 1];

export function levelBandwidths(machine, threads) {
  const largest = Math.max(...machine.calibration.bandwidths.map((curve) => lastOf(curve.working_set_bytes)));
  const levels = [];
  let above = 0;
  for (const cache of machine.caches) {
    if (cache.size_bytes <= largest) {
      const share = cache.shared_by_cpus === 1 ? threads : 1;
      levels.push([cacheName(cache), bandwidthOf(machine, Math.max(2 * above, 1) * share, threads)]);
      above = cache.size_bytes;
    }
  }
  levels.push(["DRAM", bandwidthOf(machine, largest, threads)]);
  return levels;
}

export function threadCounts(machine) {
  const { peaks, bandwidths, matmuls } = machine.calibration;
  const known = (list, count) => list.some((each) => each.threads === count);
  const counts = [...new Set(peaks.map((peak) => peak.threads))].sort((a, b) => a - b);
  return counts.filter((count) => known(bandwidths, count) && known(matmuls, count));
}

// --- a machine's measured costs, ready to price calls -------------------------------------------------------------

const key = (...parts) => parts.join("|");

function median(values) {
  const ordered = [...values].sort((a, b) => a - b);
  const half = ordered.length >> 1;
  return ordered.length % 2 ? ordered[half] : (ordered[half - 1] + ordered[half]) / 2;
}

// tables: the proxies, dtypes and constants of accel.pricing, so that they stand in one place only
export function priceList(machine, threads, tables) {
  const roofs = machine.calibration;
  const indexed = (list, name) => new Map(list.map((each) => [name(each), each]));
  return {
    machine,
    threads,
    tables,
    roofs,
    ceilings: indexed(roofs.ceilings, (c) => key(c.operation, c.dtype)),
    streams: indexed(roofs.streams, (s) => s.shape),
    rates: indexed(roofs.rates, (r) => key(r.operation, r.dtype)),
    calls: indexed(roofs.calls, (c) => key(c.name, c.kind)),
    usualOverlap: roofs.usual_overlap || median(roofs.overlaps.map((overlap) => overlap.exponent)),
    largest: Math.max(...roofs.streams.map((stream) => lastOf(stream.working_set_bytes))),
    products: fitProducts(roofs.matmuls.filter((product) => product.threads === threads)),
  };
}

function price(list, call) {
  if (call.declared) return declared(list, call);
  const rate = call.rate && findRate(list, call.rate[0], call.d);
  if (rate) return byRate(list, call, rate);
  const [overhead, work, name] = call.product ? product(list, call) : elementwise(list, call);
  let [memory, level] = memoryOf(list, call);
  let arithmetic = work;
  if (call.reserves) {
    memory = arithmetic = 0; // touches nothing yet
    level = "L1";
  } else {
    arithmetic = Math.max(arithmetic, columnSeconds(list, call));
  }
  return {
    overhead: overhead + (call.views || 0) * list.roofs.view_seconds,
    arithmetic,
    memory,
    pages: pagesOf(list, call),
    exponent: overlapOf(list, call),
    level,
    name,
  };
}

function secondsOf(price) {
  const longer = Math.max(price.arithmetic, price.memory);
  const shorter = Math.min(price.arithmetic, price.memory);
  const p = price.exponent;
  const overlapped = shorter && p < Infinity ? longer * Math.pow(1 + Math.pow(shorter / longer, p), 1 / p) : longer;
  return price.overhead + overlapped + price.pages;
}

function boundBy(price) {
  const parts = [
    ["dispatch overhead", price.overhead],
    [price.name, price.arithmetic],
    [`${price.level} bandwidth`, price.memory],
    ["fresh pages", price.pages],
  ];
  return parts.reduce((most, part) => (part[1] > most[1] ? part : most))[0];
}

function declared(list, call) {
  const [flops, bytes, interpreted, calls, special] = call.declared;
  const dtype = call.d === "float64" ? "float64" : "float32";
  return {
    overhead: calls * ceiling(list, "add", "float32").call_seconds,
    arithmetic:
      flops / peakOf(list.machine, dtype, list.threads) +
      interpreted * list.roofs.interpreted_seconds +
      (special * specialSeconds(list, dtype)) / list.threads,
    memory: bytes / bandwidthOf(list.machine, Math.max(bytes, 1), list.threads),
    pages: 0,
    exponent: list.usualOverlap,
    level: levelOf(list.machine, bytes),
    name: interpreted ? "interpreter" : "peak",
  };
}

// What an elementary function takes in a compiled loop; in NumPy's loop where none was measured.
function specialSeconds(list, dtype) {
  const rate = list.rates.get(key(list.tables.constants.compiled_special, dtype));
  return rate ? Math.min(...rate.seconds_per_unit) : ceiling(list, "exp", dtype).element_seconds;
}

function findRate(list, name, dtype) {
  const kinds = [dtype, floatLike(dtype), "float32", "float64", "bool"];
  return kinds.map((kind) => list.rates.get(key(name, kind))).find(Boolean);
}

function byRate(list, call, rate) {
  const [name, units, streaming, summed, rowLength] = call.rate;
  const at = Math.min(distance(call.far), list.largest);
  const streams = streaming || rate.working_set_bytes.length === 1;
  const narrow = findRate(list, name + ":narrow", call.d);
  const each = streams
    ? Math.min(...rate.seconds_per_unit)
    : unitSeconds(list, rate, at) + shortRowSeconds(list, narrow, rate, rowLength, at);
  const measured = list.calls.get(key(name, call.k));
  return {
    overhead: (measured ? measured.seconds : rate.call_seconds) + (call.views || 0) * list.roofs.view_seconds,
    arithmetic: units * each + (summed && !narrow ? ceiling(list, "add.reduce", call.d).row_seconds * summed : 0),
    memory: streams ? memoryOf(list, call)[0] : 0,
    pages: streams ? pagesOf(list, call) : 0,
    exponent: Infinity,
    level: levelOf(list.machine, at),
    name: call.n,
  };
}

// What a unit costs more in short rows: what starting a row costs is shared by its elements.
function shortRowSeconds(list, narrow, wide, rowLength, at) {
  if (!narrow || !rowLength) return 0;
  const more = unitSeconds(list, narrow, at) - unitSeconds(list, wide, at);
  return (Math.max(more, 0) * list.tables.constants.narrow_elements) / rowLength;
}

// Between two points of a rate its curve rises as that of a plain pass does, which has many points.
function unitSeconds(list, rate, at) {
  const sizes = rate.working_set_bytes, each = rate.seconds_per_unit;
  const { step, out_of_order: outOfOrder } = list.tables.constants;
  const plain = list.streams.get("1R1W");
  let place = 0;
  while (place < sizes.length && sizes[place] <= at) place += 1;
  if (place > 0 && place < sizes.length && !outOfOrder.includes(rate.operation)) {
    const [low, here, high] = [sizes[place - 1], at, sizes[place]].map((size) =>
      interpolate(size, plain.working_set_bytes, plain.seconds_per_byte),
    );
    if (high > step * low) return each[place - 1] + ((here - low) / (high - low)) * (each[place] - each[place - 1]);
  }
  return interpolate(at, sizes, each);
}

// The measured cost of an operation, of its closest relative, or of the closest dtype.
function ceiling(list, name, dtype, special = false) {
  const { proxies, truths, similar } = list.tables;
  const [start, variant] = name.split(":");
  const base = dtype === "bool" ? truths[start] || start : start;
  const suffix = variant ? ":" + variant : "";
  const known = variant === "strided" && !list.ceilings.has(key(name, dtype)) ? floatLike(dtype) : dtype;
  const last = base.includes(".reduce") ? "add.reduce" : special ? "exp" : "add";
  for (const candidate of [base, proxies[base] || base, last]) {
    for (const ending of [suffix, ""]) {
      for (const kind of [known, similar[known] || known, floatLike(known)]) {
        const found = list.ceilings.get(key(candidate + ending, kind));
        if (found) return found;
      }
    }
  }
  return list.ceilings.get(key("add", "float32"));
}

function callSeconds(list, call, plain) {
  if (call.k !== "ufunc") {
    const reduction = call.n.includes(".reduce") ? "add.reduce" : call.n;
    const found = list.calls.get(key(call.n, call.k)) || list.calls.get(key(reduction, call.k));
    return found ? found.seconds : plain;
  }
  return plain + (call.dearer || []).reduce((sum, kind) => sum + extraSeconds(list, kind), 0);
}

function extraSeconds(list, kind) {
  const found = list.calls.get(key("multiply", kind)), plain = list.calls.get(key("multiply", "plain"));
  return found && plain ? Math.max(found.seconds - plain.seconds, 0) : 0;
}

function measuredAs(list, call) {
  if (!call.copies) return [call.n, call.d];
  const [source, target] = call.copies;
  const cast = "cast:" + target;
  return source !== target && list.ceilings.has(key(cast, source)) ? [cast, source] : ["copy", target];
}

function elementwise(list, call) {
  const [name, dtype] = measuredAs(list, call);
  let inner = ceiling(list, name, dtype, Boolean(call.special));
  const overhead = callSeconds(list, call, inner.call_seconds);
  if (call.reduces === 2) {
    inner = ceiling(list, name + ":axis0", dtype);
  } else if (call.scalar) {
    inner = ceiling(list, name + ":scalar", dtype, Boolean(call.special));
  }
  const least = Math.max(gapSeconds(list, call, dtype), branchSeconds(list, call, name, dtype));
  const rows = call.rows === undefined ? 1 : call.rows;
  const each = inner.row_seconds || ceiling(list, call.reduces ? "add.reduce" : "add", dtype).row_seconds;
  const started = rows > 1 ? each * rows : inner.ramp_seconds * Math.min(call.size / RAMP_ELEMENTS, 1);
  const element = Math.max(inner.element_seconds, least) + bufferingSeconds(list, call, dtype);
  return [overhead, element * call.size + started + castSeconds(list, call), call.n];
}

function gapSeconds(list, call, dtype) {
  if (!call.gaps) return 0;
  const copied = call.copies && list.ceilings.get(key("copy:reversed", dtype));
  return (copied || ceiling(list, "add:strided", dtype)).element_seconds;
}

// What it costs to copy an element of each buffered operand into a buffer of NumPy's iterator.
function bufferingSeconds(list, call, dtype) {
  const [buffered, plain] = ["add:buffered", "add"].map((name) => list.ceilings.get(key(name, floatLike(dtype))));
  return call.buffered && buffered && plain ? Math.max(buffered.element_seconds - plain.element_seconds, 0) * call.buffered : 0;
}

// What an element costs at least where an array is too long for its branches to be learned.
function branchSeconds(list, call, name, dtype) {
  if (call.size <= list.tables.constants.learned_elements) return 0;
  const many = list.ceilings.get(key((list.tables.proxies[name] || name) + ":long", dtype));
  return many ? many.element_seconds : 0;
}

function castSeconds(list, call) {
  return (call.casts || []).reduce((sum, [dtype, size]) => {
    const cast = list.ceilings.get(key("cast:" + call.d, dtype)) || ceiling(list, "copy", call.d);
    return sum + cast.element_seconds * size;
  }, 0);
}

function columnSeconds(list, call) {
  const at = Math.min(distance(call.far), list.largest);
  return (call.columns || []).reduce((sum, [conflict, size]) => {
    const rate = (conflict && findRate(list, "columns:conflict", call.d)) || findRate(list, "columns", call.d);
    return rate ? sum + size * unitSeconds(list, rate, at) : sum;
  }, 0);
}

function memoryOf(list, call) {
  let seconds = 0, most = -1, level = "L1";
  for (const [moved, far, shape] of call.t || []) {
    const plain = list.streams.get("1R1W");
    const stream = list.streams.get(shape || call.s) || list.streams.get(shape ? "strided" : "1R1W") || plain;
    const at = Math.min(distance(far), list.largest);
    seconds += moved * interpolate(at, stream.working_set_bytes, stream.seconds_per_byte);
    if (moved * at > most) {
      most = moved * at;
      level = levelOf(list.machine, distance(far));
    }
  }
  return [seconds, level];
}

function pagesOf(list, call) {
  const curve = list.roofs.allocations;
  if (!call.fresh || call.fresh < curve.allocation_bytes[0]) return 0;
  return call.fresh * interpolate(call.fresh, curve.allocation_bytes, curve.seconds_per_byte);
}

function overlapOf(list, call) {
  if (call.product) return list.usualOverlap;
  const name = list.tables.proxies[call.n] || call.n;
  let known = list.roofs.overlaps.filter((each) => each.operation === call.n || each.operation === name);
  if (!known.length && call.special) known = list.roofs.overlaps.filter((each) => each.operation === "exp");
  const at = Math.log(Math.max(Math.min(distance(call.far), list.largest), 1));
  let nearest = null, least = Infinity;
  for (const overlap of known) {
    const away = Math.abs(Math.log(Math.max(overlap.working_set_bytes || 0, 1)) - at);
    if (away < least) [nearest, least] = [overlap, away];
  }
  return nearest ? nearest.exponent : Infinity;
}

function product(list, call) {
  const [batch, m, k, n] = call.product;
  const measured = list.calls.get(key("matmul", "ufunc")) || ceiling(list, "add", call.d);
  const overhead = measured.seconds === undefined ? measured.call_seconds : measured.seconds;
  const one = productSeconds(list.products, call.d, m, k, n);
  if (one <= 0) return [overhead, 0, "matmul rate"];
  const started = findRate(list, "stacked products", call.d);
  if (batch > 1 && started) {
    const more = Math.max(one - productSeconds(list.products, call.d, 4, 4, 4), 0);
    return [overhead, batch * (Math.min(...started.seconds_per_unit) + more), "matmul rate"];
  }
  return [overhead, batch * Math.max(one - overhead, one * 0.2), "matmul rate"];
}

// --- the whole ----------------------------------------------------------------------------------------------------

export function mostOf(parts) {
  const shares = new Map();
  parts.forEach(({ bound, seconds }) => shares.set(bound, (shares.get(bound) || 0) + seconds));
  return [...shares].reduce((most, share) => (share[1] > most[1] ? share : most), ["nothing", -1])[0];
}

// described -> seconds, what bounds it, and the same of each call
export function predict(described, list) {
  const parts = described.calls.map((call) => {
    const found = price(list, call);
    return { name: call.n, count: call.x, level: found.level, bound: boundBy(found), seconds: call.x * secondsOf(found) };
  });
  const seconds = parts.reduce((sum, part) => sum + part.seconds, list.roofs.python_call_seconds);
  return { seconds, bound: mostOf(parts), parts, textbook: textbook(described, list) };
}

function textbook(described, list) {
  const arithmetic = (described.flops + described.special) / peakOf(list.machine, described.dtype, list.threads);
  return Math.max(arithmetic, described.touched / lastOf(levelBandwidths(list.machine, list.threads))[1]);
}
