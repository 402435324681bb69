// Answers: what the model says at one position of the controls.
import { unpack } from "./packing.js";
import { levelBandwidths, peakOf, predict, priceList, threadCounts } from "./pricing.js";
import { scaled } from "./scaling.js";
import { bound, sheetBandwidth, sheetPeak, sheetThreads } from "./sheets.js";

const KEPT_LISTS = 8;

// A source is {id, name, machine} with a measured machine, or {id, name, sheet} with a specification.
export function sourcesOf(data) {
  const measured = Object.entries(data.machines).map(([id, machine]) => ({ id, name: machine.cpu_name, machine }));
  const specified = data.sheets.map((sheet) => ({ id: "sheet " + sheet.name, name: sheet.name, sheet }));
  return [...measured, ...specified];
}

export const threadsOf = (source) => (source.sheet ? sheetThreads(source.sheet) : threadCounts(source.machine));
export const levelsOf = (source) => (source.sheet ? ["DRAM"] : [...source.machine.caches.map((cache) => "L" + cache.level), "DRAM"]);

export function makeAnswers(data) {
  const kernels = new Map(), lists = new Map();

  function described(kernel, dtype, index) {
    const name = kernel + dtype;
    if (!kernels.has(name)) kernels.set(name, unpack(data.kernels[kernel][dtype]));
    return kernels.get(name)[index];
  }

  function listFor(source, threads, factors) {
    const name = JSON.stringify([source.id, threads, factors]);
    if (!lists.has(name)) {
      if (lists.size >= KEPT_LISTS) lists.delete(lists.keys().next().value);
      lists.set(name, priceList(scaled(source.machine, factors), threads, data.tables));
    }
    return lists.get(name);
  }

  // position: {kernel, dtype, index of the size, threads, factors}
  function answer(source, { kernel, dtype, index, threads, factors = {} }) {
    const work = described(kernel, dtype, index);
    const place = { flops: work.flops, bytes: work.bytes, intensity: work.flops / work.bytes };
    if (source.sheet) {
      const peak = sheetPeak(source.sheet, dtype, threads) * (factors.peak || 1);
      const levels = [["DRAM", sheetBandwidth(source.sheet) * (factors.DRAM || 1)]];
      return { ...bound(work, source.sheet, dtype, threads, factors), ...place, peak, levels };
    }
    const list = listFor(source, threads, factors);
    const peak = peakOf(list.machine, dtype, threads);
    return { ...predict(work, list), ...place, peak, levels: levelBandwidths(list.machine, threads) };
  }
  // A source whose content changes: nothing of it is kept.
  answer.forget = (id) => [...lists.keys()].filter((name) => JSON.parse(name)[0] === id).forEach((name) => lists.delete(name));
  return answer;
}
