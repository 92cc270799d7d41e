import { isObject } from '../../base/json';

/** One fact that was found in a call: where it is in the object, and what. */
export interface Fact {
  name: string;
  /** null: not said. */
  value: string | number | boolean | null;
}

const most = 200;
const deepest = 8;

/** The facts of an object, line by line; what is inside of others has their names before its own. */
export function factsOf(extracted: unknown): Fact[] {
  const facts: Fact[] = [];
  const add = (names: string[], value: unknown): void => {
    if (facts.length >= most) return;
    const name = names.join(' · ');
    const entries = isObject(value) ? Object.entries(value) : Array.isArray(value) ? value.map((inner, at): [string, unknown] => [`${at + 1}`, inner]) : [];
    if (typeof value === 'boolean' || typeof value === 'number') facts.push({ name, value });
    else if (typeof value === 'string') facts.push({ name, value: value.trim() || null });
    else if (entries.length === 0) facts.push({ name, value: null });
    else if (Array.isArray(value) && value.every((inner) => typeof inner === 'string' || typeof inner === 'number')) facts.push({ name, value: value.join(', ') });
    else if (names.length >= deepest) facts.push({ name, value: JSON.stringify(value) });
    else for (const [key, inner] of entries) add([...names, worded(key)], inner);
  };
  if (isObject(extracted)) for (const [key, value] of Object.entries(extracted)) add([worded(key)], value);
  return facts;
}

/** first_name and firstName are read as "First name". */
function worded(key: string): string {
  const words = key.replace(/[_-]+/g, ' ').replace(/(\p{Ll})(\p{Lu})/gu, (_, low: string, high: string) => `${low} ${high.toLowerCase()}`).trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
