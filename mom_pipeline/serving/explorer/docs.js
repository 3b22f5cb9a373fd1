// The addresses of the OpenAPI document, each with a form that asks it.
"use strict";

const EXAMPLE = JSON.stringify({ items: ["an item", "another one"], n: 5 }, null, 2);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function field(parameter) {
  const { name, required = false, description = "", schema } = parameter;
  const input = element("input", { name, required, spellcheck: false, placeholder: String(schema.default ?? "") });
  return element("label", {}, `${name}${required ? "" : " (optional)"} ${description}`, input);
}

function address(path, parameters, form) {
  const value = (name) => form.elements.namedItem(name).value;
  const asked = new URLSearchParams();
  for (const { name, in: place } of parameters) {
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value(name)));
    else if (value(name)) asked.set(name, value(name));
  }
  return asked.size ? `${path}?${asked}` : path;
}

async function send(form, output, method, path, parameters) {
  const options = { method: method.toUpperCase() };
  if (method === "post") {
    options.headers = { "Content-Type": "application/json" };
    options.body = form.elements.namedItem("body").value;
  }
  const to = address(path, parameters, form);
  output.textContent = `${options.method} ${to}\n…`;
  try {
    const response = await fetch(to, options);
    const text = await response.text();
    output.textContent = `${options.method} ${to}\n${response.status} ${response.statusText}\n\n${indented(text)}`;
  } catch (error) {
    output.textContent = `${options.method} ${to}\n${error.message}`;
  }
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function operation(path, method, said) {
  const parameters = said.parameters || [];
  const output = element("pre", { tabIndex: 0, ariaLabel: "Answer", ariaLive: "polite" });
  const fields = parameters.map(field);
  if (method === "post") {
    fields.push(element("label", {}, "body", element("textarea", { name: "body", rows: 6, value: EXAMPLE })));
  }
  const form = element("form", {}, ...fields, element("button", { className: "main", textContent: "Ask" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, output, method, path, parameters);
  });
  return element("details", {},
    element("summary", {}, element("span", { className: "method", textContent: method.toUpperCase() }),
      element("code", { textContent: path }), " ", element("span", { className: "soft", textContent: said.description })),
    form, output);
}

async function start() {
  const said = await (await fetch("/openapi.json")).json();
  const operations = Object.entries(said.paths).flatMap(([path, methods]) => (
    Object.entries(methods).map(([method, what]) => operation(path, method, what))));
  document.getElementById("addresses").replaceChildren(...operations);
}

start();
