// Keys press the buttons that name them. One answer at a time: while one is on its way, and until the next record is
// there to be seen, keys and clicks do nothing, so that a second one never answers a question that nobody saw.
"use strict";
(() => {
  const PAUSE = 150; // milliseconds: longer than a key bounces, and little for who labels fast
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

  document.addEventListener("click", (event) => {
    const found = event.target.closest("#task button, #task label");
    const second = event.detail > 1 && found !== null && found.tagName === "BUTTON"; // of a double click
    if (found === null || !(busy || second)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  const settle = () => {
    const task = document.getElementById("task");
    if (task === null) return;
    busy = true;
    task.setAttribute("aria-busy", "true");
    const picture = task.querySelector(".record img");
    const drawn = picture === null || picture.complete ? null : new Promise((done) => {
      for (const name of ["load", "error"]) picture.addEventListener(name, done, { once: true });
    });
    Promise.all([drawn, new Promise((done) => setTimeout(done, PAUSE))]).then(() => {
      if (!task.isConnected) return;
      busy = false;
      task.removeAttribute("aria-busy");
    });
  };
  settle();

  document.addEventListener("htmx:beforeRequest", () => { busy = true; trouble().hidden = true; });
  document.addEventListener("htmx:afterSettle", settle);
  const failed = (words) => () => {
    busy = false;
    trouble().textContent = words;
    trouble().hidden = false;
  };
  document.addEventListener("htmx:responseError", failed("This was not taken. Load the page again."));
  document.addEventListener("htmx:sendError", failed("The server cannot be reached. Your answer was not stored."));
})();
