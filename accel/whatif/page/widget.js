// Widget: the controls, and what they show.
import { levelsOf, makeAnswers, sourcesOf, threadsOf } from "./answers.js";
import { describeChart, drawChart } from "./chart.js";
import { readFile, readMachine } from "./machine_file.js";
import { FACTORS, STEPS_DOWN, STEPS_UP, factorOf, fromHash, stepsOf, toHash } from "./state.js";
import { decimal, digits, element, threadText, time, times } from "./words.js";

const DTYPES = ["float32", "float64"];
const OWN = "own";
const HASH_DELAY = 300, SPEAK_DELAY = 500; // milliseconds

let made = 0;

function slider(label, low, high) {
  const id = `wi-${(made += 1)}-${Math.random().toString(36).slice(2, 8)}`;
  const input = element("input", { type: "range", id, min: low, max: high, step: 1 });
  const value = element("output", { attributes: { for: id, "aria-hidden": "true" } });
  const row = element("div", { className: "wi-slider" }, element("label", { htmlFor: id, textContent: label }), value, input);
  const set = (position, text) => {
    input.value = String(position);
    value.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  return { input, row, set };
}

function choice(label, options) {
  const id = `wi-${(made += 1)}-${Math.random().toString(36).slice(2, 8)}`;
  const input = element("select", { id });
  const fill = (groups) => {
    const option = ([value, text]) => element("option", { value, textContent: text });
    input.replaceChildren(...groups.map(([name, list]) => (name ? element("optgroup", { label: name }, ...list.map(option)) : list.map(option))).flat());
  };
  fill(options);
  return { input, fill, row: element("div", { className: "wi-choice" }, element("label", { htmlFor: id, textContent: label }), input) };
}

function table(className, caption, heads, rows) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { textContent: text, scope: "col" })));
  return element("table", { className }, element("caption", { textContent: caption }), element("thead", {}, head), element("tbody", {}, ...rows));
}
const cell = (...children) => element("td", {}, ...children);
const figures = (text) => element("td", { className: "wi-figures", textContent: text });

// --- the whole ----------------------------------------------------------------------------------------------------

function build(data, inPage) {
  const answer = makeAnswers(data);
  const sources = sourcesOf(data);
  const kernels = Object.keys(data.kernels);
  const first = data.start;
  const state = { machine: sources[0].id, kernel: first.kernel, dtype: first.dtype, size: first.size, threads: 1, steps: {} };
  FACTORS.filter((name) => first[name]).forEach((name) => (state.steps[name] = stepsOf(first[name])));

  const label = (source) => (source.sheet ? `${source.name} (${source.sheet.kind})` : source.id === "page" ? `${source.name}: this page's` : source.id === OWN ? `${source.name}: your file` : `${source.name}: recorded (${source.id})`);
  const groups = () => {
    const group = (name, list) => [name, list.map((source) => [source.id, label(source)])];
    return [group("measured", sources.filter((source) => source.machine)), group("spec sheet: a bound only", sources.filter((source) => source.sheet))];
  };
  const machine = choice("machine", groups());
  const kernel = choice("kernel", [["", kernels.map((name) => [name, data.kernels[name].label])]]);
  const dtype = choice("dtype", [["", DTYPES.map((name) => [name, name])]]);
  const size = slider("size", 0, data.exponents.length - 1);
  const threads = slider("threads", 0, 1);
  const factors = Object.fromEntries(FACTORS.map((name) => [name, slider(name === "peak" ? "peak arithmetic" : `${name} bandwidth`, STEPS_DOWN, STEPS_UP)]));

  const file = element("input", { type: "file", accept: ".json,application/json", className: "wi-file" });
  const fileRow = element("div", { className: "wi-choice" });
  const fileLabel = element("label", { className: "wi-button" }, file, "Load your machine's file…");
  fileRow.append(fileLabel, element("span", { className: "wi-hint", textContent: "or drop it here" }));
  const note = element("p", { className: "wi-note", attributes: { role: "status" } });
  const reset = element("button", { type: "button", textContent: "Machine as it is" });
  const copy = element("button", { type: "button", textContent: "Copy link to this state" });
  const link = element("input", { type: "text", readOnly: true, hidden: true, className: "wi-link", attributes: { "aria-label": "link to this state" } });

  const title = element("p", { className: "wi-title" });
  const detail = element("p", { className: "wi-detail" });
  const spoken = element("p", { className: "wi-spoken", attributes: { "aria-live": "polite" } });
  const figure = element("div", { className: "wi-figure" });
  const key = element("p", { className: "wi-key" });
  const tables = element("div", { className: "wi-tables" });
  const origin = element("p", { className: "wi-origin" });
  const controls = (name, ...rows) => element("fieldset", {}, element("legend", { textContent: name }), ...rows);
  const box = element(
    "div",
    { className: "accel-what-if" },
    controls("What runs where", element("div", { className: "wi-columns" }, element("div", {}, machine.row, kernel.row, fileRow), element("div", {}, element("div", { className: "wi-pair" }, dtype.row, threads.row), size.row))),
    note,
    title,
    detail,
    figure,
    key,
    controls("What if the machine had…", element("div", { className: "wi-columns" }, ...FACTORS.map((name) => factors[name].row), element("div", { className: "wi-buttons" }, reset, ...(inPage ? [copy] : []))), link),
    spoken,
    tables,
    origin,
  );

  const source = () => sources.find((each) => each.id === state.machine);
  const factorsNow = (steps = state.steps) => {
    const usable = ["peak", ...levelsOf(source())];
    return Object.fromEntries(usable.filter((name) => steps[name]).map((name) => [name, factorOf(steps[name])]));
  };
  const positionOf = (name, given) => ({ kernel: name, dtype: state.dtype, index: data.exponents.indexOf(state.size), threads: state.threads, factors: given });

  // Hold the state to what this machine has.
  function settle() {
    const counts = threadsOf(source());
    if (!counts.includes(state.threads)) state.threads = counts.filter((count) => count <= state.threads).pop() || counts[0];
    threads.input.max = String(counts.length - 1);
    threads.input.disabled = counts.length < 2;
    const whole = source().sheet && source().sheet.whole;
    threads.set(counts.indexOf(state.threads), whole ? `all ${state.threads}` : threadText(state.threads));
  }

  function showControls(now) {
    machine.input.value = state.machine;
    kernel.input.value = state.kernel;
    dtype.input.value = state.dtype;
    size.set(data.exponents.indexOf(state.size), data.kernels[state.kernel].shapes[data.exponents.indexOf(state.size)]);
    const levels = new Map(now.levels);
    const there = ["peak", ...levelsOf(source())];
    FACTORS.forEach((name) => {
      const { row, set } = factors[name], steps = state.steps[name] || 0;
      row.hidden = !there.includes(name);
      const rate = name === "peak" ? decimal(now.peak, "FLOP/s") : levels.has(name) ? decimal(levels.get(name), "B/s") : "beyond what was measured";
      set(steps, `${times(factorOf(steps))}: ${rate}`);
    });
    reset.disabled = !there.some((name) => state.steps[name]);
  }

  function headline(now, before) {
    const name = data.kernels[state.kernel].label.split(":")[0];
    const least = source().sheet ? "takes at least" : "takes";
    if (!Number.isFinite(now.seconds)) return ["This machine gives no finite answer.", "Its file holds numbers that do not belong together."];
    if (!before) return [`${name} ${least} ${time(now.seconds)}, bound by ${now.bound}.`, placeOf(now)];
    const gain = before.seconds / now.seconds;
    const change = Object.entries(factorsNow()).map(([what, factor]) => `${what} ${times(factor)}`).join(", ");
    const verdict = Math.abs(gain - 1) < 0.005 ? "is as fast as before" : gain > 1 ? `is ${digits(gain)} times as fast` : `takes ${digits(1 / gain)} times as long`;
    return [`${change}: ${name} ${verdict}.`, `${time(before.seconds)} before, bound by ${before.bound}; ${time(now.seconds)} now, bound by ${now.bound}. ${placeOf(now)}`];
  }

  function placeOf(now) {
    if (!now.flops) return `It moves ${decimal(now.bytes / now.seconds, "B/s")} and does no FLOPs, so it has no mark under the roofs.`;
    return `${digits((100 * now.flops) / now.seconds / now.peak)}% of the peak.`;
  }

  function partsTable(now) {
    const most = Math.max(...now.parts.map((part) => part.seconds));
    const rows = now.parts.filter((part) => part.seconds > 0).map((part) => {
      const bar = element("span", { className: "wi-bar", attributes: { "aria-hidden": "true" } });
      bar.style.width = `${most > 0 ? (100 * part.seconds) / most : 0}%`;
      const name = part.count > 1 ? `${part.count} × ${part.name}` : part.name;
      return element("tr", {}, cell(element("code", { textContent: name })), cell(element("span", { className: "wi-figures", textContent: time(part.seconds) }), bar), cell(part.bound));
    });
    return table("wi-parts", "Time of each NumPy call", ["call", "time", "bound by"], rows);
  }

  function kernelsTable(changed) {
    const here = source();
    const rows = kernels.map((name) => {
      const now = answer(here, positionOf(name, factorsNow()));
      const gain = answer(here, positionOf(name, {})).seconds / now.seconds;
      const pick = element("button", { type: "button", className: "wi-pick", textContent: data.kernels[name].label });
      if (name === state.kernel) pick.setAttribute("aria-current", "true");
      pick.addEventListener("click", () => {
        state.kernel = name;
        update();
        const current = tables.querySelector("[aria-current]"); // the table was drawn again
        if (current) current.focus();
      });
      return element("tr", { className: name === state.kernel ? "wi-current" : "" }, cell(pick), figures(time(now.seconds)), ...(changed ? [figures(`× ${digits(gain)}`)] : []), cell(now.bound));
    });
    const heads = ["kernel", source().sheet ? "at least" : "time", ...(changed ? ["gain"] : []), "bound by"];
    return table("wi-kernels", `All kernels at this size${changed ? ", and what the change gains them" : ""}`, heads, rows);
  }

  function originText() {
    const here = source();
    if (!here.sheet) return [`${here.name}, calibrated ${here.machine.calibration.taken_at.slice(0, 16).replace("T", " ")}. Answers are those of accel.predict.`];
    const { sheet } = here;
    const derived = `Spec sheet: a bound only, no call costs, caches free. Peak = cores × clock × FLOP per cycle = ${state.threads} × ${digits(sheet.clock_hertz / 1e9)} GHz × ${sheet.flops_per_cycle[state.dtype]}. Memory = ${sheet.memory.channels} × ${digits(sheet.memory.transfers_per_second / 1e9)} GT/s × ${sheet.memory.bytes_per_transfer} bytes. Sources: `;
    const cited = Object.entries(sheet.sources).map(([what, where]) => `${what} (${where})`).join("; ");
    return [derived, cited, "."];
  }

  let speaking = 0, hashing = 0;
  function update({ keepHash = false } = {}) {
    settle();
    const changed = Object.keys(factorsNow()).length > 0;
    const now = answer(source(), positionOf(state.kernel, factorsNow()));
    const before = changed ? answer(source(), positionOf(state.kernel, {})) : null;
    showControls(now);
    const [said, more] = headline(now, before);
    title.textContent = said;
    detail.textContent = more;
    clearTimeout(speaking);
    speaking = setTimeout(() => (spoken.textContent = `${said} ${more}`), SPEAK_DELAY); // once, when the slider rests
    draw(now, before, `${said} ${more}`);
    tables.replaceChildren(partsTable(now), kernelsTable(changed));
    origin.replaceChildren(...originText());
    if (inPage && !keepHash) {
      clearTimeout(hashing);
      hashing = setTimeout(() => remember(), HASH_DELAY);
    }
  }

  let drawn = null;
  function draw(now, before, words) {
    drawn = [now, before, words];
    const width = Math.round(Math.min(720, Math.max(320, figure.clientWidth || 600)));
    const alt = describeChart({ title: words, answer: now, label: data.kernels[state.kernel].label });
    figure.replaceChildren(drawChart({ width, answer: now, before, alt, verb: source().sheet ? "at most" : "predicted" }));
    key.textContent = `◇ ${source().sheet ? "at most" : "predicted"}${before ? "; grey and dashed: the machine as it is" : ""}. ● ridge points: where a memory level feeds the peak. The dotted line is how far the kernel stays below the highest roof.`;
  }

  // --- links ---

  let ownHash = "";
  function remember() {
    ownHash = toHash(state);
    try {
      history.replaceState(history.state, "", ownHash);
    } catch {
      // a frame that may not change its address still shows the answer
    }
  }

  function readHash() {
    const read = location.hash === ownHash ? null : fromHash(location.hash, { machine: sources.map((each) => each.id), kernel: kernels, dtype: DTYPES, size: data.exponents });
    if (!read) return;
    Object.assign(state, read.state);
    if (!threadsOf(source()).includes(state.threads)) read.notes.push("“threads”"); // settle() finds others
    const own = read.notes.includes("“machine”") ? " A machine that was loaded from a file has to be loaded here again." : "";
    note.textContent = read.notes.length ? `The link says something that this page does not know: ${read.notes.join(", ")}. The rest of it is shown.${own}` : "";
    update({ keepHash: true });
  }

  async function copyLink() {
    remember();
    try {
      await navigator.clipboard.writeText(location.href);
      note.textContent = "The link is copied.";
    } catch {
      link.hidden = false;
      link.value = location.href;
      link.select();
      note.textContent = "This browser does not let a page copy: the link is in the field, selected.";
    }
  }

  // --- a reader's own machine ---

  async function load(chosen) {
    if (!chosen) return;
    note.textContent = "reading the file…";
    const found = await readFile(chosen, data);
    if (found.error) {
      note.textContent = found.error;
      return;
    }
    const own = { id: OWN, name: found.machine.cpu_name, machine: found.machine };
    const at = sources.findIndex((each) => each.id === OWN);
    sources.splice(at < 0 ? 0 : at, at < 0 ? 0 : 1, own);
    answer.forget(OWN);
    machine.fill(groups());
    state.machine = OWN;
    note.textContent = `Loaded ${own.name}${found.note ? `; ${found.note}` : ""}. It stays in this page and is sent nowhere.`;
    update();
  }

  // --- events ---

  const on = (target, event, act) => target.addEventListener(event, act);
  const set = (name, value) => {
    state[name] = value;
    update();
  };
  on(machine.input, "change", () => set("machine", machine.input.value));
  on(kernel.input, "change", () => set("kernel", kernel.input.value));
  on(dtype.input, "change", () => set("dtype", dtype.input.value));
  on(size.input, "input", () => set("size", data.exponents[Number(size.input.value)]));
  on(threads.input, "input", () => set("threads", threadsOf(source())[Number(threads.input.value)]));
  FACTORS.forEach((name) => on(factors[name].input, "input", () => set("steps", { ...state.steps, [name]: Number(factors[name].input.value) })));
  on(reset, "click", () => set("steps", {}));
  on(copy, "click", copyLink);
  on(file, "change", () => {
    load(file.files[0]);
    file.value = ""; // so that the same file can be chosen again
  });
  on(box, "keydown", (event) => event.stopPropagation()); // JupyterLab would take the keys
  on(box, "dragover", (event) => {
    event.preventDefault();
    box.classList.add("wi-over");
  });
  on(box, "dragleave", () => box.classList.remove("wi-over"));
  on(box, "drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    box.classList.remove("wi-over");
    load(event.dataTransfer.files[0]);
  });

  const resized = new ResizeObserver(() => drawn && draw(...drawn));
  resized.observe(box);
  if (inPage) on(window, "hashchange", readHash);
  update({ keepHash: true });
  if (inPage) readHash();
  const end = () => {
    resized.disconnect();
    window.removeEventListener("hashchange", readHash);
    clearTimeout(speaking);
    clearTimeout(hashing);
  };
  return { box, end };
}

function render({ model, el }) {
  const { box, end } = build(model.get("data"), document.querySelector(".bd-article") !== null);
  el.append(box);
  return end;
}

// What tests call by name.
let held = null;
const testing = {
  hold(data) {
    held = { data, answer: makeAnswers(data), sources: new Map(sourcesOf(data).map((source) => [source.id, source])) };
    return [...held.sources.keys()];
  },
  ask: (cases) => cases.map(([id, position]) => held.answer(held.sources.get(id), position)),
  read: (text) => readMachine(text, held.data),
  toHash,
  fromHash,
};

export default { render, model: testing };
