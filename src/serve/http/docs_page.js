"use strict";
/* The page at /docs: reads openapi.json and makes a form of every call. Texts from the server
 * only ever become text nodes. The key is kept in sessionStorage: it ends with the tab. */
(() => {
  const KEY = "anybox-key";
  const $ = (id) => document.getElementById(id);
  /* Behind a proxy all of it may be below a folder. */
  const ROOT = new URL(".", location.href).pathname;
  let api = null, calls = [], running = null;

  /* el("p", {class: "x", onclick: f}, "text", child...) */
  function el(name, props, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(props || {})) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value === true) node.setAttribute(key, "");
      else if (value !== false && value != null) node.setAttribute(key, value);
    }
    node.append(...children.flat().filter((c) => c != null && c !== false));
    return node;
  }

  const resolve = (v) => (v && v.$ref ? v.$ref.slice(2).split("/").reduce((o, k) => o[k], api) : v);

  function readCalls() {
    for (const [path, item] of Object.entries(api.paths)) {
      for (const method of ["get", "put", "post", "delete"]) {
        const op = item[method];
        if (!op) continue;
        const parameters = [...(item.parameters || []), ...(op.parameters || [])].map(resolve);
        const types = op.requestBody ? op.requestBody.content : {};
        calls.push({
          id: op.operationId, method: method.toUpperCase(), path, op, parameters,
          tag: (op.tags || ["server"])[0],
          body: types["application/json"] ? "json" : op.requestBody ? "file" : "",
          schema: (types["application/json"] || {}).schema || {},
          isTool: path.startsWith("/mcp/tools/"),
          open: op.security && op.security.length === 0,
        });
      }
    }
  }

  /* ---- the list ---- */

  function showList() {
    const words = $("filter").value.trim().toLowerCase();
    const current = location.hash.slice(1);
    const groups = api.tags.map((tag) => {
      const rows = calls.filter((c) => c.tag === tag.name &&
        (c.id + " " + c.path + " " + c.op.summary).toLowerCase().includes(words));
      if (rows.length === 0) return null;
      return el("section", {}, el("h2", {}, tag.name), el("ul", {}, rows.map((c) =>
        el("li", {}, el("a", { href: "#" + c.id, "aria-current": c.id === current && "page", title: c.op.summary }, c.id)))));
    }).filter(Boolean);
    $("list").replaceChildren(...(groups.length ? groups : [el("p", { class: "none" }, "No call has this in it.")]));
  }

  function showOverview() {
    document.title = "anybox";
    $("main").replaceChildren(
      el("h1", {}, api.info.summary || api.info.title),
      el("p", { class: "prose" }, api.info.description.split("\n\n")[0]),
      ...api.tags.map((tag) => [
        el("h2", { class: "part" }, (tag.description || tag.name).replace(/\.$/, "")),
        el("div", { class: "cards" }, calls.filter((c) => c.tag === tag.name).map((c) =>
          el("a", { class: "card", href: "#" + c.id }, el("b", {}, c.id), el("span", {}, c.op.summary)))),
      ]).flat(),
      el("h2", { class: "part" }, "Errors"),
      el("p", { class: "prose soft" }, api.info.description.split("\n\n").slice(1).join("\n\n")),
    );
  }

  /* ---- one call ---- */

  const LONG = /^(command|code|content|cmd|script|text)$/;

  function inputFor(name, schema, id, required) {
    const base = { id, name, required };
    const placeholder = schema.default !== undefined ? String(schema.default) : null;
    if (schema.enum)
      return el("select", base, el("option", { value: "" }, placeholder || "(not given)"),
        schema.enum.map((v) => el("option", { value: v }, v)));
    if (schema.type === "boolean")
      return el("select", base, el("option", { value: "" }, `(not given: ${schema.default === true})`),
        el("option", { value: "true" }, "true"), el("option", { value: "false" }, "false"));
    if (schema.type === "integer" || schema.type === "number")
      return el("input", { ...base, type: "number", step: schema.type === "integer" ? "1" : "any", placeholder });
    if (schema.type === "array")
      return el("textarea", { ...base, rows: 2, spellcheck: "false", placeholder: "one on each line" });
    if (schema.type === "object")
      return el("textarea", { ...base, rows: 2, spellcheck: "false", placeholder: "NAME=value, one on each line" });
    if (LONG.test(name))
      return el("textarea", { ...base, rows: 3, spellcheck: "false", placeholder });
    return el("input", { ...base, type: "text", spellcheck: "false", autocapitalize: "none", autocomplete: "off", placeholder });
  }

  function valueOf(input, schema) {
    const text = input.value;
    if (text === "") return undefined;
    const lines = text.split("\n").filter((l) => l.trim() !== "");
    if (schema.enum || schema.type === "string") return text;
    if (schema.type === "boolean") return text === "true";
    if (schema.type === "integer" || schema.type === "number") return Number(text);
    if (schema.type === "array") return lines;
    if (schema.type === "object")
      return Object.fromEntries(lines.map((l) => [l.split("=", 1)[0].trim(), l.slice(l.indexOf("=") + 1)]));
    return text;
  }

  function field(name, schema, required, help, where) {
    const id = "in-" + name;
    const input = inputFor(name, schema, id, required);
    input.setAttribute("aria-describedby", id + "-help");
    const kind = schema.enum ? "one of" : schema.type === "array" ? "list" : schema.type || "any";
    const row = el("div", { class: "field" },
      el("div", {}, el("label", { for: id }, name), el("span", { class: "type" }, kind, where ? ", " + where : ""),
        required ? el("span", { class: "must" }, " required") : null),
      el("div", {}, input, el("p", { class: "help", id: id + "-help" }, help || "")));
    return { name, schema, input, row, where };
  }

  function fieldsOf(call) {
    const out = call.parameters.map((p) => field(p.name, p.schema || {}, p.required, p.description, p.in === "query" ? "" : p.in));
    call.parameters.forEach((p, i) => { out[i].where = p.in; });
    for (const [name, schema] of Object.entries(call.schema.properties || {}))
      out.push({ ...field(name, schema, (call.schema.required || []).includes(name), schema.description), where: "body" });
    if (call.body === "json" && !call.isTool) {
      const raw = field("body", { type: "string" }, true, "one JSON object");
      const area = el("textarea", { id: "in-body", name: "body", rows: 6, spellcheck: "false", required: true });
      area.value = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }, null, 2);
      raw.input.replaceWith(area);
      out.push({ ...raw, input: area, where: "raw" });
    }
    if (call.body === "file") {
      const file = field("file", { type: "string" }, true, "what becomes the file in the sandbox");
      const chooser = el("input", { id: "in-file", name: "file", type: "file", required: true });
      file.input.replaceWith(chooser);
      out.push({ ...file, input: chooser, where: "file" });
    }
    return out;
  }

  /* What fetch() gets. */
  function requestOf(call, fields) {
    const query = new URLSearchParams(), headers = {}, body = {};
    let payload;
    for (const f of fields) {
      if (f.where === "file") { payload = f.input.files[0]; continue; }
      if (f.where === "raw") { payload = f.input.value; continue; }
      const value = valueOf(f.input, f.schema);
      if (value === undefined) continue;
      if (f.where === "body") body[f.name] = value;
      else if (f.where === "header") headers[f.name] = value;
      else query.set(f.name, value);
    }
    if (call.isTool) payload = JSON.stringify(body);
    if (call.body === "json") headers["Content-Type"] = "application/json";
    if (call.tag === "mcp") headers["Accept"] = "application/json, text/event-stream";
    const search = query.toString();
    return { url: ROOT + call.path.slice(1) + (search ? "?" + search : ""), method: call.method, headers, payload };
  }

  const quoted = (s) => "'" + s.replaceAll("'", "'\\''") + "'";

  function curlOf(call, request) {
    const verb = request.method === "GET" || (request.method === "POST" && request.payload != null) ? "" : "-X " + request.method + " ";
    const words = ["curl " + verb + quoted(location.origin + request.url)];
    if (!call.open) words.push('-H "Authorization: Bearer $ANYBOX_KEY"');
    for (const [name, value] of Object.entries(request.headers)) words.push("-H " + quoted(name + ": " + value));
    if (call.body === "file") words.push("--data-binary @" + (request.payload ? quoted(request.payload.name) : "FILE"));
    else if (request.payload != null) words.push("-d " + quoted(request.payload));
    return words.join(" \\\n  ");
  }

  function showCall(call) {
    document.title = call.id + " · anybox";
    const fields = fieldsOf(call);
    const curl = el("pre", { id: "curl", tabindex: "0" });
    const answer = el("div", { class: "answer", id: "answer", "aria-live": "polite" }, el("p", { class: "hint" }, "Nothing was called yet."));
    const copy = el("button", { class: "small", type: "button" }, "Copy");
    const run = el("button", { class: "run", type: "submit", id: "run" }, "Run");
    const stop = el("button", { type: "button", id: "stop", disabled: true }, "Stop");
    const refresh = () => { curl.textContent = curlOf(call, requestOf(call, fields)); };
    const form = el("form", { id: "form", autocomplete: "off", novalidate: true },
      fields.length ? el("div", { class: "fields" }, fields.map((f) => f.row)) : el("p", { class: "hint" }, "No parameters."),
      el("div", { class: "actions" }, run, stop, el("span", { class: "hint" }, el("kbd", {}, "Ctrl"), " ", el("kbd", {}, "Enter"), " runs it")));
    form.addEventListener("input", refresh);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (form.reportValidity()) start(call, requestOf(call, fields), { answer, run, stop });
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
    });
    stop.addEventListener("click", () => running && running.abort());
    copy.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(curl.textContent); copy.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(curl); copy.textContent = "Selected"; }
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
    $("main").replaceChildren(
      el("h1", {}, call.op.summary),
      el("p", { class: "path" }, el("span", { class: "verb" }, call.method), el("code", {}, call.path),
        call.op["x-read-only"] ? el("span", { class: "tag" }, "only reads") : null,
        call.op["x-destructive"] ? el("span", { class: "tag warn" }, "can destroy") : null,
        call.open ? el("span", { class: "tag" }, "no key needed") : null),
      el("p", { class: "prose" }, call.op.description || ""),
      el("h2", { class: "part" }, "Try it"), form,
      el("h2", { class: "part" }, "Answer"), answer,
      el("h2", { class: "part" }, "From a shell", copy), curl);
    refresh();
  }

  /* ---- running ---- */

  async function start(call, request, ui) {
    if (running) return;
    running = new AbortController();
    ui.run.disabled = true;
    ui.stop.disabled = false;
    ui.answer.replaceChildren(el("p", { class: "hint" }, "Running…"));
    const began = performance.now();
    try {
      const headers = { ...request.headers };
      const key = sessionStorage.getItem(KEY);
      if (key && !call.open) headers.Authorization = "Bearer " + key;
      const response = await fetch(request.url, { method: request.method, headers, body: request.payload, signal: running.signal, cache: "no-store", credentials: "omit" });
      const blob = await response.blob();
      await showAnswer(ui.answer, call, response, blob, performance.now() - began);
      if (response.status === 401) keyState("refused", "bad");
    } catch (error) {
      const why = error.name === "AbortError" ? "Stopped: the call was taken back." : "No answer came: " + error.message;
      ui.answer.replaceChildren(el("p", { class: "status bad" }, el("b", {}, why)));
    }
    running = null;
    ui.run.disabled = false;
    ui.stop.disabled = true;
  }

  const size = (n) => (n < 1024 ? n + " B" : n < 1048576 ? (n / 1024).toFixed(1) + " KiB" : (n / 1048576).toFixed(1) + " MiB");

  async function showAnswer(to, call, response, blob, ms) {
    const type = response.headers.get("Content-Type") || "";
    const parts = [el("p", { class: "status " + (response.ok ? "ok" : "bad") },
      el("b", {}, response.status + " " + response.statusText),
      el("span", {}, ms < 10 ? ms.toFixed(1) + " ms" : Math.round(ms) + " ms"), el("span", {}, size(blob.size)), el("span", {}, type))];
    if (type.startsWith("application/json")) parts.push(...jsonParts(await blob.text()));
    else if (/^text\//.test(type) && blob.size < 1048576) parts.push(el("pre", { tabindex: "0" }, await blob.text()));
    if (call.id === "get_file" && response.ok) {
      const url = URL.createObjectURL(blob);
      parts.push(el("p", {}, el("a", { href: url, download: $("in-file_path").value.split("/").pop() || "file" }, "Save it")));
    }
    to.replaceChildren(...parts);
  }

  function jsonParts(text) {
    let value;
    try { value = JSON.parse(text); } catch { return [el("pre", { tabindex: "0" }, text)]; }
    const parts = [];
    for (const name of ["error", "stdout", "stderr", "content"]) {
      if (value && typeof value[name] === "string" && value[name] !== "" && value.encoding !== "base64")
        parts.push(el("div", {}, el("h3", {}, name),
          el("pre", { class: name === "error" || name === "stderr" ? "err" : null, tabindex: "0", "data-part": name }, value[name])));
    }
    const pretty = el("pre", { tabindex: "0", "data-part": "json" });
    paint(pretty, JSON.stringify(value, null, 2));
    parts.push(parts.length ? el("div", {}, el("h3", {}, "all of it"), pretty) : pretty);
    return parts;
  }

  /* Names, strings, numbers and words of JSON in colour; all else as it is. */
  function paint(pre, json) {
    if (json.length > 200000) { pre.textContent = json; return; }
    const token = /("(?:\\.|[^"\\])*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b/g;
    let at = 0;
    for (const match of json.matchAll(token)) {
      pre.append(json.slice(at, match.index));
      const kind = match[1] ? (match[2] ? "k" : "s") : /^[tfn]/.test(match[0]) ? "w" : "n";
      pre.append(el("span", { class: kind }, match[1] || match[0]), match[2] || "");
      at = match.index + match[0].length;
    }
    pre.append(json.slice(at));
  }

  /* ---- the key ---- */

  function keyState(text, kind) {
    $("key-state").textContent = text;
    $("key-state").className = "state " + (kind || "");
  }

  async function checkKey() {
    const key = sessionStorage.getItem(KEY);
    const headers = key ? { Authorization: "Bearer " + key } : {};
    try {
      const response = await fetch(ROOT + "sandbox/file", { headers, method: "HEAD", cache: "no-store", credentials: "omit" });
      if (response.status === 401) keyState(key ? "refused" : "needed", "bad");
      else keyState(key ? "accepted" : "not needed", "ok");
    } catch { keyState("no answer", "bad"); }
  }

  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = $("key").value.trim();
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
    checkKey();
  });

  /* ---- start ---- */

  function route() {
    const call = calls.find((c) => c.id === location.hash.slice(1));
    if (location.hash === "#main") return;
    if (running) running.abort();
    if (call) showCall(call);
    else showOverview();
    showList();
    scrollTo(0, 0);
  }

  async function main() {
    $("key").value = sessionStorage.getItem(KEY) || "";
    checkKey();
    try {
      api = await (await fetch(ROOT + "openapi.json", { credentials: "omit" })).json();
    } catch (error) {
      $("main").replaceChildren(el("p", { class: "status bad" }, el("b", {}, "openapi.json could not be read: " + error.message)));
      return;
    }
    $("version").textContent = api.info.version;
    readCalls();
    $("filter").addEventListener("input", showList);
    addEventListener("hashchange", route);
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
        event.preventDefault();
        $("filter").focus();
      }
    });
    route();
  }
  main();
})();
