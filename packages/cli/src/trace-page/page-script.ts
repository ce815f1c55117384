// The code of the page. Plain JavaScript for browsers, and nothing in it comes from a trace: what a trace says is read from
// a block of JSON, and reaches the document as text only.
//   PS1  only the rows that can be seen are in the document.
//   PS2  everything can be reached and opened from the keyboard.

export const PAGE_SCRIPT: string = String.raw`
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const make = (tag, cls, text) => {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  if (text !== undefined && text !== "") node.textContent = text;
  return node;
};
const HEAD = 38, ROW = 26, EXTRA = 12;
const OPTIONAL = ["hook", "effect", "commit", "note"];
const rowsBox = by("rows"), space = by("space"), aside = by("aside");
const shown = new Set();
const folded = new Set();
let lines = [], tops = [], height = 0, active = -1, opened = null;

data.sections.forEach((section, index) => {
  section.key = "s" + index;
  section.rows.forEach((row, at) => { row.key = index + "." + at; });
  if (section.turn === null) folded.add(section.key);
});

function ms(value) {
  if (value >= 60000) return Math.floor(value / 60000) + " m " + Math.round((value % 60000) / 1000) + " s";
  if (value >= 10000) return (value / 1000).toFixed(1) + " s";
  if (value >= 1000) return (value / 1000).toFixed(2) + " s";
  if (value >= 10) return Math.round(value) + " ms";
  return value === 0 ? "0 ms" : value.toFixed(value >= 1 ? 1 : 2) + " ms";
}

function tickStep(duration) {
  const rough = Math.max(duration, 0.001) / 5;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough);
}

function matches(row, wanted) {
  if (OPTIONAL.includes(row.kind) && !shown.has(row.kind)) return false;
  if (shown.has("failed") && row.status !== "failed") return false;
  return wanted === "" || (row.label + " " + row.detail).toLowerCase().includes(wanted);
}

function layout() {
  const session = by("session").value, turn = by("turn").value, wanted = by("find").value.trim().toLowerCase();
  const keep = active >= 0 && lines[active] ? lines[active].key : null;
  lines = [];
  for (const section of data.sections) {
    if (session !== "" && section.session !== session && !section.rows.some((row) => row.session === session)) continue;
    if (turn !== "" && section.turn !== turn && !section.rows.some((row) => row.turn === turn)) continue;
    lines.push({ key: section.key, section, row: null });
    if (folded.has(section.key)) continue;
    let hidden = Infinity;
    for (const row of section.rows) {
      if (row.depth > hidden) continue;
      hidden = Infinity;
      if (folded.has(row.key)) hidden = row.depth;
      if (row.depth === 0 && section.turn !== null && row.kind === "turn") continue;
      if (turn !== "" && section.turn !== turn && row.turn !== turn) continue;
      if (session !== "" && section.session !== session && row.session !== session) continue;
      if (matches(row, wanted)) lines.push({ key: row.key, section, row });
    }
  }
  tops = [];
  height = 0;
  for (const line of lines) { tops.push(height); height += line.row ? ROW : HEAD; }
  space.style.height = height + "px";
  active = keep === null ? -1 : lines.findIndex((line) => line.key === keep);
  by("none").hidden = lines.length > 0;
  draw();
}

function firstVisible(top) {
  let low = 0, high = tops.length;
  while (low < high) { const mid = (low + high) >> 1; if (tops[mid] + HEAD < top) low = mid + 1; else high = mid; }
  return Math.max(0, low - EXTRA);
}

function draw() {
  const top = rowsBox.scrollTop, bottom = top + rowsBox.clientHeight;
  const nodes = [];
  for (let at = firstVisible(top); at < lines.length && tops[at] < bottom + EXTRA * ROW; at += 1) nodes.push(drawLine(at));
  space.replaceChildren(...nodes);
  if (active >= 0 && by("line-" + active)) rowsBox.setAttribute("aria-activedescendant", "line-" + active);
  else rowsBox.removeAttribute("aria-activedescendant");
}

function hasBelow(section, row) {
  for (let at = Number(row.key.split(".")[1]) + 1; at < section.rows.length; at += 1) {
    const next = section.rows[at];
    if (next.depth <= row.depth) return false;
    if (!OPTIONAL.includes(next.kind) || shown.has(next.kind)) return true;
  }
  return false;
}

function drawLine(at) {
  const { section, row, key } = lines[at];
  const node = make("div", "row" + (row ? "" : " head") + (at === active ? " on" : ""));
  node.id = "line-" + at;
  node.style.top = tops[at] + "px";
  node.setAttribute("role", "treeitem");
  node.setAttribute("aria-level", String(row ? row.depth + 1 : 1));
  node.setAttribute("aria-selected", String(at === active));
  const foldable = row === null || hasBelow(section, row);
  if (foldable) node.setAttribute("aria-expanded", String(!folded.has(key)));
  node.append(drawName(section, row, foldable), drawLane(section, row));
  node.append(make("div", "took", ms(row ? row.duration : section.duration)));
  node.addEventListener("click", (event) => {
    if (event.target.classList.contains("fold")) { active = at; return fold(); }
    select(at);
    open(at);
  });
  return node;
}

function drawName(section, row, foldable) {
  const name = make("div", "name");
  const depth = row ? row.depth : 0;
  name.style.paddingLeft = (12 + depth * 14) + "px";
  name.append(make("span", "fold", foldable ? (folded.has(row ? row.key : section.key) ? "\u25b8" : "\u25be") : ""));
  if (row === null) {
    const text = section.turn === null ? "Beside turns" : section.turn;
    name.append(make("span", "label", text), ...tagsOf(section.first, section.run));
    const more = section.turn === null ? section.session : section.first.detail;
    if (more !== section.first.status) name.append(make("span", "more", more));
    name.title = text;
    return name;
  }
  name.append(make("span", "dot k-" + colourOf(row)), make("span", "label", row.label), ...tagsOf(row, 1));
  if (row.detail !== row.status) name.append(make("span", "more", row.detail));
  name.title = row.label + (row.detail === "" ? "" : " \u00b7 " + row.detail);
  return name;
}

function tagsOf(row, run) {
  const tags = [];
  if (run > 1) tags.push(make("span", "tag", "run " + run));
  if (row.replayed) tags.push(make("span", "tag", "replayed"));
  if (row.status !== "ok") tags.push(make("span", "tag " + row.status, row.status));
  return tags;
}

function colourOf(row) {
  return row.status === "failed" ? "failed" : row.status === "parked" ? "parked" : row.kind;
}

function drawLane(section, row) {
  const lane = make("div", "lane");
  const whole = Math.max(section.duration, 0.001), step = tickStep(whole);
  for (let tick = step; tick < whole; tick += step) {
    const line = make("div", "grid");
    line.style.left = (tick / whole) * 100 + "%";
    lane.append(line);
    if (row === null && tick / whole < 0.94) {
      const label = make("div", "tick", ms(tick));
      label.style.left = (tick / whole) * 100 + "%";
      lane.append(label);
    }
  }
  if (row === null) return lane;
  const bar = make("div", "span k-" + colourOf(row) + " " + row.kind + (row.replayed ? " replayed" : "") + (row.status === "open" ? " open" : ""));
  const left = Math.min(Math.max((row.start - section.start) / whole, 0), 1);
  bar.style.left = "min(" + left * 100 + "%,calc(100% - 2px))";
  bar.style.width = Math.max(Math.min(row.duration / whole, 1 - left), 0) * 100 + "%";
  if (row.first > 0 && row.duration > 0 && !row.replayed && row.status === "ok") {
    const waiting = make("u");
    waiting.style.width = Math.min(row.first / row.duration, 1) * 100 + "%";
    bar.append(waiting);
  }
  lane.append(bar);
  return lane;
}

function select(at) {
  active = Math.max(0, Math.min(at, lines.length - 1));
  const top = tops[active], size = lines[active].row ? ROW : HEAD;
  if (top < rowsBox.scrollTop) rowsBox.scrollTop = top;
  if (top + size > rowsBox.scrollTop + rowsBox.clientHeight) rowsBox.scrollTop = top + size - rowsBox.clientHeight;
  draw();
  if (opened !== null) open(active);
}

function fold(wish) {
  if (active < 0) return;
  const { key } = lines[active];
  const isFolded = folded.has(key);
  if (wish === undefined ? isFolded : !wish) folded.delete(key); else folded.add(key);
  layout();
}

function open(at) {
  const { section, row } = lines[at];
  const of = row ?? section.first;
  opened = lines[at].key;
  by("what").textContent = row ? row.label : (section.turn ?? "Beside turns");
  const facts = by("facts");
  facts.replaceChildren();
  const fact = (name, value) => {
    if (value !== null && value !== undefined && value !== "") facts.append(make("dt", "", name), make("dd", "", String(value)));
  };
  fact("Kind", of.record.kind.replaceAll("_", " "));
  fact("Status", of.replayed ? of.status + ", replayed" : of.status);
  fact("Detail", of.detail);
  fact("Began", "+" + ms(Math.max(of.start - section.start, 0)) + " \u00b7 " + new Date(of.record.at).toISOString());
  fact("Took", ms(of.duration));
  fact("First token", of.first > 0 ? ms(of.first) : "");
  fact("Session", of.session);
  fact("Turn", of.turn);
  fact("Worker", of.record.owner);
  by("payload").textContent = JSON.stringify(of.record.payload, null, 2);
  aside.hidden = false;
}

function close() {
  opened = null;
  aside.hidden = true;
  rowsBox.focus();
}

const KEYS = {
  ArrowDown: () => select(active + 1),
  ArrowUp: () => select(active - 1),
  PageDown: () => select(active + 15),
  PageUp: () => select(active - 15),
  Home: () => select(0),
  End: () => select(lines.length - 1),
  ArrowLeft: () => fold(true),
  ArrowRight: () => fold(false),
  Enter: () => { if (active >= 0) open(active); },
  " ": () => { if (active >= 0) open(active); },
};
rowsBox.addEventListener("keydown", (event) => {
  const act = KEYS[event.key];
  if (act === undefined || lines.length === 0) return;
  event.preventDefault();
  act();
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && opened !== null) close(); });
rowsBox.addEventListener("scroll", () => requestAnimationFrame(draw));
window.addEventListener("resize", draw);
by("close").addEventListener("click", close);

function choices(select, values, all) {
  const chosen = select.value;
  select.replaceChildren(new Option(all, ""), ...values.map((value) => new Option(value, value)));
  select.value = values.includes(chosen) ? chosen : "";
}
function turnsOf(session) {
  return data.turns.filter((turn) => session === "" || turn.session === session).map((turn) => turn.turn);
}
choices(by("session"), [...new Set(data.turns.map((turn) => turn.session))], "All sessions");
choices(by("turn"), turnsOf(""), "All turns");
by("session").addEventListener("change", () => { choices(by("turn"), turnsOf(by("session").value), "All turns"); layout(); });
by("turn").addEventListener("change", layout);
by("find").addEventListener("input", layout);
for (const button of document.querySelectorAll("button[data-show]")) {
  button.addEventListener("click", () => {
    const name = button.dataset.show;
    if (shown.has(name)) shown.delete(name); else shown.add(name);
    button.setAttribute("aria-pressed", String(shown.has(name)));
    layout();
  });
}
for (const button of document.querySelectorAll("button[data-turn]")) {
  button.addEventListener("click", () => {
    const turn = data.turns[Number(button.dataset.turn)];
    by("session").value = turn.session;
    choices(by("turn"), turnsOf(turn.session), "All turns");
    by("turn").value = turn.turn;
    layout();
    rowsBox.focus();
    rowsBox.scrollIntoView({ block: "center" });
  });
}
layout();
const wanted = new URLSearchParams(location.hash.slice(1)).get("row");
if (wanted !== null && lines[Number(wanted)] !== undefined) { select(Number(wanted)); open(Number(wanted)); }
})();
`;
