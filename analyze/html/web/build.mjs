// Bundles src/ into one script and one style sheet in the folder given on the command line.
// The script begins with the names, versions and licences of the bundled packages, and a digest of the sources.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.argv[2];
const result = await build({
  entryPoints: { report: "src/main.js" },
  outdir: folder,
  bundle: true,
  minify: true,
  charset: "ascii",
  format: "iife",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
});

const packages = [...new Set(Object.keys(result.metafile.inputs).map(packageOf).filter(Boolean))].sort();
for (const file of result.outputFiles) {
  const name = file.path.split("/").pop();
  const opening = name.endsWith(".js") ? notice(packages) : "";
  writeFileSync(join(folder, name), opening + file.text.trim() + "\n");
}

/** The package of a bundled file; undefined for our own files. */
function packageOf(path) {
  return path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1];
}

/** A comment with the name, version and licence of each package, and the texts of the licences. */
function notice(names) {
  const texts = names.map((name) => {
    const home = join("node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
    const file = readdirSync(home).find((each) => /^licen[sc]e/i.test(each));
    if (!file) throw new Error(`${name} has no licence file`);
    return { heading: `${name} ${version} (${license})`, text: readFileSync(join(home, file), "utf8").trim() };
  });
  const places = new Map();
  for (const { heading, text } of texts) places.set(text, [...(places.get(text) ?? []), heading]);
  const list = texts.map(({ heading }) => heading).join("\n");
  const licences = [...places].map(([text, headings]) => `${headings.join(", ")}:\n\n${text}`).join("\n\n----\n\n");
  const safe = licences.replaceAll("*/", "* /").replaceAll("<", "(").replaceAll(">", ")");
  return `/*! Made from ${digest()}\nContains:\n${list}\n\n${safe}\n*/\n`;
}

/** SHA-256 of the contents of the lock file, this file and src/, in the order of their names. */
function digest() {
  const files = readdirSync("src", { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  const sources = files.map((each) => join(each.parentPath ?? each.path, each.name));
  const hash = createHash("sha256");
  for (const name of ["package-lock.json", "build.mjs", ...sources].sort()) hash.update(readFileSync(name));
  return hash.digest("hex");
}
