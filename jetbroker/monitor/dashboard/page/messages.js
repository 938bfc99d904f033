// The messages of one stream, newest first, and one of them in full.

import { bytes, count, fromBase64, hex, json, text } from "./format.js";

const PREVIEW = 100; // characters
const get = (id) => document.getElementById(id);

export class Messages {
  constructor(getJson) {
    this.getJson = getJson;
    this.allowed = false;
    this.place = null;
    this.next = 0;
    get("messages-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const wanted = get("messages-before").value.trim();
      this.load(/^[0-9]{1,18}$/.test(wanted) ? Number(wanted) + 1 : 0);
    });
    get("messages-newest").addEventListener("click", () => this.load(0));
    get("messages-older").addEventListener("click", () => this.load(this.next));
    for (const radio of document.querySelectorAll("input[name=form]")) {
      radio.addEventListener("change", () => this.showPayload(radio.value));
    }
  }

  isAllowed() {
    return this.allowed;
  }

  async stream(account, name) {
    this.place = { account, stream: name };
    get("messages").hidden = get("to-messages").hidden = false;
    get("messages-title").textContent = `Messages of ${name}`;
    get("message").hidden = true;
    get("messages-before").value = "";
    await this.load(0);
    get("messages-title").focus();
  }

  async load(before) {
    const query = new URLSearchParams({ ...this.place, before });
    const found = await this.getJson(`messages?${query}`);
    if (!found) return;
    this.next = found.next;
    get("messages-older").disabled = !found.next;
    get("messages-rows").replaceChildren(...found.messages.map((message) => this.line(message)));
    const where = found.last_seq ? `The stream ends with sequence ${count(found.last_seq)}.` : "The stream is empty.";
    get("messages-note").textContent = `${found.messages.length} messages. ${where}`;
  }

  line(message) {
    const line = document.createElement("tr");
    const cells = message.damaged
      ? [message.seq, "", "lost to a damaged disk", "", ""]
      : [message.seq, message.time, message.subject, bytes(message.size), preview(message)];
    cells.forEach((value, at) => {
      const cell = document.createElement(at === 0 ? "th" : "td");
      if (at === 0) cell.scope = "row";
      if (at === 3) cell.className = "number";
      cell.textContent = value;
      line.append(cell);
    });
    const last = document.createElement("td");
    if (!message.damaged) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Open";
      button.setAttribute("aria-label", `Open message ${message.seq}`);
      button.addEventListener("click", () => this.show(message.seq));
      last.append(button);
    }
    line.append(last);
    return line;
  }

  async show(seq) {
    const message = await this.getJson(`message?${new URLSearchParams({ ...this.place, seq })}`);
    if (!message || message.damaged) return;
    this.data = fromBase64(message.payload);
    this.isCut = this.data.length < message.size;
    const decoded = text(this.data, this.isCut);
    const forms = { json: decoded === null ? null : json(decoded), text: decoded, hex: hex(this.data) };
    this.forms = forms;
    const cut = this.isCut ? ` The first ${bytes(this.data.length)} are shown.` : "";
    get("message-title").textContent = `Message ${message.seq}`;
    get("message-about").textContent = `${message.subject}, ${message.time}, ${count(message.size)} bytes.${cut}`;
    get("message-headers").textContent = message.headers.trim();
    get("message-headers").hidden = !message.headers_size;
    for (const radio of document.querySelectorAll("input[name=form]")) {
      radio.disabled = forms[radio.value] === null;
      radio.checked = radio.value === Object.keys(forms).find((form) => forms[form] !== null);
      if (radio.checked) this.showPayload(radio.value);
    }
    get("message").hidden = false;
    get("message-title").focus();
  }

  showPayload(form) {
    get("message-payload").textContent = this.forms[form];
  }
}

function preview(message) {
  const data = fromBase64(message.payload);
  const decoded = text(data, data.length < message.size);
  const found = decoded === null ? hex(data.subarray(0, 16)) : decoded.slice(0, PREVIEW);
  return found.length < (decoded === null ? data.length : decoded.length) ? `${found}…` : found;
}
