// Reading untrusted JSON: every helper accepts anything and
// returns a value of the wanted kind.

export type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function asObject(value: unknown): Json {
  return isObject(value) ? value : {};
}

export function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asObjects(value: unknown): Json[] {
  return asList(value).filter(isObject);
}

export function asText(value: unknown, fallback = ''): string {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : fallback;
}

/** A finite number, also from a numeric string; otherwise the fallback. */
export function asNumber(value: unknown, fallback: number): number;
export function asNumber(value: unknown): number | undefined;
export function asNumber(value: unknown, fallback?: number): number | undefined {
  const n = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof n === 'number' && Number.isFinite(n) ? n : fallback;
}

/** Parses text, or returns undefined if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** JSON for people to read, cut at a length that a page can show. */
export function pretty(value: unknown, limit = 20_000): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? String(value));
  return text.length > limit ? `${text.slice(0, limit)}\n… ${text.length - limit} more characters` : text;
}
