// The explorer. Ids and names are other people's text: all of it is put into the page as text.
"use strict";

const LIST = 12;
const HISTORY = 20;
const TYPING_PAUSE = 150;
const SVG = "http://www.w3.org/2000/svg";
// Marks that cannot be seen, or that turn the text after them around.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;
const PARTS = {
  popularity: "popularity", pairs: "taken together", ease: "explained by the history",
  low_pass: "broad tastes", components: "components", own: "taken before", trend: "rising",
};

const METRICS = {
  cutoff: "items of a judged list", map: "MAP", ndcg: "nDCG", popularity_map: "MAP of popularity",
  precision: "precision", recall: "recall", users: "people judged",
};

const main = document.getElementById("main");
const status = document.getElementById("status");
const query = document.getElementById("query");
const matches = document.getElementById("matches");
const basket = new Map(); // id -> name
let shownView = 0; // answers for an earlier view are dropped

// Elements

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "role") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function visible(text) {
  return text.replace(UNSEEN, (mark) => `⟨U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

function label(entry) {
  return visible(entry.name || entry.item);
}

function quoted(text) {
  // Isolated: the direction of a name is its own.
  return element("bdi", { className: "clip", textContent: visible(text) });
}

function percent(share) {
  const value = 100 * share;
  return `${value !== 0 && Math.abs(value) < 10 ? value.toFixed(1) : Math.round(value)}%`;
}

function colour(component) {
  return `hsl(${(component * 137.5) % 360} 58% 52%)`;
}

function bar(share, kind) {
  const fill = element("div", { className: `fill ${share < 0 ? "against" : kind}` });
  fill.style.width = `${Math.min(Math.abs(share), 1) * 100}%`;
  return element("div", { className: "track", role: "img", "aria-label": percent(share) }, fill);
}

function say(text, bad = false) {
  status.textContent = text;
  status.classList.toggle("bad", bad);
}

// Questions

async function ask(path, parameters = {}) {
  const rest = new URLSearchParams(parameters).toString();
  return answer(await fetch(rest ? `${path}?${rest}` : path));
}

async function post(path, body) {
  return answer(await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }));
}

async function answer(response) {
  const value = await response.json();
  if (!response.ok) throw new Error(value.error || `the service answered ${response.status}`);
  return value;
}

// Views

const views = {
  home: showHome, user: showUser, item: showItem, basket: showBasket, model: showModel,
};

async function route() {
  const [name, ...rest] = location.hash.slice(1).split("=");
  const view = Object.hasOwn(views, name) ? name : "home";
  const own = ++shownView;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.setAttribute("aria-busy", "true");
  try {
    const [title, ...content] = await views[view](decodeURIComponent(rest.join("=")));
    if (own !== shownView) return;
    main.replaceChildren(title, ...content);
    document.title = `${title.textContent.slice(0, 80)} – mom-pipeline`;
    if (location.hash) main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    await showStatus();
  } catch (error) {
    if (own !== shownView) return;
    main.replaceChildren(
      element("h1", { textContent: "No answer" }), element("p", { textContent: visible(error.message) }),
    );
    say(`No answer: ${visible(error.message)}`, true);
  } finally {
    if (own === shownView) main.removeAttribute("aria-busy");
  }
}

async function showStatus() {
  const health = await (await fetch("/health")).json();
  if (health.problem) say(health.problem, true);
  else say(`Model ${health.model} is in use.`);
}

function heading(kind, text) {
  return element("h1", {}, element("span", { className: "soft", textContent: `${kind} ` }), quoted(text));
}

function card(title, ...content) {
  return element("section", { className: "card" }, element("h2", { textContent: title }), ...content);
}

function note(text) {
  return element("p", { className: "soft", textContent: text });
}

async function showUser(user) {
  const [list, history] = await Promise.all([
    post("/recommend", { user, n: LIST }),
    ask("/history", { user, n: HISTORY }).catch(() => ({ items: [], total: 0 })),
  ]);
  const heaviest = Math.max(...history.items.map((entry) => entry.weight), Number.MIN_VALUE);
  const even = history.items.every((entry) => entry.weight === heaviest);
  const lines = history.items.map((entry) => line(entry, {
    below: even ? null : why(entry.weight / heaviest, "item", `weight ${entry.weight.toPrecision(3)}`),
  }));
  const more = history.total - lines.length;
  return [
    heading("Person", user),
    element("div", { className: "columns person" },
      card(`History: ${history.total.toLocaleString("en")} items`,
        lines.length ? element("ul", {}, ...lines) : note("The model has no history of this person."),
        more > 0 ? note(`and ${more.toLocaleString("en")} more`) : null),
      card("Recommended", list.note ? note(visible(list.note)) : null,
        recommended(list.items, list.fallback ? null : user))),
  ];
}

function recommended(items, user) {
  // A bar is the score beside the best one; a reason that several items share is said once.
  const best = Math.max(...items.map((entry) => entry.score), Number.MIN_VALUE);
  let said = "";
  return element("ol", {}, ...items.map((entry) => {
    const text = because(entry.reason);
    const below = why(entry.score / best, entry.reason.kind, text === said ? "for the same reason" : text);
    said = text;
    return line(entry, { below, explain: user });
  }));
}

function because(reason) {
  if (reason.kind === "item") return `because of ${visible(reason.label || reason.name)}`;
  if (reason.kind === "popularity") return "popular";
  if (reason.kind === "trend") return "rising";
  return `component ${reason.name}: ${reason.examples.map(visible).join(", ")}`;
}

function why(share, kind, text) {
  return element("div", { className: "why" }, bar(share, kind),
    element("bdi", { className: "clip", textContent: text }));
}

function line(entry, { below = null, explain = null } = {}) {
  const actions = element("div", { className: "actions" });
  const made = element("li", { className: "line" }, itemLink(entry), actions, below);
  if (explain !== null) {
    const button = element("button", {
      type: "button", textContent: "Why?", "aria-expanded": "false",
      "aria-label": `Why ${label(entry)}?`, onclick: () => toggleDetail(made, button, explain, entry),
    });
    actions.append(button);
  }
  actions.append(addButton(entry));
  return made;
}

function itemLink(entry, withId = true) {
  const link = element("a", { className: "item", href: `#item=${encodeURIComponent(entry.item)}` },
    quoted(entry.name || entry.item));
  return element("div", {}, link,
    withId && entry.name && entry.name !== entry.item
      ? element("bdi", { className: "id clip", textContent: visible(entry.item) }) : null);
}

function addButton(entry) {
  const button = element("button", { type: "button", onclick: () => {
    if (basket.has(entry.item)) basket.delete(entry.item);
    else basket.set(entry.item, entry.name || "");
    mark();
    showCount();
    say(basket.has(entry.item) ? `${label(entry)} is in the basket.` : `${label(entry)} was taken out.`);
  } });
  function mark() {
    const inside = basket.has(entry.item);
    button.textContent = inside ? "−" : "+";
    button.setAttribute("aria-label", `${inside ? "Take out of" : "Put into"} the basket: ${label(entry)}`);
    button.title = inside ? "Take out of the basket" : "Put into the basket";
  }
  mark();
  return button;
}

function showCount() {
  const count = document.getElementById("basket-count");
  count.hidden = basket.size === 0;
  count.textContent = String(basket.size);
}

async function toggleDetail(made, button, user, entry) {
  const open = made.querySelector(".detail");
  button.setAttribute("aria-expanded", String(!open));
  if (open) {
    open.remove();
    return;
  }
  const detail = element("div", { className: "detail", textContent: "…" });
  made.append(detail);
  try {
    const said = await ask("/explain", { user, item: entry.item });
    const terms = (entries, kind, text) => entries.slice(0, 5).map((term) => why(
      term.share, kind, `${percent(term.share)} ${text(term)}`));
    detail.replaceChildren(
      element("h3", { textContent: "By part of the score" }),
      ...terms(said.moments.filter((term) => term.contribution), "component", (term) => PARTS[term.name] || term.name),
      element("h3", { textContent: "By item of the history" }),
      ...terms(said.history, "item", (term) => visible(term.label || term.name)),
    );
  } catch (error) {
    detail.textContent = visible(error.message);
  }
}

async function showItem(item) {
  const similar = await ask(`/similar/${encodeURIComponent(item)}`, { n: LIST });
  const entry = { item, name: similar.name || await nameOf(item) };
  const best = similar.items.length ? similar.items[0].score : 1;
  return [
    heading("Item", entry.name || item),
    element("p", {}, entry.name ? element("bdi", { className: "id", textContent: `${visible(item)} ` }) : null,
      addButton(entry)),
    element("div", { className: "columns" }, card("What goes with it",
      note("How often both are taken, compared with how popular each is."),
      similar.items.length
        ? element("ol", {}, ...similar.items.map((other) => line(other, {
          below: why(other.score / best, "item", other.score.toPrecision(3)),
        })))
        : note("Nothing goes with it yet."))),
  ];
}

async function nameOf(item) {
  const found = await ask("/search", { q: item, n: LIST });
  return (found.items.find((entry) => entry.item === item) || { name: "" }).name;
}

async function showBasket() {
  const title = element("h1", { textContent: "A basket for somebody new" });
  if (!basket.size) {
    return [title, note("Put items in with +, from a search, a list or the map: the list for somebody "
      + "who took them is made at once; nothing is trained.")];
  }
  const list = await post("/recommend", { items: [...basket.keys()], n: LIST });
  const chips = [...basket].map(([item, name]) => element("li", {}, quoted(name || item),
    element("button", {
      type: "button", textContent: "×", "aria-label": `Take out ${label({ item, name })}`,
      onclick: () => { basket.delete(item); showCount(); route(); },
    })));
  return [title, element("ul", { className: "chips", "aria-label": "Items of the basket" }, ...chips),
    element("div", { className: "columns" }, card("Recommended", list.note ? note(visible(list.note)) : null,
      recommended(list.items, null)))];
}

// The map

async function showHome() {
  const [map, start] = await Promise.all([ask("/components"), ask("/search", { n: 6 })]);
  const people = start.users.map((user) => element("li", { className: "line" },
    element("a", { className: "item", href: `#user=${encodeURIComponent(user)}` }, quoted(user))));
  return [
    element("h1", { textContent: "Components as a map" }),
    element("div", { className: "columns home" },
      element("div", { className: "card map" },
        note("Every circle is an item, larger where it is popular, placed between the components that it "
          + "belongs to. Arrow keys move from circle to circle, Enter opens one."), drawMap(map)),
      element("div", {},
        card("People with the longest histories", element("ul", {}, ...people)),
        element("p"),
        card("Components", componentTable(map)))),
  ];
}

function drawMap(map) {
  const tip = element("div", { id: "tip", hidden: true });
  const circles = map.items.map((item) => mapCircle(item));
  const picture = drawn("svg", { viewBox: "-1.4 -1.28 2.8 2.54", role: "group", "aria-label": "Map of the items" },
    drawn("circle", { r: 1, class: "ring" }), ...circles,
    ...map.components.flatMap((component) => mapLabels(component, circles)));
  const holder = element("div", { className: "map" }, picture, tip);
  circles.forEach((circle, at) => {
    const show = () => showTip(tip, holder, circle, map.items[at]);
    circle.addEventListener("pointerenter", show);
    circle.addEventListener("focus", show);
    for (const end of ["pointerleave", "blur"]) circle.addEventListener(end, () => { tip.hidden = true; });
    circle.addEventListener("click", () => openItem(map.items[at]));
    circle.addEventListener("keydown", (event) => moveOnMap(event, circles, at, map.items));
  });
  if (circles.length) circles[0].setAttribute("tabindex", "0");
  return holder;
}

function mapCircle(item) {
  const circle = drawn("circle", {
    cx: item.x, cy: item.y, r: item.radius, tabindex: "-1", role: "link",
    "aria-label": `${label(item)}, component ${item.component}`, "data-component": item.component,
  });
  circle.style.fill = colour(item.component);
  return circle;
}

function mapLabels(component, circles) {
  // Two lines of text: above the circle in its upper half, below it in the lower one.
  const at = { x: component.x * 1.2, y: component.y * 1.15 - (component.y < 0 ? 0.06 : 0) };
  const name = component.items.length ? label(component.items[0]) : "";
  const number = drawn("text", at);
  number.textContent = String(component.number);
  const example = drawn("text", { x: at.x, y: at.y + 0.06, class: "name" });
  example.textContent = name.length > 18 ? `${name.slice(0, 17)}…` : name;
  number.addEventListener("pointerenter", () => {
    for (const circle of circles) {
      circle.classList.toggle("faint", circle.dataset.component !== String(component.number));
    }
  });
  number.addEventListener("pointerleave", () => circles.forEach((circle) => circle.classList.remove("faint")));
  return [number, example];
}

function showTip(tip, holder, circle, item) {
  tip.textContent = `${label(item)} · ${percent(item.popularity)} of all taken · `
    + `${percent(item.share)} component ${item.component}`;
  tip.hidden = false;
  const inside = holder.getBoundingClientRect();
  const place = circle.getBoundingClientRect();
  const left = Math.min(place.right - inside.left + 4, inside.width - tip.offsetWidth);
  tip.style.left = `${Math.max(left, 0)}px`;
  tip.style.top = `${Math.max(place.top - inside.top - tip.offsetHeight - 4, 0)}px`;
}

function moveOnMap(event, circles, at, items) {
  const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    openItem(items[at]);
  } else if (direction) {
    event.preventDefault();
    const next = nearestIn(direction, items, at);
    if (next === null) return;
    circles[at].setAttribute("tabindex", "-1");
    circles[next].setAttribute("tabindex", "0");
    circles[next].focus();
  }
}

function nearestIn([dx, dy], items, at) {
  let best = null;
  let least = Infinity;
  items.forEach((item, index) => {
    const x = item.x - items[at].x;
    const y = item.y - items[at].y;
    const along = x * dx + y * dy;
    // What lies aside counts twice: the next one to the right is rather right than above.
    const cost = Math.abs(along) + 2 * Math.abs(x * dy - y * dx);
    if (index !== at && along > 0 && cost < least) [best, least] = [index, cost];
  });
  return best;
}

function openItem(item) {
  location.hash = `#item=${encodeURIComponent(item.item)}`;
}

function componentTable(map) {
  const days = map.days.length;
  // The first day may start anew; the lines are drawn in the scale of the days after it.
  const most = Math.max(0.01, ...map.components.flatMap((component) => component.drift.slice(1)));
  const rows = map.components.map((component) => element("tr", {},
    element("th", { scope: "row" }, swatch(component.number), String(component.number)),
    element("td", { className: "number", textContent: percent(component.weight) }),
    element("td", {}, ...component.items.slice(0, 3).map((item) => itemLink(item, false))),
    element("td", {}, days > 1 ? spark(component, most) : null)));
  const drift = days > 1 ? `drift, ${days} days` : "drift";
  return element("div", {},
    element("table", {},
      element("thead", {}, element("tr", {}, ...["", "weight", "shows most often", drift].map(
        (name, at) => element("th", { scope: "col", textContent: name || "nr", className: at === 1 ? "number" : "" })))),
      element("tbody", {}, ...rows)),
    note(days > 1
      ? `How far each component moved since the day before, ${map.days[0]} to ${map.days[days - 1]}, in total variation; the top of a line is ${most.toFixed(3)}.`
      : "The drift over the days is not known yet."));
}

function swatch(component) {
  const made = element("span", { className: "swatch" });
  made.style.background = colour(component);
  return made;
}

function spark(component, most) {
  const step = 100 / (component.drift.length - 1);
  const points = component.drift.map((value, day) => `${(day * step).toFixed(2)},${(21 - 20 * Math.min(value / most, 1)).toFixed(2)}`);
  const last = component.drift[component.drift.length - 1];
  const text = `drift of component ${component.number}: ${last.toFixed(3)} on the last day, ${Math.max(...component.drift).toFixed(3)} at most`;
  const picture = drawn("svg", { viewBox: "0 0 100 22", preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": text },
    drawn("polyline", { points: points.join(" ") }));
  return element("div", { title: text }, picture);
}

// The model

async function showModel() {
  const [model, said] = await Promise.all([ask("/model"), ask("/promotions")]);
  const gate = said.changes.length ? said.changes[0] : null;
  return [
    element("h1", { textContent: `Model of ${model.day}` }),
    element("div", { className: "columns even" },
      card("In use", table([
        ["version", model.version], ["day", model.day],
        ["people", model.users.toLocaleString("en")], ["items", model.items.toLocaleString("en")],
        ...Object.entries(model.metrics).map(([name, value]) => [METRICS[name] || name, Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(4)]),
      ])),
      card("Gate", gate ? element("p", {}, element("strong", { textContent: `${gate.kind} by ${gate.by === "gate" ? "the gate" : "a person"}. ` }), visible(gate.reason)) : note("Nothing was decided yet."),
        element("h3", { textContent: "Earlier decisions" }),
        said.changes.length > 1
          ? element("ul", {}, ...said.changes.slice(1).map((change) => element("li", { className: "line" },
            element("span", { textContent: `${change.time.slice(0, 16).replace("T", " ")} · ${change.version} ${change.kind}: ${visible(change.reason)}` }))))
          : note("None.")),
      card("Settings", table(Object.entries(model.settings).map(([name, value]) => [name, String(value)])))),
  ];
}

function table(rows) {
  return element("table", {}, element("tbody", {}, ...rows.map(([name, value]) => element("tr", {},
    element("th", { scope: "row", textContent: name }), element("td", { className: "number", textContent: visible(String(value)) })))));
}

// The search

let pause = 0;
let asked = 0;
let chosen = -1;

function searchSoon() {
  clearTimeout(pause);
  pause = setTimeout(search, TYPING_PAUSE);
}

async function search() {
  const own = ++asked;
  const text = query.value;
  if (!text) {
    close();
    return;
  }
  try {
    const found = await ask("/search", { q: text, n: 8 });
    if (own === asked) showMatches(found);
  } catch (error) {
    if (own === asked) say(visible(error.message), true);
  }
}

function showMatches(found) {
  chosen = -1;
  const options = [
    ...found.users.map((user) => option("Person", user, `#user=${encodeURIComponent(user)}`)),
    ...found.items.map((item) => option("Item", item.name ? `${item.name} (${item.item})` : item.item, `#item=${encodeURIComponent(item.item)}`)),
  ];
  options.forEach((made, at) => { made.id = `match-${at}`; });
  matches.replaceChildren(...options);
  matches.hidden = options.length === 0;
  query.setAttribute("aria-expanded", String(options.length > 0));
  query.removeAttribute("aria-activedescendant");
  say(options.length ? `${found.more ? "The first " : ""}${options.length} matches` : "Nobody and nothing has such an id or name.");
}

function option(kind, text, target) {
  return element("div", { role: "option", "aria-selected": "false", "data-target": target, onclick: () => go(target) },
    element("span", { className: "kind", textContent: kind }), quoted(text));
}

function go(target) {
  close();
  query.value = "";
  if (location.hash === target) route();
  else location.hash = target;
}

function close() {
  asked += 1;
  matches.hidden = true;
  query.setAttribute("aria-expanded", "false");
  query.removeAttribute("aria-activedescendant");
}

function choose(step) {
  const options = [...matches.children];
  if (matches.hidden || !options.length) return;
  if (chosen >= 0) options[chosen].setAttribute("aria-selected", "false");
  chosen = (chosen + step + options.length + (chosen < 0 && step < 0 ? 1 : 0)) % options.length;
  options[chosen].setAttribute("aria-selected", "true");
  options[chosen].scrollIntoView({ block: "nearest" });
  query.setAttribute("aria-activedescendant", options[chosen].id);
}

query.addEventListener("input", searchSoon);
query.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    choose(step);
  } else if (event.key === "Escape") close();
});
document.getElementById("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  clearTimeout(pause);
  if (matches.hidden) await search();
  const option = matches.children[Math.max(chosen, 0)];
  if (!matches.hidden && option) go(option.dataset.target);
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("#search")) close();
});
window.addEventListener("hashchange", route);
route();
