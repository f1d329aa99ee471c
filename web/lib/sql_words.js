// What an SQL editor must know of SQL: words for colours, and what could come next. Pure functions.

export const KEYWORDS = (
  "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT OFFSET JOIN LEFT RIGHT FULL INNER OUTER CROSS ASOF ON USING AS AND OR NOT " +
  "IN IS NULL LIKE ILIKE BETWEEN CASE WHEN THEN ELSE END DISTINCT UNION ALL EXCEPT INTERSECT WITH OVER PARTITION ASC DESC " +
  "INTERVAL TRUE FALSE EXISTS QUALIFY EXPLAIN DESCRIBE SHOW TABLES CAST FILTER VALUES"
).split(" ");

export const FUNCTIONS = (
  "count sum avg min max median quantile_cont stddev first last arg_max arg_min now date_trunc time_bucket epoch_ms " +
  "row_number lag lead coalesce round abs lower upper length substr regexp_matches split_part string_agg list"
).split(" ");

const KEYWORD_SET = new Set(KEYWORDS);
const TOKEN =
  /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)|([A-Za-z_]\w*)|(\s+|[\s\S])/gi;

// [{text, kind}], kind being comment, string, name, number, keyword, function, word or other; the texts joined are the input.
export function tokens(sql) {
  const found = [];
  for (const match of sql.matchAll(TOKEN)) {
    const [text, comment, string, quoted, digits, word] = match;
    let kind = "other";
    if (comment) kind = "comment";
    else if (string) kind = "string";
    else if (quoted) kind = "name";
    else if (digits) kind = "number";
    else if (word)
      kind = KEYWORD_SET.has(word.toUpperCase())
        ? "keyword"
        : FUNCTIONS.includes(word.toLowerCase())
          ? "function"
          : "word";
    found.push({ text, kind, at: match.index });
  }
  return found;
}

// Names of tables after FROM and JOIN, with their aliases: Map of alias or name → table.
export function tablesIn(sql) {
  const plain = tokens(sql).filter(({ kind }) => kind !== "comment" && kind !== "string");
  const text = plain.map(({ text: part }) => part).join("");
  const tables = new Map();
  for (const match of text.matchAll(/\b(?:from|join)\s+([\w.]+)(?:\s+(?:as\s+)?([a-z_]\w*))?/gi)) {
    const name = match[1].replace(/^global\./i, "").toLowerCase();
    tables.set(name, name);
    if (match[2] && !KEYWORD_SET.has(match[2].toUpperCase())) tables.set(match[2].toLowerCase(), name);
  }
  return tables;
}

/**
 * What could be meant at the caret.
 * @param {Map<string, {doc: string, columns: {name: string, type: string, doc: string}[]}>} schema by table name
 * @returns {{from: number, items: {label: string, kind: string, doc: string}[]}} `from` is where the word begins
 */
export function completions(sql, caret, schema, limit = 50) {
  const inside = tokens(sql).find(({ text, at }) => at < caret && caret < at + text.length + 1 && caret > at);
  if (inside && (inside.kind === "comment" || inside.kind === "string")) return { from: caret, items: [] };
  const before = sql.slice(0, caret);
  const word = /[\w.]*$/.exec(before)[0];
  const from = caret - word.length;
  const wantsTable = tableFollows(before.slice(0, from));
  const candidates = wantsTable ? tableItems(schema, word) : wordItems(sql, schema, word);
  const typed = word.slice(word.lastIndexOf(".") + 1).toLowerCase();
  const qualified = word.includes(".") && !wantsTable && !candidates.some(({ kind }) => kind === "table");
  const start = qualified ? caret - typed.length : from;
  const prefix = (qualified ? typed : word).toLowerCase();
  const fits = candidates
    .map((item) => ({ item, rank: rankOf(item.label.toLowerCase(), prefix) }))
    .filter(({ rank }) => rank >= 0)
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item);
  return { from: start, items: fits.slice(0, limit) };
}

// After FROM and JOIN, and after a comma in their list.
function tableFollows(before) {
  const plain = tokens(before).filter(({ text, kind }) => kind !== "comment" && text.trim() !== "");
  const keyword = plain.findLast(({ kind }) => kind === "keyword")?.text.toUpperCase();
  const last = plain.at(-1);
  return ["FROM", "JOIN", "DESCRIBE"].includes(keyword) && (last.kind === "keyword" || last.text === ",");
}

// 0 for the beginning, 1 for the beginning of a part after a dot or _, 2 for anywhere; -1 if it does not occur.
function rankOf(label, prefix) {
  if (label.startsWith(prefix)) return label === prefix ? 3 : 0;
  if (prefix.length < 2) return label.includes(`.${prefix}`) ? 1 : -1;
  const at = label.indexOf(prefix);
  if (at < 0) return -1;
  return /[._]/.test(label[at - 1]) ? 1 : 2;
}

function tableItems(schema, word) {
  const prefix = word.toLowerCase().startsWith("global.") ? "global." : "";
  return [...schema].map(([name, { doc }]) => ({ label: prefix + name, kind: "table", doc }));
}

function columnItems(schema, table) {
  return (schema.get(table)?.columns ?? []).map(({ name, type, doc }) => ({
    label: name,
    kind: "column",
    doc: `${type}: ${doc}`,
  }));
}

function wordItems(sql, schema, word) {
  const used = tablesIn(sql);
  const dot = word.lastIndexOf(".");
  if (dot > 0) {
    const owner = word.slice(0, dot).toLowerCase();
    return used.has(owner) ? columnItems(schema, used.get(owner)) : tableItems(schema, word);
  }
  const columns = [...new Set(used.values())].flatMap((table) => columnItems(schema, table));
  const unique = [...new Map(columns.map((item) => [item.label, item])).values()];
  const rest = [
    ...FUNCTIONS.map((name) => ({ label: name, kind: "function", doc: "" })),
    ...KEYWORDS.map((name) => ({ label: name, kind: "keyword", doc: "" })),
  ];
  return [...unique, ...rest, ...(word ? tableItems(schema, word) : [])];
}
