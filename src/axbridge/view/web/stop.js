// The stop, which needs nothing else of the page: space, Esc and the red button switch every motor off.
stops => {
  const bar = document.createElement("div");
  bar.setAttribute("role", "alert");
  bar.style.cssText = "position:fixed;inset:0 0 auto;z-index:9999;padding:.6em 1em;color:white;background:#c92a2a;"
    + "font:600 14px sans-serif";
  // Words on top of the page, as long as nothing else is said; "" takes them away.
  function say(text) {
    bar.textContent = text;
    if (text) document.body.append(bar); else bar.remove();
  }

  async function stop() {
    try {
      const answer = await fetch("/stop/now", { cache: "no-store", signal: AbortSignal.timeout(3000) });
      if (!answer.ok) throw answer.status;
      if (location.pathname === "/stop") location.replace("/stop");
    } catch {
      say("no answer to ALL OFF: cut the supply of the servos");
    }
  }
  function isStop(event) {
    return (event.code === "Space" || event.key === " " || event.key === "Escape")
      && !event.ctrlKey && !event.altKey && !event.metaKey;
  }
  if (!stops) return;
  for (const kind of ["keydown", "keypress", "keyup"]) {
    addEventListener(kind, event => {
      if (!isStop(event)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (kind === "keydown" && !event.repeat) stop();
    }, true);
  }
  // A finger stops when it comes down; the click is that of keys and of helpers that know no pointer.
  for (const kind of ["pointerdown", "click"]) {
    addEventListener(kind, event => {
      if (!event.target.closest?.("[data-stop]") || (kind === "click" && event.detail)) return;
      event.preventDefault();
      stop();
    }, true);
  }

  let silent = 0;
  setInterval(async () => {
    try {
      await fetch("/alive", { cache: "no-store", signal: AbortSignal.timeout(2000) });
      if (silent > 1) say("");
      silent = 0;
    } catch {
      if (++silent > 1) say("axbridge has ended, or the connection to it is cut: what you see is old");
    }
    document.documentElement.classList.toggle("gone", silent > 1);
  }, 1000);
}
