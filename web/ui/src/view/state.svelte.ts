import { ApiError, onUnauthorized, openSession } from '../api/http';
import { getConfig, interrupt, postMessage, type Config } from '../api/threads';
import { PlainError } from '../base/words';
import { Call, notSaid } from '../call/call.svelte';
import type { Approval } from '../call/state';
import { defaultLimits } from '../code/outcome';
import { ThreadList } from '../thread/list.svelte';
import { OpenThread } from '../thread/open.svelte';
import { notices } from './notices.svelte';

const notAnswered = new PlainError('not_answered', 'The server is away: your answer was not sent. It will ask again.');

/** The page's state and what the user can do with it. */
class App {
  config = $state.raw<Config | null>(null);
  threadId = $state('');
  open = $state.raw<OpenThread | null>(null);
  /** The user is asked for the access token. */
  askingToken = $state(false);
  sending = $state(false);

  readonly threads = new ThreadList();
  readonly call = new Call({
    iceServers: () => this.config?.iceServers ?? [],
    code: () => this.config?.code ?? { tools: [], limits: defaultLimits, pyodide: '' },
    onPlaced: (id) => this.#placed(id),
    onMessage: (id, message) => {
      if (this.open?.id === id) this.open.take(message);
    },
    onEnded: () => void this.refresh(),
  });

  /** The call belongs to the thread that is shown. */
  callIsHere = $derived(this.call.active && this.call.state.threadId === this.threadId);
  /** A text that is sent now goes into the queue: the assistant is busy. With a call it goes into the call. */
  willQueue = $derived(
    !this.callIsHere && this.open !== null && !this.open.liveCall && (this.open.busy || this.open.queue.waiting),
  );
  /** The queue takes no more. */
  queueFull = $derived(this.willQueue && (this.open?.queue.full ?? false));

  /** The question that the user is to answer: a call's first, then those of typed turns. */
  approval = $derived<Approval | undefined>(this.call.state.approvals[0] ?? this.open?.approvals[0]);

  #tokenAnswer: ((signedIn: boolean) => void) | null = null;
  #tokenQuestion: Promise<boolean> | null = null;

  async begin(): Promise<void> {
    onUnauthorized(() => this.#askToken());
    addEventListener('hashchange', () => this.#show(threadOfHash()));
    this.#show(threadOfHash());
    getConfig().then(
      (config) => (this.config = config),
      () => undefined, // The page works without; the list below tells when the server is away.
    );
    await this.refresh();
  }

  async refresh(): Promise<void> {
    try {
      await this.threads.load();
      notices.clear('network');
    } catch (thrown) {
      notices.failure(thrown);
    }
  }

  select(id: string): void {
    location.hash = id ? `#/t/${encodeURIComponent(id)}` : '#/';
    this.#show(id);
  }

  async newThread(): Promise<void> {
    try {
      const thread = await this.threads.create();
      this.select(thread.id);
    } catch (thrown) {
      notices.failure(thrown);
    }
  }

  async rename(id: string, title: string): Promise<void> {
    try {
      await this.threads.rename(id, title);
    } catch (thrown) {
      notices.failure(thrown);
    }
  }

  async remove(id: string): Promise<void> {
    try {
      if (this.call.active && this.call.state.threadId === id) this.call.hangup();
      await this.threads.remove(id);
      if (this.threadId === id) this.select('');
    } catch (thrown) {
      notices.failure(thrown);
    }
  }

  /**
   * Sends a typed text; false when it could not be sent and is to be kept. Without a thread it
   * makes one, and tells `made` of it.
   */
  async sendText(text: string, made: (id: string) => void): Promise<boolean> {
    this.sending = true;
    try {
      if (this.callIsHere) {
        if (!this.call.say(text)) throw notSaid;
        return true;
      }
      if (!this.threadId) {
        const { id } = await this.threads.create();
        made(id);
        this.select(id);
      }
      await this.#post(text);
      return true;
    } catch (thrown) {
      notices.failure(thrown);
      return false;
    } finally {
      this.sending = false;
    }
  }

  async #post(text: string): Promise<void> {
    const { open, threadId } = this;
    if (this.willQueue) return open?.queue.add(text);
    try {
      await postMessage(threadId, text);
    } catch (thrown) {
      // A turn has begun that this page had not heard of.
      if (!(thrown instanceof ApiError && thrown.code === 'agent_busy') || !open) throw thrown;
      await open.queue.add(text);
    }
  }

  answer(approval: Approval, yes: boolean): void {
    if (this.call.state.approvals.includes(approval)) this.call.answer(approval, yes);
    else if (!this.open?.answer(approval, yes)) notices.failure(notAnswered);
  }

  async stopTurn(): Promise<void> {
    try {
      if (this.threadId) await interrupt(this.threadId);
    } catch (thrown) {
      notices.failure(thrown);
    }
  }

  async signIn(token: string): Promise<boolean> {
    const accepted = await openSession(token);
    if (accepted) this.#answerToken(true);
    return accepted;
  }

  cancelSignIn(): void {
    this.#answerToken(false);
  }

  #askToken(): Promise<boolean> {
    // Several requests may fail at once; they wait for one answer.
    this.#tokenQuestion ??= new Promise((resolve) => {
      this.#tokenAnswer = resolve;
      this.askingToken = true;
    });
    return this.#tokenQuestion;
  }

  #answerToken(signedIn: boolean): void {
    this.askingToken = false;
    this.#tokenAnswer?.(signedIn);
    this.#tokenAnswer = this.#tokenQuestion = null;
  }

  #placed(id: string): void {
    if (id && id !== this.threadId) this.select(id);
    void this.refresh();
  }

  #show(id: string): void {
    if (id === this.threadId) return;
    this.threadId = id;
    this.open?.close();
    this.open = id
      ? new OpenThread(id, {
          onFailure: (thrown) => notices.failure(thrown),
          onChanged: (title) => (title ? this.threads.titled(id, title) : void this.refresh()),
        })
      : null;
  }
}

function threadOfHash(): string {
  const match = /^#\/t\/([^/]+)$/.exec(location.hash);
  try {
    return match?.[1] ? decodeURIComponent(match[1]) : '';
  } catch {
    return '';
  }
}

export const app = new App();
