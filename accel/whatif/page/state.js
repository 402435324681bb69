// State: what the controls say, and its form in a link. A link that does not hold is ignored, and the reader is told.
export const NAME = "what-if";
export const STEPS_DOWN = -8, STEPS_UP = 16; // quarters of a doubling: from 1/4 to 16
export const FACTORS = ["peak", "L1", "L2", "L3", "DRAM"];
export const factorOf = (steps) => Math.pow(2, steps / 4);
export const stepsOf = (factor) => Math.round(4 * Math.log2(factor));

export function toHash(state) {
  const said = new URLSearchParams({ machine: state.machine, kernel: state.kernel, dtype: state.dtype, size: state.size, threads: state.threads });
  FACTORS.filter((name) => state.steps[name]).forEach((name) => said.set(name, String(Number(factorOf(state.steps[name]).toPrecision(4)))));
  return `#${NAME}?${said}`;
}

// hash -> null where it is about something else, or {state, notes}: what of it holds, and what does not
export function fromHash(hash, known) {
  if (!hash.startsWith(`#${NAME}?`)) return null;
  const said = new URLSearchParams(hash.slice(NAME.length + 2));
  const state = { steps: {} }, notes = [];
  const unusable = (name) => notes.push(`“${name}”`);
  for (const [name, value] of said) {
    if (["machine", "kernel", "dtype"].includes(name)) {
      if (known[name].includes(value)) state[name] = value;
      else unusable(name);
    } else if (["size", "threads"].includes(name)) {
      const count = Number(value);
      if (/^\d{1,6}$/.test(value) && (name === "threads" || known.size.includes(count))) state[name] = count;
      else unusable(name);
    } else if (FACTORS.includes(name)) {
      const steps = stepsOf(Number(value));
      if (/^[\d.]{1,8}$/.test(value) && steps >= STEPS_DOWN && steps <= STEPS_UP) state.steps[name] = steps;
      else unusable(name);
    } else {
      unusable(name.slice(0, 20));
    }
  }
  return { state, notes };
}
