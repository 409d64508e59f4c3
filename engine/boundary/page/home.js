// Home: what needs a person, what is late, how much goes through, what is still in flight.
import { html } from "./preact-htm.js";
import { get, usePoll } from "./api.js";
import { listAddress } from "./list.js";
import { Notice, State, Time, span } from "./ui.js";

const LATE = "status:running due<-2m";
const NEWEST = 500;

// Executions by what they are suspended with, the largest group first.
function byCause(executions) {
  const groups = new Map();
  for (const one of executions) {
    const cause = one.cause || { type: "?", message: "" };
    const group = groups.get(cause.type + one.workflow) || { cause, workflow: one.workflow, executions: [] };
    group.executions.push(one);
    groups.set(cause.type + one.workflow, group);
  }
  return [...groups.values()].sort((a, b) => b.executions.length - a.executions.length);
}

function byVersion(executions) {
  const found = new Map();
  for (const one of executions) {
    const name = `${one.workflow}\n${one.version}`;
    const before = found.get(name) || { workflow: one.workflow, version: one.version, count: 0, oldest: one.createdAt };
    found.set(name, { ...before, count: before.count + 1, oldest: one.createdAt < before.oldest ? one.createdAt : before.oldest });
  }
  return [...found.values()].sort((a, b) => a.workflow.localeCompare(b.workflow) || a.version.localeCompare(b.version));
}

const PERIODS = [["last hour", "created>-1h"], ["last day", "created>-24h"], ["all", ""]];
const STATES = ["running", "stuck", "completed", "failed", "interrupted", "terminated"];
const TERMS = { running: "status:running", stuck: "is:stuck" };

export function Home() {
  const [stuck, problem] = usePoll(() => get(`executions?limit=200&q=${encodeURIComponent("is:stuck")}`), [], 5);
  const [late] = usePoll(() => get(`executions?limit=50&q=${encodeURIComponent(LATE)}`), [], 10);
  const [running] = usePoll(() => get(`executions?limit=${NEWEST}&q=${encodeURIComponent("status:running")}`), [], 15);
  const [health, unwell] = usePoll(() => get("health"), [], 5);
  const [counts] = usePoll(async () => Promise.all(PERIODS.map(([, q]) => get(`counts?q=${encodeURIComponent(q)}`))), [], 10);
  const groups = byCause(stuck?.executions || []);
  const alone = Object.entries(health?.leftAlone || {}), unreadable = Object.entries(health?.unreadable || {});
  const well = health && !groups.length && !late?.executions.length && !alone.length && !unreadable.length;
  return html`<main class="home" id="main">
    <h1>Home</h1>
    <${Notice} problem=${problem} />
    <p class="verdict ${unwell ? "bad" : well ? "good" : "warn"}" role="status">
      ${unwell && unwell.status !== 401 ? `The store can't be reached: ${unwell.message}` : !health ? "…" : well ? "All is well: nothing waits for a person, and nothing is late."
        : [groups.length ? `${stuck.executions.length}${stuck.continuation ? " or more" : ""} need${stuck.executions.length === 1 ? "s" : ""} a person` : "", late?.executions.length ? `${late.executions.length} late` : "", alone.length ? `${alone.reduce((sum, [, count]) => sum + count, 0)} left alone` : "", unreadable.length ? `${unreadable.length} unreadable` : ""].filter(Boolean).join(", ") || "Something wants attention."}</p>
    ${groups.length > 0 && html`<section aria-label="Needs a person"><h2>Needs a person</h2><ul class="groups">
      ${groups.map((group) => html`<li><a href=${listAddress(`is:stuck workflow:${group.workflow} error:${group.cause.type}`)}>
          <b class="count">${group.executions.length}</b><span><b class="break">${group.workflow}: ${group.cause.type}</b><span class="brief">${group.cause.message}</span></span></a></li>`)}
    </ul></section>`}
    ${alone.length > 0 && html`<section aria-label="Left alone"><h2>Left alone</h2><p>This app doesn't drive these: it lacks their workflow or version, or is older than they are.</p>
      <ul class="groups">${alone.map(([name, count]) => html`<li><a href=${listAddress(`status:running workflow:${name.split(" version ")[0]}`)}>
        <b class="count">${count}</b><span><b class="break">${name}</b></span></a></li>`)}</ul></section>`}
    ${unreadable.length > 0 && html`<section aria-label="Unreadable"><h2>Unreadable</h2>
      <ul class="fields">${unreadable.map(([id, problem]) => html`<li class="break"><code>${id.slice(0, 8)}</code> ${problem}</li>`)}</ul></section>`}
    ${late?.executions.length > 0 && html`<section aria-label="Late"><h2>Late</h2><p>These have been due for more than two minutes, and nobody drives them. Does the app run? Does its timer trigger fire?</p>
      <ul class="late">${late.executions.slice(0, 10).map((one) => html`<li><a href=${`#/executions/${one.executionId}`}>${one.workflow} <code>${one.executionId.slice(0, 8)}</code></a> <${State} of=${one} />${one.dueAt && html` due <${Time} at=${one.dueAt} relative />`}</li>`)}</ul></section>`}
    <section aria-label="Throughput"><h2>Started</h2>
      <div class="scroll" tabindex="0" role="region" aria-label="Executions started, by period and state"><table><thead><tr><th scope="col">in the</th>${STATES.map((state) => html`<th scope="col"><${State} of=${state} /></th>`)}</tr></thead>
      <tbody>${PERIODS.map(([name, q], n) => html`<tr><th scope="row">${name}</th>${STATES.map((state) => html`<td>${counts
        ? html`<a href=${listAddress(`${q} ${TERMS[state] || `outcome:${state}`}`.trim())}>${counts[n][state].toLocaleString()}</a>` : "…"}</td>`)}</tr>`)}</tbody></table></div>
    </section>
    <section aria-label="In flight"><h2>In flight</h2>
      ${running && !running.executions.length && html`<p class="quiet">Nothing is running.</p>`}
      ${running?.executions.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Workflows and versions in flight"><table><thead><tr><th scope="col">Workflow</th><th scope="col">Version</th><th scope="col">Running</th><th scope="col">Oldest</th></tr></thead>
      <tbody>${byVersion(running.executions).map((one) => html`<tr><th scope="row"><a href=${listAddress(`workflow:${one.workflow} status:running`)}>${one.workflow}</a></th><td>${one.version}</td><td>${one.count}</td><td><${Time} at=${one.oldest} /></td></tr>`)}</tbody></table></div>`}
      ${running?.continuation && html`<p class="quiet">Of the newest ${NEWEST}.</p>`}
    </section>
    <section aria-label="Health"><h2>Health</h2><dl class="pairs">
      <dt>Store</dt><dd>${unwell ? "can't be reached" : health ? "answers" : "…"}</dd>
      <dt>Longest overdue</dt><dd>${health ? (health.overdueSeconds ? span(health.overdueSeconds) : "nothing") : "…"}</dd></dl></section>
  </main>`;
}
