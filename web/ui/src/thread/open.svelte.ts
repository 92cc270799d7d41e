import { ApiError, urlOf } from '../api/http';
import { listMessages } from '../api/threads';
import { asText } from '../base/json';
import type { Approval } from '../call/state';
import { answerTo, reduceApprovals } from './approvals';
import { readMessage, type Message } from './message';
import { ThreadQueue } from './queue.svelte';
import { followThread, type Following, type ThreadEvent } from './socket';
import { emptyTranscript, withGrowth, withMessages, withSeq, type Transcript } from './transcript';

interface Hooks {
  onFailure: (thrown: unknown) => void;
  /** The thread's title or activity changed. */
  onChanged: (title?: string) => void;
}

/** A thread that is shown: its messages, kept up to date by its socket. */
export class OpenThread {
  transcript = $state.raw<Transcript>(emptyTranscript);
  loaded = $state(false);
  online = $state(true);
  /** A text turn is running on the server. */
  busy = $state(false);
  /** The live call of the thread, whoever holds it. */
  liveCall = $state('');
  gone = $state(false);
  /** Tools of typed turns that wait for the user. */
  approvals = $state.raw<Approval[]>([]);
  readonly queue: ThreadQueue;

  #following: Following | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(
    readonly id: string,
    private readonly hooks: Hooks,
  ) {
    this.queue = new ThreadQueue(id, hooks.onFailure);
    void this.#begin();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#following?.stop();
  }

  /** Answers a question; false when there is no connection. The server asks again on the next one. */
  answer(approval: Approval, yes: boolean): boolean {
    if (!this.#following?.send(answerTo(approval, yes))) return false;
    this.approvals = this.approvals.filter((a) => a !== approval);
    return true;
  }

  /** Takes a message that came by another way (the call's data channel). */
  take(message: Message): void {
    this.transcript = withMessages(this.transcript, [message]);
  }

  async #begin(): Promise<void> {
    try {
      await this.#load();
      if (!this.#closed) this.#follow();
    } catch (thrown) {
      if (this.#closed) return;
      this.gone = thrown instanceof ApiError && thrown.status === 404;
      this.hooks.onFailure(thrown);
      if (isPassing(thrown)) this.#retryLater();
    }
  }

  #retryLater(): void {
    this.#retry = setTimeout(() => void this.#begin(), 5000);
  }

  // Messages may change while later pages load, so the stream resumes where the
  // first page ended.
  async #load(): Promise<void> {
    let after: number | null = 0;
    while (after !== null && !this.#closed) {
      const page: Awaited<ReturnType<typeof listMessages>> = await listMessages(this.id, after);
      this.transcript = withMessages(this.transcript, page.messages);
      if (after === 0) this.transcript = withSeq(this.transcript, lastOf(page.messages));
      after = page.next !== null && page.next > after ? page.next : null;
    }
    this.loaded = true;
  }

  #follow(): void {
    this.#following = followThread({
      url: (after) => {
        const url = urlOf(`api/threads/${encodeURIComponent(this.id)}/ws`);
        url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
        url.searchParams.set('after', String(after));
        return url.href;
      },
      after: () => this.transcript.seq,
      onEvent: (event) => this.#take(event),
      onState: (online) => (this.online = online),
      beforeRetry: () => this.#stillThere(),
    });
  }

  // A socket does not say why it was refused; a plain request does, and it also
  // lets the user sign in again.
  async #stillThere(): Promise<boolean> {
    try {
      await listMessages(this.id, this.transcript.seq);
      return true;
    } catch (thrown) {
      this.gone = thrown instanceof ApiError && thrown.status === 404;
      return isPassing(thrown);
    }
  }

  #take(event: ThreadEvent): void {
    const { type, data, seq } = event;
    this.queue.take(event);
    this.approvals = reduceApprovals(this.approvals, event);
    switch (type) {
      case 'message': {
        const message = readMessage(data.message);
        if (message) this.transcript = withMessages(this.transcript, [message]);
        break;
      }
      case 'message_delta':
        this.transcript = withGrowth(this.transcript, asText(data.id), asText(data.text));
        break;
      case 'call_started':
        this.liveCall = asText(data.call_id, 'live');
        break;
      case 'call_ended':
        this.liveCall = '';
        this.hooks.onChanged();
        break;
      case 'turn_started':
        this.busy = true;
        break;
      case 'turn_finished':
        this.busy = false;
        this.hooks.onChanged();
        break;
      case 'thread_titled':
        this.hooks.onChanged(asText(data.title));
        break;
      case 'connected':
        if (data.call_id !== undefined) this.liveCall = asText(data.call_id);
        this.busy = data.busy === true;
        break;
    }
    if (seq !== undefined) this.transcript = withSeq(this.transcript, seq);
  }
}

function lastOf(messages: Message[]): number {
  return Math.max(0, ...messages.map((message) => message.metadata.seq ?? 0));
}

// A server or a network that is away may come back; a refusal stays one.
function isPassing(thrown: unknown): boolean {
  return thrown instanceof ApiError && (thrown.status === 0 || thrown.status === 429 || thrown.status >= 500);
}
