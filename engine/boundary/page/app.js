// The shell: routes in the address's fragment, the key, the time zone, keyboard help.
import { html, render, useEffect, useState } from "./preact-htm.js";
import { key } from "./api.js";
import { Execution } from "./execution.js";
import { Home } from "./home.js";
import { List, listAddress } from "./list.js";
import { Dialog, Said, Settings } from "./ui.js";

function route() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  if (parts[0] === "executions" && parts[1]) return { view: "execution", id: encodeURIComponent(parts[1]) };
  if (parts[0] === "list") return { view: "list", q: new URLSearchParams(query || "").get("q") || "" };
  return { view: "home" };
}

function Key({ onClose, canClose, refused }) {
  const [typed, setTyped] = useState("");
  const give = (event) => {
    event.preventDefault();
    key.set(typed.trim());
    onClose();
    window.dispatchEvent(new Event("key-given"));
  };
  return html`<${Dialog} title="A key of the app" onClose=${() => canClose && onClose()}>
    <form onSubmit=${give}>
      ${refused && html`<p class="notice bad" role="alert">The app refused the key that was given.</p>`}
      <p>The app answers whoever has one of its function keys. The key stays in this tab, until you close it. It goes nowhere but to this app, in a header.</p>
      <div class="field"><label for="key">Key</label><input id="key" type="password" autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.currentTarget.value)} /></div>
      <div class="buttons"><span class="grow"></span>
        ${canClose && html`<button type="button" onClick=${onClose}>Cancel</button>`}
        <button type="submit" class="primary" disabled=${!typed.trim()}>Use this key</button></div>
    </form>
  <//>`;
}

const HELP = [["/", "go to the filter"], ["↑ ↓", "from row to row"], ["Enter", "open"], ["g then h", "home"], ["g then l", "list"], ["u", "times here or in UTC"], ["?", "this help"], ["Esc", "close a dialog"]];

function App() {
  const [at, setAt] = useState(route);
  const [utc, setUtc] = useState(localStorage.getItem("utc") === "yes");
  const [asksKey, setAsksKey] = useState(false);
  const [helps, setHelps] = useState(false);
  useEffect(() => {
    const onHash = () => { setAt(route()); window.scrollTo(0, 0); };
    const onKeyNeeded = () => setAsksKey(key.get() ? "refused" : "needed");
    window.addEventListener("hashchange", onHash);
    window.addEventListener("needs-key", onKeyNeeded);
    return () => { window.removeEventListener("hashchange", onHash); window.removeEventListener("needs-key", onKeyNeeded); };
  }, []);
  const swapZone = () => setUtc((before) => { localStorage.setItem("utc", before ? "no" : "yes"); return !before; });
  useEffect(() => {
    let last = "";
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
      if (event.key === "?") setHelps(true);
      else if (event.key === "u") swapZone();
      else if (last === "g" && event.key === "h") location.hash = "#/";
      else if (last === "g" && event.key === "l") location.hash = "#/list";
      last = event.key;
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    document.title = at.view === "execution" ? `${at.id.slice(0, 8)} – Executions` : at.view === "list" ? `${at.q || "All"} – Executions` : "Executions";
  }, [at]);
  const here = (view) => (at.view === view ? "page" : undefined);
  return html`<${Settings.Provider} value=${{ utc }}>
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main")?.scrollIntoView(); document.querySelector("main a, main button, main input")?.focus(); }}>Skip to the content</a>
    <header class="top">
      <nav aria-label="Pages"><a class="brand" href="#/" aria-current=${here("home")}><svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true"><rect width="32" height="32" rx="7"/><path d="M7 10h10M11 16h12M7 22h8"/></svg>Home</a>
        <a href=${listAddress("")} aria-current=${here("list")}>Executions</a></nav>
      <span class="grow"></span>
      <button class="link" onClick=${swapZone} aria-pressed=${utc} aria-label="Times in UTC">${utc ? "UTC" : "Local"}</button>
      <button class="link" onClick=${() => setAsksKey("asked")}>Key</button>
      <button class="link" onClick=${() => setHelps(true)} aria-label="Keyboard help">?</button>
    </header>
    ${at.view === "home" && html`<${Home} />`}
    ${at.view === "list" && html`<${List} q=${at.q} />`}
    ${at.view === "execution" && html`<${Execution} key=${at.id} id=${at.id} />`}
    <${Said} />
    ${asksKey && html`<${Key} onClose=${() => setAsksKey(false)} canClose=${asksKey !== "needed"} refused=${asksKey === "refused"} />`}
    ${helps && html`<${Dialog} title="Keyboard" onClose=${() => setHelps(false)}><dl class="pairs">${HELP.map(([press, does]) => html`<dt><kbd>${press}</kbd></dt><dd>${does}</dd>`)}</dl>
      <div class="buttons"><span class="grow"></span><button onClick=${() => setHelps(false)}>Close</button></div><//>`}
  <//>`;
}

render(html`<${App} />`, document.getElementById("app"));
