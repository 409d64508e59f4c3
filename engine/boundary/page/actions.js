// What one can do to an execution. Each action says what it will do, asks, and says what it did.
import { html, useState } from "./preact-htm.js";
import { act } from "./api.js";
import { SchemaForm } from "./forms.js";
import { Dialog, plain, say } from "./ui.js";

const short = (id) => id.slice(0, 8);

export const ACTIONS = {
  interrupt: {
    title: "Interrupt",
    explains: "The workflow's code is cancelled and cleans up: its compensations run. It ends as interrupted. This can't be taken back.",
    did: "was asked to stop",
    reason: true,
    allowed: (one) => one.status === "running" && !one.interrupted,
    run: (id, reason) => act("POST", `executions/${id}/interrupt`, reason ? JSON.stringify({ reason }) : ""),
  },
  resume: {
    title: "Resume",
    explains: "It runs again from where it stands. Do this once the cause is cured, by a deployment or outside.",
    did: "runs again",
    allowed: (one) => one.status === "running" && one.suspended,
    run: (id) => act("POST", `executions/${id}/resume`),
  },
  retry: {
    title: "Retry",
    explains: "The execution is opened again, and the step that failed runs again.",
    did: "was opened again",
    allowed: (one) => ["failed", "interrupted"].includes(one.outcome),
    run: (id) => act("POST", `executions/${id}/retry`),
  },
  terminate: {
    title: "Terminate",
    explains: "It ends at once. Nothing runs any more: no cleanup, no compensation. Its children go on. This can't be taken back.",
    did: "was terminated",
    danger: true,
    allowed: (one) => one.status === "running",
    run: (id) => act("POST", `executions/${id}/terminate`),
  },
  purge: {
    title: "Purge",
    explains: "All that is stored of it is deleted: payload, history, result. This can't be taken back.",
    did: "was purged",
    danger: true,
    allowed: (one) => one.status === "complete",
    run: (id) => act("DELETE", `executions/${id}`),
  },
};

// Asks before an action on one execution.
export function Ask({ name, execution, onClose, onDone }) {
  const action = ACTIONS[name];
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await action.run(execution.executionId, reason.trim());
      say(`${execution.workflow} ${short(execution.executionId)} ${action.did}.`);
      onClose();
      onDone(name);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${`${action.title} ${execution.workflow} ${short(execution.executionId)}?`} onClose=${onClose}>
    <form onSubmit=${go}>
      <p>${action.explains}</p>
      ${action.reason && html`<div class="field"><label for="reason">Reason <span class="quiet">optional</span></label>
        <input id="reason" type="text" maxlength="500" autocomplete="off" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} /></div>`}
      ${problem && html`<p class="notice bad" role="alert">${problem.message}</p>`}
      <div class="buttons"><span class="grow"></span>
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${action.danger ? "danger" : "primary"} disabled=${busy}>${action.title}</button>
      </div>
    </form>
  <//>`;
}

// A form for the value of a deferred, or for one more value of a channel.
export function Give({ step, execution, onClose, onDone }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const isDeferred = step.kind === "deferred";
  const where = isDeferred ? "deferreds" : "channels";
  const submit = async (text) => {
    setBusy(true);
    try {
      await act("POST", `executions/${execution.executionId}/${where}/-?name=${encodeURIComponent(step.name)}`, text);
      say(`${step.name} of ${execution.workflow} ${short(execution.executionId)} ${isDeferred ? "was resolved" : "got a value"}: ${text.slice(0, 120)}`);
      onClose();
      onDone(isDeferred ? "resolve" : "send");
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${isDeferred ? `Resolve ${step.name}?` : `Send to ${step.name}?`} onClose=${onClose}>
    <p>${isDeferred ? "The workflow gets this value, and goes on. The first value wins: it can't be changed." : "The workflow gets one more value."}</p>
    <${SchemaForm} schema=${step.schema} name=${step.name} submit=${isDeferred ? "Resolve" : "Send"} onSubmit=${submit} onCancel=${onClose} busy=${busy} problem=${problem} />
  <//>`;
}

// Starts a new execution from a step of this one, with the same payload or another one.
export function Fork({ execution, steps, step, payload, onClose, onDone }) {
  const [from, setFrom] = useState(step || steps.at(-1) || "");
  const first = payload === undefined ? "" : plain(payload);
  const [text, setText] = useState(first);
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const go = async (event) => {
    event.preventDefault();
    try {
      if (text !== first) JSON.parse(text);
      setBusy(true);
      const edited = text === first ? "" : `, "payload": ${text}`;
      const why = reason.trim() ? `, "reason": ${JSON.stringify(reason.trim())}` : "";
      const fork = await act("POST", `executions/${execution.executionId}/fork`, `{"from": ${JSON.stringify(from)}${edited}${why}}`);
      say(`${execution.workflow} ${short(execution.executionId)} was forked from ${from} as ${short(fork.executionId)}.`);
      onClose();
      onDone("fork");
      location.hash = `#/executions/${fork.executionId}`;
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${`Fork ${execution.workflow} ${short(execution.executionId)}?`} onClose=${onClose}>
    <form onSubmit=${go}>
      <p>A new execution takes over what this one has recorded before the step, and goes on from there. This one stays as it is.</p>
      <div class="field"><label for="from">From step</label>
        <select id="from" onChange=${(event) => setFrom(event.currentTarget.value)}>
          ${steps.map((name) => html`<option value=${name} selected=${name === from}>${name}</option>`)}</select></div>
      <div class="field"><label for="fork-payload">Payload</label>
        <textarea id="fork-payload" rows="6" spellcheck="false" placeholder="the same" onInput=${(event) => setText(event.currentTarget.value)}>${text}</textarea>
        <p class="hint">What you change must matter only after the step.</p></div>
      <div class="field"><label for="reason">Reason <span class="quiet">optional</span></label>
        <input id="reason" type="text" maxlength="500" autocomplete="off" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} /></div>
      ${problem && html`<p class="notice bad" role="alert">${problem.message}</p>`}
      <div class="buttons"><span class="grow"></span>
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="primary" disabled=${busy || !from}>Fork</button>
      </div>
    </form>
  <//>`;
}

const AT_ONCE = 4;

// An action on many: how many it concerns, then how far it is, then what failed.
export function Many({ name, chosen, onClose, onDone }) {
  const action = ACTIONS[name];
  const [{ fitting, total }] = useState(() => ({ fitting: chosen.filter(action.allowed), total: chosen.length }));
  const [reason, setReason] = useState("");
  const [progress, setProgress] = useState(null);
  const go = async (event) => {
    event.preventDefault();
    const left = [...fitting], failed = [];
    let done = 0;
    setProgress({ done, failed: [] });
    const one = async () => {
      for (let next = left.shift(); next; next = left.shift()) {
        try {
          await action.run(next.executionId, reason.trim());
        } catch (error) {
          failed.push([next, error.message]);
        }
        done += 1;
        setProgress({ done, failed: [...failed] });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    setProgress({ done, failed, over: true });
    const well = fitting.length - failed.length;
    say(`${action.title}: ${well} of ${fitting.length} done${failed.length ? `, ${failed.length} refused` : ""}.`, failed.length > 0);
    onDone();
  };
  const sample = fitting.slice(0, 5);
  return html`<${Dialog} title=${`${action.title} ${fitting.length} execution${fitting.length === 1 ? "" : "s"}?`} onClose=${onClose}>
    <form onSubmit=${go}>
      <p>${action.explains.replace(/^It /, "Each one ")}</p>
      ${fitting.length < total && html`<p>${total - fitting.length} of the ${total} chosen can't be asked that, and are left alone.</p>`}
      <ul class="sample">${sample.map((one) => html`<li>${one.workflow} <code>${short(one.executionId)}</code></li>`)}
        ${fitting.length > sample.length && html`<li class="quiet">and ${fitting.length - sample.length} more</li>`}</ul>
      ${action.reason && !progress && html`<div class="field"><label for="reason">Reason <span class="quiet">optional</span></label>
        <input id="reason" type="text" maxlength="500" autocomplete="off" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} /></div>`}
      ${progress && html`<div class="field"><label for="progress">${progress.done} of ${fitting.length}</label>
        <progress id="progress" max=${fitting.length} value=${progress.done}></progress></div>`}
      ${progress?.failed.length > 0 && html`<ul class="fields" role="alert">${progress.failed.slice(0, 20).map(([one, why]) => html`<li>${one.workflow} <code>${short(one.executionId)}</code>: ${why}</li>`)}</ul>`}
      <div class="buttons"><span class="grow"></span>
        <button type="button" onClick=${onClose}>${progress?.over ? "Close" : "Cancel"}</button>
        ${!progress && html`<button type="submit" class=${action.danger ? "danger" : "primary"} disabled=${!fitting.length}>${action.title}</button>`}
      </div>
    </form>
  <//>`;
}
