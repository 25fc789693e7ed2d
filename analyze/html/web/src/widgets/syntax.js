// Colours of Python's syntax in source texts.
import { highlightTree, tagHighlighter, tags } from "@lezer/highlight";
import { parser } from "@lezer/python";
import { MOST, clean } from "../format.js";

const STYLES = tagHighlighter([
  { tag: [tags.keyword, tags.bool, tags.null, tags.self, tags.operatorKeyword], class: "keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "string" },
  { tag: tags.number, class: "number" },
  { tag: tags.comment, class: "comment" },
  { tag: [tags.definition(tags.className), tags.function(tags.definition(tags.variableName)), tags.meta], class: "definition" },
]);
// What Python's frames may name beside Python: templates, and sources that were compiled to C.
const IS_OTHER = /\.(html?|xml|j2|jinja2?|tmpl|tpl|mako?|sql|txt|md|rst|json|ya?ml|toml|css|[jt]s|rs|[ch]|cc|[ch]pp|cxx)$|^<template>$/i;
// Longer lines are cut where the page is made.
const LONGEST = 2000;
const TRIPLE = /"""|'''/;

/**
 * Which characters of each line have which colour: for each line of `text`, which begins in line `first` of the file, parts
 * [from, to, class] in their order. There are none where a string of several lines may end that began before, or lacks its end.
 */
export function coloured(file, first, text) {
  const lines = text.split("\n");
  const parts = lines.map(() => []);
  const isPart = first > 1 || lines.some((line) => line.length > LONGEST);
  if (IS_OTHER.test(file) || (isPart && TRIPLE.test(text))) return parts;
  const starts = [];
  let start = 0;
  for (const line of lines) {
    starts.push(start);
    start += line.length + 1;
  }
  let at = 0;
  highlightTree(parser.parse(text), STYLES, (from, to, style) => {
    while (at + 1 < starts.length && starts[at + 1] <= from) at++;
    for (let line = at; line < starts.length && starts[line] < to; line++) {
      const [begin, end] = [Math.max(from - starts[line], 0), Math.min(to - starts[line], lines[line].length, MOST)];
      if (end > begin) parts[line].push([begin, end, style]);
    }
  });
  return parts;
}

/** Fills `cell` with a line of source in these colours. */
export function writeCode(cell, text, parts) {
  let end = Math.min(text.length, MOST);
  let done = 0;
  if (isLow(text, end)) end--; // both halves of a character
  const write = (to, style) => {
    if (isLow(text, to)) to++;
    if (to <= done) return;
    const piece = document.createTextNode(clean(text.slice(done, to)));
    done = to;
    if (!style) return cell.append(piece);
    const span = document.createElement("span");
    span.className = style;
    span.append(piece);
    cell.append(span);
  };
  for (const [from, to, style] of parts) {
    if (from >= end) break;
    write(from, null);
    write(Math.min(to, end), style);
  }
  write(end, null);
  if (text.length > done) cell.append("…");
}

/** Whether the second half of a character begins here. */
function isLow(text, index) {
  const code = text.charCodeAt(index);
  return code >= 0xdc00 && code < 0xe000;
}
