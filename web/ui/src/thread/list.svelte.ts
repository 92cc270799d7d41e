import { createThread, deleteThread, listThreads, renameThread, type Thread } from '../api/threads';

/** The threads of the user, latest activity first. */
export class ThreadList {
  threads = $state.raw<Thread[]>([]);
  loaded = $state(false);
  next = $state('');

  async load(): Promise<void> {
    const page = await listThreads();
    this.threads = page.threads;
    this.next = page.next;
    this.loaded = true;
  }

  async more(): Promise<void> {
    const page = await listThreads(this.next);
    const known = new Set(this.threads.map((thread) => thread.id));
    this.threads = [...this.threads, ...page.threads.filter((thread) => !known.has(thread.id))];
    this.next = page.next;
  }

  async create(): Promise<Thread> {
    const thread = await createThread();
    this.threads = [thread, ...this.threads];
    return thread;
  }

  async rename(id: string, title: string): Promise<void> {
    this.put(await renameThread(id, title));
  }

  async remove(id: string): Promise<void> {
    await deleteThread(id);
    this.threads = this.threads.filter((thread) => thread.id !== id);
  }

  /** Replaces a known thread. */
  put(thread: Thread): void {
    this.threads = this.threads.map((known) => (known.id === thread.id ? thread : known));
  }

  titled(id: string, title: string): void {
    this.threads = this.threads.map((known) => (known.id === id ? { ...known, title } : known));
  }
}

export interface Group {
  name: string;
  threads: Thread[];
}

const dayMs = 24 * 60 * 60 * 1000;

/** Groups threads by how long ago something happened in them. */
export function groupByDay(threads: Thread[], now: Date): Group[] {
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const limits: [string, number][] = [
    ['Today', today],
    ['Yesterday', today - dayMs],
    ['Last 7 days', today - 7 * dayMs],
    ['Earlier', -Infinity],
  ];
  const groups: Group[] = limits.map(([name]) => ({ name, threads: [] }));
  for (const thread of threads) {
    const at = Date.parse(thread.updatedAt);
    const when = Number.isNaN(at) ? now.getTime() : at;
    groups[limits.findIndex(([, from]) => when >= from)]?.threads.push(thread);
  }
  return groups.filter((group) => group.threads.length > 0);
}
