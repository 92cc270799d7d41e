import { newId } from '../base/id';
import { asObject, asText, type Json } from '../base/json';
import type { Subject, View } from '../device/pictures';
import { w } from '../words/sight';
import type { ClientTools } from './clienttools';

export { openView, subjects } from '../device/pictures';

interface Hooks {
  open: (subject: Subject) => Promise<View>;
  /** Puts an event on the data channel; false if it is not open. */
  send: (event: object) => boolean;
  /** How many characters an event may have. */
  most: () => number;
  /** What the user chose cannot be looked at. */
  onProblem: (code: string, text: string) => void;
}

/** At most one picture in this time. */
const pauseMs = 2000;
/** The server gives a tool half a minute. */
const answerMs = 25_000;
/** How long the model may take to have a picture; an upstream that says nothing has it. */
const shownMs = 5000;
/** What an event needs beside the picture. */
const aroundPicture = 1000;

const refusal = 'Error: the user does not want to be looked at in this call. Do not ask again; the user can send you pictures.';

/** What the model may see of the user in one call. Before it looks for the first time, the user is asked. */
export class Sight {
  /** The model wants to look, and the user is asked. */
  asking = $state(false);
  /** What the user lets it see; null as long as that is nothing. */
  subject = $state.raw<Subject | null>(null);

  readonly tools: ClientTools = {
    look: {
      description:
        'Look at what the user shows you: takes one picture, at most one in two seconds, from the camera or the shared screen, as the user chooses, and puts it into the conversation. ' +
        'Use it when the user tells you to look or asks about something that has to be seen. The user is asked for permission the first time.',
      parameters: { type: 'object', properties: {}, additionalProperties: false },
      run: (_, gone) => this.look(gone),
    },
  };

  #refused = false;
  #closed = false;
  #busy = false;
  #tookAt = -Infinity;
  /** The shared screen. A camera is open only while a picture is taken. */
  #screen: View | null = null;
  #answer: ((subject: Subject | 'no' | null) => void) | undefined;
  /** The picture that is on its way: the id of its item, and whom to tell that the model has it, or why not. */
  #sent: { id: string; done: (problem: string) => void } | undefined;

  constructor(
    readonly has: Subject[],
    private readonly hooks: Hooks,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Shows the model one picture; returns what it is told. */
  async look(gone: AbortSignal): Promise<string> {
    if (this.#refused) return refusal;
    if (this.#busy || this.now() - this.#tookAt < pauseMs) return 'Error: only one picture can be taken in two seconds. Use the last one, or wait before you look again.';
    this.#busy = true;
    try {
      const subject = this.subject ?? (await this.#ask(gone));
      if (subject === 'no') return refusal;
      if (subject === null) return 'Error: the user has not said yet whether you may look. Ask for it, then look again.';
      const url = await this.#picture(subject);
      if (url === null) return `Error: the ${subject} cannot be looked at now. The user knows; look again when you are told to.`;
      if (gone.aborted || this.#closed) return '';
      this.#tookAt = this.now();
      const problem = await this.#show(url, gone);
      if (problem !== '') return `Error: the picture did not reach you: ${problem}`;
      return JSON.stringify({ of: subject, picture: "It is in the user's last message." });
    } finally {
      this.#busy = false;
    }
  }

  /** The user's answer to the question. */
  answer(subject: Subject | 'no'): void {
    if (subject === 'no') this.#refused = true;
    this.#answer?.(subject);
  }

  /** The model sees nothing more unless the user allows it anew. */
  stop(): void {
    this.subject = null;
    this.#screen?.close();
    this.#screen = null;
  }

  /** A picture of the screen, which is shared for that alone unless the model sees it anyway; null if the user shares none. */
  async screenshot(): Promise<Blob | null> {
    const view = this.#screen ?? (await this.#open('screen'));
    if (!view) return null;
    try {
      return await view.photo();
    } finally {
      if (view !== this.#screen) view.close();
    }
  }

  /** Learns from an event of the call whether the model has a picture. */
  take(event: Json): void {
    if (!this.#sent) return;
    const type = asText(event.type);
    const { id, done } = this.#sent;
    if (type.startsWith('conversation.item.') && asText(asObject(event.item).id) === id) done('');
    else if (type === 'error' && asText(asObject(event.error).event_id) === id) done(asText(asObject(event.error).message) || 'it was refused.');
  }

  close(): void {
    this.#closed = true;
    this.stop();
    this.#answer?.(null);
  }

  /** Asks the user what the model may see; null without an answer. */
  #ask(gone: AbortSignal): Promise<Subject | 'no' | null> {
    return new Promise((resolve) => {
      const end = (answer: Subject | 'no' | null) => {
        clearTimeout(timer);
        this.asking = false;
        this.#answer = undefined;
        resolve(answer);
      };
      const timer = setTimeout(() => end(null), answerMs);
      gone.addEventListener('abort', () => end(null), { once: true });
      this.#answer = end;
      this.asking = true;
    });
  }

  async #picture(subject: Subject): Promise<string | null> {
    const view = this.#screen ?? (await this.#open(subject));
    if (!view) return null;
    // What was allowed by then is allowed for the call, also when this answer comes too late.
    if (this.#closed) return view.close(), null;
    this.subject = subject;
    if (subject === 'screen') {
      this.#screen = view;
      view.onended = () => this.stop();
    }
    try {
      return view.picture(this.hooks.most() - aroundPicture);
    } finally {
      if (view !== this.#screen) view.close();
    }
  }

  async #open(subject: Subject): Promise<View | null> {
    try {
      return await this.hooks.open(subject);
    } catch (thrown) {
      // Whoever closes the browser's choice of screens has changed their mind.
      if (subject !== 'screen' || !(thrown instanceof Error) || thrown.name !== 'NotAllowedError') this.hooks.onProblem(`no_${subject}`, w().failed(subject, (thrown instanceof Error ? thrown.message : String(thrown)).replace(/\.$/, '')));
      return null;
    }
  }

  /** Puts a picture into the conversation; returns why the model does not have it, empty if it has. */
  #show(url: string, gone: AbortSignal): Promise<string> {
    return new Promise((resolve) => {
      const id = newId();
      const done = (problem: string) => {
        clearTimeout(timer);
        this.#sent = undefined;
        resolve(problem);
      };
      const timer = setTimeout(() => done(''), shownMs);
      gone.addEventListener('abort', () => done('nobody waits for it.'), { once: true });
      this.#sent = { id, done };
      const item = { id, type: 'message', role: 'user', content: [{ type: 'input_image', image_url: url }] };
      if (!this.hooks.send({ type: 'conversation.item.create', event_id: id, item })) done('the connection is interrupted.');
    });
  }
}
