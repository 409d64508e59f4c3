// What all views share: states, times, values, errors, dialogs, long lists.
import { createContext, html, useContext, useEffect, useLayoutEffect, useRef, useState } from "./preact-htm.js";
import { Exact } from "./api.js";

export const Settings = createContext({ utc: false });

const STATES = {
  running: ["●", "Running"],
  waiting: ["◔", "Waiting"],
  stuck: ["!", "Needs you"],
  alone: ["!", "Left alone"],
  completed: ["✓", "Completed"],
  failed: ["✕", "Failed"],
  interrupted: ["■", "Interrupted"],
  terminated: ["■", "Terminated"],
  missing: ["?", "Not stored"],
};

export function stateOf(execution) {
  if (execution.status === "missing" || !execution.status) return "missing";
  if (execution.status === "complete") return execution.outcome;
  if (execution.leftAlone) return "alone";
  if (execution.cause) return "stuck";
  return execution.suspended ? "waiting" : "running";
}

export function State({ of }) {
  const state = typeof of === "string" ? of : stateOf(of);
  const [mark, text] = STATES[state] || ["?", state];
  return html`<span class="state ${state}"><span class="mark" aria-hidden="true">${mark}</span>${text}</span>`;
}

const pad = (number, size = 2) => String(number).padStart(size, "0");

export function moment(text, utc) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return String(text);
  const part = (name) => (utc ? at[`getUTC${name}`]() : at[`get${name}`]());
  const day = `${part("FullYear")}-${pad(part("Month") + 1)}-${pad(part("Date"))}`;
  return `${day} ${pad(part("Hours"))}:${pad(part("Minutes"))}:${pad(part("Seconds"))}${utc ? " UTC" : ""}`;
}

export function span(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return `${Math.round(size * 1000)} ms`;
  if (size < 60) return `${size < 10 ? Math.round(size * 10) / 10 : Math.round(size)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, length]) => size >= length);
  const [unit, length] = units[first];
  const whole = Math.floor(size / length);
  const [next, short] = units[first + 1] || [null, 1];
  const rest = next ? Math.floor((size - whole * length) / short) : 0;
  return rest ? `${whole} ${unit} ${rest} ${next}` : `${whole} ${unit}`;
}

export function Time({ at, relative }) {
  const { utc } = useContext(Settings);
  const [, tick] = useState(0);
  useEffect(() => {
    if (!relative) return undefined;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [relative]);
  if (!at) return html`<span class="quiet">–</span>`;
  const whole = `${moment(at, false)} here, ${moment(at, true)}`;
  const away = (new Date(at) - Date.now()) / 1000;
  const far = span(Math.max(1, Math.round(Math.abs(away))));
  const text = !relative ? moment(at, utc) : relative === "for" ? `for ${far}` : away > 0 ? `in ${far}` : `${far} ago`;
  return html`<time datetime=${at} title=${whole}>${text}</time>`;
}

export function plain(value, depth = 0) {
  const space = "  ".repeat(depth);
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return `[\n${value.map((item) => `${space}  ${plain(item, depth + 1)}`).join(",\n")}\n${space}]`;
  }
  if (value && typeof value === "object") {
    const entries = Object.entries(value);
    if (!entries.length) return "{}";
    const lines = entries.map(([name, item]) => `${space}  ${JSON.stringify(name)}: ${plain(item, depth + 1)}`);
    return `{\n${lines.join(",\n")}\n${space}}`;
  }
  return value === undefined ? "null" : JSON.stringify(value);
}

export function Value({ value, label = "Value" }) {
  const [whole, setWhole] = useState(false);
  const text = plain(value);
  const cut = !whole && text.length > 2000;
  return html`<div class="value">
    <pre tabindex="0" role="group" aria-label=${label}>${cut ? `${text.slice(0, 2000)}…` : text}</pre>
    ${cut && html`<button class="link" onClick=${() => setWhole(true)}>Show all ${text.length.toLocaleString()} characters</button>`}
  </div>`;
}

export function ErrorTree({ error, open = true }) {
  if (!error) return null;
  return html`<div class="error-tree">
    <p><strong class="break">${error.type}</strong>${error.message && html`: <span class="message">${error.message}</span>`}</p>
    ${error.data !== undefined && html`<${Value} value=${error.data} label="What the error holds" />`}
    ${error.notes?.map((note) => html`<p class="quiet">${note}</p>`)}
    ${error.exceptions && html`<details open=${open}>
      <summary>${error.exceptions.length} errors in the group</summary>
      ${error.exceptions.map((inner) => html`<${ErrorTree} error=${inner} />`)}
    </details>`}
    ${error.cause && html`<details open=${open}><summary>Caused by</summary><${ErrorTree} error=${error.cause} /></details>`}
  </div>`;
}

export function Place({ line }) {
  if (!line) return null;
  return html`<code class="place">${line.file}:<b>${line.line}</b></code> <span class="quiet">in</span> <code>${line.function}</code>`;
}

export function Copy({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="icon" onClick=${copy} aria-label=${`Copy ${label}`} title=${`Copy ${label}`}>${done ? "✓" : html`<svg viewBox="0 0 16 16" width="15" height="15" aria-hidden="true"><rect x="5.5" y="5.5" width="8" height="8" rx="1.5" /><path d="M10.5 3.5v-1h-8v8h1" /></svg>`}</button>`;
}

export function Notice({ problem }) {
  if (!problem || problem.status === 401 || problem.status === 403) return null;
  return html`<p class="notice bad" role="alert">${problem.message}</p>`;
}

// A modal dialog of the browser: the rest of the page is inert, Escape closes it, and focus goes back afterwards.
export function Dialog({ title, onClose, children, wide }) {
  const element = useRef();
  useLayoutEffect(() => {
    const dialog = element.current, before = document.activeElement;
    dialog.showModal();
    return () => { dialog.close(); before?.focus?.(); };
  }, []);
  const cancel = (event) => { event.preventDefault(); onClose(); };
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} onCancel=${cancel} aria-labelledby="dialog-title">
    <h2 id="dialog-title">${title}</h2>${children}
  </dialog>`;
}

// Only the rows in sight are in the document: ten thousand cost as much as thirty.
export function Rows({ items, height, label, render, most = 560, focus = true }) {
  const element = useRef();
  const [top, setTop] = useState(0);
  const shown = Math.min(most, Math.max(items.length * height, height));
  const first = Math.max(0, Math.floor(top / height) - 6);
  const last = Math.min(items.length, first + Math.ceil(shown / height) + 14);
  const onKeyDown = (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...element.current.querySelectorAll("[data-row]")];
    const at = links.indexOf(document.activeElement);
    const next = links[at + (event.key === "ArrowDown" ? 1 : -1)];
    if (at >= 0 && next) { event.preventDefault(); next.focus(); }
  };
  useLayoutEffect(() => { element.current.style.height = `${shown}px`; }, [shown]);
  const padTop = useRef(), padBottom = useRef();
  useLayoutEffect(() => {
    padTop.current.style.height = `${first * height}px`;
    padBottom.current.style.height = `${(items.length - last) * height}px`;
  }, [first, last, items.length, height]);
  return html`<div class="rows" ref=${element} tabindex=${focus ? 0 : undefined} role="list" aria-label=${label}
      onScroll=${(event) => setTop(event.currentTarget.scrollTop)} onKeyDown=${onKeyDown}>
    <div ref=${padTop} role="presentation"></div>
    ${items.slice(first, last).map((item, n) => render(item, first + n, items.length))}
    <div ref=${padBottom} role="presentation"></div>
  </div>`;
}

export function useNarrow() {
  const query = useRef(window.matchMedia("(max-width: 720px)"));
  const [narrow, setNarrow] = useState(query.current.matches);
  useEffect(() => {
    const onChange = (event) => setNarrow(event.matches);
    query.current.addEventListener("change", onChange);
    return () => query.current.removeEventListener("change", onChange);
  }, []);
  return narrow;
}

// Tells what an action did, also to screen readers.
export function say(text, bad = false) {
  window.dispatchEvent(new CustomEvent("said", { detail: { text, bad } }));
}

export function Said() {
  const [said, setSaid] = useState(null);
  useEffect(() => {
    let timer;
    const onSaid = (event) => {
      setSaid(event.detail);
      clearTimeout(timer);
      timer = setTimeout(() => setSaid(null), 8000);
    };
    window.addEventListener("said", onSaid);
    return () => window.removeEventListener("said", onSaid);
  }, []);
  return html`<div class="said" role="status" aria-live="polite">
    ${said && html`<p class=${said.bad ? "bad" : ""}>${said.text}</p>`}
  </div>`;
}
