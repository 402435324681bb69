// Runs between require.js and html-manager, on pages with widgets.
(function () {
  "use strict";
  var here = new URL("vendor/", document.currentScript.src).href;
  // Modules of custom widgets come from this site.
  window.require.config({ baseUrl: here, paths: { anywidget: here + "anywidget" } });

  // html-manager calls MathJax 2 (MathJax.Hub.Queue); a page has MathJax 3, or none where it has no formulas.
  var mathjax = (window.MathJax = window.MathJax || {});
  function typeset(call) {
    if (window.MathJax.typesetPromise) {
      window.MathJax.typesetPromise([call[2]]);
    }
  }
  function addHub() {
    if (!window.MathJax.Hub) {
      window.MathJax.Hub = { Queue: typeset };
    }
  }
  addHub();
  // MathJax 3 replaces the object that held its configuration.
  mathjax.startup = Object.assign({}, mathjax.startup, {
    ready: function () {
      window.MathJax.startup.defaultReady();
      addHub();
    },
  });
})();
