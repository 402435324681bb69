// Machine files: a reader's own machine, read with mistrust. Each refusal says what is wrong.
const LARGEST_BYTES = 2_000_000;
const DEEPEST = 12;
const MOST_ITEMS = 5000;
const LONGEST_TEXT = 200;
const LARGEST_NUMBER = 1e18;
const SMALLEST_NUMBER = 1e-24;

class Refused extends Error {}
const refuse = (reason) => {
  throw new Refused(reason);
};
const shown = (value) => {
  const text = typeof value === "string" ? `the text “${value.slice(0, 40)}”` : value === null ? "null" : Array.isArray(value) ? "a list" : typeof value === "object" ? "an object" : String(value);
  return text.slice(0, 80);
};

// The text without white space between its tokens, and where the value of the outermost key "machine" stands in it:
// the digest is taken over that. JSON.parse has accepted the text before, so every string in it ends.
function withoutSpace(text) {
  const kept = [];
  let depth = 0, length = 0, start = -1, end = -1, key = "";
  const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;
  for (const [part] of text.matchAll(token)) {
    if (part === "}" || part === "]") depth -= 1;
    if (depth === 1 && part === "," && start >= 0 && end < 0) end = length;
    if (depth === 0 && part === "}" && start >= 0 && end < 0) end = length;
    kept.push(part);
    length += part.length;
    if (depth === 1 && part === ":" && key === '"machine"') [start, end] = [length, -1];
    if (part === "{" || part === "[") depth += 1;
    key = part;
  }
  return kept.join("").slice(start, end);
}

function depthOf(text) {
  let depth = 0, deepest = 0;
  for (const [part] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/gs)) {
    if (part === "{" || part === "[") deepest = Math.max(deepest, (depth += 1));
    else if (part === "}" || part === "]") depth -= 1;
    if (deepest > DEEPEST) break;
  }
  return deepest;
}

// --- types --------------------------------------------------------------------------------------------------------

function number(value, kind, where) {
  if (typeof value !== "number") refuse(`${where} must be a number, and is ${shown(value)}`);
  if (!Number.isFinite(value)) refuse(`${where} is not a finite number`);
  if (kind === "int" && !Number.isInteger(value)) refuse(`${where} must be a whole number, and is ${value}`);
  if (value < 0) refuse(`${where} is negative: ${value}`);
  if (value > LARGEST_NUMBER || (value !== 0 && value < SMALLEST_NUMBER)) refuse(`${where} is ${value}, which no machine is or does`);
  return value;
}

// Returns a copy with the known fields alone: nothing else in a file is looked at.
function typed(value, kind, where) {
  if (typeof kind === "string") {
    if (kind === "int" || kind === "float") return number(value, kind, where);
    const wanted = kind === "str" ? "string" : "boolean";
    if (typeof value !== wanted) refuse(`${where} must be ${kind === "str" ? "text" : "true or false"}, and is ${shown(value)}`);
    if (kind === "str" && value.length > LONGEST_TEXT) refuse(`${where} is longer than ${LONGEST_TEXT} characters`);
    return value;
  }
  if (Array.isArray(kind)) {
    const [what, ...inside] = kind;
    if (what === "default") return typed(value, inside[0], where);
    if (what === "maybe") return value === null ? null : typed(value, inside[0], where);
    if (what === "any") return typeof value === "number" ? number(value, "float", where) : typed(value, "str", where);
    if (!Array.isArray(value)) refuse(`${where} must be a list, and is ${shown(value)}`);
    if (value.length > MOST_ITEMS) refuse(`${where} has more than ${MOST_ITEMS} entries`);
    return value.map((each, i) => typed(each, inside[0], `${where}[${i}]`));
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse(`${where} must be an object, and is ${shown(value)}`);
  const known = {};
  for (const [name, inner] of Object.entries(kind)) {
    const optional = Array.isArray(inner) && inner[0] === "default";
    if (!Object.hasOwn(value, name)) {
      if (!optional) refuse(`${where} has no “${name}”`);
      continue;
    }
    known[name] = typed(value[name], inner, `${where}.${name}`);
  }
  return known;
}

// --- plausibility, as accel.storage has it ---------------------------------------------------------------------------

const grows = (list) => list.length > 0 && list[0] > 0 && list.every((value, i) => !i || value > list[i - 1]);
const positive = (list) => list.every((value) => value > 0);

function curve(sizes, values, what, mayBeZero = false) {
  if (sizes.length !== values.length || !grows(sizes)) refuse(`the working sets of ${what} must grow, and each must have one value`);
  if (!mayBeZero && !positive(values)) refuse(`the measured curve of ${what} must be positive`);
}

function plausible(machine) {
  if (!grows(machine.caches.map((cache) => cache.size_bytes)) || !grows(machine.caches.map((cache) => cache.level)))
    refuse("cache sizes must grow from level to level");
  const roofs = machine.calibration;
  if (!roofs) refuse("the machine was detected but not measured: make the file with “python -m accel calibrate”");
  for (const name of ["peaks", "bandwidths", "streams", "ceilings", "matmuls", "overlaps"])
    if (!roofs[name].length) refuse(`it has no ${name}`);
  const rates = [...roofs.peaks.map((p) => p.flops_per_second), ...roofs.matmuls.flatMap((m) => [m.seconds, m.m, m.k, m.n])];
  const times = [roofs.interpreted_seconds, roofs.python_call_seconds, roofs.view_seconds];
  if (!positive([...rates, ...times, ...roofs.overlaps.map((o) => o.exponent)])) refuse("measured rates and times must be positive");
  roofs.bandwidths.forEach((band) => curve(band.working_set_bytes, band.bytes_per_second, `“${band.operation}”`));
  roofs.streams.forEach((stream) => curve(stream.working_set_bytes, stream.seconds_per_byte, `“${stream.shape}”`));
  roofs.rates.forEach((rate) => curve(rate.working_set_bytes, rate.seconds_per_unit, `“${rate.operation}”`));
  curve(roofs.allocations.allocation_bytes, roofs.allocations.seconds_per_byte, "new memory", true);
  if (!roofs.streams.some((stream) => stream.shape === "1R1W")) refuse("it has no stream that reads one array and writes one");
  if (!roofs.ceilings.some((c) => c.operation === "add" && c.dtype === "float32")) refuse("it has no cost of float32 add");
  const whole = roofs.peaks.some(({ dtype, threads }) => dtype === "float32" && roofs.bandwidths.some((b) => b.threads === threads) && roofs.matmuls.some((m) => m.threads === threads));
  if (!whole || !roofs.peaks.some((peak) => peak.dtype === "float64")) refuse("it has no number of threads for which peak, bandwidth and products were measured");
}

async function digestProblem(text, digest) {
  if (!globalThis.crypto || !crypto.subtle) return "its digest was not checked: this browser does so on secure pages only";
  const found = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(withoutSpace(text)));
  const written = [...new Uint8Array(found)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  if (written !== digest) refuse("its content does not match its digest: it was edited or damaged");
  return "";
}

// text of a file -> {machine, note} or {error}
export async function readMachine(text, { layout, schema }) {
  try {
    if (text.length > LARGEST_BYTES) refuse(`it is larger than ${LARGEST_BYTES / 1e6} MB, and no saved machine is`);
    let found;
    try {
      found = JSON.parse(text);
    } catch (error) {
      refuse(`it is not JSON (${shown(error.message)})`);
    }
    if (depthOf(text) > DEEPEST) refuse("it is nested deeper than any saved machine");
    const head = typed(found, { format: "str", schema: "int", sha256: "str" }, "the file");
    if (head.format !== "accel machine") refuse(`it holds ${shown(head.format)}, and not an accel machine`);
    if (head.schema !== schema) refuse(`it was written with schema ${head.schema}, and this page reads schema ${schema}`);
    const machine = typed(found.machine, layout, "machine");
    plausible(machine);
    return { machine, note: await digestProblem(text, head.sha256) };
  } catch (error) {
    if (!(error instanceof Refused)) return { error: "This file cannot be used: it could not be read." };
    return { error: `This file cannot be used: ${error.message}.` };
  }
}

export async function readFile(file, rules) {
  if (file.size > LARGEST_BYTES) return { error: `This file cannot be used: it is larger than ${LARGEST_BYTES / 1e6} MB, and no saved machine is.` };
  try {
    return await readMachine(await file.text(), rules);
  } catch {
    return { error: "This file cannot be used: the browser could not read it." };
  }
}
