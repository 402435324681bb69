// Gives the handles of ipywidgets' sliders the name and the value that stand beside them, for screen readers, takes away
// what promises more than a page without a kernel can do, and lets the keyboard scroll what is wider than its column.
(function () {
  "use strict";
  function describe(slider) {
    var handle = slider.querySelector(".noUi-handle");
    var label = slider.querySelector(".widget-label");
    var readout = slider.querySelector(".widget-readout");
    if (!handle || !label) {
      return;
    }
    set(handle, "aria-label", label.textContent.trim() || "value");
    if (label.title === "null") {
      label.removeAttribute("title");
    }
    if (readout) {
      set(handle, "aria-valuetext", readout.textContent.trim());
      set(readout, "contenteditable", "false");
    }
  }
  // Only on a change, or the observer below would wake itself for ever.
  function set(element, name, value) {
    if (element.getAttribute(name) !== value) {
      element.setAttribute(name, value);
    }
  }
  function describeAll() {
    document.querySelectorAll(".widget-slider, .widget-hslider, .widget-vslider").forEach(describe);
  }
  // A box that scrolls has a shaded edge; accessible.js gives it to the keyboard.
  var BOXES = ".bd-article pre, .bd-article .text_html, .bd-article .widget-html-content, .bd-article .pst-scrollable-table-container, .bd-article div.math";
  function letScroll(box) {
    var scrolls = box.scrollWidth > box.clientWidth + 1;
    if (scrolls !== box.classList.contains("scrolls")) {
      box.classList.toggle("scrolls", scrolls);
    }
  }
  function letAllScroll() {
    document.querySelectorAll(BOXES).forEach(letScroll);
  }
  document.addEventListener("DOMContentLoaded", function () {
    describeAll();
    letAllScroll();
    addEventListener("load", letAllScroll);
    addEventListener("resize", letAllScroll);
    new ResizeObserver(letAllScroll).observe(document.querySelector(".bd-article") || document.body);
    new MutationObserver(describeAll).observe(document.body, {
      subtree: true,
      childList: true,
      characterData: true,
      attributes: true,
      attributeFilter: ["aria-valuetext"],
    });
  });
})();
