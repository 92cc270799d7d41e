import { PlainError } from '../base/errors';
import { t } from '../words/language.svelte';

export interface Notice {
  id: number;
  kind: 'info' | 'error';
  code: string;
  text: string;
  /** What the user can do about it. */
  action?: { label: string; run: () => void };
}

const infoMs = 7000;
const shownAtOnce = 3;

/** The short messages at the edge of the page. */
export class Notices {
  list = $state.raw<Notice[]>([]);
  #next = 1;

  info(code: string, text: string, action?: Notice['action'], ms = infoMs): void {
    const id = this.#add('info', code, text, action);
    if (ms < Infinity) setTimeout(() => this.dismiss(id), ms);
  }

  error(code: string, text: string): void {
    this.#add('error', code, text);
  }

  /** Shows a notice about anything that was thrown. */
  failure(thrown: unknown): void {
    if (thrown instanceof PlainError) this.error(thrown.code, thrown.message);
    else this.error('unexpected', t().unexpected(String(thrown)));
  }

  dismiss(id: number): void {
    this.list = this.list.filter((notice) => notice.id !== id);
  }

  /** Removes all but those with which the user can still do something, such as undo. */
  dismissAll(): void {
    this.list = this.list.filter(({ action }) => action);
  }

  /** Removes what no longer applies. */
  clear(...codes: string[]): void {
    this.list = this.list.filter((notice) => !codes.includes(notice.code));
  }

  // One cause is shown once, in its newest words, and so are words of several causes.
  #add(kind: Notice['kind'], code: string, text: string, action?: Notice['action']): number {
    const id = this.#next++;
    const others = this.list.filter((notice) => notice.code !== code && (notice.text !== text || notice.action));
    this.list = [...others, { id, kind, code, text, action }].slice(-shownAtOnce);
    return id;
  }
}
