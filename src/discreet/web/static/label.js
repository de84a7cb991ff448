// Keys press the buttons that name them. One answer at a time: while one is on its way, keys do nothing, so that a
// second key never answers the question before it.
"use strict";
(() => {
  let busy = false;
  const trouble = () => document.getElementById("trouble");

  const pressed = (key) => {
    for (const one of document.querySelectorAll("#task [data-key]")) {
      if (one.dataset.key === key) return one;
    }
    return null;
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const found = pressed(key);
    if (found === null) return;
    if (key === "Enter" && event.target.closest("button, a")) return; // it presses that one
    event.preventDefault();
    if (busy || event.repeat) return;
    found.click();
  });

  document.addEventListener("htmx:beforeRequest", () => { busy = true; trouble().hidden = true; });
  document.addEventListener("htmx:afterSettle", () => { busy = false; });
  const failed = (words) => () => {
    busy = false;
    trouble().textContent = words;
    trouble().hidden = false;
  };
  document.addEventListener("htmx:responseError", failed("This was not taken. Load the page again."));
  document.addEventListener("htmx:sendError", failed("The server cannot be reached. Your answer was not stored."));
})();
