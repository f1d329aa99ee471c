// Prints a pprof profile, as the package pprof-format reads it, as JSON: node read_pprof.mjs FILE
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";

const { Profile } = createRequire(new URL("../../web/package.json", import.meta.url))("pprof-format");
const bytes = readFileSync(process.argv[2]);
const profile = Profile.decode(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes);
const text = (index) => profile.stringTable.strings[Number(index)];
const functions = new Map(profile.function.map((one) => [String(one.id), one]));
const locations = new Map(profile.location.map((one) => [String(one.id), one]));
const linesOf = (id) =>
  locations.get(String(id)).line.map((line) => {
    const called = functions.get(String(line.functionId));
    return [text(called.name), text(called.filename), Number(line.line)];
  });
console.log(
  JSON.stringify({
    types: profile.sampleType.map((one) => [text(one.type), text(one.unit)]),
    periodType: text(profile.periodType.type),
    period: Number(profile.period),
    durationNs: Number(profile.durationNanos),
    samples: profile.sample.map((one) => ({
      stack: one.locationId.flatMap(linesOf),
      values: one.value.map(Number),
      labels: Object.fromEntries(one.label.map((label) => [text(label.key), text(label.str) || Number(label.num)])),
    })),
  }),
);
