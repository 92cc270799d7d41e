import { createThread, deleteThread, listThreads, readThread, renameThread, type Thread } from '../api/threads';
import { asObject, asText } from '../base/json';
import type { SocketEvent } from '../link/socket';
import { t } from '../words/language.svelte';
import { afterEnd } from './calls';

/** How long a deletion can be undone. */
export const undoMs = 8000;

/** The threads of the user, latest activity first. */
export class ThreadList {
  #all = $state.raw<Thread[]>([]);
  /** Threads that are deleted unless the user undoes it in time. */
  #leaving = $state.raw<Record<string, ReturnType<typeof setTimeout>>>({});
  /** Threads that were deleted while the page was open. */
  #gone = $state.raw<string[]>([]);
  /** Live calls, by thread. */
  calls = $state.raw<Record<string, string>>({});
  loaded = $state(false);
  next = $state('');
  #pages = 1;
  #asked = 0;
  #answered = 0;
  #waiting = 0;
  /** What was heard of threads while the list is read, which may be newer. */
  #heard: Thread[] = [];
  threads = $derived(this.#all.filter(({ id }) => !(id in this.#leaving)));

  /** @param onFailure is called when a deletion fails */
  constructor(private readonly onFailure: (thrown: unknown) => void) {
    addEventListener('pagehide', () => void this.removeNow());
  }

  /** Reads the newest threads. Those of further pages stay. */
  async load(): Promise<void> {
    const turn = ++this.#asked;
    const from = this.#heard.length;
    this.#waiting++;
    try {
      const page = await listThreads();
      if (turn < this.#answered) return; // a later answer came first
      this.#answered = turn;
      const end = page.next === '' ? -Infinity : Math.min(...page.threads.map(timeOf));
      this.#all = this.#merged(page.threads, this.#all.filter((thread) => timeOf(thread) <= end));
      this.#heard.slice(from).forEach((thread) => this.#place(thread));
      if (page.next === '' || this.#pages === 1) this.next = page.next;
      this.loaded = true;
    } finally {
      if (--this.#waiting === 0) this.#heard = [];
    }
  }

  async more(): Promise<void> {
    const page = await listThreads({ cursor: this.next });
    this.#all = this.#merged(this.#all, page.threads);
    this.next = page.next;
    this.#pages++;
  }

  #merged(first: Thread[], further: Thread[]): Thread[] {
    const known = new Set(first.map(({ id }) => id));
    return byTime([...first, ...further.filter(({ id }) => !known.has(id))].filter(({ id }) => !this.#gone.includes(id)));
  }

  of(id: string): Thread {
    return this.#all.find((thread) => thread.id === id) ?? { id, title: '', updatedAt: '' };
  }

  titleOf(id: string): string {
    return this.of(id).title;
  }

  /** Search results as they are now: without deleted threads, with current titles. */
  current(found: Thread[]): Thread[] {
    return found
      .filter(({ id }) => !(id in this.#leaving) && !this.#gone.includes(id))
      .map((thread) => ({ ...thread, title: this.titleOf(thread.id) || thread.title }));
  }

  async create(assistant?: string): Promise<Thread> {
    const thread = await createThread(assistant);
    this.put(thread);
    return thread;
  }

  async rename(id: string, title: string): Promise<void> {
    this.put(await renameThread(id, title));
  }

  /** Removes a thread; for a while restore brings it back. */
  remove(id: string): void {
    if (id in this.#leaving) return;
    this.#leaving = { ...this.#leaving, [id]: setTimeout(() => void this.#delete(id), undoMs) };
  }

  /** Deletes what was removed, because nobody can undo it any more. */
  async removeNow(): Promise<void> {
    await Promise.all(Object.keys(this.#leaving).map((id) => this.#delete(id)));
  }

  restore(id: string): void {
    clearTimeout(this.#leaving[id]);
    this.#stay(id);
  }

  /** Puts a thread in its place, whether it is new or not. */
  put(thread: Thread): void {
    if (this.#waiting > 0) this.#heard.push(thread);
    this.#place(thread);
  }

  #place(thread: Thread): void {
    if (this.#gone.includes(thread.id)) return;
    const others = this.#all.filter(({ id }) => id !== thread.id);
    this.#all = byTime([...others, thread]);
  }

  titled(id: string, title: string): void {
    this.#all = this.#all.map((known) => (known.id === id ? { ...known, title } : known));
  }

  /** Applies an event of the owner's socket; 'unknown' if the list must be read again. */
  take({ type, data }: SocketEvent): 'gone' | 'unknown' | 'done' {
    const id = asText(data.thread_id, asText(asObject(data.thread).id, asText(data.id)));
    switch (type) {
      case 'thread_created':
      case 'thread_updated': {
        const thread = readThread('thread' in data ? asObject(data.thread) : data);
        if (thread.id === '' || thread.updatedAt === '') return 'unknown';
        // An app may make one again under its old id.
        if (type === 'thread_created') this.#gone = this.#gone.filter((gone) => gone !== thread.id);
        this.put(thread);
        return 'done';
      }
      case 'thread_deleted':
        this.#forget(id);
        return 'gone';
      case 'connected': // the ends of these calls may have been missed; those that are live are told right after this
        this.calls = {};
        return 'done';
      case 'call_started':
        this.calls = { ...this.calls, [id]: asText(data.call_id, 'live') };
        return 'done';
      case 'call_ended': {
        const { [id]: live = '', ...rest } = this.calls;
        const left = afterEnd(live, asText(data.call_id));
        this.calls = left === '' ? rest : { ...rest, [id]: left };
        return 'done';
      }
      default:
        return 'done';
    }
  }

  async #delete(id: string): Promise<void> {
    clearTimeout(this.#leaving[id]);
    try {
      await deleteThread(id);
      this.#forget(id);
    } catch (thrown) {
      this.onFailure(thrown);
    }
    this.#stay(id);
  }

  #forget(id: string): void {
    this.#all = this.#all.filter((thread) => thread.id !== id);
    this.#gone = [...this.#gone, id];
  }

  #stay(id: string): void {
    const { [id]: _, ...rest } = this.#leaving;
    this.#leaving = rest;
  }
}

function byTime(threads: Thread[]): Thread[] {
  return threads.sort((a, b) => timeOf(b) - timeOf(a));
}

function timeOf({ updatedAt }: Thread): number {
  return Date.parse(updatedAt) || 0;
}

export interface Group {
  name: string;
  threads: Thread[];
}

/** Groups threads by how long ago something happened in them. */
export function groupByDay(threads: Thread[], now: Date): Group[] {
  const words = t().days;
  // By the calendar: a day may have 23 or 25 hours.
  const daysAgo = (days: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - days).getTime();
  const limits: [string, number][] = [
    [words.today, daysAgo(0)],
    [words.yesterday, daysAgo(1)],
    [words.week, daysAgo(7)],
    [words.earlier, -Infinity],
  ];
  const groups: Group[] = limits.map(([name]) => ({ name, threads: [] }));
  for (const thread of threads) {
    const at = Date.parse(thread.updatedAt);
    const when = Number.isNaN(at) ? now.getTime() : at;
    groups[limits.findIndex(([, from]) => when >= from)]?.threads.push(thread);
  }
  return groups.filter((group) => group.threads.length > 0);
}
