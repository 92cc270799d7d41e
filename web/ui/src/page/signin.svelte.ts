import { onUnauthorized, openSession } from '../api/http';

/** Asks the user for the access token when the server requires one. */
export class SignIn {
  asking = $state(false);

  #answer: ((signedIn: boolean) => void) | null = null;
  #question: Promise<boolean> | null = null;
  #last = { at: -Infinity, signedIn: false };

  /** @param onSignedIn is called when a token was accepted */
  constructor(private readonly onSignedIn: () => void) {
    onUnauthorized((began) => this.#ask(began));
  }

  /** Tries a token; false if it is not accepted. */
  async submit(token: string): Promise<boolean> {
    const accepted = await openSession(token);
    if (accepted) {
      this.#end(true);
      this.onSignedIn();
    }
    return accepted;
  }

  cancel(): void {
    this.#end(false);
  }

  #ask(began: number): Promise<boolean> {
    // Several requests may fail at once; they all wait for one answer, and it holds for those that fail later.
    if (began < this.#last.at) return Promise.resolve(this.#last.signedIn);
    this.#question ??= new Promise((resolve) => {
      this.#answer = resolve;
      this.asking = true;
    });
    return this.#question;
  }

  #end(signedIn: boolean): void {
    this.asking = false;
    this.#last = { at: performance.now(), signedIn };
    this.#answer?.(signedIn);
    this.#answer = this.#question = null;
  }
}
