import { createContext } from 'svelte';
import { ApiError, closeSession, isPassing } from '../api/http';
import { queuedKeys, sentKeys } from '../api/keys';
import type { Phone } from '../api/reports';
import { getConfig, type Config } from '../api/server';
import { editMessage, getThread, interrupt, listMessages, postMessage, regenerate, resetThread, uploadImage } from '../api/threads';
import { PlainError } from '../base/errors';
import { tabStorage } from '../base/storage';
import { Call } from '../call/call.svelte';
import { Settings } from '../device/settings.svelte';
import { ConnectionWatch } from '../link/connection.svelte';
import { followOwner } from '../link/owner';
import type { Following, SocketEvent } from '../link/socket';
import type { Approval } from '../message/live';
import { textOf, type Message } from '../message/message';
import { questions } from '../thread/approvals';
import { ThreadList, undoMs } from '../thread/list.svelte';
import { OpenThread } from '../thread/open.svelte';
import { t } from '../words/language.svelte';
import { Drafts } from './drafts.svelte';
import { Notices } from './notices.svelte';
import { Outbox } from './outbox.svelte';
import { Player } from './player.svelte';
import { hashOf, threadOfHash } from './route';
import { Search } from './search.svelte';
import { SignIn } from './signin.svelte';
import { Suggestions } from './suggestions.svelte';
import { ThemeChoice } from './theme.svelte';
import { Assistants } from './who.svelte';

/** The panel shown beside or over the thread. */
export type Panel = 'none' | 'canvas' | 'usage' | 'assistant' | 'settings' | 'camera' | 'assistants' | 'hooks' | 'share' | 'thread';

/** How long the list of threads waits for the socket. */
const socketMs = 2000;
/** How long what the server said of itself when the page was opened is still true. */
const freshMs = 10_000;

/** Up to this length a text goes into a call by its data channel; the server says what is wrong with a longer one. */
const longestSaid = 8000;

/** How long paper waits for charts. */
const drawnMs = 5000;

/** Something to agree to. */
export interface Question {
  id: 'consent' | 'removal';
  title: string;
  text?: string;
  no: string;
  yes: string;
  run: () => void;
}

/** The page's state and what the user can do with it. */
export class App {
  config = $state.raw<Config | null>(null);
  threadId = $state('');
  open = $state.raw<OpenThread | null>(null);
  panel = $state<Panel>('none');
  /** Who answers in new conversations; null: as the server is set. */
  assistant = $state.raw<{ id: string; name: string } | null>(null);
  /** Words to find in the thread that is shown. */
  finding = $state('');
  /** What the user is asked before it is done. */
  question = $state.raw<Question | null>(null);
  /** Counts what was sent: with each, the transcript jumps to its end. */
  sent = $state(0);

  /** The call by telephone that the thread is in. */
  phone = $state.raw<Phone>(null);

  /** All of the thread is drawn, for paper. */
  printing = $state(false);

  readonly drafts = new Drafts(tabStorage());
  readonly notices = new Notices();
  readonly theme = new ThemeChoice();
  readonly settings = new Settings();
  readonly signIn = new SignIn(() => this.#signedIn());
  readonly suggestions = new Suggestions();
  readonly connection = new ConnectionWatch(() => this.#back());
  readonly threads = new ThreadList((thrown) => this.notices.failure(thrown));
  readonly search = new Search((thrown) => this.notices.failure(thrown));
  readonly assistants = new Assistants();
  readonly player = new Player((thrown) => this.notices.failure(thrown));
  readonly call = new Call(
    this.settings,
    { setTheme: (theme) => this.theme.set(theme) },
    {
      iceServers: () => this.#iceServers(),
      turns: () => this.config?.turns ?? null,
      mayRecord: () => this.config?.recording === true,
      titleOf: (id) => this.titleOf(id),
      onPlaced: (id) => this.#placed(id),
      onMessage: (id, message) => {
        if (this.open?.id === id) this.open.take(message);
        this.outbox.saved(message.metadata.itemId);
      },
      onStep: (step) => this.connection.peer(step),
      onStart: () => {
        this.player.stop(); // the call would hear it
        this.notices.dismissAll();
      },
      onEnded: (said) => {
        if (said) this.#made = '';
        if (this.threadId !== this.#made) this.#dropSilent(this.#made);
        void this.refresh();
      },
      onReleased: () => this.outbox.release(),
      onHeard: (itemId) => this.outbox.heard(itemId),
      onRefused: (eventId) => {
        const refused = this.outbox.take(eventId);
        if (refused) this.drafts.giveBack(refused.thread, refused.text);
        return refused?.text;
      },
      onInfo: (code, text) => this.notices.info(code, text),
      onProblem: (code, text) => this.notices.error(code, text),
      onFailure: (thrown) => this.notices.failure(thrown),
    },
  );

  /** The texts that were typed into calls and are not saved yet. */
  readonly outbox: Outbox = new Outbox(
    {
      // A text that comes by HTTP ends a call that waits for its browser.
      holds: ({ callId }) => this.call.rejoinable?.callId === callId || (this.call.active && (this.call.state.phase !== 'live' || this.call.step !== 'connected')),
      onRefused: ({ thread, text }, why) => {
        // A text outlives its thread.
        this.drafts.giveBack(why instanceof ApiError && why.status === 404 ? '' : thread, text);
        this.notices.error('not_sent', t().notSent(why instanceof PlainError ? why.message : String(why), text));
      },
    },
    tabStorage(),
  );

  #owner: Following | undefined;
  /** The call that is being set up needs a thread of its own. */
  #makes = false;
  /** The thread that was made for a call in which nothing was said yet. */
  #made = '';
  /** The server's version when the page was loaded. */
  #version = '';

  /** The call belongs to the thread that is shown. */
  callIsHere = $derived(this.call.active && this.call.state.threadId === this.threadId);
  /** The thread's call is in another window or on another device. */
  callElsewhere = $derived.by(() => {
    const live = this.open?.liveCall || this.threads.calls[this.threadId] || '';
    const { callId, endReason } = this.call.state;
    // What ended here may go on elsewhere.
    // What this tab had before it was reloaded waits for it.
    if (live === this.call.rejoinable?.callId) return '';
    return live !== '' && !this.callIsHere && (live !== callId || endReason === 'taken_over') ? live : '';
  });
  /** A text sent now goes into the queue, because the assistant is busy. During a call it goes into the call. */
  willQueue = $derived(this.#queues(this.open));
  /** The queue is full. */
  queueFull = $derived(this.willQueue && (this.open?.queue.full ?? false));
  /** The approvals that the user is asked for: a call's, then those of typed turns. */
  approvals = $derived<Approval[]>(questions(this.callIsHere ? this.call.state.approvals : [], this.open?.approvals ?? []));

  async begin(): Promise<void> {
    addEventListener('hashchange', () => this.#show(threadOfHash(location.hash)));
    this.#show(threadOfHash(location.hash));
    const asked = Date.now();
    let reading: Promise<void> | undefined;
    const read = () => (reading ??= this.refresh());
    const config = this.#iceServers();
    // What changes while the list is read is told by the socket, which is why that comes first, where there is one.
    this.#owner = followOwner({
      onEvent: (event) => this.#take(event),
      onState: (online) => {
        this.connection.socket(this, online);
        if (!online) return;
        if (Date.now() - asked > freshMs) void this.#iceServers();
        if (reading) void this.refresh();
        else void read();
      },
      onAway: () => void read(),
    });
    setTimeout(() => void read(), socketMs);
    await config;
  }

  async refresh(): Promise<void> {
    try {
      await this.threads.load();
      this.notices.clear('network', 'not_read');
    } catch (thrown) {
      this.#notRead(thrown);
    }
  }

  titleOf(id: string): string {
    return this.threads.titleOf(id) || t().newConversation;
  }

  select(id: string): void {
    location.hash = hashOf(id);
    this.#show(id);
  }

  /** Opens a thread at the words of the search. */
  find(id: string, words: string): void {
    this.select(id);
    this.finding = words;
  }

  /** Shows a panel, or puts it away again. */
  show(panel: Panel): void {
    this.panel = this.panel === panel ? 'none' : panel;
  }

  async rename(id: string, title: string): Promise<void> {
    await this.#try(() => this.threads.rename(id, title));
  }

  /** Deletes a thread, unless the user undoes it. */
  remove(id: string): void {
    if (this.call.active && this.call.state.threadId === id) this.call.hangup();
    const title = this.titleOf(id);
    this.threads.remove(id);
    const wasShown = this.threadId === id;
    if (wasShown) this.select('');
    const undo = () => {
      this.threads.restore(id);
      this.notices.clear('deleted');
      if (wasShown) this.select(id);
    };
    this.notices.info('deleted', t().deleted(title), { label: t().undo, run: undo }, undoMs);
  }

  /** The id of the assistant that answers in a thread, or in new ones; empty: the server's settings hold. */
  assistantOf(threadId: string): string {
    return (threadId === '' ? this.assistant?.id : this.threads.of(threadId).assistant) ?? '';
  }

  /**
   * Sends a typed text with images; false if it could not be sent and must be kept. Without a thread it
   * makes one, and passes it to `made`.
   */
  async sendText(text: string, images: Blob[], made: (id: string) => void): Promise<boolean> {
    this.sent++;
    // The user may be elsewhere before all of it is sent.
    const { open } = this;
    let thread = this.threadId;
    return this.#try(async () => {
      if (this.callIsHere) {
        if (images.length === 0 && text.length <= longestSaid) return this.#say(text);
        if (this.call.state.phase !== 'live') throw new PlainError('not_connected', t().call.notConnected);
      }
      if (!thread) {
        thread = (await this.threads.create(this.assistant?.id)).id;
        made(thread);
        if (this.threadId === '') this.select(thread);
      }
      const ids = await Promise.all(images.map((image) => uploadImage(thread, image)));
      await this.outbox.settled(thread);
      await this.#post(thread, open, text, ids);
    });
  }

  /** Says what the page has suggested. */
  say(text: string): void {
    void this.sendText(text, [], () => undefined);
  }

  /** Regenerates the answer to a message; in a call, the message is said again. */
  async answerAgain(question: Message, answer: Message): Promise<void> {
    if (this.callIsHere) await this.#try(async () => this.#say(textOf(question)));
    else await this.#try(() => regenerate(this.threadId, answer.id));
  }

  /** Says a message anew, with other words. In a call it is said as what comes next. */
  async sayAnew(message: Message, text: string): Promise<boolean> {
    const files = message.parts.flatMap((part) => (part.kind === 'file' ? [{ mediaType: part.mediaType, url: part.url }] : []));
    this.sent++;
    return this.#try(async () => (this.callIsHere ? this.#say(text) : editMessage(this.threadId, message.id, text, files)));
  }

  /** Calls. */
  talk(threadId = this.threadId, takeover = false): void {
    const { assistant } = this;
    void this.#agreed(threadId, () => {
      this.#makes = threadId === '';
      if (threadId === '' && assistant) void this.#try(() => this.#talkTo(assistant.id));
      else void this.call.start(threadId, takeover);
    });
  }

  /** Retries a call that does not get through. */
  callAgain(): void {
    const { threadId } = this.call.state;
    this.call.hangup();
    void this.call.start(threadId, true);
  }

  /** Continues this thread's call here, which is live elsewhere. */
  takeOver(): void {
    const { threadId, callElsewhere } = this;
    if (callElsewhere !== '') void this.#agreed(threadId, () => void this.call.join(threadId, callElsewhere));
  }

  rejoin(): void {
    const before = this.call.rejoinable;
    if (!before) return;
    this.select(before.threadId);
    void this.call.join(before.threadId, before.callId);
  }

  /** Takes what the user writes into the box. */
  write(text: string): void {
    this.drafts.write(this.threadId, text);
    if (!this.drafts.sends(this.threadId)) [sentKeys, queuedKeys].forEach((keys) => keys.keepOnly(this.threadId, text));
  }

  /** Puts a text into the box of a thread, to be edited and sent again. */
  edit(text: string, thread = this.threadId): void {
    this.drafts.prepend(thread, text);
    if (thread === this.threadId) document.getElementById('textbox')?.focus();
  }

  answer(approval: Approval, yes: boolean): void {
    if (this.call.answer(approval, yes)) this.open?.answered(approval.toolCallId);
    else if (!this.open?.answer(approval, yes)) this.notices.failure(new PlainError('not_answered', t().approval.unsent));
  }

  async stopTurn(): Promise<void> {
    if (this.threadId) await this.#try(() => interrupt(this.threadId));
  }

  async reset(): Promise<void> {
    const { threadId } = this;
    const done = threadId !== '' && (await this.#try(() => resetThread(threadId)));
    if (done) await getThread(threadId).then((thread) => this.threads.put(thread), () => undefined); // read again later
    if (done) this.notices.info('reset', t().menu.resetDone);
  }

  /** Prints all of the thread, once its charts are drawn. */
  async print(): Promise<void> {
    await this.open?.loadAll();
    this.printing = true;
    const waits = Date.now() + drawnMs;
    do await new Promise((drawn) => setTimeout(drawn, 100));
    while (document.querySelector('.picture:not([data-drawn])') && Date.now() < waits);
    print();
  }

  /** Reads the server's settings. The page works without them; the list of threads notices when the server is away. */
  async #iceServers(): Promise<RTCIceServer[]> {
    this.config = await getConfig().catch(() => this.config);
    const version = this.config?.version ?? '';
    this.#version ||= version;
    // Parts of this page that are loaded later would be newer than the page.
    if (version !== this.#version) this.notices.info('new_version', t().newVersion, { label: t().reload, run: () => location.reload() }, Infinity);
    return this.config?.iceServers ?? [];
  }

  /** Signs out. */
  async signOut(): Promise<void> {
    this.call.hangup();
    await this.threads.removeNow();
    if (await this.#try(closeSession)) this.forget();
  }

  /** Leaves nothing of this user in the tab. */
  forget(): void {
    this.drafts.forget();
    this.outbox.forget();
    tabStorage()?.clear();
    location.hash = '';
    location.reload();
  }

  // The top bar says that the server is away, and what the page reads unasked is read again later. What is said already
  // is not said each time.
  #notRead(thrown: unknown): void {
    if (thrown instanceof ApiError && (thrown.status === 0 || this.notices.list.some(({ text }) => text === thrown.message))) return;
    if (isPassing(thrown)) this.notices.error('not_read', thrown.message);
    else this.notices.failure(thrown);
  }

  async #try(run: () => Promise<void>): Promise<boolean> {
    try {
      await run();
      return true;
    } catch (thrown) {
      this.notices.failure(thrown);
      return false;
    }
  }

  /** Goes on once the user knows that their voice is kept, if it is: what they have not chosen, they are asked once for each assistant. */
  async #agreed(threadId: string, go: () => void): Promise<void> {
    const { current } = this.settings;
    this.question = null;
    if (current.record || this.config?.recording === false) return go();
    await this.#try(async () => {
      const unread = threadId !== '' && this.threads.of(threadId).updatedAt === '';
      if (unread) this.threads.put(await getThread(threadId));
      const id = this.assistantOf(threadId);
      const who = id === '' ? null : await this.assistants.read(id); // it may have changed
      if (!who?.records || current.agreed.includes(id)) return go();
      const { title, text, refuse: no, agree: yes } = t().consent;
      const run = () => {
        this.settings.set({ agreed: [...this.settings.current.agreed, id] });
        go();
      };
      this.question = { id: 'consent', title: title(who.name), text, no, yes, run };
    });
  }

  async #talkTo(assistant: string): Promise<void> {
    const { id } = await this.threads.create(assistant);
    this.#placed(id);
    await this.call.start(id);
  }

  #say(text: string): void {
    this.outbox.say(this.threadId, this.call.id, text, (id) => this.call.say(id, text));
  }

  async #post(thread: string, open: OpenThread | null, text: string, images: string[]): Promise<void> {
    // What may have arrived goes the same way again.
    const queues = queuedKeys.isUnsure(thread, text, images) || (this.#queues(open) && !sentKeys.isUnsure(thread, text, images));
    if (open && queues) return open.queue.add(text, images);
    try {
      await postMessage(thread, text, images);
    } catch (thrown) {
      // A turn has started that this page did not know about.
      if (!(thrown instanceof ApiError && thrown.code === 'agent_busy') || !open) throw thrown;
      await open.queue.add(text, images);
    }
  }

  /** Whether a text sent now has to wait because the assistant is busy. */
  #queues(open: OpenThread | null): boolean {
    if (!open || open.liveCall || (this.call.active && this.call.state.threadId === open.id)) return false;
    return open.busy || open.queue.waiting;
  }

  #take(event: SocketEvent): void {
    const outcome = this.threads.take(event);
    if (outcome === 'unknown') void this.refresh();
    const id = String(event.data.thread_id ?? '');
    if (outcome === 'gone' && this.open?.id === (id || String(event.data.id ?? ''))) {
      this.notices.info('deleted_elsewhere', t().deletedElsewhere);
      this.drafts.move(this.open.id, '');
      this.select('');
    }
    if (event.type === 'call_ended') this.call.dropRejoin(String(event.data.call_id ?? ''));
  }

  // What was refused before is tried again.
  #signedIn(): void {
    this.notices.dismissAll();
    void this.#iceServers();
    this.#owner?.retry();
    this.open?.retry();
  }

  #back(): void {
    this.notices.clear('network', 'ended_connection_lost');
    void this.refresh();
  }

  #placed(id: string): void {
    if (this.#makes) this.#made = id;
    this.#makes = false;
    if (id && this.threadId === '') {
      this.drafts.move('', id);
      this.select(id);
    }
    void this.refresh();
  }

  /** Removes the thread of a call in which nothing was said, once it is left: in the list it would be one more without a name. */
  #dropSilent(id: string): void {
    if (id === '' || id !== this.#made || (this.call.active && this.call.state.threadId === id)) return;
    this.#made = '';
    if (this.threads.titleOf(id) !== '' || this.drafts.of(id) !== '' || this.outbox.list.some(({ thread }) => thread === id)) return;
    void listMessages(id, 0, 1).then(({ messages }) => messages.length === 0 && this.threads.remove(id), () => undefined); // it stays
  }

  #show(id: string): void {
    if (id === this.threadId && this.open !== null) return;
    this.#dropSilent(this.threadId);
    this.threadId = id;
    this.finding = '';
    this.open?.close();
    const open: OpenThread | null = id
      ? new OpenThread(id, {
          onFailure: (thrown) => this.notices.failure(thrown),
          onNotRead: (thrown) => this.#notRead(thrown),
          onThread: (thread) => {
            this.threads.put(thread);
            this.notices.clear('not_read');
          },
          onChanged: (title) => (title ? this.threads.titled(id, title) : void this.refresh()),
          onState: (online) => {
            if (online) this.notices.clear('not_answered'); // the question is asked again
            this.connection.socket(id, online);
          },
        })
      : null;
    this.open = open;
  }
}

/** The page's state for its components. */
export const [useApp, provideApp] = createContext<App>();
