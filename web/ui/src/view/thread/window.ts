// Which lines of a long list are drawn: those in view and some around it. The heights of lines that
// were never drawn are estimated from those that were.

/** The heights of lines, by key, in pixels. */
export class Heights {
  #known = new Map<string, number>();
  #sum = 0;

  /** Records a height; false if it was known. */
  note(key: string, height: number): boolean {
    const before = this.#known.get(key);
    if (before !== undefined && Math.abs(before - height) < 0.5) return false;
    this.#sum += height - (before ?? 0);
    this.#known.set(key, height);
    return true;
  }

  get(key: string): number {
    return this.#known.get(key) ?? this.guess;
  }

  get guess(): number {
    return this.#known.size > 0 ? this.#sum / this.#known.size : 100;
  }

  clear(): void {
    this.#known.clear();
    this.#sum = 0;
  }
}

export interface Slice {
  start: number;
  /** The index after the last. */
  end: number;
  /** The heights of what is not drawn before and after, in pixels. */
  before: number;
  after: number;
}

/** The lines between two places of the list, in pixels from its top. */
export function sliceOf(keys: string[], heights: Heights, from: number, to: number): Slice {
  let at = 0;
  let y = 0;
  while (at < keys.length && y + heights.get(keys[at] ?? '') <= from) y += heights.get(keys[at++] ?? '');
  const [start, before] = [at, y];
  while (at < keys.length && y < to) y += heights.get(keys[at++] ?? '');
  const end = at;
  let after = 0;
  for (; at < keys.length; at++) after += heights.get(keys[at] ?? '');
  return { start, end, before, after };
}

/** Where a line begins, in pixels from the top of the list. */
export function topOf(keys: string[], heights: Heights, at: number): number {
  let y = 0;
  for (let i = 0; i < at; i++) y += heights.get(keys[i] ?? '');
  return y;
}
