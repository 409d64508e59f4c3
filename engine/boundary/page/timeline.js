// The timeline: a row for each step, with its attempts, over the life of the execution.
import { html, useContext, useLayoutEffect, useMemo, useRef, useState } from "./preact-htm.js";
import { Rows, Settings, moment, span, useNarrow } from "./ui.js";

const ROW = 26;
const MARKS = { activity: "◆", timer: "◷", deferred: "✉", channel: "≡", child: "↳" };

function ticks(from, to) {
  const length = (to - from) / 1000;
  const steps = [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 604800, 2592000, 31536000];
  const step = steps.find((size) => length / size <= 6) || steps[steps.length - 1];
  const found = [];
  for (let at = 0; at <= length && found.length < 8; at += step) found.push(at);
  return found;
}

export function Timeline({ execution, steps, events }) {
  const { utc } = useContext(Settings);
  const narrow = useNarrow();
  const label = narrow ? 118 : 230;
  const box = useRef();
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(260, Math.floor(entry.contentRect.width))));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const { from, to, rows, takeovers } = useMemo(() => {
    const tries = new Map();
    for (const event of events) {
      if (event.kind === "attempt") tries.set(event.step, [...(tries.get(event.step) || []), event]);
    }
    const begin = new Date(execution.createdAt).getTime();
    const latest = Math.max(begin, ...[execution.completedAt || execution.updatedAt].map((at) => new Date(at).getTime()));
    let end = latest;
    for (const step of steps) end = Math.max(end, new Date(step.endedAt || step.since).getTime());
    for (const event of events) end = Math.max(end, new Date(event.at).getTime());
    if (execution.status === "running") end = Math.max(end, Math.min(Date.now(), end + 3.6e6 * 24 * 365));
    const used = new Set();
    const shown = steps.map((step) => {
      const first = !used.has(step.step);
      used.add(step.step);
      return { ...step, tries: first ? tries.get(step.step) || [] : [] };
    });
    return { from: begin, to: Math.max(end, begin + 1), rows: shown, takeovers: events.filter((event) => event.kind === "takeover") };
  }, [execution, steps, events]);
  const room = Math.max(80, width - label - 26);
  const x = (at) => label + ((typeof at === "number" ? at : new Date(at).getTime()) - from) / (to - from) * room;
  const axis = ticks(from, to);
  const told = (step) => {
    const ends = step.endedAt ? new Date(step.endedAt).getTime() : to;
    const length = span((ends - new Date(step.since).getTime()) / 1000);
    const line = step.stack[0];
    return `${step.kind} ${step.step}: ${step.state === "open" ? `waiting for ${length}` : `${step.state} after ${length}`}`
      + `${step.tries.length ? `, ${step.tries.length} failed attempt${step.tries.length > 1 ? "s" : ""}` : ""}`
      + `, since ${moment(step.since, utc)}${line ? `, ${line.file}:${line.line}` : ""}`;
  };
  return html`<div class="timeline" ref=${box}>
    <svg class="axis" width=${width} height="22" aria-hidden="true">
      ${axis.map((at) => html`<g><line x1=${x(from + at * 1000)} x2=${x(from + at * 1000)} y1="16" y2="22" />
        <text x=${x(from + at * 1000)} y="12">${at === 0 ? "0" : span(at)}</text></g>`)}
    </svg>
    <${Rows} items=${rows} height=${ROW} label="Timeline of steps" most=${ROW * 14} render=${(step, n, of) => {
      const start = x(step.since), end = step.endedAt ? x(step.endedAt) : x(to);
      const ends = Math.max(end, start + 3);
      const text = told(step);
      return html`<div class="row bar-row" key=${n} role="listitem" aria-posinset=${n + 1} aria-setsize=${of} title=${text} aria-label=${text}>
        <svg width=${width} height=${ROW} aria-hidden="true">
          ${takeovers.map((event) => html`<line class="takeover" x1=${x(event.at)} x2=${x(event.at)} y1="0" y2=${ROW} />`)}
          <line class="ground" x1=${label} x2=${label + room} y1=${ROW / 2} y2=${ROW / 2} />
          <rect class="step ${step.kind} ${step.state}" x=${start} y="6" width=${ends - start} height=${ROW - 12} rx="3" />
          ${step.tries.map((event) => html`<path class="attempt" d=${`M${x(event.at) - 3.5} ${ROW / 2 - 3.5}l7 7m0 -7l-7 7`} />`)}
          <text class="label" x="4" y=${ROW / 2 + 4}><tspan class="glyph">${MARKS[step.kind]}</tspan> ${cut(step.step, narrow ? 13 : 28)}</text>
        </svg>
      </div>`;
    }} />
    <p class="legend"><span><i class="key activity"></i>activity</span><span><i class="key timer"></i>timer</span><span><i class="key outside"></i>waits for outside</span>
      <span><i class="key child"></i>child</span><span><i class="key open"></i>open</span><span><b class="cross">×</b> failed attempt</span>
      ${takeovers.length > 0 && html`<span><i class="key takeover"></i>another process took over</span>`}</p>
  </div>`;
}

const cut = (text, size) => (text.length > size ? `${text.slice(0, size - 1)}…` : text);
