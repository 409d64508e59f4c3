// The API: requests with the key that the user typed in, errors for people, and polls that cost little.
import { useEffect, useRef, useState } from "./preact-htm.js";

const ROOT = location.pathname.replace(/\/ui\/?$/, "");
const KEY = "functions-key";
const TOKEN = /^eyJ[\w-]+\.[\w-]+\.[\w-]+$/; // of Entra, for an app with sign-in

export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

// A number that a browser would change. It shows as it was written.
export class Exact {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
  valueOf() { return Number(this.text); }
}

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The app answered ${status}.`);
    this.status = status;
    this.body = body;
  }
}

function keepExact(_, value, context) {
  const source = context?.source;
  const digits = source ? source.replace(/[^0-9]/g, "").length : 0;
  return typeof value === "number" && digits > 15 && String(value) !== source ? new Exact(source) : value;
}

const known = new Map();

// GET a path below the API's root. An answer that hasn't changed is the same object as before.
export async function get(path) {
  const before = known.get(path);
  const answer = await send("GET", path, undefined, before ? { "If-None-Match": before.etag } : {});
  if (answer.status === 304) return before.body;
  const body = await read(answer);
  const etag = answer.headers.get("ETag");
  if (etag) {
    known.delete(path);
    known.set(path, { etag, body });
    if (known.size > 60) known.delete(known.keys().next().value);
  }
  return body;
}

// POST or DELETE. `text` is the body as JSON text.
export async function act(method, path, text = "") {
  return read(await send(method, path, text));
}

async function send(method, path, body, headers = {}) {
  if (TOKEN.test(key.get())) headers.Authorization = `Bearer ${key.get()}`;
  else if (key.get()) headers["x-functions-key"] = key.get();
  let answer;
  try {
    answer = await fetch(`${ROOT}/${path}`, { method, body, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Problem(0, { detail: "The app can't be reached." });
  }
  if (answer.status === 401 || answer.status === 403) {
    window.dispatchEvent(new Event("needs-key"));
    throw new Problem(answer.status, { detail: key.get() ? "The app refuses this key." : "The app asks for a key." });
  }
  return answer;
}

async function read(answer) {
  const text = await answer.text();
  let body = {};
  try {
    body = text ? JSON.parse(text, keepExact) : {};
  } catch {
    throw new Problem(answer.status, { detail: `The app answered ${answer.status}, without JSON.` });
  }
  if (!answer.ok) throw new Problem(answer.status, body);
  return body;
}

// Asks `ask` again and again while the page is visible: [answer, problem, ask again].
export function usePoll(ask, dependencies, seconds) {
  const [found, setFound] = useState({});
  const again = useRef(() => {});
  useEffect(() => {
    let timer, stopped = false, running = false, wanted = false;
    async function round() {
      clearTimeout(timer);
      if (running) { wanted = true; return; }
      running = true;
      let pause = seconds;
      try {
        const answer = await ask();
        if (!stopped) setFound((before) => (before.answer === answer && !before.problem ? before : { answer }));
        if (typeof seconds === "function") pause = seconds(answer);
      } catch (problem) {
        if (!stopped) setFound((before) => ({ answer: before.answer, problem }));
        if (typeof seconds === "function") pause = 5;
      }
      running = false;
      if (stopped) return;
      if (wanted) { wanted = false; round(); return; }
      if (!document.hidden && pause) timer = setTimeout(round, pause * 1000);
    }
    const onVisible = () => (document.hidden ? clearTimeout(timer) : round());
    again.current = round;
    setFound({});
    round();
    document.addEventListener("visibilitychange", onVisible);
    window.addEventListener("key-given", round);
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisible);
      window.removeEventListener("key-given", round);
    };
  }, dependencies);
  return [found.answer, found.problem, () => again.current()];
}

// All pages of a route that pages by `continuation`.
export async function getAll(path, list, most = 20_000) {
  const join = path.includes("?") ? "&" : "?";
  let whole = null, page = await get(`${path}${join}limit=10000`);
  if (!page.continuation) return page;
  whole = { ...page, [list]: [...page[list]] };
  while (page.continuation && whole[list].length < most) {
    page = await get(`${path}${join}limit=10000&continuation=${page.continuation}`);
    whole[list].push(...page[list]);
  }
  return { ...whole, continuation: page.continuation };
}
