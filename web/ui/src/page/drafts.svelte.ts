/** The unsent texts, one per thread, so that switching loses nothing. */
export class Drafts {
  #texts = $state<Record<string, string>>({});

  of(thread: string): string {
    return this.#texts[thread] ?? '';
  }

  write(thread: string, text: string): void {
    this.#texts[thread] = text;
  }

  /**
   * Sends the draft of a thread. It leaves its box at once, so that the next text can be written
   * there; what could not be sent comes back before that. `made` is to be told of a thread that
   * was made for the text, to which all goes along.
   */
  async send(thread: string, send: (text: string, made: (id: string) => void) => Promise<boolean>): Promise<boolean> {
    const text = this.of(thread).trim();
    let home = thread;
    this.write(thread, '');
    const sent = await send(text, (id) => {
      this.#texts[id] = joined(this.of(home), this.of(id));
      this.write(home, '');
      home = id;
    });
    if (!sent) this.write(home, joined(text, this.of(home)));
    return sent;
  }
}

function joined(...texts: string[]): string {
  return texts.filter((text) => text.trim() !== '').join('\n');
}
