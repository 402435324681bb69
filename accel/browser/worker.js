// Measures the memory of this machine: latency by a chase through links, bandwidth by reading in order. Runs in a Web
// Worker, so that the page stays free; between samples it listens to the page, which may ask it to pause.
"use strict";

const LINE_BYTES = 64;
const SLOTS = LINE_BYTES / 4; // each working set keeps its links in a slot of its own, so that all share one memory
const SMALLEST = 4096;
const LARGEST = SMALLEST << (SLOTS - 1);
const PAGE_BYTES = 65536;
const RESOLUTIONS = 64; // a sample lasts so many steps of the clock: reading it adds an error below 2 %
const SHORTEST_MS = 4;
const LONGEST_MS = 100;
const FEWEST_PASSES = 4;
const PATIENCE = 3; // a slow machine may take so many times the time it was given, to make those passes

// --- the clock --------------------------------------------------------------------------------------------------

/** Return the smallest step of performance.now() seen, in ms. */
function clockResolution() {
  let smallest = Infinity;
  let before = performance.now();
  const end = before + 60;
  for (let steps = 0; steps < 200 && (before < end || steps < 2); ) {
    const now = performance.now();
    if (now > before) {
      smallest = Math.min(smallest, now - before);
      before = now;
      steps += 1;
    }
  }
  return smallest;
}

/** Return how long `work` lasts in ms, begun when the clock has just moved on. */
function time(work) {
  const before = performance.now();
  let start = before;
  while (start === before) {
    start = performance.now();
  }
  work();
  return performance.now() - start;
}

// --- memory, and what goes through it -----------------------------------------------------------------------------

/** Return what `make(bytes)` gives for the largest of 128 MB, 64 MB, ... that this browser can have. */
function largest(make) {
  for (let bytes = LARGEST; ; bytes /= 2) {
    try {
      return { bytes, made: make(bytes) };
    } catch (error) {
      if (!(error instanceof RangeError) || bytes <= 1 << 20) {
        throw error;
      }
    }
  }
}

/** WebAssembly: links are byte addresses. */
function assembled(code) {
  const module = new WebAssembly.Module(code);
  const { bytes, made: memory } = largest((size) => {
    const pages = size / PAGE_BYTES;
    return new WebAssembly.Memory({ initial: pages, maximum: pages });
  });
  const { follow, read } = new WebAssembly.Instance(module, { page: { memory } }).exports;
  return { method: "WebAssembly", bytes, links: new Int32Array(memory.buffer), unit: 4, follow, read };
}

/** Plain JavaScript: links are indices. */
function plain() {
  const { bytes, made: links } = largest((size) => new Int32Array(size / 4));
  function follow(place, steps) {
    for (; steps > 0; steps -= 1) {
      place = links[place];
    }
    return place;
  }
  function read(size, rounds) {
    const count = size / 4;
    let a = 0, b = 0, c = 0, d = 0;
    for (; rounds > 0; rounds -= 1) {
      for (let i = 0; i < count; i += 4) {
        a = (a + links[i]) | 0;
        b = (b + links[i + 1]) | 0;
        c = (c + links[i + 2]) | 0;
        d = (d + links[i + 3]) | 0;
      }
    }
    return a + b + c + d;
  }
  return { method: "JavaScript", bytes, links, unit: 1, follow, read };
}

/** Return the engine to measure with, and in words why it is not the better one; `without` says so where no code is. */
function engine(code, without) {
  if (!code) {
    return [plain(), without];
  }
  try {
    return [assembled(code), ""];
  } catch (error) {
    return [plain(), `This browser does not run the WebAssembly part of the page (${error.name}).`];
  }
}

/** Link the first cache lines into one random round (Sattolo's algorithm), in a slot of each line. */
function link({ links, unit }, lines, slot) {
  let seed = 0x9e3779b9;
  for (let line = 0; line < lines; line += 1) {
    links[line * SLOTS + slot] = (line * SLOTS + slot) * unit;
  }
  for (let line = lines - 1; line > 0; line -= 1) {
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    const here = line * SLOTS + slot;
    const there = Math.floor(((seed >>> 0) / 2 ** 32) * line) * SLOTS + slot;
    const kept = links[here];
    links[here] = links[there];
    links[there] = kept;
  }
}

// --- one probe: a kind of access in one working set -----------------------------------------------------------------

function chase(machine, bytes, slot) {
  let place = slot * machine.unit;
  return {
    grain: 8,
    count: 1024, // links followed in a sample
    best: Infinity, // ms a link
    before: () => machine.read(bytes, 1), // what other working sets drove out is back, as far as the caches hold it
    run: (count) => (place = machine.follow(place, count)),
  };
}

function stream(machine, bytes) {
  return {
    grain: 1,
    count: Math.max(1, Math.round((1 << 18) / bytes)), // rounds in a sample
    best: Infinity, // ms a round
    before: () => machine.read(bytes, 1),
    run: (count) => machine.read(bytes, count),
  };
}

/** Take a sample, keep it if it is the best, and fit the count to the time that a sample should last. */
function sample(probe, target) {
  probe.before();
  const lasted = time(() => probe.run(probe.count));
  if (lasted >= target / 2) {
    probe.best = Math.min(probe.best, lasted / probe.count);
  }
  if (lasted < 0.8 * target || (lasted > 2 * target && probe.count > probe.grain)) {
    const factor = Math.min(16, (1.1 * target) / Math.max(lasted, target / 16));
    probe.count = Math.max(1, Math.round((probe.count * factor) / probe.grain)) * probe.grain;
  }
  return lasted;
}

// --- talking to the page --------------------------------------------------------------------------------------------

let resume = null; // to be called when the page can be seen again
let paused = null; // a promise, while it cannot
const turns = new MessageChannel();
/** Let messages in; wait while the page is hidden; return how long that took, in ms. */
async function breathe() {
  const start = performance.now();
  await new Promise((done) => {
    turns.port1.onmessage = done;
    turns.port2.postMessage(0);
  });
  await paused;
  return performance.now() - start;
}

function rows(probes) {
  return probes.map(({ bytes, waits, streams }) => ({
    bytes,
    nanoseconds: waits.best * 1e6,
    gigabytes_per_second: bytes / streams.best / 1e6,
  }));
}

async function run({ code, without, budget }) {
  const resolution = clockResolution();
  const [machine, reason] = engine(code, without);
  const target = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, RESOLUTIONS * resolution));
  const { method, bytes: top } = machine;
  postMessage({ kind: "began", method, reason, resolution, target, isolated: self.crossOriginIsolated === true, top, wanted: LARGEST });
  const probes = [];
  for (let bytes = SMALLEST, slot = 0; bytes <= top; bytes *= 2, slot += 1) {
    link(machine, bytes / LINE_BYTES, slot);
    probes.push({ bytes, waits: chase(machine, bytes, slot), streams: stream(machine, bytes) });
    postMessage({ kind: "progress", share: (0.1 * bytes) / top });
    await breathe();
  }
  const all = probes.flatMap(({ waits, streams }) => [waits, streams]);
  for (const probe of all) {
    for (let tries = 0; tries < 12 && sample(probe, target) < 0.8 * target; tries += 1);
    await breathe();
  }
  let idle = 0;
  let passes = 0;
  const start = performance.now();
  const spent = () => performance.now() - start - idle;
  while (spent() < budget || (passes < FEWEST_PASSES && spent() < PATIENCE * budget)) {
    for (const probe of all) {
      sample(probe, target);
      idle += await breathe();
      const share = Math.max(Math.min(1, spent() / budget), 0);
      postMessage({ kind: "progress", share: 0.1 + 0.9 * share });
    }
    passes += 1;
    postMessage({ kind: "rows", rows: rows(probes) });
  }
  postMessage({ kind: "done", rows: rows(probes), passes });
}

onmessage = ({ data }) => {
  if (data.kind === "start") {
    run(data).catch((error) => postMessage({ kind: "failed", message: String(error.message || error) }));
  } else if (data.kind === "pause" && !paused) {
    paused = new Promise((done) => (resume = done));
  } else if (data.kind === "resume" && paused) {
    resume();
    paused = null;
  }
};
