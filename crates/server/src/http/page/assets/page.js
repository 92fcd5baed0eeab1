// Shows what changes while the page is open: on each sign of a change the page is fetched again and
// its middle is put in place. Without this script the page works all the same, by reloading it.
"use strict";

(function follow() {
  const main = document.querySelector("main[data-live]");
  if (!main) {
    return;
  }
  let fetching = false;
  let again = false;

  async function refresh() {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    try {
      const response = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
      const text = await response.text();
      const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main[data-live]");
      if (response.ok && fresh) {
        main.replaceChildren(...fresh.childNodes);
      }
    } catch {
      // The next sign of a change tries again.
    }
    fetching = false;
    if (again) {
      again = false;
      refresh();
    }
  }

  const stream = new EventSource("/approvals/stream");
  stream.addEventListener("changed", refresh);
  stream.addEventListener("open", refresh);
})();
