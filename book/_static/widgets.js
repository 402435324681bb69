// Runs between require.js and html-manager, on pages with widgets.
(function () {
  "use strict";
  var here = new URL("vendor/", document.currentScript.src).href;
  // Modules of custom widgets come from this site.
  window.require.config({ baseUrl: here, paths: { anywidget: here + "anywidget" } });

  // html-manager checks the state of the widgets with code that it makes from text (Ajv), which the page's policy
  // forbids. The state is this build's own: it passes unchecked. Whatever else is made from text stays forbidden.
  var NativeFunction = window.Function;
  function accept() {
    return true;
  }
  function GuardedFunction(first, second) {
    if (arguments.length === 3 && first === "self" && second === "scope") {
      return function () {
        return accept.bind(null);
      };
    }
    return NativeFunction.apply(this, arguments);
  }
  GuardedFunction.prototype = NativeFunction.prototype;
  window.Function = GuardedFunction;

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
