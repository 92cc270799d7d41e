import { calmWordOf, wordOf } from '../../call/state';
import type { App } from '../../page/app.svelte';
import { Unheard } from './unheard';

/** What a call says of itself, wherever it is shown. Made by a component. */
export class Status {
  readonly #app: App;
  /** The user speaks into a muted microphone. */
  unheard = $state(false);

  constructor(app: App) {
    this.#app = app;
    const { sound } = app.call;
    $effect(() => {
      this.unheard = false;
      if (!sound.muted) return;
      const watch = new Unheard();
      const timer = setInterval(() => (this.unheard = watch.hear(sound.heard(), Date.now())), 100);
      return () => clearInterval(timer);
    });
  }

  live = $derived.by(() => this.#app.call.state.phase === 'live');
  #lost = $derived.by(() => {
    const { call, connection } = this.#app;
    return call.step === 'weak' || (this.live && (connection.trouble === 'away' || connection.trouble === 'offline'));
  });
  word = $derived.by(() => (this.#lost ? 'recovering' : wordOf(this.#app.call.state, this.#app.call.sound)));
  /** The word for who cannot see it. */
  calm = $derived.by(() => {
    const { call } = this.#app;
    return this.#lost ? 'recovering' : calmWordOf(call.state, { muted: call.sound.muted, resting: call.holds });
  });
}
