// The list: filter bar, counts by state, columns, many at once.
import { html, useEffect, useMemo, useRef, useState } from "./preact-htm.js";
import { get, usePoll } from "./api.js";
import { ACTIONS, Many } from "./actions.js";
import { Notice, Rows, State, Time, plain, span, useNarrow } from "./ui.js";

const PAGE = 200;
const CHIPS = [
  ["running", "status:running", "Running"],
  ["stuck", "is:stuck", "Needs you"],
  ["completed", "outcome:completed", "Completed"],
  ["failed", "outcome:failed", "Failed"],
  ["interrupted", "outcome:interrupted", "Interrupted"],
  ["terminated", "outcome:terminated", "Terminated"],
];
const CHIP_TERMS = CHIPS.map(([, term]) => term);
const COLUMNS = [
  ["version", "Version"],
  ["tags", "Tags"],
  ["shown", "Custom status"],
  ["created", "Created"],
  ["took", "Took"],
  ["error", "Error or cause"],
];

export const listAddress = (q) => `#/list${q ? `?q=${encodeURIComponent(q)}` : ""}`;

// A filter without the terms of the chips.
function without(q) {
  return q.split(/\s+/).filter((term) => !CHIP_TERMS.includes(term)).join(" ");
}

// Why it failed, or why it isn't driven.
function why(one) {
  const error = one.error || one.cause;
  return error ? `${error.type}: ${error.message}` : one.leftAlone || "";
}

// A custom status on one line.
function brief(value) {
  const text = typeof value === "string" ? value : plain(value).replace(/\s*\n\s*/g, " ");
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem("columns")) || COLUMNS.map(([name]) => name);
  } catch {
    return COLUMNS.map(([name]) => name);
  }
}

export function List({ q }) {
  const [typed, setTyped] = useState(q);
  const [pages, setPages] = useState(1);
  const [chosen, setChosen] = useState(() => new Set());
  const [asking, setAsking] = useState(null);
  const [columns, setColumns] = useState(kept);
  const narrow = useNarrow();
  const input = useRef();
  useEffect(() => { setTyped(q); setPages(1); setChosen(new Set()); }, [q]);
  useEffect(() => {
    const onSlash = (event) => {
      if (event.key !== "/" || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      input.current.focus();
    };
    window.addEventListener("keydown", onSlash);
    return () => window.removeEventListener("keydown", onSlash);
  }, []);

  const [listed, problem, again] = usePoll(async () => {
    const executions = [];
    let continuation = "", slow;
    for (let n = 0; n < pages; n++) {
      const page = await get(`executions?limit=${PAGE}&q=${encodeURIComponent(q)}${continuation && `&continuation=${continuation}`}`);
      executions.push(...page.executions);
      slow = page.slow;
      continuation = page.continuation;
      if (!continuation) break;
    }
    return { executions, continuation, slow };
  }, [q, pages], pages > 3 ? 10 : 3);
  const [counts] = usePoll(() => get(`counts?q=${encodeURIComponent(without(q))}`), [without(q)], 5);

  const executions = listed?.executions || [];
  const picked = useMemo(() => executions.filter((one) => chosen.has(one.executionId)), [executions, chosen]);
  const pick = (id) => setChosen((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  const all = executions.length > 0 && picked.length === executions.length;
  const search = (event) => { event.preventDefault(); location.hash = listAddress(typed.trim()); };
  const toggle = (name) => setColumns((before) => {
    const after = before.includes(name) ? before.filter((one) => one !== name) : [...before, name];
    localStorage.setItem("columns", JSON.stringify(after));
    return after;
  });
  const has = (name) => columns.includes(name);
  const position = problem?.body?.position;

  return html`<main class="list" id="main">
    <h1>Executions</h1>
    <form class="filter" role="search" onSubmit=${search}>
      <label class="hidden" for="filter">Filter</label>
      <input id="filter" ref=${input} type="search" value=${typed} spellcheck="false" autocomplete="off" autocapitalize="off"
        placeholder='workflow:fulfil status:running created>-24h error:"card declined"'
        aria-invalid=${position !== undefined} aria-describedby=${problem ? "filter-problem" : undefined}
        onInput=${(event) => setTyped(event.currentTarget.value)} />
      <button class="primary" type="submit">Filter</button>
    </form>
    ${problem && html`<div id="filter-problem">
      ${position !== undefined && html`<pre class="where" aria-hidden="true">${`${q}\n${" ".repeat(position)}▲`}</pre>`}
      <${Notice} problem=${problem} /></div>`}
    <nav class="chips" aria-label="By state">
      ${CHIPS.map(([name, term, text]) => {
        const on = q.split(/\s+/).includes(term);
        const next = on ? without(q) : `${without(q)} ${term}`.trim();
        return html`<a class="chip ${name} ${on ? "on" : ""}" href=${listAddress(next)} aria-current=${on ? "true" : undefined}>
          ${text} <b>${counts ? counts[name].toLocaleString() : "…"}</b></a>`;
      })}
    </nav>
    ${listed?.slow && html`<p class="notice">This filter is slow: no index serves ${listed.slow.join(", ")}.</p>`}
    <div class="bar">
      <label class="check"><input type="checkbox" checked=${all} disabled=${!executions.length}
        onChange=${() => setChosen(all ? new Set() : new Set(executions.map((one) => one.executionId)))} />
        <span>${picked.length ? `${picked.length} chosen` : `All ${executions.length} shown`}</span></label>
      ${picked.length > 0 && Object.entries(ACTIONS).filter(([, action]) => picked.some(action.allowed)).map(([name, action]) => html`
        <button class=${action.danger ? "danger" : ""} onClick=${() => setAsking(name)}>${action.title}</button>`)}
      <span class="grow"></span>
      <details class="menu"><summary>Columns</summary><div class="popup">
        ${COLUMNS.map(([name, text]) => html`<label class="check"><input type="checkbox" checked=${has(name)} onChange=${() => toggle(name)} /><span>${text}</span></label>`)}
      </div></details>
    </div>
    ${listed && !executions.length && html`<p class="empty">${q ? "No execution fits this filter." : "Nothing has been started yet."}</p>`}
    ${executions.length > 0 && html`<${Rows} items=${executions} height=${narrow ? 84 : 44} label="Executions" most=${Math.max(320, window.innerHeight - 320)} focus=${false}
      render=${(one, n, of) => html`<div key=${one.executionId} class="row execution ${narrow ? "tall" : ""}" role="listitem" aria-posinset=${n + 1} aria-setsize=${of}>
        <input type="checkbox" aria-label=${`Choose ${one.workflow} ${one.executionId.slice(0, 8)}`} checked=${chosen.has(one.executionId)} onChange=${() => pick(one.executionId)} />
        <a class="name" data-row href=${`#/executions/${one.executionId}`}>
          <b>${one.workflow}</b> <code>${one.executionId.slice(0, 8)}</code></a>
        <span class="is"><${State} of=${one} /></span>
        ${has("version") && html`<span class="cell version">v${one.version}</span>`}
        ${has("tags") && html`<span class="cell tags">${Object.entries(one.tags || {}).map(([name, value]) => html`<span class="tag">${name}=${value}</span>`)}</span>`}
        ${has("shown") && html`<span class="cell shown">${one.customStatus === undefined ? "" : brief(one.customStatus)}</span>`}
        ${has("created") && html`<span class="cell created"><${Time} at=${one.createdAt} /></span>`}
        ${has("took") && html`<span class="cell took">${one.completedAt ? span((new Date(one.completedAt) - new Date(one.createdAt)) / 1000) : ""}</span>`}
        ${has("error") && html`<span class="cell error">${why(one)}</span>`}
      </div>`} />`}
    ${listed?.continuation && html`<p class="more"><button onClick=${() => setPages(pages + 1)}>Show more</button>
      ${pages < 50 && html` <button class="link" onClick=${() => setPages(50)}>Show up to ${(50 * PAGE).toLocaleString()}</button>`}</p>`}
    ${asking && html`<${Many} name=${asking} chosen=${picked} onClose=${() => { setAsking(null); setChosen(new Set()); }} onDone=${again} />`}
  </main>`;
}
