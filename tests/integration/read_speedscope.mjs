// Prints a profile, as speedscope's own importer reads it, as JSON: node read_speedscope.mjs FILE
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { runInThisContext } from "node:vm";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const folder = join(dirname(require.resolve("speedscope/package.json")), "dist/release");
const bundle = readFileSync(join(folder, readdirSync(folder).find((name) => /^speedscope-.*\.js$/.test(name))), "utf8");
// The importer is a module within the bundle, which has no name outside; the page that follows needs a browser.
const exported = /var ([\w$]+)=\{\};[\w$]+\(\1,\{importFromFileSystemDirectoryEntry:/.exec(bundle);
const initialize = new RegExp(`\\(([\\w$]+)\\(\\),${exported[1]}\\)`).exec(bundle)[1];
const hook = `globalThis.importer=()=>(${initialize}(),${exported[1]});`;
try {
  runInThisContext(bundle.slice(0, exported.index) + hook + bundle.slice(exported.index));
} catch (error) {
  if (!String(error).includes("window is not defined")) throw error;
}
console.log = console.error;
const group = await globalThis.importer().importProfileGroupFromText("out.json", readFileSync(process.argv[2], "utf8"));
const profiles = group.profiles.map((profile) => {
  const frames = [];
  const edges = [];
  profile.forEachFrame((frame) => {
    const [self, total] = [frame.getSelfWeight(), frame.getTotalWeight()];
    frames.push({ name: frame.name, file: frame.file, line: frame.line, self, total });
  });
  profile.forEachCall(
    (node) => edges.push([node.parent?.frame.name ?? null, node.frame.name]),
    () => {},
  );
  return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalWeight(), frames, edges };
});
process.stdout.write(JSON.stringify(profiles) + "\n");
