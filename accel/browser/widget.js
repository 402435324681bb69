// The button that measures this machine's memory in the browser, and what it found. Nothing leaves the browser.

const BUDGET_MS = 7000;
const MINE = "your browser";
const BOOKS = "the book's machine";
const WITHOUT = "The WebAssembly part of this page is missing. Where Node's npm (nodejs.org) is installed, make lab and make book add it, in a clone of the book.";

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
function button(textContent, pressed) {
  const made = element("button", { type: "button", textContent });
  made.addEventListener("click", pressed);
  return made;
}
function bytesOf(base64) {
  return base64 ? Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)) : null;
}
function download(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// --- a measurement in a worker --------------------------------------------------------------------------------------

/** Start a measurement; `heard` is called with its messages. Return a function that ends it and frees its memory. */
function start(source, code, heard) {
  let address = "";
  let worker = null;
  const look = () => worker.postMessage({ kind: document.hidden ? "pause" : "resume" });
  function stop() {
    document.removeEventListener("visibilitychange", look);
    worker?.terminate();
    URL.revokeObjectURL(address);
  }
  const failed = (message) => heard({ kind: "failed", message });
  try {
    address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    worker = new Worker(address);
  } catch (error) {
    setTimeout(() => failed(error.message));
    return stop;
  }
  worker.onmessage = ({ data }) => heard(data);
  worker.onerror = (event) => failed(event.message || "this browser does not let the page start a worker");
  document.addEventListener("visibilitychange", look);
  look();
  worker.postMessage({ kind: "start", code, without: WITHOUT, budget: BUDGET_MS });
  return stop;
}

// --- what is shown --------------------------------------------------------------------------------------------------

function table(rows) {
  const cell = (name, textContent, scope) => element(name, scope ? { textContent, scope } : { textContent });
  const heads = ["working set", "latency (ns)", "read (GB/s)"].map((text) => cell("th", text, "col"));
  const lines = rows.map((row) =>
    element("tr", {}, cell("th", size(row.bytes), "row"), cell("td", digits(row.nanoseconds)), cell("td", digits(row.gigabytes_per_second))),
  );
  return element("table", {}, element("caption", { textContent: "Measured in this browser" }),
    element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...lines));
}

function figures(book, rows) {
  const series = (column, recorded) => [
    ...(recorded?.length ? [{ name: BOOKS, look: "book", curve: recorded }] : []),
    ...(rows?.length ? [{ name: MINE, look: "yours", curve: pairs(rows, column) }] : []),
  ];
  const one = (what, unit, column, recorded, write, keyAt) => {
    const shown = series(column, recorded);
    const last = shown[shown.length - 1];
    const title = last ? `${last.look === "yours" ? "Your browser" : "The book's machine"}: ${tellEnds(last.curve, write)}` : "Not measured yet";
    const alt = tellChart(what, shown, write);
    return element("figure", {}, element("figcaption", { textContent: title }), chart(shown, { unit, alt, caches: book.caches, keyAt }));
  };
  return [
    one("Latency of one access", "time per access (ns)", "nanoseconds", book.latency, nanoseconds, "top"),
    one("Reading speed", "read in order (GB/s)", "gigabytes_per_second", book.bandwidth, rate, "bottom"),
  ];
}

/** The findings in sentences. */
function sentences(book, result) {
  const latency = pairs(result.rows, "nanoseconds");
  const bandwidth = pairs(result.rows, "gigabytes_per_second");
  const [first, last] = [latency[0][1], latency[latency.length - 1][1]];
  const told = [
    `In your browser an access takes ${tellLevels(latency, nanoseconds)}. The farthest takes ${digits(last / first)} times as long as the nearest.`,
    ...(book.latency.length ? [`On the book's machine, ${book.machine}, it takes ${tellLevels(book.latency, nanoseconds)}.`] : []),
    `Read in order, memory delivers ${tellLevels(bandwidth, rate)}.`,
  ];
  if (result.method === "JavaScript") {
    told.push(`${result.reason} So the speed of reading is that of plain JavaScript, one number at a time: its limit is arithmetic, and small caches look slower than they are.`);
  }
  return told.map((textContent) => element("p", { textContent }));
}

function notes(result) {
  const top = result.rows[result.rows.length - 1].bytes;
  const short = top < 2 ** 27 ? [`This browser had no more than ${size(top)} of memory for it in one piece, so larger working sets are missing.`] : [];
  const taken = new Date(result.taken_at).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" });
  return [`Last measured on ${taken}, ${result.method}, the best of ${result.passes} passes.`, ...short, tellClock(result)]
    .map((textContent) => element("li", { textContent }));
}

// --- the widget -----------------------------------------------------------------------------------------------------

function build(model, el) {
  const book = model.get("book");
  let result = recall();
  let stop = null;
  const begin = button("Measure this machine", measure);
  begin.className = "accel-browser-begin";
  const cancel = button("Cancel", () => end("Cancelled. Nothing was kept of this measurement."));
  const forget = button("Forget the result", () => {
    keep((result = null));
    show("Forgotten.");
    begin.focus();
  });
  const json = button("Download JSON", () => download("memory-in-browser.json", "application/json", JSON.stringify(result, null, 1)));
  const csv = button("Download CSV", () => download("memory-in-browser.csv", "text/csv", asCsv(result.rows)));
  const bar = element("progress", { max: 1, value: 0 });
  bar.setAttribute("aria-label", "progress of the measurement");
  const said = element("p", { className: "accel-browser-said" });
  said.setAttribute("role", "status");
  const charts = element("div", { className: "accel-browser-charts" });
  const findings = element("div", {});
  const numbers = element("details", {}, element("summary", { textContent: "The numbers" }));
  const box = element("div", { className: "accel-browser" }, element("div", { className: "accel-browser-row" }, begin, cancel, bar),
    said, charts, findings, numbers, element("div", { className: "accel-browser-row" }, json, csv, forget));
  box.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab has uses of its own for many keys

  /** Show the state of things, and say a sentence. */
  function show(sentence) {
    const busy = stop !== null;
    begin.hidden = busy;
    begin.textContent = result ? "Measure again" : "Measure this machine";
    cancel.hidden = bar.hidden = !busy;
    [json, csv, forget, numbers].forEach((part) => (part.hidden = busy || !result));
    charts.replaceChildren(...figures(book, result?.rows));
    findings.replaceChildren(...(result && !busy ? [...sentences(book, result), element("ul", {}, ...notes(result))] : []));
    numbers.replaceChildren(numbers.firstChild, ...(result ? [table(result.rows)] : []));
    said.textContent = sentence;
  }
  function end(sentence) {
    const held = box.contains(document.activeElement);
    stop?.();
    stop = null;
    document.removeEventListener("visibilitychange", tellPause);
    show(sentence);
    if (held) {
      begin.focus({ preventScroll: true }); // the button that had it is gone
    }
  }
  const tellPause = () => (said.textContent = document.hidden ? "Paused while this tab is hidden." : "Measuring.");
  function measure() {
    let began = {};
    bar.value = 0;
    stop = start(model.get("worker"), bytesOf(model.get("streams")), (message) => {
      if (message.kind === "began") {
        began = message;
      } else if (message.kind === "progress") {
        bar.value = message.share;
      } else if (message.kind === "rows") {
        charts.replaceChildren(...figures(book, message.rows));
      } else if (message.kind === "done") {
        finish(began, message);
      } else if (message.kind === "failed") {
        end(`It could not be measured: ${message.message}.`);
      }
    });
    show("Measuring. It takes about ten seconds; leave the machine alone meanwhile.");
    document.addEventListener("visibilitychange", tellPause);
    cancel.focus({ preventScroll: true });
  }
  function finish({ method, reason, resolution, target, isolated }, { rows, passes }) {
    const taken = { taken_at: new Date().toISOString(), method, reason, resolution_ms: resolution, sample_ms: target };
    const measured = checked({ ...taken, cross_origin_isolated: isolated, passes, rows });
    if (!measured) {
      end("It could not be measured: the clock of this browser is too coarse, or its machine too busy.");
      return;
    }
    keep((result = measured));
    model.set("measured", result);
    model.save_changes();
    end("Done.");
  }
  el.append(box);
  const missing = model.get("streams") ? "" : ` ${WITHOUT} Without it, plain JavaScript measures.`;
  show(result ? "" : `Press the button. It takes about ten seconds, and nothing leaves your browser.${missing}`);
  return () => end("");
}

export default {
  render({ model, el }) {
    return build(model, el);
  },
};
