import { ApiError } from '../api/http';
import { PlainError } from '../base/errors';
import { asNumber, asObject, asText, type Json } from '../base/json';
import { defaultSettings, type Settings } from '../device/settings.svelte';
import type { PeerStep } from '../link/connection';
import { cutCaptions, type Approval, type Typed } from '../message/live';
import { readMessage, type Message } from '../message/message';
import { money } from '../words/format';
import { t } from '../words/language.svelte';
import { errorEventWords } from '../words/say';
import type { PageDoor } from './clienttools';
import type { Line } from './line';
import { forget, recall, remember, waitingMs, type Remembered } from './remembered';
import type { Sight } from './sight.svelte';
import { Sound } from './sound.svelte';
import type { Speech, Spoken } from './speech';
import { answered, ended, idleCall, stopping, unknownSpeed, type CallState } from './state';
import type { CallSummary } from './summary';
import type { ToolRuns } from './toolruns';

export interface Hooks {
  /** Requested again for each new path, because passwords of TURN servers expire. */
  iceServers: () => Promise<RTCIceServer[]>;
  /** How the server notices that a user has spoken; null if it does not, or has not said. */
  turns: () => Json | null;
  /** Whether the server may record calls. */
  mayRecord: () => boolean;
  titleOf: (threadId: string) => string;
  onPlaced: (threadId: string) => void;
  onMessage: (threadId: string, message: Message) => void;
  onStep: (step: PeerStep) => void;
  onStart: () => void;
  /** said: somebody spoke, wrote, or used a tool. */
  onEnded: (said: boolean) => void;
  /** The connection of a call is closed. */
  onReleased: () => void;
  /** A text of the user's is in the conversation. */
  onHeard: (itemId: string) => void;
  /** An event was not taken; returns the text of the user's that it carried. */
  onRefused: (eventId: string) => string | undefined;
  onInfo: (code: string, text: string) => void;
  onProblem: (code: string, text: string) => void;
  onFailure: (thrown: unknown) => void;
}

/** Whoever holds the button shorter than this has only pressed it. The service refuses less than 100 ms. */
const shortestHoldMs = 250;

/** How often the page listens how far an answer was spoken. */
const beatMs = 100;

/** The one live call of this page. */
export class Call {
  state = $state.raw<CallState>(idleCall);
  readonly sound: Sound;
  step = $state<PeerStep>('none');
  /** How far answers were spoken that are not spoken to their end. */
  spoken = $state.raw<Spoken>({});
  typed = $state.raw<Typed | null>(null);
  /** The thread whose call is live elsewhere, while the user is asked. */
  takeoverOf = $state<string | null>(null);
  /** The call that this tab had before it was reloaded, while it may still wait. */
  rejoinable = $state.raw<Remembered | null>(null);
  /** The summary of the last call. */
  summary = $state.raw<CallSummary | null>(null);
  startedAt = $state(0);
  /** What the model may see of the user; null if it can be shown nothing. */
  sight = $state.raw<Sight | null>(null);
  /** Its orb is in the middle of the thread, and needs to be nowhere else. */
  faced = $state(false);
  /** It has just begun: whoever shows it gives Mute the focus. */
  fresh = false;
  active = $derived(this.state.phase !== 'idle' && this.state.phase !== 'ended');
  /** The microphone is open only while a button is held: the user wants it so, or the call would not notice the end of a turn. */
  holds = $derived.by(() => !this.state.duplex && (this.settings.current.mode === 'hold' || (this.state.phase === 'live' && this.state.held)));

  /** What only calls need. */
  #parts: typeof import('./live') | null = null;
  #line: Line | null = null;
  #tools: ToolRuns | null = null;
  #speech: Speech | null = null;
  /** The settings that the call knows. */
  #told = defaultSettings;
  /** The user has changed settings while it was unknown which speed the call has. */
  #chosen = false;
  #heldAt = 0;
  #attempt = 0;
  #offers = 0;
  #around: (() => void)[] = [];

  constructor(
    private readonly settings: Settings,
    private readonly page: PageDoor,
    private readonly hooks: Hooks,
  ) {
    this.sound = new Sound(settings, { ...hooks, holds: () => this.holds, onTrack: (track) => this.#line?.replaceTrack(track) });
    const before = (this.rejoinable = recall(Date.now()));
    if (before) setTimeout(() => this.dropRejoin(before.callId), waitingMs);
    // Without notice the server would detect a closed tab only by a timeout. A
    // reloaded page may come back, so it is not a hang-up.
    addEventListener('pagehide', () => {
      if (this.state.phase === 'live') remember(this.state);
      this.#line?.close(false);
    });
    // A phone that was locked or took another call has stopped the sound.
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible' && this.state.phase === 'live') void this.sound.play();
    });
  }

  /** The id of the call, from when the server has taken it; empty before. */
  get id(): string {
    return this.#line?.callId ?? '';
  }

  get pc(): RTCPeerConnection | null {
    return this.#line?.pc ?? null;
  }

  /** Starts a call on a thread; without one the server makes it. */
  async start(threadId: string, takeover = false): Promise<void> {
    const { record, upstream } = this.settings.current;
    await this.#open(threadId, '', (line) => line.connect(threadId, takeover, this.hooks.mayRecord() && record, upstream), (thrown) => {
      if (this.#parts?.isCallActive(thrown)) this.takeoverOf = threadId;
      else if (upstream && thrown instanceof ApiError && thrown.code === 'upstream_not_found') {
        this.settings.set({ upstream: '' }); // it is gone from the server's settings
        void this.start(threadId, takeover);
      }
      else this.hooks.onFailure(thrown);
    });
  }

  /** Continues a call here that is live elsewhere, or that waits for a reloaded page. The model does not notice. */
  async join(threadId: string, callId: string): Promise<void> {
    await this.#open(threadId, callId, (line) => line.join(this.#part().callUrl(callId)), (thrown) => {
      if (!(thrown instanceof ApiError) || thrown.status !== 404) return this.hooks.onFailure(thrown);
      forget();
      this.hooks.onInfo('call_over', t().elsewhere.callOver);
    });
  }

  /** The call is over, or the user does not want it. */
  dropRejoin(callId: string): void {
    if (this.rejoinable?.callId !== callId) return;
    this.rejoinable = null;
    forget();
  }

  hangup(): void {
    if (this.active) this.#finish('hangup', true);
  }

  /** Opens the microphone for as long as it is held; what was said is then sent. */
  hold(down: boolean): void {
    if (!this.active || !this.holds || this.sound.holding === down) return;
    this.sound.hold(down);
    if (down) {
      this.#heldAt = Date.now();
      if (this.state.playing || this.state.response !== null) this.stopTalking();
      this.#line?.send({ type: 'input_audio_buffer.clear' });
    } else if (this.sound.muted || Date.now() - this.#heldAt < shortestHoldMs) {
      this.#line?.send({ type: 'input_audio_buffer.clear' }); // nothing was said that could be answered
    } else {
      this.#line?.send({ type: 'input_audio_buffer.commit' });
      this.#line?.send({ type: 'response.create' });
    }
  }

  /** Stops the answer that is being generated or played. */
  stopTalking(): void {
    if (this.state.response !== null) this.#line?.send({ type: 'response.cancel' });
    this.#line?.send({ type: 'output_audio_buffer.clear' });
  }

  /** Puts a typed text on the data channel, as an item with that id; throws if there is none. */
  say(id: string, text: string): void {
    const item = { id, type: 'message', role: 'user', content: [{ type: 'input_text', text }] };
    const said = this.#line?.send({ type: 'conversation.item.create', event_id: id, item });
    if (!said || !this.#line?.send({ type: 'response.create' })) throw new PlainError('not_connected', t().call.notConnected);
    this.typed = { caption: { itemId: id, role: 'user', text, failed: false }, after: this.state.captions.at(-1)?.itemId ?? '' };
  }

  /** Answers an approval request of this call; false if it is not one, or there is no connection. */
  answer({ toolCallId, nonce }: Approval, yes: boolean): boolean {
    if (!this.state.approvals.some((asked) => asked.toolCallId === toolCallId)) return false;
    if (!this.#line?.send({ type: yes ? 'bridge.tool.approve' : 'bridge.tool.deny', tool_call_id: toolCallId, nonce })) return false;
    this.state = answered(this.state, toolCallId);
    return true;
  }

  /** Pauses the recording, or goes on with it. */
  async record(on: boolean): Promise<void> {
    await this.#line?.record(on).catch(this.hooks.onFailure);
  }

  /** Stops a running tool; the model is told. */
  stopTool(toolCallId: string): void {
    if (this.#line?.send({ type: 'bridge.tool.cancel', tool_call_id: toolCallId })) this.state = stopping(this.state, toolCallId);
  }

  /** Applies changes of the settings. */
  applySettings(): void {
    this.#chosen = this.#told.speed === unknownSpeed;
    if (this.active) this.#tell(null);
    void this.sound.apply();
  }

  async #open(threadId: string, callId: string, connect: (line: Line) => Promise<void>, onFailure: (thrown: unknown) => void): Promise<void> {
    if (this.active) return;
    const attempt = ++this.#attempt;
    this.takeoverOf = this.summary = this.rejoinable = this.typed = null;
    this.fresh = true;
    this.hooks.onStart();
    this.state = { ...idleCall, phase: 'permission', threadId };
    try {
      const [ice, parts] = [this.hooks.iceServers(), import('./live').catch(() => null)];
      if (!(await this.sound.open())) return;
      this.#parts ??= await parts;
      if (!this.#parts) throw new PlainError('not_loaded', t().notLoaded);
      this.state = { ...this.state, phase: 'connecting' };
      const iceServers = await ice;
      const { stream } = this.sound;
      if (attempt !== this.#attempt || !stream) return;
      this.#line = new this.#parts.Line(iceServers, stream, this.#handlers(attempt));
      await connect(this.#line);
      if (attempt === this.#attempt && callId !== '') this.state = { ...this.state, callId };
    } catch (thrown) {
      if (attempt !== this.#attempt) return;
      this.#release(true);
      this.state = idleCall;
      onFailure(thrown);
    }
  }

  /** What is loaded as long as there is a line. */
  #part(): typeof import('./live') {
    if (!this.#parts) throw new Error('no call was begun');
    return this.#parts;
  }

  #handlers(attempt: number) {
    const mine = <A extends unknown[]>(run: (...args: A) => void) => {
      return (...args: A) => {
        if (attempt === this.#attempt) run(...args);
      };
    };
    return {
      onPlaced: mine((threadId: string) => {
        this.state = { ...this.state, threadId };
        this.hooks.onPlaced(threadId);
      }),
      iceServers: () => this.hooks.iceServers(),
      onOpen: mine(() => this.#opened()),
      onEvent: mine((event: Json) => this.#take(event)),
      onAudio: mine((stream: MediaStream) => this.sound.hear(stream)),
      onStep: (step: PeerStep) => {
        if (attempt !== this.#attempt && step !== 'none') return;
        this.step = step;
        this.hooks.onStep(step);
      },
      onLost: mine(() => this.#finish('connection_lost', true)),
    };
  }

  #opened(): void {
    if (this.#tools) return; // the path was lost and is back: the call knows all of it
    // A continued call was ready before, and may be answering.
    const continued = this.state.callId !== '' && this.state.phase === 'connecting';
    this.#tools = new (this.#part().ToolRuns)(this.page, (event) => this.#line?.send(event));
    this.#chosen = false;
    this.#told = continued ? { ...defaultSettings, speed: unknownSpeed } : defaultSettings;
    this.#tell(this.#tools.declared());
    if (continued) this.#live({ ...this.state, phase: 'live' });
  }

  #live(state: CallState): void {
    this.state = state;
    this.startedAt = Date.now();
    this.sound.cue(660);
    const { keepAwake, onLockScreen, Speech } = this.#part();
    this.#speech = new Speech();
    const beat = setInterval(() => this.#listen(), beatMs);
    this.#around.push(() => clearInterval(beat));
    if (this.settings.current.awake) this.#around.push(keepAwake());
    this.#around.push(
      onLockScreen({ title: this.hooks.titleOf(state.threadId), onMute: () => this.sound.toggleMute(), onHangup: () => this.hangup() }),
    );
  }

  /** Follows the voice through the words of the answer. */
  #listen(): void {
    if (this.state.playing) this.#speech?.hear((count, seconds) => this.sound.voice(count, seconds), performance.now());
    const spoken = this.#speech?.of(this.state.captions) ?? {};
    if (JSON.stringify(spoken) !== JSON.stringify(this.spoken)) this.spoken = spoken;
  }

  #take(event: Json): void {
    const { state: before, holds } = this;
    const { failureOf, reduce, speedOf } = this.#part();
    const after = reduce(before, event);
    this.state = after;
    if (before.phase !== 'live' && after.phase === 'live') this.#live(after);
    if (event.type === 'output_audio_buffer.cleared') this.state = { ...after, captions: cutCaptions(after.captions, this.spoken) };
    this.#speech?.take(event, performance.now());
    if (before.playing !== after.playing) this.sound.speaks(after.playing);
    const type = asText(event.type);
    // Another device may have chosen the speed of a continued call.
    if (type === 'session.updated' && this.#told.speed === unknownSpeed) {
      this.#told = { ...this.#told, speed: speedOf(event) };
      if (this.#chosen) this.#tell(null);
    }
    if (type === 'response.done' || (before.response !== null && after.response === null)) this.#tell(null);
    if (type.startsWith('conversation.item.')) this.hooks.onHeard(asText(asObject(event.item).id));
    const failure = failureOf(event);
    if (failure) this.#takeError(failure);
    if (type === 'bridge.message') {
      const message = readMessage(event.message);
      if (message) this.hooks.onMessage(after.threadId, message);
    } else if (type === 'bridge.ended') {
      this.#finish(asText(event.reason, 'hangup'), false, before);
    } else if (type === 'error') {
      this.#takeError(asObject(event.error));
    } else {
      if (type === 'bridge.ready' && before.callId !== '' && after.held && this.hooks.turns()) this.#letSpeak();
      this.#inform(type, event);
      this.#tools?.take(event, after);
    }
    this.sight?.take(event);
    if (before.images !== after.images) void this.#offerSight(after);
    if (this.holds !== holds) void this.sound.apply();
  }

  /** Sends the call what it does not know of the settings. */
  #tell(tools: object[] | null): void {
    if (!this.#line) return;
    // The speed can change between answers only.
    const between = this.state.response === null && this.#told.speed !== unknownSpeed;
    const { mode, speed } = this.#told;
    const { duplex } = this.state;
    const now = { ...this.settings.current, ...(between && !duplex ? {} : { speed }), ...(duplex ? { mode } : {}) };
    const update = this.#part().sessionUpdate(now, this.#told, this.state.turns ?? this.hooks.turns(), tools);
    if (update && this.#line?.send(update)) this.#told = now;
  }

  // Who was in this call before held a button to speak, and this user may not.
  #letSpeak(): void {
    this.state = { ...this.state, held: false };
    this.#told = { ...this.#told, mode: 'hold' };
    this.#tell(null);
  }

  /** Lets the model look at what the user shows it, if it can be shown images. */
  async #offerSight({ images }: CallState): Promise<void> {
    const [attempt, offer, line] = [this.#attempt, ++this.#offers, this.#line];
    const sight = images && line ? await this.#part().sightOf(line, this.hooks.onProblem) : null;
    if (attempt !== this.#attempt || offer !== this.#offers || !this.#tools || (!sight && !this.sight)) return sight?.close();
    this.sight?.close();
    this.sight = sight;
    this.#tell(this.#tools.declared(sight?.tools));
  }

  #inform(type: string, event: Json): void {
    if (type === 'bridge.storage.recovered') this.hooks.onInfo('storage_recovered', t().storage.recovered);
    if (type === 'bridge.budget.warning') {
      const [spent, limit] = [money(asNumber(event.spent_usd, 0)), money(asNumber(event.limit_usd, 0))];
      this.hooks.onProblem('budget_warning', t().budget(asText(event.scope), spent, limit));
    }
    if (type === 'bridge.upstream.renewed' && event.unheard === true) this.hooks.onInfo('not_heard', t().call.notHeard);
  }

  #takeError(error: Json): void {
    const words = errorEventWords(asText(error.code) || asText(error.type), asText(error.message));
    // What came too late is saved.
    const text = error.code === 'call_ended' ? undefined : this.hooks.onRefused(asText(error.event_id));
    if (words !== null) this.hooks.onProblem(asText(error.code, 'error'), text ? t().notSent(words, text) : words);
  }

  #finish(reason: string, hangup: boolean, before = this.state): void {
    const { startedAt } = this;
    this.#attempt++;
    this.state = ended(this.state, reason);
    if (before.phase === 'live') {
      this.summary = this.#part().summaryOf(before, reason, Date.now() - startedAt);
      this.sound.cue(330);
    }
    this.#release(hangup);
    forget();
    if (this.#parts?.isBadEnding(reason)) this.hooks.onProblem(`ended_${reason}`, this.#parts.endingWords(reason));
    this.hooks.onEnded(before.captions.some(({ text }) => text !== '') || before.tools.length > 0 || this.typed !== null);
  }

  #release(hangup: boolean): void {
    this.#line?.close(hangup);
    this.#line = null;
    this.step = 'none';
    this.sound.close();
    this.#tools?.close();
    this.#tools = null;
    this.#speech = null;
    this.spoken = {};
    this.sight?.close();
    this.sight = null;
    this.#around.splice(0).forEach((leave) => leave());
    this.hooks.onReleased();
  }
}
