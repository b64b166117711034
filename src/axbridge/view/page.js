// What axbridge adds to viser's page. It runs before viser's own script, so its listeners hear everything first.
// `stops`: whether there is a robot to stop; a recording that is seen again has none.
(stops => {
  const FIELD = "input.mantine-NumberInput-input:not([data-axbridge])";
  const NUMBER = /^[-+]?(\d+[.,]?\d*|[.,]\d+)$/;
  const NARROW = 1000; // px: in narrower windows the curves leave their room to the robot; one click brings them back

  // viser draws everything by WebGL, its controls, too. Without it the plain page can at least switch the motors off.
  const context = document.createElement("canvas").getContext("webgl2");
  if (stops && !context && location.pathname === "/") return location.replace("/stop");
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  if (matchMedia("(prefers-color-scheme: dark)").matches) window.__VISER_EMBED_CONFIG__ = { darkMode: true };

  // While nobody answers, the coloured line tells of the past. On phones the robot is above the controls, not behind them.
  const style = document.createElement("style");
  style.textContent = `
    .axbridge-gone .axbridge-banner { visibility: hidden }
    @media (max-width: 36em) {
      body:has([style*="position: fixed"] [style*="grid-template-rows: 1fr"]) [data-dock-root] { height: 40% !important }
      .mantine-Paper-root[style*="position: fixed"],
      .mantine-Paper-root[style*="position: fixed"] .mantine-ScrollArea-content > div { width: 100% !important }
    }`;
  document.head.append(style);

  // ---- words on top of the page, as long as nothing else is said; "" takes them away
  const bar = document.createElement("div");
  bar.setAttribute("role", "alert");
  bar.style.cssText = "position:fixed;inset:0 0 auto;z-index:9999;padding:.6em 1em;color:white;background:#c92a2a;"
    + "font:600 14px sans-serif";
  function say(text) {
    bar.textContent = text;
    if (text) document.body.append(bar); else bar.remove();
  }

  // ---- the stop: whatever has the focus, space and Esc switch every motor off and do nothing else
  let typing = () => {};
  async function stop() {
    typing(false);
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
  for (const kind of stops ? ["keydown", "keypress", "keyup"] : []) {
    addEventListener(kind, event => {
      if (!isStop(event)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (kind === "keydown" && !event.repeat) stop();
    }, true);
  }
  // The red button goes the same way: viser sends one message in 50 ms, and the latest takes the place of the others.
  addEventListener("click", event => {
    if (!stops || !event.target.closest?.("button")?.textContent.startsWith("ALL OFF")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    stop();
  }, true);

  // ---- numbers: what is typed goes into a field of ours before viser's, which sends each key and is written to
  const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  const focus = HTMLInputElement.prototype.focus;
  HTMLInputElement.prototype.focus = function (...how) { // scripts bring nobody back to a field that was left
    if (!this.matches(FIELD)) focus.apply(this, how);
  };
  addEventListener("focusin", event => {
    const field = event.target;
    if (!field.matches?.(FIELD) || field.disabled) return;
    const own = field.cloneNode();
    own.removeAttribute("id");
    own.dataset.axbridge = "typing";
    own.value = field.value;
    field.before(own);
    field.style.display = "none";
    typing = send => {
      typing = () => {};
      const text = own.value.trim();
      field.style.display = "";
      own.remove();
      if (!send || text === own.defaultValue) return;
      if (!NUMBER.test(text)) return say(`"${text}" is no number: nothing was sent`);
      if (!silent) say("");
      write.call(field, text.replace(",", "."));
      field.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const done = typing;
    own.addEventListener("blur", () => document.hasFocus() && done === typing && done(true));
    own.addEventListener("keydown", key => key.key === "Enter" && done(true));
    own.defaultValue = own.value;
    own.focus();
    own.select();
  }, true);

  // ---- whether anybody is there
  let silent = 0, folded = false;
  setInterval(async () => {
    const curves = document.querySelector('[data-dock-region-collapse="left"]');
    if (curves && !folded) {
      folded = true;
      if (innerWidth < NARROW) curves.click();
    }
    try {
      await fetch("/alive", { cache: "no-store", signal: AbortSignal.timeout(2000) });
      if (silent > 1) say("");
      silent = 0;
    } catch {
      if (++silent > 1) say("axbridge has ended, or the connection to it is cut: what you see is old");
    }
    document.documentElement.classList.toggle("axbridge-gone", silent > 1);
  }, 1000);
})
