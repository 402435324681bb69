// Sheets: accel.whatif.sheets, what follows from a specification: a bound.
import { mostOf } from "./pricing.js";

export const sheetPeak = (sheet, dtype, threads) => threads * sheet.clock_hertz * sheet.flops_per_cycle[dtype];
export const sheetBandwidth = ({ memory }) => memory.channels * memory.transfers_per_second * memory.bytes_per_transfer;

export function sheetThreads(sheet) {
  if (sheet.whole) return [sheet.cores];
  const powers = [];
  for (let count = 1; count < sheet.cores; count *= 2) powers.push(count);
  return [...powers, sheet.cores];
}

export function bound(described, sheet, dtype, threads, factors) {
  const peak = sheetPeak(sheet, dtype, threads) * (factors.peak || 1);
  const memory = sheetBandwidth(sheet) * (factors.DRAM || 1);
  const largest = Math.max(...sheet.caches.map(([, size, shared]) => size * Math.ceil(threads / shared)));
  const parts = described.calls.map((call) => {
    const far = (call.t || []).reduce((sum, [moved, away]) => (away === null || away > largest ? sum + moved : sum), 0);
    const arithmetic = call.w / peak, traffic = far / memory;
    const name = arithmetic >= traffic ? "peak" : "DRAM bandwidth";
    return { name: call.n, count: call.x, level: far ? "DRAM" : "cache", bound: name, seconds: call.x * Math.max(arithmetic, traffic) };
  });
  return { seconds: parts.reduce((sum, part) => sum + part.seconds, 0), bound: mostOf(parts), parts };
}
