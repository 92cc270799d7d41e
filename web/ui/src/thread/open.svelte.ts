import { SvelteMap } from 'svelte/reactivity';
import { ApiError, isPassing, socketUrlOf } from '../api/http';
import { getThread, linkTo, listMessages, type Thread } from '../api/threads';
import { asNumber, asText } from '../base/json';
import { follow, type Following, type SocketEvent } from '../link/socket';
import type { Approval } from '../message/live';
import { beginningOf, readMessage, type Message } from '../message/message';
import { answerTo, reduceApprovals } from './approvals';
import { afterEnd } from './calls';
import { ThreadQueue } from './queue.svelte';
import { isClosed, merged } from './transcript';

interface Hooks {
  /** Something that the user asked for failed. */
  onFailure: (thrown: unknown) => void;
  /** The thread could not be read. */
  onNotRead: (thrown: unknown) => void;
  onThread: (thread: Thread) => void;
  /** The thread's title or activity changed. */
  onChanged: (title?: string) => void;
  onState: (online: boolean | undefined) => void;
}

// A thread's number grows with every change of a message, so a range of numbers contains at most as
// many messages.
const stretch = 300;
const enough = 40;
const longestPage = 1000;
/** How many pages are asked for at once when the reader goes far back. */
const pagesAtOnce = 6;
const greetingMs = 3000;

/** The thread on display: its newest messages, kept up to date by its socket, and earlier ones on demand. */
export class OpenThread {
  messages = $state.raw<Message[]>([]);
  /** Text so far of messages in progress, by message id: as received from the socket, piece by piece. */
  readonly growing = new SvelteMap<string, string>();
  loaded = $state(false);
  /** There are earlier messages than those loaded. */
  earlier = $state(false);
  loadingEarlier = $state(false);
  online = $state(true);
  /** A text turn is running on the server. */
  busy = $state(false);
  /** The MCP server whose tools that turn waits for; empty for none. */
  waitsFor = $state('');
  /** The live call of the thread, whoever holds it. */
  liveCall = $state('');
  gone = $state(false);
  /** The link by which everybody may read it; empty for none. */
  link = $state('');
  /** Grows when what was found in ended calls may have changed. */
  readings = $state(0);
  /** Tools that wait for the user. */
  approvals = $state.raw<Approval[]>([]);
  readonly queue: ThreadQueue;

  #seq = 0;
  #from = 0;
  #following: Following | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #begun = false;
  /** A socket has got through. */
  #greeted = false;
  #reading: Promise<void> | undefined;
  /** What the server refused. */
  #refused: (() => Promise<void>) | undefined;
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
    clearTimeout(this.#timer);
    this.#following?.stop();
    this.hooks.onState(undefined);
  }

  /** Tries again what was refused, because the user has signed in. */
  retry(): void {
    const again = this.#refused;
    this.#refused = undefined;
    void again?.();
    this.#following?.retry();
  }

  /** Reads the link to the thread, makes it, or withdraws it. */
  async share(method: 'GET' | 'POST' | 'DELETE'): Promise<void> {
    this.link = await linkTo(this.id, method);
  }

  /** Answers an approval request; false if there is no connection. The server asks again on the next one. */
  answer(approval: Approval, yes: boolean): boolean {
    if (!this.#following?.send(answerTo(approval, yes))) return false;
    this.answered(approval.toolCallId);
    return true;
  }

  /** An approval request was answered, here or in the call. */
  answered(toolCallId: string): void {
    this.approvals = this.approvals.filter((a) => a.toolCallId !== toolCallId);
  }

  /** Takes in a message that arrived elsewhere (on the call's data channel). */
  take(message: Message): void {
    this.#put([message]);
  }

  /** Reads the messages before the first one loaded. */
  loadEarlier(far = false): Promise<void> {
    if (!this.earlier || this.#closed) return Promise.resolve();
    this.#reading ??= this.#readEarlier(far).finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** Reads all messages, from the first; false if that failed. */
  async loadAll(): Promise<boolean> {
    return this.reach(() => false).then(() => !this.earlier);
  }

  async #readEarlier(far: boolean): Promise<void> {
    this.loadingEarlier = true;
    try {
      let found: Message[] = [];
      for (let step = far ? longestPage : stretch; found.length === 0 && this.#from > 0; step = longestPage) {
        const until = this.#from;
        const froms = Array.from({ length: far ? pagesAtOnce : 1 }, (_, at) => until - (at + 1) * step).filter((from) => from > -step);
        const pages = await Promise.all(froms.map((from) => listMessages(this.id, Math.max(0, from), longestPage).then(({ messages }) => messages.filter((m) => (m.metadata.seq ?? 0) <= Math.min(until, from + step)))));
        found = pages.reverse().flat();
        this.#from = Math.max(0, froms.at(-1) ?? 0);
      }
      this.earlier = this.#from > 0;
      this.#put(found, true);
    } catch (thrown) {
      this.hooks.onFailure(thrown);
    } finally {
      this.loadingEarlier = false;
    }
  }

  /** Reads earlier messages until one passes the test; false if none does. */
  async reach(test: (message: Message) => boolean): Promise<boolean> {
    while (!this.#closed && !this.messages.some(test)) {
      const before = this.#from;
      await this.loadEarlier(true);
      if (this.#from === before) return false;
    }
    return !this.#closed;
  }

  async #begin(): Promise<void> {
    try {
      this.hooks.onThread(await getThread(this.id));
      if (this.#closed) return;
      this.#follow();
      void this.share('GET').catch(() => undefined); // a server that is away says it elsewhere
      this.#timer = setTimeout(() => void this.#loadAnyway(), greetingMs);
    } catch (thrown) {
      this.#failed(thrown, () => this.#begin());
    }
  }

  // Where sockets do not get through, the messages are read anyway. One that is only late asks for what came since.
  async #loadAnyway(): Promise<void> {
    await this.#load(0);
    if (this.#closed || !this.loaded) return;
    this.#caughtUp();
    this.#following?.stop();
    this.#follow();
  }

  #caughtUp(): void {
    this.#seq = Math.max(this.#seq, this.messages.at(-1)?.metadata.seq ?? 0);
  }

  #failed(thrown: unknown, again: () => Promise<void>): void {
    if (this.#closed) return;
    this.gone = thrown instanceof ApiError && thrown.status === 404;
    if (isPassing(thrown)) this.#timer = setTimeout(() => void again(), Math.max(3, thrown.retryAfter) * 1000);
    else if (!this.gone) this.#refused = again;
    if (!this.gone) this.hooks.onNotRead(thrown);
  }

  /** Reads the newest messages up to the number that the socket gave, or all if it gave none. */
  async #load(last: number): Promise<void> {
    if (this.#begun || this.#closed) return;
    this.#begun = true;
    this.#seq = Math.max(this.#seq, last); // from here on a socket may bring the rest
    clearTimeout(this.#timer);
    try {
      let from = last;
      for (let step = stretch; this.messages.length < enough && (from > 0 || last === 0); step *= 3) {
        const until = from;
        from = Math.max(0, from - step);
        await this.#loadBetween(from, last === 0 ? Infinity : until);
        this.#from = from;
        if (from === 0) break;
      }
      this.earlier = this.#from > 0;
      this.loaded = true;
    } catch (thrown) {
      this.#begun = false;
      this.#failed(thrown, () => this.#load(last));
    }
  }

  async #loadBetween(from: number, until: number): Promise<void> {
    for (let after: number | null = from; after !== null && after < until && !this.#closed; ) {
      const page: Awaited<ReturnType<typeof listMessages>> = await listMessages(this.id, after, longestPage);
      this.#put(page.messages, true);
      after = page.next !== null && page.next > after && page.messages.length === longestPage ? page.next : null;
    }
  }

  /** Takes in messages; what was read of them may be older than what is known. */
  #put(messages: Message[], read = false): void {
    this.messages = read ? merged(messages, this.messages) : merged(this.messages, messages);
    for (const message of messages) {
      if (isClosed(message)) this.growing.delete(message.id);
    }
  }

  #follow(): void {
    this.#following = follow({
      url: (after) => {
        const url = socketUrlOf(`api/threads/${encodeURIComponent(this.id)}/ws`);
        if (this.#begun) url.searchParams.set('after', String(after));
        return url.href;
      },
      after: () => this.#seq,
      onEvent: (event) => this.#take(event),
      onState: (online) => {
        this.online = online;
        this.hooks.onState(online);
      },
      beforeRetry: () => this.#stillThere(),
    });
  }

  // A socket does not say why it was refused; a plain request does, and it also
  // lets the user sign in again.
  async #stillThere(): Promise<boolean> {
    try {
      this.hooks.onThread(await getThread(this.id));
      // Where no socket gets through, this is how messages arrive.
      if (this.loaded && !this.#greeted) {
        await this.#loadBetween(this.#seq, Infinity);
        this.#caughtUp();
      }
      return true;
    } catch (thrown) {
      this.gone = thrown instanceof ApiError && thrown.status === 404;
      if (this.gone) this.hooks.onState(undefined);
      if (!isPassing(thrown) && !this.#closed) this.hooks.onNotRead(thrown);
      return isPassing(thrown);
    }
  }

  #take(event: SocketEvent): void {
    const { type, data, seq } = event;
    this.queue.take(event);
    this.approvals = reduceApprovals(this.approvals, event);
    switch (type) {
      case 'message': {
        const message = readMessage(data.message);
        if (message) {
          this.#put([message]);
          // What is added from now on continues this text.
          if (!isClosed(message)) this.growing.set(message.id, beginningOf(message));
        }
        break;
      }
      case 'message_delta':
        this.waitsFor = '';
        this.#grow(asText(data.id), asText(data.text));
        break;
      case 'call_started':
        this.liveCall = asText(data.call_id, 'live');
        break;
      case 'call_ended':
        this.liveCall = afterEnd(this.liveCall, asText(data.call_id));
        this.readings++;
        this.hooks.onChanged();
        break;
      case 'call_extracted':
        this.readings++;
        break;
      case 'turn_started':
        this.busy = true;
        break;
      case 'waiting':
        this.waitsFor = asText(data.server);
        break;
      case 'turn_finished':
        this.busy = false;
        this.waitsFor = '';
        this.hooks.onChanged();
        break;
      case 'thread_titled':
        this.hooks.onChanged(asText(data.title));
        break;
      case 'connected':
        if (this.#greeted) this.readings++; // it may have been missed
        this.#greeted = true;
        if (data.call_id !== undefined) this.liveCall = asText(data.call_id);
        this.busy = data.busy === true;
        void this.#load(asNumber(data.server_max_seq, 0));
        break;
    }
    if (seq !== undefined) this.#seq = Math.max(this.#seq, seq);
  }

  #grow(id: string, added: string): void {
    const message = this.messages.find((m) => m.id === id);
    if (message && isClosed(message)) return;
    this.growing.set(id, (this.growing.get(id) ?? (message ? beginningOf(message) : '')) + added);
  }
}
