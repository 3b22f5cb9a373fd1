// The addresses of the OpenAPI document, each with a form that asks it and an example that runs
// for every parameter, made of what the service knows.
"use strict";

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function get(path) {
  return (await fetch(path)).json();
}

async function knownExamples() {
  const found = await get("/search?n=3");
  const users = found.users || ["somebody"];
  const items = (found.items || [{ item: "something", name: "" }]).map((entry) => entry.item);
  const use = await get(`/items/${encodeURIComponent(items[0])}`);
  const text = (use.name || items[0]).slice(0, 3);
  const known = { user: users[0], users, item: items[0], items: { [items[0]]: 2, [items[items.length - 1]]: 0.5 } };
  const told = { type: "purchase", time: new Date().toISOString(), id: "order-1", place: 1, hidden: false, boost: 1.2 };
  const { version } = await get("/model");
  const groups = (await get("/groups")).groups || [{ name: "1" }];
  const people = { name: groups[0].name, against: groups[groups.length - 1].name, at_least: "0.5" };
  const order = { max_per_group: 2, diversity: 0.3, track: true };
  return { ...known, ...told, ...order, ...people, model: version, only: items, not: items.slice(0, 1), group: (use.groups || [])[0], n: 5, seen: true, q: text };
}

function row(name, isRequired, said, example, use) {
  const text = typeof example === "string" ? example : JSON.stringify(example);
  const button = example === undefined
    ? element("span", { className: "soft", textContent: "no item of this catalogue has one" })
    : element("button", { type: "button", textContent: text, ariaLabel: `Use ${text} for ${name}`, onclick: use });
  return element("tr", {}, element("th", { scope: "row" }, element("code", { textContent: name })),
    element("td", { textContent: `${said}${isRequired ? " Required." : ""}` }), element("td", {}, button));
}

function described(rows) {
  const head = ["parameter", "what it is", "example; click to use it"];
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map(
    (textContent) => element("th", { scope: "col", textContent })))), element("tbody", {}, ...rows));
}

function asking(kind, path, fields, request) {
  const output = element("pre", { tabIndex: 0, ariaLabel: "Answer", ariaLive: "polite" });
  const form = element("form", {}, ...fields, element("button", { className: "main", textContent: "Ask" }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [address, options] = request();
    output.textContent = `${kind} ${address}\n…`;
    try {
      const response = await fetch(address, options);
      output.textContent = `${kind} ${address}\n${response.status} ${response.statusText}\n\n${indented(await response.text())}`;
    } catch (error) {
      output.textContent = `${kind} ${address}\n${error.message}`;
    }
  });
  return [form, output];
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function details(kind, path, said, ...content) {
  return element("details", {}, element("summary", {}, element("span", { className: "method", textContent: kind }),
    element("code", { textContent: path }), " ", element("span", { className: "soft", textContent: said })), ...content);
}

function getting(path, said, examples) {
  const parameters = said.parameters || [];
  const inputs = new Map(parameters.map(({ name, required = false }) => [name, element("input", {
    name, required, spellcheck: false, ariaLabel: name, value: required ? examples[name] : "" })]));
  const given = { ...examples, track: "1" };
  const rows = parameters.map(({ name, required, description }) => row(name, required, description, given[name],
    () => { inputs.get(name).value = given[name]; }));
  const labels = [...inputs].map(([name, input]) => element("label", {}, name, input));
  const request = () => {
    let address = path;
    const asked = new URLSearchParams();
    for (const { name, in: place } of parameters) {
      const { value } = inputs.get(name);
      if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(value));
      else if (value) asked.set(name, value);
    }
    return [asked.size ? `${address}?${asked}` : address, {}];
  };
  return details("GET", path, said.description, ...(rows.length ? [described(rows)] : []), ...asking("GET", path, labels, request));
}

function telling(kind, path, schema, known) {
  const { properties, required = [] } = schema;
  // A list that was shown has an order; what was taken, weights.
  const examples = properties.items && properties.items.type === "array" ? { ...known, items: known.only } : known;
  const body = element("textarea", { rows: 9, spellcheck: false, ariaLabel: "body" });
  const write = (value) => { body.value = JSON.stringify(value, null, 2); };
  write(Object.fromEntries([...required, "n"].filter((name) => properties[name]).map((name) => [name, examples[name]])));
  const rows = Object.entries(properties).map(([name, { description }]) => row(
    name, required.includes(name), description, examples[name],
    () => { write({ ...JSON.parse(body.value || "{}"), [name]: examples[name] }); }));
  const address = path.replace("{item}", encodeURIComponent(examples.item));
  const options = () => [address, { method: kind, headers: { "Content-Type": "application/json" }, body: body.value }];
  return details(kind, path, schema.description, described(rows), ...asking(kind, path, [body], options));
}

function bodies(kind, path, said, examples) {
  const { anyOf } = said.requestBody.content["application/json"].schema;
  return anyOf.filter((schema) => schema.properties).map((schema) => telling(kind, path, schema, examples));
}

async function start() {
  const [said, examples] = await Promise.all([get("/openapi.json"), knownExamples()]);
  const operations = Object.entries(said.paths).flatMap(([path, { get: asked, post, put }]) => [
    ...(asked ? [getting(path, asked, examples)] : []),
    ...(post ? bodies("POST", path, post, examples) : []),
    ...(put ? bodies("PUT", path, put, examples) : []),
  ]);
  document.getElementById("addresses").replaceChildren(...operations);
}

start();
