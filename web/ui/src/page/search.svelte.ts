import { longPatience } from '../api/http';
import { listThreads, type Thread } from '../api/threads';

const pauseMs = 200;

/** The search over everything that was said. */
export class Search {
  query = $state('');
  /** The results; null while there is no search. */
  found = $state.raw<Thread[] | null>(null);
  looking = $state(false);
  /** Where further results begin; empty if these are all. */
  next = $state('');

  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortController | undefined;

  constructor(private readonly onFailure: (thrown: unknown) => void) {}

  type(query: string): void {
    this.query = query;
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.looking = query.trim() !== '';
    if (!this.looking) this.found = null;
    else this.#timer = setTimeout(() => void this.#run(query.trim()), pauseMs);
  }

  clear(): void {
    this.type('');
  }

  /** Adds the next page of results. */
  async more(): Promise<void> {
    const { found, next: cursor } = this;
    const page = await listThreads({ query: this.query.trim(), cursor });
    if (found !== this.found) return; // another search, or the same page twice
    this.found = [...(found ?? []), ...page.threads];
    this.next = page.next;
  }

  async #run(query: string): Promise<void> {
    const abort = (this.#abort = new AbortController());
    try {
      const { threads, next } = await listThreads({ query, signal: AbortSignal.any([abort.signal, longPatience()]) });
      if (!abort.signal.aborted) [this.found, this.next] = [threads, next];
    } catch (thrown) {
      if (!abort.signal.aborted) this.onFailure(thrown);
    }
    if (!abort.signal.aborted) this.looking = false;
  }
}

/** The words of a query, in lower case. */
export function wordsOf(query: string): string[] {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Whether a text contains one of the words. */
export function hasAny(text: string, words: string[]): boolean {
  const low = text.toLowerCase();
  return words.some((word) => low.includes(word));
}

/** Whether a text contains all of the words. */
export function hasAll(text: string, words: string[]): boolean {
  const low = text.toLowerCase();
  return words.every((word) => low.includes(word));
}
