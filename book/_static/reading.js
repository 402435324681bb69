// Remembers, in this browser only, which pages were read and where, and shows it: in the sidebar, on the cards of the cover
// and in a panel there, with export, import and reset. Text goes in as text, never as HTML. Nothing leaves the browser.
(function () {
  "use strict";
  const READING = "accel-reading:";
  const OURS = /^accel-(?:reading:[\w-]+\.html|quiz:[\w-]+\.html:[0-9a-f]{12})$/;
  const FORMAT = "under-the-roof-reading";
  const LARGEST_FILE = 1_000_000;
  const here = location.pathname.replace(/^.*\//, "");

  function make(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // --- what is kept --------------------------------------------------------------------------------------------------

  function storageWorks() {
    try {
      localStorage.setItem("accel-trial", "1");
      localStorage.removeItem("accel-trial");
      return true;
    } catch {
      return false; // blocked, or full
    }
  }
  function keep(key, value) {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      // full: what was kept before stays
    }
  }
  function kept(key) {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null; // something else is in it
    }
  }
  function isText(value, length) {
    return typeof value === "string" && value.length <= length;
  }
  // A place in a page: the section at the top of the screen, how far down, whether the end was seen, and when.
  function isPlace(value) {
    return (
      value !== null && typeof value === "object" && Object.keys(value).length === 5 &&
      isText(value.section, 200) && isText(value.title, 300) && isText(value.at, 30) && !isNaN(Date.parse(value.at)) &&
      typeof value.ended === "boolean" && typeof value.share === "number" && value.share >= 0 && value.share <= 1
    );
  }
  function isAnswer(value) {
    return (
      value !== null && typeof value === "object" && Object.keys(value).every((name) => name === "value" || name === "right") &&
      (value.value === null || isText(value.value, 100) || Number.isFinite(value.value)) &&
      (value.right === null || typeof value.right === "boolean")
    );
  }
  function isEntry(key, value) {
    return OURS.test(key) && (key.startsWith(READING) ? isPlace(value) : isAnswer(value));
  }
  function entries() {
    const found = {};
    for (const key of Object.keys(localStorage).sort()) {
      const value = OURS.test(key) ? kept(key) : null;
      if (isEntry(key, value)) {
        found[key] = value;
      }
    }
    return found;
  }
  function placeIn(page) {
    const value = kept(READING + page);
    return isPlace(value) ? value : null;
  }

  // --- the pages of the book, as the sidebar lists them ---------------------------------------------------------------

  function pages() {
    return [...document.querySelectorAll(".bd-sidebar-primary .bd-links a.reference")].map((link) => {
      const url = new URL(link.href);
      return { link, name: url.pathname.replace(/^.*\//, ""), title: (link.firstChild.textContent || "").trim() };
    });
  }
  function summary() {
    const all = pages();
    const places = all.map((page) => ({ ...page, place: placeIn(page.name) }));
    const answers = Object.entries(entries()).filter(([key]) => key.startsWith("accel-quiz:"));
    const latest = places.filter(({ place }) => place && !place.ended).sort((a, b) => (a.place.at < b.place.at ? 1 : -1))[0];
    return { places, read: places.filter(({ place }) => place && place.ended).length, answers: answers.length,
      right: answers.filter(([, answer]) => answer.right).length, latest };
  }
  function counted(number, one, many) {
    return `${number} ${number === 1 ? one : many}`;
  }

  // --- where the reader is ---------------------------------------------------------------------------------------------

  function follow(article, before) {
    const sections = [...article.querySelectorAll("section[id]")];
    const end = document.querySelector(".prev-next-footer") || article.lastElementChild;
    let ended = Boolean(before && before.ended);
    let waiting = false;
    function note() {
      waiting = false;
      const top = sections.filter((section) => section.getBoundingClientRect().top < 150).pop();
      const length = Math.max(1, article.scrollHeight - innerHeight);
      const share = Math.min(1, Math.max(0, -article.getBoundingClientRect().top / length));
      const heading = top && top.querySelector(":scope > h1, :scope > h2, :scope > h3");
      ended = ended || end.getBoundingClientRect().top < innerHeight;
      const title = heading ? heading.firstChild.textContent.trim() : "";
      keep(READING + here, { section: top ? top.id : "", title, share, ended, at: new Date().toISOString() });
      show();
    }
    addEventListener("scroll", () => {
      if (!waiting) {
        waiting = true;
        setTimeout(note, 250);
      }
    }, { passive: true });
  }

  function offerToContinue(article, place) {
    const target = place && !location.hash && !place.ended && place.share > 0.02 && document.getElementById(place.section);
    const title = article.querySelector("h1");
    if (!target || !title) {
      return;
    }
    const link = make("a", { href: "#" + encodeURIComponent(place.section), textContent: `Continue at “${place.title}”` });
    const box = make("p", { className: "reading-continue" }, "You were here before. ", link);
    link.addEventListener("click", () => setTimeout(() => box.remove(), 600));
    title.after(box);
  }

  // --- what is shown ---------------------------------------------------------------------------------------------------

  function mark(page, place, home) {
    let sign = home.querySelector(":scope > .reading-mark");
    if (!place) {
      if (sign) {
        sign.remove();
      }
      return;
    }
    if (!sign) {
      sign = home.appendChild(make("span", {}));
    }
    const text = place.ended ? "✓ read" : "begun";
    if (sign.textContent !== text) {
      sign.className = place.ended ? "reading-mark" : "reading-mark begun";
      sign.textContent = text;
    }
  }
  function said({ read, places, answers, right }) {
    const questions = answers ? `, ${counted(answers, "question", "questions")} answered, ${right} of them right` : "";
    return `${read} of ${counted(places.length, "page", "pages")} read${questions}`;
  }
  function show() {
    const now = summary();
    now.places.forEach(({ link, name, place }) => {
      mark(name, place, link);
      document.querySelectorAll(".page-card").forEach((card) => {
        const stretched = card.querySelector("a.sd-stretched-link");
        if (stretched && new URL(stretched.href).pathname.replace(/^.*\//, "") === name) {
          mark(name, place, card.querySelector(".sd-card-footer") || card.querySelector(".sd-card-title"));
        }
      });
    });
    document.querySelectorAll(".reading-said").forEach((line) => (line.textContent = said(now) + "."));
    document.querySelectorAll(".reading-bar").forEach((bar) => {
      bar.max = now.places.length;
      bar.value = now.read;
    });
    const next = document.querySelector(".reading-next");
    if (next) {
      next.replaceChildren(...(now.latest && now.latest.name !== here ? ["Last read: ", linkTo(now.latest)] : []));
    }
  }
  function linkTo({ link, title, place }) {
    const to = make("a", { href: link.href.replace(/#.*$/, "") + "#" + encodeURIComponent(place.section) });
    to.textContent = place.title && place.title !== title ? `${title}, “${place.title}”` : title;
    return to;
  }
  function bar() {
    const made = make("progress", { className: "reading-bar" });
    made.setAttribute("aria-label", "pages read");
    return made;
  }
  function addToSidebar() {
    const list = document.querySelector(".bd-sidebar-primary .bd-links");
    if (list) {
      list.after(make("div", { className: "reading-sum" }, bar(), make("span", { className: "reading-said" })));
    }
  }

  // --- export, import, reset -------------------------------------------------------------------------------------------

  function exported() {
    return JSON.stringify({ format: FORMAT, version: 1, exported: new Date().toISOString(), entries: entries() }, null, 1);
  }
  // Returns the entries of a file, or throws an error that says what is wrong with it; nothing of a faulty file is kept.
  function parsed(text) {
    let data;
    try {
      data = JSON.parse(text);
    } catch {
      throw new Error("This is not a JSON file.");
    }
    if (data === null || typeof data !== "object" || data.format !== FORMAT || data.version !== 1) {
      throw new Error("This file was not exported from this book.");
    }
    if (data.entries === null || typeof data.entries !== "object" || Array.isArray(data.entries)) {
      throw new Error("This file holds no entries.");
    }
    const faulty = Object.entries(data.entries).find(([key, value]) => !isEntry(key, value));
    if (faulty) {
      throw new Error(`The entry ${JSON.stringify(faulty[0].slice(0, 80))} is not one that this book writes. Nothing was imported.`);
    }
    return data.entries;
  }
  function addPanel(place) {
    const status = make("p", { className: "reading-status" });
    status.setAttribute("role", "status");
    const save = make("button", { type: "button", textContent: "Export to a file" });
    save.addEventListener("click", () => {
      const url = URL.createObjectURL(new Blob([exported()], { type: "application/json" }));
      make("a", { href: url, download: "under-the-roof-reading.json" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      status.textContent = "Exported: the file is with your downloads.";
    });
    const file = make("input", { type: "file", accept: ".json,application/json", hidden: true });
    const load = make("button", { type: "button", textContent: "Import a file" });
    load.addEventListener("click", () => file.click());
    file.addEventListener("change", async () => {
      const [chosen] = file.files;
      try {
        if (!chosen) {
          return;
        }
        if (chosen.size > LARGEST_FILE) {
          throw new Error("This file is larger than any that this book exports.");
        }
        const found = Object.entries(parsed(await chosen.text()));
        found.forEach(([key, value]) => keep(key, value));
        status.textContent = `Imported ${counted(found.length, "entry", "entries")}.`;
        show();
      } catch (error) {
        status.textContent = error.message;
      } finally {
        file.value = "";
      }
    });
    const reset = make("button", { type: "button", textContent: "Forget everything" });
    const confirm = make("p", { className: "reading-confirm", hidden: true });
    const yes = make("button", { type: "button", textContent: "Yes, forget it" });
    const no = make("button", { type: "button", textContent: "No, keep it" });
    confirm.append("This removes what you read and answered from this browser. ", make("span", { className: "reading-buttons" }, yes, no));
    function ask(open) {
      confirm.hidden = !open;
      (open ? no : reset).focus();
    }
    reset.addEventListener("click", () => ask(true));
    no.addEventListener("click", () => ask(false));
    yes.addEventListener("click", () => {
      Object.keys(localStorage).filter((key) => OURS.test(key)).forEach((key) => localStorage.removeItem(key));
      ask(false);
      status.textContent = "Forgotten.";
      show();
    });
    const title = make("p", { className: "reading-title", textContent: "Your reading" });
    const note = make("p", { textContent: "Kept in this browser only. To take it to another, export it there and import it here." });
    const buttons = make("div", { className: "reading-buttons" }, save, load, file, reset);
    place.replaceChildren(make("div", { className: "reading-panel" }, title, make("p", { className: "reading-said" }), bar(),
      make("p", { className: "reading-next" }), note, buttons, confirm, status));
  }

  // Deferred, so the page is there; an IIFE and no module, for pages that are opened as files.
  const works = storageWorks();
  const panel = document.getElementById("your-reading");
  if (!works) {
    if (panel) {
      panel.replaceChildren(make("p", { className: "reading-panel",
        textContent: "This browser keeps nothing for these pages, so they cannot remember what you have read." }));
    }
    return;
  }
  addToSidebar();
  if (panel) {
    addPanel(panel);
  }
  const article = document.querySelector("article.bd-article");
  if (article && pages().some(({ name }) => name === here)) {
    const before = placeIn(here);
    offerToContinue(article, before);
    follow(article, before);
  }
  show();
  addEventListener("storage", show);
})();
