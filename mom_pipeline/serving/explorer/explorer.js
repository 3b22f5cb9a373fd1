// The explorer. Ids and names are other people's text: all of it is put into the page as text.
"use strict";

const LIST = 12;
const HISTORY = 20;
const SHORT = 5; // lines of a card on the first page
const PEOPLE = 3;
const GROUPS = 12;
const TYPING_PAUSE = 150;
const SVG = "http://www.w3.org/2000/svg";
// Marks that cannot be seen, or that turn the text after them around.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;
const PARTS = {
  pairs: "taken together with what they took", ease: "fits their history as a whole",
  low_pass: "fits their broad taste", components: "liked by people of their kind",
  popularity: "popular with everybody", trend: "rising or falling these days", own: "had it before",
};
const METRICS = {
  cutoff: "items of a judged list", map: "MAP", ndcg: "nDCG", popularity_map: "MAP of popularity",
  precision: "precision", recall: "recall", users: "people judged",
};
const DAY = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "short" });
const DATE = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "long", year: "numeric" });

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
  if (value > 0 && value < 0.05) return "under 0.1 %";
  return `${value !== 0 && Math.abs(value) < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

function number(value) {
  return value.toLocaleString("en");
}

function day(text, format = DATE) {
  return format.format(new Date(`${text}T00:00Z`));
}

function bar(share) {
  const fill = element("div", { className: share < 0 ? "fill against" : "fill" });
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
  home: showHome, groups: showGroups, group: showGroup, user: showUser, item: showItem,
  basket: showBasket, model: showModel,
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
  say(health.problem || "", Boolean(health.problem));
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

function link(kind, id, text) {
  return element("a", { className: "item", href: `#${kind}=${encodeURIComponent(id)}` }, quoted(text));
}

// A person

async function showUser(user) {
  const [list, history] = await Promise.all([
    post("/recommend", { user, n: LIST }),
    ask("/history", { user, n: HISTORY }).catch(() => ({ items: [], total: 0 })),
  ]);
  const more = history.total - history.items.length;
  return [
    heading("Person", user),
    element("div", { className: "columns person" },
      card("Took last", took(history.items),
        history.total ? null : note("The model has no history of this person."),
        more > 0 ? note(`and ${number(more)} more before`) : null),
      card("Gets next", list.note ? note(visible(list.note)) : note("The longer the bar, the higher the score."),
        recommended(list.items, list.fallback ? null : user))),
  ];
}

function took(items) {
  // Each day is named once.
  let shown = "";
  return element("ul", {}, ...items.map((entry) => {
    const date = entry.day === shown ? "" : day(entry.day, DAY);
    shown = entry.day;
    return element("li", { className: "line dated" },
      element("time", { className: "soft", dateTime: entry.day, textContent: date }), itemLink(entry),
      entry.weight > 1 ? element("span", { className: "soft", textContent: `${Number(entry.weight.toPrecision(3))} ×` }) : null);
  }));
}

function recommended(items, user) {
  // A reason is said once; after that, where it was said.
  const best = Math.max(...items.map((entry) => entry.score), Number.MIN_VALUE);
  const said = new Map();
  return element("ol", {}, ...items.map((entry, at) => {
    let text = because(entry);
    if (said.has(text)) text = `as no. ${said.get(text)}`;
    else said.set(text, at + 1);
    return line(entry, { rank: at + 1, below: why(Math.max(entry.score, 0) / best, text), explain: user });
  }));
}

function because({ item, reason }) {
  if (reason.kind === "item") {
    const name = (reason.label || reason.name).replace(` (${reason.name})`, "");
    return reason.name === item ? "you had it before" : `goes with ${visible(name || reason.name)}`;
  }
  return { popularity: "popular", trend: "rising this week", component: "liked by people of your kind" }[reason.kind];
}

function why(share, text) {
  return element("div", { className: "why" }, bar(share),
    element("bdi", { className: "clip", textContent: text }));
}

function line(entry, { rank = null, below = null, explain = null } = {}) {
  const actions = element("div", { className: "actions" });
  const made = element("li", { className: "line" }, itemLink(entry, rank), actions, below);
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

function itemLink(entry, rank = null) {
  return element("div", { className: "named" },
    rank === null ? null : element("span", { className: "rank soft", textContent: rank }),
    picture(entry), link("item", entry.item, entry.name || entry.item));
}

function picture(entry) {
  if (!/^https:\/\//.test(entry.image || "")) return null;
  return element("img", { src: entry.image, alt: "", loading: "lazy", referrerPolicy: "no-referrer",
    onerror: (event) => event.target.remove() });
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
    const parts = said.moments.filter((term) => Math.abs(term.contribution) >= 0.005);
    detail.replaceChildren(
      element("h3", { textContent: "The score is a sum" }),
      table(["", "points"], [...parts.map((term) => [PARTS[term.name] || term.name, points(term)]),
        ["score", said.score.toFixed(2)]], "sum"),
      element("h3", { textContent: "What of their history adds most" }),
      table(["", "points"], said.history.slice(0, 5).map((term) => [visible(term.label || term.name), points(term)])),
    );
  } catch (error) {
    detail.textContent = visible(error.message);
  }
}

function points(term) {
  return `${term.contribution < 0 ? "−" : "+"}${Math.abs(term.contribution).toFixed(2)}`;
}

function table(columns, rows, kind = "") {
  const cell = (text, at) => element(at ? "td" : "th", {
    ...(at ? { className: "number" } : { scope: "row" }), textContent: visible(String(text)) });
  const head = columns.map((name, at) => element("th", { scope: "col", className: at ? "number" : "", textContent: name }));
  return element("table", { className: kind }, element("thead", { hidden: !columns[0] }, element("tr", {}, ...head)),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
}

// An item

async function showItem(item) {
  const use = await ask(`/items/${encodeURIComponent(item)}`);
  const similar = use.expected ? { items: [] } : await ask(`/similar/${encodeURIComponent(item)}`, { n: LIST });
  const best = similar.items.length ? similar.items[0].score : 1;
  const about = [use.name && use.name !== item ? item : "", ...use.groups].filter(Boolean).map(visible);
  const most = Math.max(...use.by_group.map((group) => Math.max(group.share, group.usual)), Number.MIN_VALUE);
  return [
    heading("Item", use.name || item),
    element("div", { className: "about" }, picture(use),
      element("p", {}, `${about.length ? `${about.join(" · ")} · ` : ""}${use.expected ? "taken by nobody yet" : `taken by ${percent(use.taken_by)} of all people`} `,
        /^https?:\/\//.test(use.url) ? element("a", { href: use.url, rel: "noreferrer", textContent: "its page" }) : null, " ",
        addButton({ item, name: use.name }))),
    element("div", { className: "columns even" },
      card("What goes with it",
        note("Often taken by the same people, compared with how popular each is."),
        similar.items.length
          ? element("ol", {}, ...similar.items.map((other, at) => line(other, { rank: at + 1, below: why(other.score / best, "") })))
          : note("Nothing goes with it yet.")),
      element("div", {},
        card("Who takes it", note(use.expected ? "Who is expected to, by what has its groups and words; in brackets the group among all people." : "The people who took it, by group; in brackets the group among all people."),
          element("ul", {}, ...use.by_group.slice(0, 6).map((group) => element("li", { className: "line" },
            element("div", {}, link("group", group.number, group.name)),
            element("div", { className: "why" }, bar(group.share / most),
              element("span", { textContent: `${percent(group.share)} (${percent(group.usual)})` })))))),
        card("When", note("People by the day on which they took it last."),
          curve(use.days, [{ name: "on the last day", values: use.by_day }], number)))),
  ];
}

async function showBasket() {
  const title = element("h1", { textContent: "A basket for somebody new" });
  if (!basket.size) {
    return [title, note("Put items in with +, from a list or the page of an item: the list for somebody "
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

// The first page

async function showHome() {
  const [start, groups, model, measured] = await Promise.all([
    ask("/search", { n: 8 * PEOPLE }), ask("/groups"), ask("/model"), ask("/evaluations"),
  ]);
  const holder = element("div", { className: "columns three", "aria-live": "polite" });
  let first = 0;
  const others = element("button", { type: "button", textContent: "Show three others", onclick: async () => {
    first = (first + PEOPLE) % Math.max(start.users.length, 1);
    await showPeople(holder, start.users.slice(first, first + PEOPLE));
  } });
  await showPeople(holder, start.users.slice(0, PEOPLE));
  return [
    element("h1", { textContent: "What people took, and what they get next" }),
    element("p", { className: "lead" }, `${number(model.users)} people, ${number(model.items)} items, learnt from all that was taken until ${day(model.day)}. Search for anybody above; these are three of them. `,
      start.users.length > PEOPLE ? others : null),
    holder,
    card("How good it is", element("div", { className: "columns even" }, ...quality(measured.days))),
    element("h2", { className: "apart", textContent: "Groups of people" }),
    element("p", {}, `People who take alike, named by what sets them apart from everybody${groups.groups.length > GROUPS ? `; the ${GROUPS} largest` : ""}. `,
      element("a", { href: "#groups", textContent: `${groups.groups.length > GROUPS ? `All ${groups.groups.length} groups` : "The groups"} on a map` })),
    groupCards(groups, groups.groups.slice(0, GROUPS)),
  ];
}

async function showPeople(holder, users) {
  if (!users.length) return;
  const [lists, ...histories] = await Promise.all([
    post("/recommend", { users, n: SHORT }), ...users.map((user) => ask("/history", { user, n: SHORT })),
  ]);
  holder.replaceChildren(...users.map((user, at) => element("section", { className: "card" },
    element("h2", {}, link("user", user, user)),
    element("h3", { textContent: "took last" }), took(histories[at].items),
    element("h3", { textContent: "gets next" }),
    element("ol", {}, ...lists.lists[at].items.map((entry, rank) => element("li", { className: "line" },
      itemLink(entry, rank + 1), element("bdi", { className: "reason clip", textContent: because(entry) })))))));
}

function quality(days) {
  const last = days[days.length - 1];
  if (!last) {
    return [note("Not measured yet: that takes days after those that a model was made of. mom-pipeline update computes them where there are any.")];
  }
  const ratio = last.popularity > 0 ? last.recall / last.popularity : NaN;
  const compared = Number.isFinite(ratio) ? `, ${ratio.toFixed(1)} times what a list of the most popular items holds` : "";
  return [
    element("div", {}, element("p", { className: "lead" }, "Tested on days that it had not seen, a list of ",
      `${last.cutoff} items holds `, element("strong", { textContent: percent(last.recall) }),
      ` of what a person then took${compared}.`),
    note(`Recall@${last.cutoff} of ${number(last.users)} people, up to ${day(last.day)}.`)),
    curve(days.map((entry) => entry.day), [
      { name: "these lists", values: days.map((entry) => entry.recall) },
      { name: "popular items", values: days.map((entry) => entry.popularity) },
    ], percent) || "",
  ];
}

function curve(days, series, shown, around = null) {
  // Lines from 0 to the highest value, with first and last day, and the last values in words.
  if (days.length < 2) return null;
  const most = Math.max(...series.flatMap((each) => each.values), ...(around ? around[1] : []), Number.MIN_VALUE);
  const points = (values) => values.map((value, at) => `${(100 * at / (days.length - 1)).toFixed(2)},${(39 - 37 * value / most).toFixed(2)}`);
  const texts = series.map((each) => `${each.name} ${shown(each.values[each.values.length - 1])}`);
  return element("figure", { className: "curve" },
    element("div", { className: "ends soft" }, element("span", { textContent: `at most ${shown(most)}` }),
      element("span", { className: "legend" }, ...texts.map((text, at) => element("span", { className: `key-${at}`, textContent: text })))),
    drawn("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": `${day(days[0])} to ${day(days[days.length - 1])}: ${texts.join(", ")} on the last day` },
      ...(around ? [drawn("polygon", { class: "band", points: [...points(around[0]), ...points(around[1]).reverse()].join(" ") })] : []),
      ...series.map((each, at) => drawn("polyline", { class: `line-${at}`, points: points(each.values).join(" ") }))),
    element("div", { className: "ends soft" }, element("span", { textContent: day(days[0], DAY) }),
      element("span", { textContent: day(days[days.length - 1], DAY) })));
}

// Groups

async function showGroups() {
  const said = await ask("/groups");
  const map = element("div", { className: "map" }, ...said.groups.map(bubble));
  map.style.maxWidth = `${Math.min(860, 420 + 20 * said.groups.length)}px`;
  const few = (said.unsupported ? ` ${said.unsupported} more were looked for, but two halves of the people do not agree on them better than by chance, or there are too few people for so many: they are not shown.` : "")
    + (said.supported === null ? "" : ` By their second moment the people support ${said.supported}; twice as many would support about ${said.supported_by_twice}.`);
  return [
    element("h1", { textContent: `${said.groups.length} groups of people` }),
    element("p", { textContent: `Every one of ${number(said.people)} people is in one. The larger a circle, the more people; groups that take alike are near each other.${few}` }),
    map,
    groupCards(said, said.groups),
  ];
}

function tinted(made, group) {
  made.style.setProperty("--hue", (group.number * 137.5) % 360);
  return made;
}

function bubble(group) {
  const words = visible(group.name).replace(/^like /, "").split(/ · | like /).map((word) => (word.length > 16 ? `${word.slice(0, 15)}…` : word));
  const made = tinted(element("a", { className: "bubble", href: `#group=${group.number}`, title: visible(group.name),
    "aria-label": `Group ${group.number}: ${visible(group.name)}, ${percent(group.size)} of all people` },
  element("span", { className: "number", textContent: group.number }),
  ...words.slice(0, 3).map((word) => element("span", { className: "word", textContent: word }))), group);
  const [x, y, radius] = group.place;
  Object.assign(made.style, { left: `${100 * (x - radius)}%`, top: `${100 * (y - radius)}%`, width: `${200 * radius}%` });
  made.style.setProperty("--letters", Math.max(...words.map((word) => word.length)));
  return made;
}

function groupCards(said, groups) {
  return element("ul", { className: "groups" }, ...groups.map((group) => element("li", { className: "card" },
    element("h3", {}, tinted(element("span", { className: "swatch", textContent: group.number }), group), link("group", group.number, group.name)),
    element("p", { className: "soft", textContent: `${number(group.people)} people, ${percent(group.size)} of all${unsure(group)}` }),
    spark(said.days, group),
    element("ul", {}, ...group.items.slice(0, 3).map((item) => element("li", {}, itemLink(item), element("span", { className: "soft", textContent: ` ${within(item)}` })))))));
}

function within(item) {
  // The share of a group's people who took an item, and the half of its 95 % interval.
  const [low, high] = item.taken_interval;
  return `${percent(item.taken)} ± ${(50 * (high - low)).toFixed(0)}`;
}

function unsure(group) {
  return group.uncertain ? " · uncertain" : "";
}

function spark(days, group) {
  if (days.length < 2) return null;
  // Not from 0: what is to be seen is whether it rises or falls.
  const most = Math.max(...group.by_day, Number.MIN_VALUE);
  const least = Math.min(...group.by_day, 0.7 * most);
  const points = group.by_day.map((value, at) => `${(100 * at / (days.length - 1)).toFixed(2)},${(19 - 18 * (value - least) / (most - least)).toFixed(2)}`);
  const now = group.by_day[days.length - 1];
  const text = `its share of the people of a week: ${percent(now)} up to ${day(days[days.length - 1])}, at most ${percent(most)}`;
  return element("div", { className: "spark", title: text },
    drawn("svg", { viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": text },
      drawn("polyline", { points: points.join(" ") })),
    element("span", { className: "soft", textContent: trend(group) }));
}

function trend(group) {
  if (group.change === null) return "no trend yet";
  if (Math.abs(group.change) <= group.change_error) return "steady in four weeks";
  const points = (value) => (100 * Math.abs(value)).toFixed(1);
  return `${group.change < 0 ? "−" : "+"}${points(group.change)} ± ${points(group.change_error)} points in four weeks`;
}

async function showGroup(text) {
  const [name, against = ""] = text.split("|");
  const all = await ask("/groups");
  if (!all.groups.some((each) => String(each.number) === name)) throw new Error("there is no such group");
  const group = await ask(`/groups/${name}`, against ? { against } : {});
  const others = element("select", { onchange: () => go(`#group=${encodeURIComponent(others.value ? `${group.number}|${others.value}` : group.number)}`) },
    element("option", { value: "", textContent: "everybody" }),
    ...all.groups.filter((each) => each.number !== group.number).map((each) => element("option", {
      value: each.number, textContent: visible(each.name), selected: each.name === group.against })));
  const [low, high] = group.size_interval;
  return [
    heading(`Group ${group.number}`, group.name),
    element("p", { textContent: `${number(group.people)} people, ${percent(group.size)} of all (${percent(low)} to ${percent(high)}); ${trend(group)}. ${number(group.members)} belong to it with a probability of ${percent(group.at_least)} or more. ${unsure(group)
      ? "Uncertain: two halves of the people, each looked at alone, do not both have this group." : ""}` }),
    element("div", { className: "columns even" },
      element("div", {},
        card("What sets it apart", element("label", { className: "soft" }, "Taken more by this group than by ", others),
          element("ul", {}, ...group.apart.map((item) => line(item, { below: why(item.taken, `${percent(item.taken)} of its people took it (${percent(item.taken_interval[0])} to ${percent(item.taken_interval[1])})`) })))),
        group.the_other_takes.length ? card("What the other group takes more", element("ul", {}, ...group.the_other_takes.map((item) => line(item)))) : null),
      element("div", {},
        card("What they take next", note("What their lists hold more often than others; in brackets the share of everybody's lists."),
          element("ol", {}, ...group.next.map((item, at) => line(item, { rank: at + 1, below: why(item.share, `${percent(item.share)} (${percent(item.usual)})`) })))),
        card("Its share of the people of a week", band(group),
          note("Of all who took something in the week up to each day, with the 95 % interval; an item counts on the day on which a person took it last.")))),
  ];
}

function band(group) {
  const [low, high] = [0, 1].map((at) => group.by_day_interval.map((each) => each[at]));
  return curve(group.days, [{ name: "now", values: group.by_day }], percent, [low, high]);
}

// The model

async function showModel() {
  const [model, said, measured, shown] = await Promise.all([
    ask("/model"), ask("/promotions"), ask("/evaluations"), ask("/shown").catch(() => null)]);
  const gate = said.changes.length ? said.changes[0] : null;
  const plain = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  const chosen = (name) => plain(model.settings[name]) !== plain(model.defaults[name]);
  const names = Object.keys(model.settings).sort((a, b) => chosen(b) - chosen(a));
  const settings = table(["setting", "this model", "default"], names.map((name) => [
    name, plain(model.settings[name]), chosen(name) ? plain(model.defaults[name]) : "the same"]));
  names.forEach((name, at) => settings.tBodies[0].rows[at].classList.toggle("chosen", chosen(name)));
  return [
    element("h1", { textContent: `Model of ${day(model.day)}` }),
    element("div", { className: "columns even" },
      element("div", {},
        card("In use", table(["", ""], [
          ["version", model.version], ["people", number(model.users)], ["items", number(model.items)],
          ...Object.entries(model.metrics).map(([name, value]) => [METRICS[name] || name, Number.isInteger(value) ? number(value) : value.toFixed(4)]),
        ])),
        card("Settings", note("What was chosen for this model stands first; the rest is as it is by default."), settings)),
      element("div", {},
        card("How good it is", ...quality(measured.days)),
        card("Taken of what was shown", ...taking(shown)),
        card("Why it is in use", gate ? element("p", {}, element("strong", { textContent: `${gate.kind} by ${gate.by === "gate" ? "the gate" : "a person"}. ` }), visible(gate.reason)) : note("Nothing was decided yet."),
          element("details", { hidden: said.changes.length < 2 }, element("summary", { textContent: "Earlier decisions" }),
            element("ul", {}, ...said.changes.slice(1).map((change) => element("li", {
              textContent: `${change.time.slice(0, 16).replace("T", " ")} · ${change.version} ${change.kind}: ${visible(change.reason)}` }))))))),
  ];
}

function taking(shown) {
  // How often people took what they were shown, by place and version, and by day as a curve.
  if (!shown || !shown.rates.length) return [note("Nothing is told yet: ask with ?track=1, or send POST /shown, and POST /events.")];
  const share = (rate) => [percent(rate.share), `${percent(rate.low)} to ${percent(rate.high)}`];
  const lines = (by, word) => shown.rates.filter((rate) => rate.by === by).map((rate) => [
    `${word}${rate.of}, ${rate.type}`, number(rate.shown), ...share(rate)]);
  const days = shown.rates.filter((rate) => rate.by === "day");
  const kinds = [...new Set(days.map((rate) => rate.type))];
  const series = kinds.map((kind) => ({ name: kind, values: days.filter((rate) => rate.type === kind).map((rate) => rate.share) }));
  const trial = shown.trial;
  return [
    ...(trial ? [note(verdictOf(trial))] : []),
    curve([...new Set(days.map((rate) => rate.of))], series, percent) || "",
    table(["", "shown", "taken", "95 % interval"], [...lines("version", ""), ...lines("place", "place ")]),
  ];
}

function verdictOf({ version, share, result }) {
  const named = `${version} answers ${percent(share)} of the people. `;
  if (result.low === null) return `${named}Too few were shown anything yet.`;
  const points = (value) => `${value < 0 ? "−" : "+"}${(100 * Math.abs(value)).toFixed(2)}`;
  const more = result.more_users ? `; ${number(result.more_users)} more people until that is sure, if it stays so` : "";
  return `${named}Taken of what was shown: ${points(result.difference)} points [${points(result.low)}, ${points(result.high)}]${more}.`;
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
