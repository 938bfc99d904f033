// How figures and payloads are written. Everything here gives text, never markup.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value) {
  return Number(value).toLocaleString("en");
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value >= 100 ? count(Math.round(value)) : value.toLocaleString("en", { maximumFractionDigits: 1 });
}

export function bytes(value) {
  let size = Number(value);
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// The text of these bytes, null when they are none. `cut`: the end is missing, maybe in the middle of a character.
export function text(data, cut) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data, { stream: cut });
  } catch {
    return null;
  }
}

export function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = Array.from(data.subarray(at, at + 16));
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

// JSON with line breaks, null for what is none. Numbers stay as they were written: a parser would round long ones.
export function json(source) {
  try {
    JSON.parse(source);
  } catch {
    return null;
  }
  const tokens = source.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) || [];
  const out = [];
  let depth = 0;
  const line = () => out.push("\n", "  ".repeat(Math.min(depth, 40)));
  tokens.forEach((token, at) => {
    if (token === "{" || token === "[") {
      out.push(token);
      depth += 1;
      if (!"]}".includes(tokens[at + 1])) line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      if (!"[{".includes(tokens[at - 1])) line();
      out.push(token);
    } else if (token === ",") {
      out.push(token);
      line();
    } else {
      out.push(token === ":" ? ": " : token);
    }
  });
  return out.join("");
}
