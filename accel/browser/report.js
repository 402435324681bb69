// What was measured, in words: numbers with their units, the steps of a curve, and files to download.

/** Write a number with about three digits that mean something. */
function digits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
// A number and its unit stay on one line.
function nanoseconds(value) {
  return `${digits(value)}\u00a0ns`;
}
function rate(value) {
  return `${digits(value)}\u00a0GB/s`;
}
function size(bytes) {
  const [unit, amount] = bytes >= 1 << 30 ? ["GB", 30] : bytes >= 1 << 20 ? ["MB", 20] : ["KB", 10];
  return `${Number((bytes / 2 ** amount).toPrecision(3))}\u00a0${unit}`;
}

/** Return [bytes, value] pairs of one column of the rows. */
function pairs(rows, column) {
  return rows.map((row) => [row.bytes, row[column]]);
}

// --- the steps of a curve -----------------------------------------------------------------------------------------

const COST_OF_A_STEP = 0.2; // in squared octaves: what a further step must take off the deviations to be worth it

/** Split a curve into levels: the division whose squared deviations from the mean, in octaves, plus costs are least. */
function divide(values) {
  const octaves = values.map(Math.log2);
  const best = [{ cost: 0, from: 0 }];
  for (let end = 1; end <= octaves.length; end += 1) {
    best[end] = { cost: Infinity, from: 0 };
    for (let from = 0; from < end; from += 1) {
      const part = octaves.slice(from, end);
      const mean = part.reduce((sum, value) => sum + value, 0) / part.length;
      const cost = best[from].cost + COST_OF_A_STEP + part.reduce((sum, value) => sum + (value - mean) ** 2, 0);
      if (cost < best[end].cost) {
        best[end] = { cost, from };
      }
    }
  }
  const parts = [];
  for (let end = octaves.length; end > 0; end = best[end].from) {
    parts.unshift([best[end].from, end - 1]);
  }
  return parts;
}

/** Take each value for at least as good as any that follows: noise makes times longer, and more memory never helps. */
function withoutNoise(values, better) {
  const smooth = [...values];
  for (let index = smooth.length - 2; index >= 0; index -= 1) {
    smooth[index] = better(smooth[index], smooth[index + 1]);
  }
  return smooth;
}

/** Return the levels of a curve of pairs: {from, to} in bytes, the value in the middle, and of how many points. */
function levels(curve) {
  const values = curve.map(([, value]) => value);
  const smooth = withoutNoise(values, values[0] < values[values.length - 1] ? Math.min : Math.max);
  return divide(smooth).map(([first, last]) => {
    const inside = smooth.slice(first, last + 1);
    return { from: curve[first][0], to: curve[last][0], value: inside[inside.length >> 1], points: inside.length };
  });
}

/** Say a curve's levels, such as "about 1.5 ns up to 32 KB, 4.5 ns up to 1 MB, and 110 ns at 128 MB". */
function tellLevels(curve, write) {
  const found = levels(curve);
  const flat = found.filter(({ points }, index) => points > 1 || index === 0 || index === found.length - 1);
  const told = flat.map(({ from, to, value }, index) => {
    if (index === flat.length - 1 && index > 0) {
      return from === to ? `${write(value)} at ${size(to)}` : `${write(value)} from ${size(from)} on`;
    }
    return `${write(value)} up to ${size(to)}`;
  });
  return "about " + (told.length > 1 ? `${told.slice(0, -1).join(", ")}, and ${told[told.length - 1]}` : told[0]);
}

function tellEnds(curve, write) {
  const [first, last] = [curve[0], curve[curve.length - 1]];
  return `${write(first[1])} in ${size(first[0])}, ${write(last[1])} in ${size(last[0])}`;
}

/** Say what a chart shows: for whom it is not to be seen. */
function tellChart(what, series, write) {
  const told = series.map(({ name, curve }) => `${name}: ${curve.map(([bytes, value]) => `${size(bytes)} ${write(value)}`).join(", ")}`);
  return `${what} against working set, both on logarithmic axes. ${told.join(". ")}.`;
}

function tellClock({ resolution_ms, sample_ms, cross_origin_isolated }) {
  const share = Math.ceil((100 * resolution_ms) / sample_ms);
  return (
    `The clock of this page moves in steps of ${Number(resolution_ms.toPrecision(2))} ms. A sample lasted about ` +
    `${Number(sample_ms.toPrecision(2))} ms, so reading the clock may be wrong by ${share} %. ` +
    (cross_origin_isolated
      ? "The page is isolated from other sites (crossOriginIsolated), and gets a finer clock for it."
      : "The page is not isolated from other sites (crossOriginIsolated is false), so the browser gives it a coarse clock.")
  );
}

// --- files -----------------------------------------------------------------------------------------------------------

function asCsv(rows) {
  const head = "working_set_bytes,latency_nanoseconds,read_gigabytes_per_second";
  const lines = rows.map((row) => [row.bytes, row.nanoseconds, row.gigabytes_per_second].join(","));
  return [head, ...lines].join("\n") + "\n";
}

// --- what was kept by an earlier visit -----------------------------------------------------------------------------

const KEPT_UNDER = "accel-browser-memory";
const MOST_ROWS = 32;
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/; // Date.parse() finds dates in any text with a digit

function positive(value, most) {
  return typeof value === "number" && value > 0 && value < most;
}

/** Return a result if it is one, made anew from what is known, or null: storage may hold anything. */
function checked(found) {
  if (typeof found !== "object" || found === null || !Array.isArray(found.rows)) {
    return null;
  }
  const { taken_at, method, reason, resolution_ms, sample_ms, cross_origin_isolated, passes, rows } = found;
  const good =
    ["WebAssembly", "JavaScript"].includes(method) &&
    typeof taken_at === "string" && ISO_TIME.test(taken_at) && Number.isFinite(Date.parse(taken_at)) &&
    typeof reason === "string" && reason.length < 200 &&
    positive(resolution_ms, 1e4) && positive(sample_ms, 1e5) && positive(passes, 1e6) &&
    typeof cross_origin_isolated === "boolean" &&
    rows.length >= 2 && rows.length <= MOST_ROWS &&
    rows.every((row, index) =>
      row && Number.isInteger(row.bytes) && positive(row.bytes, 2 ** 40) &&
      (index === 0 || row.bytes > rows[index - 1].bytes) &&
      positive(row.nanoseconds, 1e6) && positive(row.gigabytes_per_second, 1e5),
    );
  if (!good) {
    return null;
  }
  const clean = rows.map(({ bytes, nanoseconds, gigabytes_per_second }) => ({ bytes, nanoseconds, gigabytes_per_second }));
  return { taken_at, method, reason, resolution_ms, sample_ms, cross_origin_isolated, passes, rows: clean };
}

function recall() {
  try {
    return checked(JSON.parse(localStorage.getItem(KEPT_UNDER)));
  } catch {
    return null; // no storage here, or something else is in it
  }
}
/** Keep a result, or forget it if it is null. */
function keep(result) {
  try {
    if (result) {
      localStorage.setItem(KEPT_UNDER, JSON.stringify(result));
    } else {
      localStorage.removeItem(KEPT_UNDER);
    }
  } catch {
    // a page that cannot keep results still measures
  }
}
