// Scaling: accel.whatif.scaled, the same machine with faster or slower arithmetic and memory.
import { cacheName } from "./pricing.js";

const LEAST_ARITHMETIC = 0.2;

function levelFor(machine, bytes, threads) {
  const holds = (cache) => bytes <= cache.size_bytes * (cache.shared_by_cpus === 1 ? threads : 1);
  const found = machine.caches.find(holds);
  return found ? cacheName(found) : "DRAM";
}

// factors: {peak, L1, L2, …, DRAM}; what is missing is 1
export function scaled(machine, factors) {
  const peak = factors.peak || 1;
  const memory = (bytes, threads = 1) => factors[levelFor(machine, bytes, threads)] || 1;
  const roofs = machine.calibration;
  const matmul = roofs.calls.find((call) => call.name === "matmul" && call.kind === "ufunc");
  const callSeconds = matmul ? matmul.seconds : 0;
  const along = (curve, name, change) => ({ ...curve, [name]: curve[name].map((value, i) => change(value, curve.working_set_bytes[i])) });
  const calibration = {
    ...roofs,
    peaks: roofs.peaks.map((each) => ({ ...each, flops_per_second: each.flops_per_second * peak })),
    bandwidths: roofs.bandwidths.map((curve) => along(curve, "bytes_per_second", (rate, bytes) => rate * memory(bytes, curve.threads))),
    streams: roofs.streams.map((curve) => along(curve, "seconds_per_byte", (seconds, bytes) => seconds / memory(bytes))),
    ceilings: roofs.ceilings.map((each) => ({ ...each, element_seconds: each.element_seconds / peak })),
    matmuls: roofs.matmuls.map((each) => {
      const arithmetic = Math.max(each.seconds - callSeconds, each.seconds * LEAST_ARITHMETIC);
      return { ...each, seconds: each.seconds - arithmetic + arithmetic / peak };
    }),
    rates: roofs.rates.map((rate) => {
      const best = Math.min(...rate.seconds_per_unit);
      return along(rate, "seconds_per_unit", (seconds, bytes) => best / peak + (seconds - best) / memory(bytes));
    }),
  };
  return { ...machine, calibration };
}
