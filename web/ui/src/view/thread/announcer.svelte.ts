import { finishedSentences } from '../../message/content';
import type { Message } from '../../message/message';
import { isClosed } from '../../thread/transcript';

/** Gives a screen reader what the assistant says: each sentence once, when it is complete. */
export class Announcer {
  said = $state('');
  #id: string | null = null;
  #end = 0;
  #old = true;

  /** Another thread was opened: its existing messages are not read out. */
  begin(): void {
    this.#id = null;
    this.#end = 0;
    this.#old = true;
    this.said = '';
  }

  /** The thread is opened and has no answer yet. */
  nothing(): void {
    this.#old = false;
  }

  /** Takes in the text of an answer so far. What is spoken aloud is not read out over it. */
  hear(message: Message, text: string, aloud = false): void {
    const id = message.metadata.itemId ?? message.id;
    if (id !== this.#id) {
      this.#id = id;
      this.#end = this.#old && isClosed(message) ? text.length : 0;
      this.#old = false;
    }
    const { said, end } = isClosed(message) ? { said: text.slice(this.#end).trim(), end: text.length } : finishedSentences(text, this.#end);
    if (end <= this.#end) return;
    this.#end = end;
    if (said !== '' && !aloud) this.said = said;
  }
}
