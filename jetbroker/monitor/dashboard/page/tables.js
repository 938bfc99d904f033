// Tables whose rows come from the broker: the first ones with each event, others when they are asked for.

import { bytes, count, rate } from "./format.js";

const PAGE = 25;
const number = (title, of, sort) => ({ title, of, sort, kind: "number" });
const words = (title, of, sort, kind) => ({ title, of, sort, kind });
const account = () => words("Account", (row) => row.account, undefined, "account");

const KINDS = [
  {
    name: "streams",
    title: "Streams",
    key: (row) => JSON.stringify([row.account, row.name]),
    columns: [
      words("Stream", (row) => row.name, "name"),
      account(),
      words("Subjects", subjects, undefined, "wide"),
      number("Messages/s", (row) => rate(row.rate), "rate"),
      number("Messages", (row) => count(row.messages), "messages"),
      number("Size", (row) => bytes(row.bytes) + (row.storage === "memory" ? " in memory" : ""), "bytes"),
      number("Consumers", (row) => count(row.consumers)),
    ],
  },
  {
    name: "consumers",
    title: "Consumers",
    key: (row) => JSON.stringify([row.account, row.stream, row.name]),
    columns: [
      words("Consumer", (row) => row.name + (row.paused ? " (paused)" : ""), "name"),
      words("Stream", (row) => row.stream),
      account(),
      number("Lag", (row) => count(row.lag), "lag"),
      number("Pending", (row) => count(row.pending)),
      number("Unacknowledged", (row) => count(row.ack_pending), "ack_pending"),
      number("Redelivered", (row) => count(row.redelivered), "redelivered"),
      number("Waiting pulls", (row) => count(row.waiting)),
    ],
  },
  { name: "connections", title: "Connections", key: (row) => String(row.cid), columns: connectionColumns("Client") },
  {
    name: "accounts",
    title: "Accounts",
    key: (row) => row.name,
    columns: [
      words("Account", (row) => row.name, "name"),
      number("Messages/s", (row) => rate(row.rate), "rate"),
      number("Connections", (row) => count(row.connections), "connections"),
      number("Subscriptions", (row) => count(row.subscriptions)),
      number("Streams", (row) => count(row.streams)),
      number("Consumers", (row) => count(row.consumers)),
      number("On disk", (row) => bytes(row.stored), "stored"),
      number("In memory", (row) => bytes(row.in_memory)),
    ],
  },
  { name: "leafnodes", title: "Leafnodes", key: (row) => String(row.cid), columns: connectionColumns("Server") },
];

function subjects(row) {
  return row.subjects.join(", ") + (row.more_subjects ? ` and ${row.more_subjects} more` : "");
}

function connectionColumns(title) {
  return [
    number("ID", (row) => row.cid),
    words(title, (row) => row.name, "name"),
    account(),
    words("Address", (row) => row.address),
    number("Messages/s", (row) => rate(row.rate), "rate"),
    number("In", (row) => count(row.in_msgs)),
    number("Out", (row) => count(row.out_msgs)),
    number("Subscriptions", (row) => count(row.subscriptions), "subscriptions"),
    number("Unsent", (row) => bytes(row.pending_bytes), "pending_bytes"),
    words("Round trip", (row) => row.rtt),
  ];
}

function element(tag, text, attributes) {
  const found = document.createElement(tag);
  if (text !== undefined) found.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) found.setAttribute(name, value);
  return found;
}

class Table {
  constructor(kind, getJson, open) {
    this.kind = kind;
    this.getJson = getJson;
    this.open = open; // of a row: shows its messages
    this.search = "";
    this.sort = "";
    this.offset = 0;
    this.busy = false;
    this.rows = new Map();
    this.section = this.build();
  }

  build() {
    const { name, title, columns } = this.kind;
    const section = element("section", undefined, { id: name, "aria-labelledby": `${name}-title` });
    section.append(element("h2", title, { id: `${name}-title` }));
    const controls = element("div", undefined, { class: "controls", role: "search", "aria-label": title });
    const label = element("label", "Search ");
    const input = element("input", undefined, { type: "search", autocomplete: "off", maxlength: "200" });
    input.addEventListener("input", () => this.ask({ search: input.value, offset: 0 }));
    label.append(input);
    this.previous = element("button", "Previous", { type: "button", "aria-label": `Previous ${name}` });
    this.next = element("button", "Next", { type: "button", "aria-label": `Next ${name}` });
    this.previous.addEventListener("click", () => this.ask({ offset: Math.max(this.offset - PAGE, 0) }));
    this.next.addEventListener("click", () => this.ask({ offset: this.offset + this.shown }));
    this.note = element("span", "", { class: "note", id: `${name}-note` });
    controls.append(label, this.previous, this.next, this.note);
    const scroll = element("div", undefined, { class: "scroll", role: "region", "aria-labelledby": `${name}-title` });
    scroll.tabIndex = 0;
    const table = element("table", undefined, { "aria-describedby": `${name}-note` });
    table.append(element("caption", title, { class: "hidden-text" }));
    this.head = element("tr");
    for (const column of columns) this.head.append(this.header(column));
    const head = element("thead");
    head.append(this.head);
    this.body = element("tbody");
    table.append(head, this.body);
    scroll.append(table);
    section.append(controls, scroll);
    return section;
  }

  header(column) {
    const cell = element("th", undefined, { scope: "col" });
    if (column.kind) cell.className = column.kind;
    if (!column.sort) {
      cell.textContent = column.title;
      return cell;
    }
    const button = element("button", column.title, { type: "button" });
    button.addEventListener("click", () => this.ask({ sort: column.sort, offset: 0 }));
    cell.dataset.sort = column.sort;
    cell.append(button);
    return cell;
  }

  // What somebody wants to see now, whatever is on its way.
  async ask(wanted) {
    Object.assign(this, wanted);
    this.wanted = true;
    await this.refresh();
  }

  get isFirstPage() {
    return !this.search && !this.sort && !this.offset;
  }

  // With each event: what it brings, or, for another page, an answer of its own.
  follow(found) {
    if (this.isFirstPage && !this.wanted) this.show(found);
    else this.refresh();
  }

  async refresh() {
    if (this.busy) return;
    this.busy = true;
    try {
      do {
        const again = this.wanted;
        this.wanted = false;
        const query = new URLSearchParams({ table: this.kind.name, search: this.search, sort: this.sort });
        query.set("offset", this.offset);
        const found = await this.getJson(`rows?${query}`);
        if (found && !this.wanted) this.show(found, again);
      } while (this.wanted);
    } finally {
      this.busy = false;
    }
  }

  // Rows do not change places under somebody's pointer or focus; `anew`: unless he has asked for others.
  get isHeld() {
    return this.body.contains(document.activeElement) || this.body.matches(":hover");
  }

  show(found, anew) {
    const { key } = this.kind;
    this.shown = found.rows.length;
    const end = found.offset + this.shown;
    this.note.textContent = this.shown
      ? `${count(found.offset + 1)} to ${count(end)} of ${count(found.total)}`
      : found.total ? `none here, ${count(found.total)} in all` : "none";
    this.previous.disabled = found.offset === 0;
    this.next.disabled = end >= found.total;
    for (const cell of this.head.children) {
      const isSorted = cell.dataset.sort && cell.dataset.sort === found.sort;
      if (isSorted) cell.setAttribute("aria-sort", cell.dataset.sort === "name" ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    const rows = new Map(found.rows.map((row) => [key(row), row]));
    if (this.isHeld && !anew) {
      for (const [name, line] of this.rows) if (rows.has(name)) this.fill(line, rows.get(name));
      return;
    }
    const lines = new Map();
    for (const [name, row] of rows) lines.set(name, this.fill(this.rows.get(name) || this.line(row), row));
    this.rows = lines;
    const wanted = [...lines.values()];
    if (wanted.length !== this.body.children.length || wanted.some((line, at) => line !== this.body.children[at])) {
      this.body.replaceChildren(...wanted);
    }
  }

  line(row) {
    const line = element("tr");
    this.kind.columns.forEach((column, at) => {
      const cell = at === 0 ? element("th", undefined, { scope: "row" }) : element("td");
      if (column.kind) cell.className = column.kind;
      line.append(cell);
    });
    if (this.kind.name === "streams" && this.open.isAllowed()) {
      const button = element("button", "Messages", { type: "button", "aria-label": `Messages of ${row.name}` });
      button.addEventListener("click", () => this.open.stream(row.account, row.name));
      const cell = element("td");
      cell.append(button);
      line.append(cell);
    }
    return line;
  }

  fill(line, row) {
    this.kind.columns.forEach((column, at) => {
      const text = String(column.of(row));
      if (line.children[at].textContent !== text) line.children[at].textContent = text;
    });
    return line;
  }
}

export function makeTables(place, getJson, open) {
  const tables = KINDS.map((kind) => new Table(kind, getJson, open));
  place.append(...tables.map((table) => table.section));
  const streams = tables[0].head;
  return (found) => {
    if (open.isAllowed() && !streams.querySelector(".look")) {
      streams.append(element("th", "Look", { scope: "col", class: "look" }));
    }
    for (const table of tables) if (found[table.kind.name]) table.follow(found[table.kind.name]);
  };
}
