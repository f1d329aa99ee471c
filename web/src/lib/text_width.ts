// Text in the room there is, with characters of one width; those of Asia take two. Pure.
export function fitting(text: string, columns: number): string {
  if (columns < 4) return "";
  let used = 0;
  let cut = 0;
  let at = 0;
  for (const one of text) {
    if (used + 1 <= columns - 1) cut = at;
    used += (one.codePointAt(0) ?? 0) >= 0x1000 ? 2 : 1;
    if (used > columns) return `${text.slice(0, cut)}…`;
    at += one.length;
  }
  return text;
}
