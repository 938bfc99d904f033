// The page: follows the broker's events, and shows what they say.

import { bytes, count, rate } from "./format.js";
import { Messages } from "./messages.js";
import { makeTables } from "./tables.js";

const POINTS = 60; // seconds of the chart
const AGAIN_MS = 5000;
const get = (id) => document.getElementById(id);
const history = [];
let source = null;
let paused = false;
let problems = -1;

function say(text) {
  if (get("status").textContent !== text) get("status").textContent = text;
}

// JSON from below /dashboard, null when there is none; why not is said.
async function getJson(path) {
  try {
    const answer = await fetch(`dashboard/${path}`, { cache: "no-store" });
    if (answer.ok) return await answer.json();
    say((await answer.text()).trim());
  } catch {
    say("The broker does not answer.");
  }
  return null;
}

const messages = new Messages(getJson);
const showTables = makeTables(get("tables"), getJson, messages);

function figures(shown) {
  const { server, totals } = shown;
  const rates = totals.rates || {};
  const stored = server.max_storage > 0 ? `${bytes(totals.stored)} of ${bytes(server.max_storage)}` : bytes(totals.stored);
  return [
    ["Messages in/s", rate(rates.in_msgs)],
    ["Messages out/s", rate(rates.out_msgs)],
    ["Data in/s", totals.rates ? bytes(rates.in_bytes) : "–"],
    ["Data out/s", totals.rates ? bytes(rates.out_bytes) : "–"],
    ["Messages in", count(totals.in_msgs)],
    ["Messages out", count(totals.out_msgs)],
    ["Connections", count(totals.connections)],
    ["Subscriptions", count(totals.subscriptions)],
    ["Streams", count(totals.streams)],
    ["Consumers", count(totals.consumers)],
    ["Stored messages", count(totals.messages)],
    ["On disk", stored],
    ["In memory streams", bytes(totals.in_memory)],
    ...(server.memory === undefined ? [] : [["Process memory", bytes(server.memory)], ["CPU", `${server.cpu} %`]]),
  ];
}

function showFigures(found) {
  const list = get("figures");
  found.forEach(([title, value], at) => {
    let box = list.children[at];
    if (!box) {
      box = document.createElement("div");
      box.append(document.createElement("dt"), document.createElement("dd"));
      list.append(box);
    }
    if (box.children[0].textContent !== title) box.children[0].textContent = title;
    if (box.children[1].textContent !== value) box.children[1].textContent = value;
  });
  while (list.children.length > found.length) list.lastChild.remove();
}

function showChart(rates) {
  history.push(rates ? [rates.in_msgs, rates.out_msgs] : [0, 0]);
  if (history.length > POINTS) history.shift();
  const peak = Math.max(1, ...history.flat());
  ["line-in", "line-out"].forEach((id, which) => {
    const points = history.map((values, at) => `${(600 * at) / (POINTS - 1)},${88 - (86 * values[which]) / peak}`);
    get(id).setAttribute("points", points.join(" "));
  });
  get("peak").textContent = rate(Math.max(0, ...history.flat()));
  const now = history[history.length - 1];
  get("chart").setAttribute("aria-label", `Messages a second now: ${rate(now[0])} in, ${rate(now[1])} out`);
}

function showProblems(found) {
  get("problems").hidden = !found.length;
  const lines = found.map(({ account, text }) => {
    const line = document.createElement("li");
    line.textContent = account ? `${account}: ${text}` : text;
    return line;
  });
  get("problem-list").replaceChildren(...lines);
  const before = problems;
  problems = found.length;
  return before !== problems;
}

function show(shown) {
  const { server, scope } = shown;
  messages.allowed = scope.messages;
  get("name").textContent = server.name;
  document.title = `${server.name} – jetbroker`;
  if (scope.account !== null) document.body.dataset.account = scope.account;
  const who = scope.account === null ? "" : ` Account ${scope.account}.`;
  get("about").textContent = `${server.version}, up for ${server.uptime}.${who}`;
  get("updated").textContent = new Date(shown.time).toLocaleTimeString();
  showFigures(figures(shown));
  showChart(shown.totals.rates);
  const changed = showProblems(shown.problems);
  showTables(shown.tables);
  const state = problems ? `Connected. ${problems} problems: see the overview.` : "Connected. No problems.";
  if (changed || !get("status").textContent.startsWith("Connected")) say(state);
  document.body.dataset.events = String(Number(document.body.dataset.events || 0) + 1);
}

function follow() {
  source = new EventSource("dashboard/events");
  source.addEventListener("message", (event) => show(JSON.parse(event.data)));
  source.addEventListener("error", async () => {
    if (source.readyState !== EventSource.CLOSED) {
      say("The connection is lost. Connecting again…");
      return;
    }
    source = null;
    await getJson("summary"); // says why
    if (!paused) setTimeout(() => paused || source || follow(), AGAIN_MS);
  });
}

get("pause").addEventListener("click", () => {
  paused = !paused;
  get("pause").setAttribute("aria-pressed", String(paused));
  if (source) source.close();
  source = null;
  if (paused) say("Paused.");
  else follow();
});
follow();
