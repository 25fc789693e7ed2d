// Formats numbers and text. Text of a trace is data: it must only be used as the text of an element.

/** The most characters of a text. */
export const MOST = 400;

/** `text` with escapes for characters that could hide, break or reorder it, cut to MOST characters. */
export function clean(text) {
  const cut = text.length > MOST ? `${text.slice(0, MOST)}…` : text;
  return cut.replaceAll("\t", "    ").replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, escaped);
}

function escaped(character) {
  const code = character.codePointAt(0);
  const known = { 10: "\\n", 13: "\\r" }[code];
  return known ?? (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`);
}

const formats = new Map();

/** A number with this many decimals and separators of thousands. */
export function decimal(value, digits) {
  if (!formats.has(digits)) {
    formats.set(
      digits,
      new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
    );
  }
  return formats.get(digits).format(value);
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 1) return `${decimal(value * 1e3, 0)} ms`;
  return value < 100 ? `${decimal(value, 2)} s` : `${decimal(value, 0)} s`;
}

export function megabytes(value) {
  if (value === null || value === undefined) return "";
  if (Math.abs(value) >= 1e10) return `${decimal(value / 1e9, 1)} GB`;
  return `${decimal(value / 1e6, Math.abs(value) < 1e8 ? 1 : 0)} MB`;
}

export function perSecond(value) {
  if (Math.abs(value) < 1e6) return `${decimal(value / 1e3, 0)} KB/s`;
  return `${megabytes(value)}/s`;
}

export function percent(part, whole) {
  return whole ? (100 * part) / whole : 0;
}

/** Seconds as an argument of --from and --to, with only as many digits as the width of a bin needs. */
export function typed(value, width) {
  const digits = Math.max(0, Math.ceil(-Math.log10(width) - 1e-9));
  return String(Number(value.toFixed(Math.min(digits, 9))));
}

/** The last part of a path. */
export function baseName(path) {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}
