// Gives the handles of ipywidgets' sliders the name and the value that stand beside them, for screen readers, and takes
// away what promises more than a page without a kernel can do.
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
  document.addEventListener("DOMContentLoaded", function () {
    describeAll();
    new MutationObserver(describeAll).observe(document.body, {
      subtree: true,
      childList: true,
      characterData: true,
      attributes: true,
      attributeFilter: ["aria-valuetext"],
    });
  });
})();
