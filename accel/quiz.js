// A question in a page: choice, number or guess. Text goes in as text, never as HTML. The answer stays in this browser.
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// --- what is kept between visits --------------------------------------------------------------------------------

function place(data) {
  return "accel-quiz:" + location.pathname.replace(/^.*\//, "") + ":" + data.id;
}
function recall(data) {
  try {
    return JSON.parse(localStorage.getItem(place(data)));
  } catch {
    return null; // no storage here, or something else is in it
  }
}
function remember(data, value) {
  try {
    localStorage.setItem(place(data), JSON.stringify(value));
  } catch {
    // a page that cannot keep answers still asks
  }
}

// --- numbers ----------------------------------------------------------------------------------------------------

function written(value, unit) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const text = Math.abs(value) >= 0.01 || value === 0 ? value.toFixed(digits) : value.toPrecision(2);
  return unit ? `${text} ${unit}` : text;
}
function parsed(text) {
  const cleaned = text.trim().replace(/\s/g, "").replace(/,(?=\d{3}\b)/g, "").replace(",", ".");
  const fraction = cleaned.match(/^(-?[\d.]+)\/([\d.]+)$/);
  if (fraction) {
    return Number(fraction[1]) / Number(fraction[2]);
  }
  return cleaned === "" ? NaN : Number(cleaned.replace(/%$/, ""));
}
function near(value, target, tolerance) {
  return Math.abs(value - target) <= tolerance * Math.abs(target) + 1e-12;
}

// --- the three kinds --------------------------------------------------------------------------------------------

function say(box, verdict, ...sentences) {
  box.replaceChildren(
    ...(verdict ? [element("p", { className: "accel-quiz-verdict", textContent: verdict })] : []),
    ...sentences.filter(Boolean).map((text) => element("p", { textContent: text })),
  );
}

function choice(data, said, answer, kept) {
  const name = "accel-" + data.id + "-" + Math.random().toString(36).slice(2); // a page may show a question twice
  const rows = data.options.map((option, index) => {
    const radio = element("input", { type: "radio", name, value: String(index) });
    return [radio, element("label", { className: "accel-quiz-option" }, radio, element("span", { textContent: option.text }))];
  });
  function show(index) {
    const option = data.options[index];
    say(said, option.right ? "Right." : "Not quite.", option.feedback);
  }
  rows.forEach(([radio], index) =>
    radio.addEventListener("change", () => {
      show(index);
      answer(index, data.options[index].right);
    }),
  );
  if (kept && data.options[kept.value]) {
    rows[kept.value][0].checked = true;
    show(kept.value);
  }
  return rows.map(([, row]) => row);
}

function number(data, said, answer, kept) {
  const field = element("input", { type: "text", inputMode: "decimal", autocomplete: "off" });
  field.setAttribute("aria-label", data.unit ? `your answer in ${data.unit}` : "your answer");
  const check = element("button", { type: "button", textContent: "Check" });
  const tell = element("button", { type: "button", textContent: "Show the answer" });
  function show() {
    const value = parsed(field.value);
    if (!Number.isFinite(value)) {
      say(said, "That is not a number.", "Write digits, such as 0.5, 12 or 2/3.");
      return false;
    }
    if (near(value, data.answer, data.tolerance)) {
      say(said, "Right.", data.because);
      return true;
    }
    const mistake = data.mistakes.find((known) => near(value, known.value, data.tolerance));
    const direction = value < data.answer ? "It is more than that." : "It is less than that.";
    say(said, "Not quite.", mistake ? mistake.feedback : direction);
    return false;
  }
  check.addEventListener("click", () => answer(field.value, show()));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      check.click();
    }
  });
  tell.addEventListener("click", () => say(said, `It is ${written(data.answer, data.unit)}.`, data.because));
  if (kept) {
    field.value = kept.value;
    show();
  }
  const unit = element("span", { textContent: data.unit });
  return [element("div", { className: "accel-quiz-row" }, field, unit, check, tell)];
}

const STEPS = 200;
function guess(data, said, answer, kept, hide) {
  const value = (step) => data.low * Math.pow(data.high / data.low, step / STEPS);
  const step = (of) => Math.round((STEPS * Math.log(of / data.low)) / Math.log(data.high / data.low));
  const slider = element("input", { type: "range", min: 0, max: STEPS, step: 1 });
  slider.value = String(step(data.start));
  slider.setAttribute("aria-label", "your guess");
  const shown = element("output", {});
  const commit = element("button", { type: "button", textContent: "This is my guess" });
  const skip = element("button", { type: "button", textContent: "Show without guessing" });
  function read() {
    shown.textContent = written(value(Number(slider.value)), data.unit);
    slider.setAttribute("aria-valuetext", shown.textContent);
  }
  function show(guessed) {
    slider.disabled = commit.disabled = skip.disabled = true;
    hide(false);
    const outcome = data.outcome;
    if (!outcome) {
      say(said, "Noted.", "Run the cells below to see what comes out.");
      return;
    }
    const parts = [guessed === null ? "" : `You guessed ${written(guessed, data.unit)}.`];
    if ("predicted" in outcome) {
      parts.push(`The model predicted ${written(outcome.predicted, data.unit)}.`);
    }
    parts.push(`Measured: ${written(outcome.measured, data.unit)}.`);
    const off = guessed === null ? 1 : guessed / outcome.measured;
    const verdict = guessed === null ? "" : off < 2 / 3 ? "You guessed low." : off > 1.5 ? "You guessed high." : "Close.";
    say(said, verdict, parts.filter(Boolean).join(" "), off < 2 / 3 ? outcome.too_low : off > 1.5 ? outcome.too_high : "", outcome.because);
    said.insertBefore(strip(data, outcome, guessed), said.children[verdict ? 2 : 1] || null);
  }
  slider.addEventListener("input", read);
  slider.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab would take the arrow keys
  commit.addEventListener("click", () => {
    const guessed = value(Number(slider.value));
    answer(guessed, null);
    show(guessed);
  });
  skip.addEventListener("click", () => {
    answer(null, null);
    show(null);
  });
  read();
  if (kept) {
    if (kept.value !== null) {
      slider.value = String(step(kept.value));
      read();
    }
    show(kept.value);
  } else {
    hide(true);
  }
  return [element("div", { className: "accel-quiz-row" }, slider, shown), element("div", { className: "accel-quiz-row" }, commit, skip)];
}

// --- guess, prediction and measurement on one line ----------------------------------------------------------------

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  if (text) {
    made.textContent = text;
  }
  return made;
}
function strip(data, outcome, guessed) {
  const marks = [["measured", outcome.measured, "●", "var(--quiz-measured)"]];
  if ("predicted" in outcome) {
    marks.push(["predicted", outcome.predicted, "◇", "var(--quiz-accent)"]);
  }
  if (guessed !== null) {
    marks.push(["you", guessed, "▲", "currentColor"]);
  }
  const values = marks.map(([, value]) => value).concat(data.low, data.high);
  const low = Math.min(...values), high = Math.max(...values);
  const x = (value) => 30 + (280 * Math.log(value / low)) / Math.log(high / low);
  const picture = svg("svg", { viewBox: `0 0 340 ${22 * marks.length + 30}`, role: "img" });
  picture.setAttribute("aria-label", marks.map(([name, value]) => `${name} ${written(value, data.unit)}`).join(", "));
  const base = 22 * marks.length + 6;
  picture.append(svg("line", { x1: 30, x2: 310, y1: base, y2: base, stroke: "currentColor" }));
  [low, high].forEach((end) => picture.append(svg("text", { x: x(end), y: base + 18, "text-anchor": "middle", "font-size": 13, fill: "currentColor" }, written(end, ""))));
  marks.forEach(([name, value, sign, colour], row) => {
    const y = 22 * row + 16, right = x(value) < 170;
    picture.append(svg("line", { x1: x(value), x2: x(value), y1: y, y2: base, stroke: colour, "stroke-dasharray": "2 3" }));
    picture.append(svg("text", { x: x(value), y: y + 4, "text-anchor": "middle", "font-size": 15, fill: colour }, sign));
    picture.append(svg("text", { x: x(value) + (right ? 12 : -12), y: y + 4, "text-anchor": right ? "start" : "end", "font-size": 13, fill: "currentColor" }, `${name} ${written(value, data.unit)}`));
  });
  return picture;
}

// --- cells that wait for a guess, in the built page ---------------------------------------------------------------

function cellsAfter(root) {
  const cells = [...document.querySelectorAll(".bd-article .cell")];
  const own = cells.findIndex((cell) => cell.contains(root));
  const following = own < 0 ? [] : cells.slice(own + 1);
  const next = following.findIndex((cell) => cell.querySelector(".accel-quiz-guess"));
  return (next < 0 ? following : following.slice(0, next)).filter((cell) => cell.classList.contains("tag_after-guess"));
}

export default {
  render({ model, el }) {
    const kinds = { choice, number, guess };
    const box = element("div", {});
    el.append(box);
    function draw() {
      const data = model.get("data");
      const said = element("div", { className: "accel-quiz-said" });
      said.setAttribute("aria-live", "polite");
      box.className = "accel-quiz accel-quiz-" + data.kind;
      function answer(value, right) {
        remember(data, { value, right });
        model.set("answered", value);
        model.save_changes();
      }
      const hide = (hidden) => cellsAfter(box).forEach((cell) => (cell.hidden = hidden));
      const legend = element("legend", { textContent: data.question });
      const parts = kinds[data.kind](data, said, answer, recall(data), hide);
      box.replaceChildren(element("fieldset", {}, legend, ...parts), said);
    }
    draw();
    model.on("change:data", draw);
    // The page may not hold this element yet, nor the cells below it.
    requestAnimationFrame(draw);
  },
};
