// One execution: why it isn't moving first, then what it did.
import { html, useContext, useEffect, useRef, useState } from "./preact-htm.js";
import { get, getAll, usePoll } from "./api.js";
import { ACTIONS, Ask, Fork, Give } from "./actions.js";
import { listAddress } from "./list.js";
import { Timeline } from "./timeline.js";
import { Copy, Dialog, ErrorTree, Notice, Place, Rows, Settings, State, Time, Value, moment, plain, span, stateOf } from "./ui.js";

const KINDS = { activity: "Activity", timer: "Timer", deferred: "Deferred", channel: "Channel", child: "Child" };
const ORDER = ["deferred", "activity", "channel", "child", "timer"];
const EVENTS = { attempt: "Attempt failed", begun: "Child began", interrupted: "Interrupted", takeover: "Taken over", patched: "Patched", forked: "Forked from" };

function useDetails(id, execution) {
  const [details, setDetails] = useState({});
  const busy = useRef(false);
  const load = async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      const [history, steps] = await Promise.all([
        getAll(`executions/${id}/history?values=brief`, "events"), getAll(`executions/${id}/steps`, "steps"),
      ]);
      const pending = steps.steps.filter((step) => step.state === "open").sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
      setDetails((before) => (before.history === history && before.all === steps ? before
        : { pending, problem: steps.problem || history.problem, history, steps: steps.steps, all: steps }));
    } catch (failed) {
      setDetails((before) => ({ ...before, failed }));
    }
    busy.current = false;
  };
  const still = execution && (execution.status === "complete" || execution.suspended);
  useEffect(() => { setDetails({}); }, [id]);
  useEffect(() => {
    if (!execution) return undefined;
    load();
    if (still) return undefined;
    const timer = setInterval(() => !document.hidden && load(), 2000);
    return () => clearInterval(timer);
  }, [id, execution, still]);
  return [details, load];
}

export function Execution({ id }) {
  const [execution, problem, again] = usePoll(() => get(`executions/${id}`), [id], (one) => (one?.status === "complete" ? 15 : 2));
  const [details, reload] = useDetails(id, execution);
  const [asking, setAsking] = useState(null);
  const [giving, setGiving] = useState(null);
  const [forking, setForking] = useState(null);
  const [purged, setPurged] = useState(false);
  useEffect(() => setPurged(false), [id]);
  const onDone = (name) => { if (name === "purge") setPurged(true); else { again(); reload(); } };
  if (purged) {
    return html`<main id="main"><h1>Purged</h1><p>Nothing is stored of execution <code>${id}</code> any more.</p>
      <p><a href=${listAddress("")}>To the list</a></p></main>`;
  }
  if (!execution) {
    return html`<main id="main"><h1>Execution</h1><p><code class="break">${id}</code></p><${Notice} problem=${problem} />${!problem && html`<p class="quiet">Loading…</p>`}</main>`;
  }
  const forkable = [...new Set((details.steps || []).filter((step) => step.kind !== "timer" && step.state !== "dropped").map((step) => step.step))];
  const payload = details.history?.payload && !isCut(details.history.payload) ? details.history.payload.value ?? null : undefined;
  const actions = Object.entries(ACTIONS).filter(([, action]) => action.allowed(execution));
  return html`<main class="execution" id="main">
    <header class="title">
      <h1>${execution.workflow} <${State} of=${execution} /></h1>
      <div class="actions">${actions.map(([name, action]) => html`<button class=${action.danger ? "danger" : ""} onClick=${() => setAsking(name)}>${action.title}</button>`)}
        ${forkable.length > 0 && html`<button onClick=${() => setForking({})}>Fork</button>`}</div>
      <p class="facts"><span><code class="break">${execution.executionId}</code> <${Copy} text=${execution.executionId} label="the execution id" /></span>
        <span>version ${execution.version}</span>
        <span>started <${Time} at=${execution.createdAt} /></span>
        ${execution.completedAt
          ? html`<span>ended <${Time} at=${execution.completedAt} /> after ${span((new Date(execution.completedAt) - new Date(execution.createdAt)) / 1000)}</span>`
          : html`<span>changed <${Time} at=${execution.updatedAt} relative /></span>`}
        ${execution.forkedFrom && html`<span>forked from <a href=${`#/executions/${execution.forkedFrom.executionId}`}><code>${execution.forkedFrom.executionId.slice(0, 8)}</code></a>${" "}
          at ${execution.forkedFrom.step}${execution.forkedFrom.by && html` by ${execution.forkedFrom.by}`}${execution.forkedFrom.reason && html`: ${execution.forkedFrom.reason}`}</span>`}
        ${Object.entries(execution.tags || {}).map(([name, value]) => html`<a class="tag" href=${listAddress(`workflow:${execution.workflow} tag.${name}:${JSON.stringify(value)}`)}>${name}=${value}</a>`)}</p>
    </header>
    <${Notice} problem=${problem} />
    <${Now} execution=${execution} details=${details} onGive=${setGiving} onAsk=${setAsking} />
    ${execution.customStatus !== undefined && html`<${Section} title="Custom status"><${Value} value=${execution.customStatus} label="Custom status" /><//>`}
    ${details.problem && html`<p class="notice">The history couldn't be replayed to its end: ${details.problem}</p>`}
    ${details.failed && html`<${Notice} problem=${details.failed} />`}
    <${Section} title="Timeline">${details.steps
      ? details.steps.length ? html`<${Timeline} execution=${execution} steps=${details.steps} events=${details.history.events} />` : html`<p class="quiet">${details.problem ? "Its steps can't be shown." : "It has asked for nothing yet."}</p>`
      : html`<p class="quiet">Loading…</p>`}<//>
    <${Section} title="Events">${details.history ? html`<${Events} id=${id} history=${details.history} execution=${execution} forkable=${forkable} onFork=${(step) => setForking({ step })} />` : html`<p class="quiet">Loading…</p>`}<//>
    <div class="pair">
      <${Section} title="Payload">${details.history?.payload && (isCut(details.history.payload)
        ? html`<${Large} id=${id} size=${details.history.payload.size} />` : html`<${Value} value=${details.history.payload.value ?? null} label="Payload" />`)}<//>
      ${execution.outcome === "completed" && html`<${Section} title="Result"><${Value} value=${execution.result ?? null} label="Result" /><//>`}
    </div>
    <${Section} title="Family"><${Family} id=${id} version=${execution.updatedAt} /><//>
    ${asking && html`<${Ask} name=${asking} execution=${execution} onClose=${() => setAsking(null)} onDone=${onDone} />`}
    ${forking && html`<${Fork} execution=${execution} steps=${forkable} step=${forking.step} payload=${payload} onClose=${() => setForking(null)} onDone=${onDone} />`}
    ${giving && html`<${Give} step=${giving} execution=${execution} onClose=${() => setGiving(null)} onDone=${onDone} />`}
  </main>`;
}

function Section({ title, children }) {
  return html`<section aria-label=${title}><h2>${title}</h2>${children}</section>`;
}

function Large({ id, size }) {
  const [value, setValue] = useState();
  if (value !== undefined) return html`<${Value} value=${value} label="Payload" />`;
  const load = async () => setValue((await get(`executions/${id}/history?values=full&limit=1`)).payload.value ?? null);
  return html`<button class="link" onClick=${load}>Show ${size.toLocaleString()} characters</button>`;
}

// That it was asked to stop, by whom and why.
function Interrupt({ execution }) {
  if (!execution.interrupted) return null;
  return html`<p class="notice break" role="note" aria-label="Interrupt">${execution.status === "running" ? "It was asked to stop, and cleans up." : "It was asked to stop."}
    ${execution.interruptedBy && html` By: <b>${execution.interruptedBy}</b>.`}
    ${execution.interruptReason && html` Reason: <q>${execution.interruptReason}</q>`}</p>`;
}

// The first thing to see: why it isn't moving, or how it ended.
function Now({ execution, details, onGive, onAsk }) {
  const state = stateOf(execution);
  if (execution.status === "complete") {
    return html`<${Interrupt} execution=${execution} />
      ${execution.error && html`<section class="now bad" aria-label="Error"><h2>It ${execution.outcome}</h2><${ErrorTree} error=${execution.error} /></section>`}
      ${execution.compensationErrors?.map((error) => html`<section class="now bad" aria-label="Error of a compensation"><h2>A compensation failed</h2><${ErrorTree} error=${error} /></section>`)}
      ${execution.leftovers && html`<section class="now stuck" aria-label="Left behind"><h2>Its code left behind</h2>
        <ul class="fields">${execution.leftovers.map((text) => html`<li class="break">${text}</li>`)}</ul></section>`}
      ${execution.unreadValues && html`<p class="notice">${execution.unreadValues === 1 ? "One value of a channel had arrived and was" : `${execution.unreadValues} values of channels had arrived and were`} never received.</p>`}`;
  }
  return html`<${Interrupt} execution=${execution} />
    ${execution.leftAlone && html`<section class="now alone" aria-label="Why it is left alone">
      <h2>This app leaves it alone</h2><p class="break">It isn't driven here: ${execution.leftAlone}.</p>
      <p>Deploy what it lacks, and it goes on by itself. If that is gone for good, terminate it.</p></section>`}
    ${execution.cause && html`<section class="now bad" aria-label="Why it is suspended">
      <h2>It needs you</h2><${ErrorTree} error=${execution.cause} /><${Steps} cause=${execution.cause} />
      <p><button class="primary" onClick=${() => onAsk("resume")}>Resume…</button></p></section>`}
    ${(!execution.leftAlone || details.pending?.length > 0) && html`<section class="now ${state}" aria-label="What it waits for">
      <h2>${state === "running" ? "Doing now" : "Waiting for"}</h2>
      ${!details.pending && html`<p class="quiet">Loading…</p>`}
      ${details.pending?.length === 0 && html`<p class="quiet">${execution.suspended ? "Nothing that the code asked for is open." : "It hasn't asked for anything yet."}</p>`}
      <ul class="pending">${details.pending?.slice(0, 50).map((step) => html`<${Pending} key=${step.kind + step.step} step=${step} onGive=${onGive} />`)}</ul>
      ${details.pending?.length > 50 && html`<p class="quiet">and ${details.pending.length - 50} more: see the timeline.</p>`}
    </section>`}`;
}

const CURES = {
  NonDeterminism: "The code that is deployed doesn't fit this history. Deploy the code that wrote it, or register the new code as another version. Then resume.",
  UnknownWorkflow: "No app that drives it has this workflow and version. Deploy it, then resume.",
  Quarantined: "Its driver died each time. Find out what kills the process (memory, an endless loop, a crash in an activity), mend it, then resume.",
  Stuck: "The code waits for something that nothing can bring. Only an interrupt reaches it.",
  DecodingError: "A stored value doesn't fit today's types. Deploy types that can read it, then resume.",
};

function Steps({ cause }) {
  return CURES[cause.type] ? html`<p>${CURES[cause.type]}</p>` : html`<p>Cure the cause, then resume.</p>`;
}

function Pending({ step, onGive }) {
  return html`<li>
    <div class="what"><span class="kind ${step.kind}">${KINDS[step.kind]}</span> <b class="break">${step.kind === "timer" && step.step === "timer" ? "timer" : step.step}</b>
      ${step.kind === "timer" && html` <span>fires <${Time} at=${step.dueAt} relative /></span>`}
      ${step.kind === "activity" && step.attempt > 1 && html` <span>attempt ${step.attempt}${step.nextTryAt && new Date(step.nextTryAt) > new Date() ? html`, next try <${Time} at=${step.nextTryAt} relative />` : ""}</span>`}
      ${step.heldBackBy && html` <span class="quiet">held back: ${step.heldBackBy}</span>`}
      ${step.details && "value" in step.details && html` <code class="break">${JSON.stringify(step.details.value)}</code>`}
      ${step.child && html` <a href=${`#/executions/${step.child.executionId}`}><code>${step.child.executionId.slice(0, 8)}</code></a> <${State} of=${step.child} />`}
    </div>
    <div class="from">${step.stack[0] ? html`<${Place} line=${step.stack[0]} />` : html`<span class="quiet">in the engine</span>`}
      <span class="quiet"> · <${Time} at=${step.since} relative="for" /></span></div>
    ${step.stack.length > 1 && html`<details><summary>Stack of ${step.stack.length}</summary><ol class="stack">${step.stack.map((line) => html`<li><${Place} line=${line} /></li>`)}</ol></details>`}
    ${step.lastError && html`<details open><summary>Last error</summary><${ErrorTree} error=${step.lastError} open=${false} /></details>`}
    ${step.schema && html`<button class="primary" onClick=${() => onGive(step)}>${step.kind === "deferred" ? "Resolve…" : "Send…"}</button>`}
  </li>`;
}

function Events({ id, history, execution, forkable, onFork }) {
  const { utc } = useContext(Settings);
  const [open, setOpen] = useState(null);
  const shown = [
    { number: 0, kind: "started", at: execution.createdAt },
    ...history.events,
    ...(execution.completedAt ? [{ number: history.length + 1, kind: "ended", at: execution.completedAt, error: execution.error }] : []),
  ];
  const name = (event) => {
    if (event.kind === "started") return "Started";
    if (event.kind === "ended") return `Ended as ${execution.outcome}`;
    return EVENTS[event.kind] || KINDS[event.kind] || event.kind;
  };
  return html`<${Rows} items=${shown} height=${34} label="Events" focus=${false} render=${(event, n, of) => html`
    <div class="row event" key=${event.number} role="listitem" aria-posinset=${n + 1} aria-setsize=${of}>
      <button class="link" data-row onClick=${() => setOpen(event)} aria-label=${`Event ${event.number}: ${name(event)} ${event.step || ""}`}>${event.number}</button>
      <span class="when">${moment(event.at, utc)}</span>
      <span class="kind ${event.kind} ${event.error ? "bad" : ""}">${name(event)}</span>
      <b class="step">${event.step || ""}</b>
      <span class="took">${event.durationSeconds === undefined ? "" : span(event.durationSeconds)}</span>
      <span class="brief">${event.error ? `${event.error.type}: ${event.error.message}` : event.result ? brief(event.result) : ""}</span>
    </div>`} />
    ${history.continuation && html`<p class="quiet">The first ${history.events.length.toLocaleString()} of ${history.length.toLocaleString()} events.</p>`}
    ${open && html`<${Event} id=${id} event=${open} title=${name(open)} onClose=${() => setOpen(null)}
      onFork=${forkable.includes(open.step) && (() => { setOpen(null); onFork(open.step); })} />`}`;
}

// A value that is too large for a list of many.
const isCut = (shape) => shape.value === undefined && shape.size > 256;

const brief = (result) => (isCut(result) ? `${result.size.toLocaleString()} characters` : plain(result.value ?? null).replace(/\s+/g, " ").slice(0, 160));

function Event({ id, event, title, onClose, onFork }) {
  const [whole, setWhole] = useState(event.result?.value);
  const large = event.result && isCut(event.result);
  const load = async () => setWhole((await get(`executions/${id}/history?values=full&limit=1&continuation=${event.number - 1}`)).events[0].result.value);
  return html`<${Dialog} wide title=${`${event.number}. ${title} ${event.step || ""}`} onClose=${onClose}>
    <dl class="pairs">
      <dt>At</dt><dd><${Time} at=${event.at} /></dd>
      ${event.since && html`<dt>Waited since</dt><dd><${Time} at=${event.since} /> (${span(event.durationSeconds)})</dd>`}
      ${event.attempt > 0 && html`<dt>Attempt</dt><dd>${event.attempt}</dd>`}
      ${event.retryAt && html`<dt>Next try</dt><dd><${Time} at=${event.retryAt} /></dd>`}
      ${event.original && html`<dt>Original</dt><dd><a href=${`#/executions/${event.original}`} onClick=${onClose}><code class="break">${event.original}</code></a></dd>`}
      ${event.by && html`<dt>Asked for by</dt><dd>${event.by}</dd>`}
      ${event.reason && html`<dt>Reason</dt><dd>${event.reason}</dd>`}
      ${event.worker && html`<dt>By</dt><dd><code class="break">${event.worker}</code></dd>`}
      ${event.child && html`<dt>Child</dt><dd><a href=${`#/executions/${event.child}`} onClick=${onClose}><code class="break">${event.child}</code></a></dd>`}
      ${event.stack?.length > 0 && html`<dt>Asked for in</dt><dd><ol class="stack">${event.stack.map((line) => html`<li><${Place} line=${line} /></li>`)}</ol></dd>`}
    </dl>
    ${event.error && html`<${ErrorTree} error=${event.error} />`}
    ${event.result && (large && whole === undefined
      ? html`<button class="link" onClick=${load}>Show ${event.result.size.toLocaleString()} characters</button>`
      : html`<${Value} value=${whole ?? null} label="Value" />`)}
    <div class="buttons">${onFork && html`<button onClick=${onFork}>Fork from here…</button>`}<span class="grow"></span><button onClick=${onClose}>Close</button></div>
  <//>`;
}

function Family({ id, version }) {
  const [family, problem] = usePoll(() => get(`executions/${id}/family`), [id, version], 0);
  if (!family) return html`<${Notice} problem=${problem} />${!problem && html`<p class="quiet">Loading…</p>`}`;
  const alone = !family.root.children.length && family.root.executionId === id && !family.parents.length;
  if (alone) return html`<p class="quiet">It has no parents and no children.</p>`;
  const others = family.parents.filter((parent) => parent !== family.root.executionId);
  return html`<ul class="tree"><${Member} one=${family.root} id=${id} /></ul>
    ${others.length > 0 && html`<p>Waited for by ${others.map((parent) => html`<a href=${`#/executions/${parent}`}><code>${parent.slice(0, 8)}</code></a> `)}</p>`}
    ${family.truncated && html`<p class="quiet">There are more: only the first 200 are shown.</p>`}`;
}

function Member({ one, id }) {
  return html`<li>${one.executionId === id ? html`<b aria-current="true">${one.workflow} <code>${one.executionId.slice(0, 8)}</code></b>`
      : html`<a href=${`#/executions/${one.executionId}`}>${one.workflow || "execution"} <code>${one.executionId.slice(0, 8)}</code></a>`}
    ${" "}<${State} of=${one} />${one.step && html` <span class="quiet">as ${one.step}</span>`}
    ${one.children.length > 0 && html`<ul>${one.children.map((child) => html`<${Member} key=${child.executionId + child.step} one=${child} id=${id} />`)}</ul>`}</li>`;
}
