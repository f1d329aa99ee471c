// What this reader may do, as the server says: read < profile < eval.
import { get } from "./api";
import type { Right } from "../types/api";

const ORDER: Right[] = ["none", "read", "profile", "eval", "own"];
let right: Right = "eval"; // until it is known; the server has the last word
let asked: Promise<void> | null = null;

export function loadRight(): Promise<void> {
  asked ??= get("status").then(
    (status) => void (right = status.right ?? right),
    () => void (asked = null),
  );
  return asked;
}

export function may(needed: Right): boolean {
  return ORDER.indexOf(right) >= ORDER.indexOf(needed);
}
