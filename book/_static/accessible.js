// Lets the keyboard reach boxes that scroll sideways, and only while they do, and shades their edge: a wide table on a phone.
(function () {
  "use strict";
  var BOXES = ".accel-table, .accel-chart, .bd-article pre, .bd-article div.math, .cell_output .text_html, .table-wrapper, .pst-scrollable-table-container, .jupyter-widgets.widget-html, .widget-html-content";
  // Of boxes in boxes, one is shaded.
  var SHADED = ".bd-article pre, .bd-article .text_html, .bd-article .widget-html-content, .bd-article .pst-scrollable-table-container, .bd-article div.math";
  function nameOf(box) {
    var caption = box.querySelector("caption, svg > title");
    return (caption && caption.textContent.trim()) || "Scrolls sideways";
  }
  function update(box) {
    var scrolls = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
    if (box.matches(SHADED)) {
      box.classList.toggle("scrolls", scrolls);
    }
    if (scrolls && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.dataset.scrolls = "";
      if (!box.hasAttribute("role") && box.tagName !== "PRE") {
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", nameOf(box));
      }
    } else if (!scrolls && "scrolls" in box.dataset) {
      box.removeAttribute("tabindex");
      delete box.dataset.scrolls;
    }
  }
  var sizes = new ResizeObserver(function (entries) {
    entries.forEach(function (entry) { update(entry.target); });
  });
  var seen = new WeakSet();
  function watch() {
    document.querySelectorAll(BOXES).forEach(function (box) {
      if (!seen.has(box)) {
        seen.add(box);
        sizes.observe(box);
      }
      update(box);
    });
  }
  watch();
  new MutationObserver(watch).observe(document.body, { childList: true, subtree: true });
  window.addEventListener("load", watch);
})();
