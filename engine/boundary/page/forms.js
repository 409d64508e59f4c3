// A form made from a JSON Schema. It gives JSON text: a long number keeps every digit.
import { html, useState } from "./preact-htm.js";

const MAX_DEPTH = 4;

function resolved(schema, root) {
  let found = schema;
  for (let n = 0; n < 8 && found?.$ref; n++) {
    const path = found.$ref.replace(/^#\//, "").split("/");
    found = path.reduce((at, name) => at?.[name.replaceAll("~1", "/").replaceAll("~0", "~")], root);
  }
  return found || {};
}

function kindOf(schema, root, depth) {
  if (schema.enum || schema.const !== undefined) return "choice";
  const any = schema.anyOf || schema.oneOf;
  if (any) {
    const some = any.map((part) => resolved(part, root)).filter((part) => part.type !== "null");
    if (some.length === 1) return kindOf(some[0], root, depth);
    if (some.every((part) => ["number", "string"].includes(part.type)) && some.some((part) => part.type === "number")) return "number";
    return "json";
  }
  if (schema.type === "object" && schema.properties && depth < MAX_DEPTH) return "object";
  if (["string", "integer", "number", "boolean", "null"].includes(schema.type)) return schema.type;
  return "json";
}

function inner(schema, root) {
  const any = schema.anyOf || schema.oneOf;
  const some = any ? any.map((part) => resolved(part, root)).filter((part) => part.type !== "null") : [];
  return some.length === 1 ? { ...some[0], title: schema.title || some[0].title, default: schema.default } : schema;
}

const isNullable = (schema) => (schema.anyOf || schema.oneOf || []).some((part) => part.type === "null");

function start(schema, root, depth) {
  if (schema.default !== undefined && (schema.default === null || typeof schema.default !== "object")) {
    return typeof schema.default === "string" || schema.default === null ? schema.default : String(schema.default);
  }
  switch (kindOf(schema, root, depth)) {
    case "object": return Object.fromEntries(Object.keys(inner(schema, root).properties).map((name) => [name, start(resolved(inner(schema, root).properties[name], root), root, depth + 1)]));
    case "boolean": return "false";
    default: return "";
  }
}

// JSON text of what was typed in. Throws an Error that names the field.
function write(schema, root, typed, depth, name, required) {
  const kind = kindOf(schema, root, depth);
  const shape = inner(schema, root);
  if (kind === "object") {
    const wanted = new Set(shape.required || []);
    const parts = Object.entries(shape.properties).map(([part, of]) => {
      const text = write(resolved(of, root), root, typed?.[part], depth + 1, part, wanted.has(part));
      return text === null ? null : `${JSON.stringify(part)}: ${text}`;
    });
    return `{${parts.filter((part) => part !== null).join(", ")}}`;
  }
  const text = typed ?? "";
  if (text === "" && kind !== "string") {
    if (isNullable(schema)) return required ? "null" : null;
    if (!required) return null;
    if (kind === "null") return "null";
    throw new Error(`${name}: a value is missing`);
  }
  switch (kind) {
    case "choice": return text;
    case "null": return "null";
    case "boolean": return text === "true" ? "true" : "false";
    case "integer":
    case "number":
      if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim())) throw new Error(`${name}: ${text} is no number`);
      return text.trim();
    case "string":
      return text === "" && !required && isNullable(schema) ? null : JSON.stringify(text);
    default:
      try { JSON.parse(text); } catch (error) { throw new Error(`${name}: this is not JSON: ${error.message}`); }
      return text;
  }
}

function Field({ schema, root, typed, onInput, depth, name, id, required }) {
  const kind = kindOf(schema, root, depth);
  const shape = inner(schema, root);
  const label = html`<label for=${id}>${name}${required ? "" : html` <span class="quiet">optional</span>`}</label>`;
  const hint = shape.description && html`<p class="hint" id=${`${id}-hint`}>${shape.description}</p>`;
  const common = { id, "aria-describedby": shape.description ? `${id}-hint` : undefined, "data-field": name };
  if (kind === "object") {
    const wanted = new Set(shape.required || []);
    return html`<fieldset><legend>${name}</legend>${hint}
      ${Object.entries(shape.properties).map(([part, of]) => html`<${Field} key=${part} schema=${resolved(of, root)} root=${root}
        typed=${typed?.[part]} depth=${depth + 1} name=${part} id=${`${id}-${part}`} required=${wanted.has(part)}
        onInput=${(text) => onInput({ ...typed, [part]: text })} />`)}
    </fieldset>`;
  }
  const given = (event) => onInput(event.currentTarget.value);
  if (kind === "boolean") {
    return html`<div class="field check"><input type="checkbox" ...${common} checked=${typed === "true"}
      onChange=${(event) => onInput(event.currentTarget.checked ? "true" : "false")} />${label}${hint}</div>`;
  }
  if (kind === "choice") {
    const choices = shape.enum || [shape.const];
    return html`<div class="field">${label}<select ...${common} onChange=${given}>
      <option value="" selected=${!typed}>–</option>
      ${choices.map((one) => html`<option value=${JSON.stringify(one)} selected=${typed === JSON.stringify(one)}>${String(one)}</option>`)}
    </select>${hint}</div>`;
  }
  if (kind === "null") return html`<p>It takes no value.</p>`;
  if (kind === "json") {
    return html`<div class="field">${label}<textarea ...${common} rows="5" spellcheck="false" placeholder="JSON" onInput=${given}>${typed || ""}</textarea>${hint}</div>`;
  }
  const numeric = kind === "integer" || kind === "number";
  return html`<div class="field">${label}<input ...${common} type="text" inputmode=${numeric ? "decimal" : "text"} autocomplete="off"
    value=${typed ?? ""} onInput=${given} />${hint}</div>`;
}

// `onSubmit` gets JSON text. A switch shows the value as JSON instead of the form.
export function SchemaForm({ schema, name, submit, onSubmit, onCancel, busy, problem }) {
  const root = schema || {};
  const whole = resolved(root, root);
  const [typed, setTyped] = useState(() => start(whole, root, 0));
  const [json, setJson] = useState(null);
  const [wrong, setWrong] = useState("");
  const text = () => (json === null ? write(whole, root, typed, 0, name, true) : (JSON.parse(json), json));
  const onSent = (event) => {
    event.preventDefault();
    try {
      onSubmit(text());
      setWrong("");
    } catch (error) {
      setWrong(error.message);
    }
  };
  const swap = () => {
    if (json !== null) { setJson(null); return; }
    let shown = "";
    try { shown = text(); } catch { shown = ""; }
    setJson(shown);
  };
  const said = wrong || (problem ? problem.message : "");
  return html`<form onSubmit=${onSent} novalidate>
    ${json === null
      ? html`<${Field} schema=${whole} root=${root} typed=${typed} onInput=${setTyped} depth=${0} name=${name} id="field" required=${true} />`
      : html`<div class="field"><label for="json">${name} as JSON</label>
        <textarea id="json" rows="8" spellcheck="false" onInput=${(event) => setJson(event.currentTarget.value)}>${json}</textarea></div>`}
    ${said && html`<p class="notice bad" role="alert">${said}</p>`}
    ${problem?.body?.fields?.length > 0 && html`<ul class="fields">${problem.body.fields.map((field) => html`<li><code>${field.field}</code>: ${field.problem}</li>`)}</ul>`}
    <div class="buttons">
      <button type="button" class="link" onClick=${swap}>${json === null ? "Write JSON" : "Use the form"}</button>
      <span class="grow"></span>
      <button type="button" onClick=${onCancel}>Cancel</button>
      <button type="submit" class="primary" disabled=${busy}>${submit}</button>
    </div>
  </form>`;
}
