import { ApiError } from '../api/http';
import { queuedKeys } from '../api/keys';
import * as api from '../api/queue';
import { PlainError } from '../base/errors';
import type { SocketEvent } from '../link/socket';
import { t } from '../words/language.svelte';
import { emptyQueue, isFull, isWaiting, reduceQueue, withList, type Queue } from './queue';

/** The queue of an open thread, kept up to date by the thread's socket. */
export class ThreadQueue {
  state = $state.raw<Queue>(emptyQueue);
  full = $derived(isFull(this.state));
  waiting = $derived(isWaiting(this.state));

  #reading = false;

  constructor(
    readonly thread: string,
    private readonly onFailure: (thrown: unknown) => void,
  ) {}

  take(event: SocketEvent): void {
    if (event.type !== 'connected' && !event.type.startsWith('queue_')) return;
    this.state = reduceQueue(this.state, event);
    // What is being read may be older than this.
    if (this.#reading) this.state = { ...this.state, stale: true };
    if (this.state.stale) void this.#read();
  }

  /** Adds a text at the end; throws if the server does not accept it. */
  async add(text: string, images: string[] = []): Promise<void> {
    try {
      await queuedKeys.use([this.thread, text, images], (key) => api.addToQueue(this.thread, text, key, images));
    } finally {
      this.#again();
    }
  }

  edit = (id: string, text: string) => this.#do(api.editQueued(this.thread, id, text));
  remove = (id: string) => this.#do(api.removeQueued(this.thread, id));
  move = (id: string, direction: 'up' | 'down') => this.#do(api.moveQueued(this.thread, id, direction));
  send = (id: string) => this.#do(api.sendQueued(this.thread, id));
  clear = () => this.#do(api.clearQueue(this.thread));
  resume = () => this.#do(api.resumeQueue(this.thread));

  /** Waits for a request; false if it failed, which the user is told. */
  async #do(request: Promise<void>): Promise<boolean> {
    try {
      await request;
      return true;
    } catch (thrown) {
      this.onFailure(thrown instanceof ApiError && thrown.status === 404 ? new PlainError('queue_gone', t().queue.gone) : thrown);
      return false;
    } finally {
      await this.#again();
    }
  }

  #again(): Promise<void> {
    this.state = { ...this.state, stale: true };
    return this.#read();
  }

  // An event that arrives while the list is being read makes it stale again.
  async #read(): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      while (this.state.stale) {
        this.state = { ...this.state, stale: false };
        const answer = await api.getQueue(this.thread);
        if (!this.state.stale) this.state = withList(this.state, answer);
      }
    } catch (thrown) {
      // A missing thread or server is reported elsewhere. The next event has the list read again.
      this.state = { ...this.state, stale: true };
      if (!(thrown instanceof ApiError)) this.onFailure(thrown);
    } finally {
      this.#reading = false;
    }
  }
}
