import { PlainError } from '../base/words';

export interface Notice {
  id: number;
  kind: 'info' | 'error';
  code: string;
  text: string;
}

const infoMs = 7000;
const shownAtOnce = 3;

/** The short messages at the edge of the page. */
class Notices {
  list = $state.raw<Notice[]>([]);
  #next = 1;

  info(code: string, text: string): void {
    const id = this.#add('info', code, text);
    setTimeout(() => this.dismiss(id), infoMs);
  }

  error(code: string, text: string): void {
    this.#add('error', code, text);
  }

  /** Tells about anything that was thrown. */
  failure(thrown: unknown): void {
    if (thrown instanceof PlainError) this.error(thrown.code, thrown.message);
    else this.error('unexpected', `Something went wrong in the page: ${String(thrown)}`);
  }

  dismiss(id: number): void {
    this.list = this.list.filter((notice) => notice.id !== id);
  }

  dismissAll(): void {
    this.list = [];
  }

  /** Takes away what no longer holds. */
  clear(code: string): void {
    this.list = this.list.filter((notice) => notice.code !== code);
  }

  #add(kind: Notice['kind'], code: string, text: string): number {
    const id = this.#next++;
    const others = this.list.filter((notice) => notice.code !== code || notice.text !== text);
    this.list = [...others, { id, kind, code, text }].slice(-shownAtOnce);
    return id;
  }
}

export const notices = new Notices();
