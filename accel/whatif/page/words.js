// Words: numbers and elements of a page. Text goes in as text, never as HTML.
export function element(name, properties = {}, ...children) {
  const { attributes = {}, ...own } = properties;
  const made = Object.assign(document.createElement(name), own);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function svgElement(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.textContent = text;
  return made;
}

// Three significant digits, never with an exponent.
export function digits(value, count = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(count));
  const places = Math.min(20, Math.max(0, count - 1 - Math.floor(Math.log10(Math.abs(rounded)))));
  return rounded.toFixed(places).replace(/\B(?=(\d{3})+(?!\d|\.))/g, places ? "" : ",");
}

const short = (value) => digits(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

export function decimal(value, unit) {
  const [prefix, size] = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]].find(([, each]) => value >= each * 0.9995) || ["", 1];
  return `${short(value / size)} ${prefix}${unit}`;
}

export function time(seconds) {
  const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6]].find(([, each]) => seconds >= each * 0.9995) || ["ns", 1e-9];
  return `${digits(seconds / size)} ${unit}`;
}

export const times = (factor) => (factor === 1 ? "as it is" : `× ${short(factor)}`);
export const threadText = (count) => (count === 1 ? "1 thread" : `${count} threads`);
