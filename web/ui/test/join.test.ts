// @vitest-environment jsdom
import { afterEach, expect, it, vi } from 'vitest';
import { Call } from '../src/call/call.svelte';
import { Settings } from '../src/device/settings.svelte';

afterEach(() => vi.unstubAllGlobals());

it('a call that is continued gets the speed of this device, but not during an answer', async () => {
  type Event = { type: string; session?: { audio?: { output?: { speed?: number } } } };
  const sent: Event[] = [];
  const channel = { readyState: 'open', send: (event: string) => sent.push(JSON.parse(event) as Event), close: () => undefined, onopen: () => undefined, onmessage: (_: { data: string }) => undefined };
  const { settings, call } = start(channel);
  const hear = (event: object) => channel.onmessage({ data: JSON.stringify(event) });
  const speeds = () => sent.splice(0).map(({ session }) => session?.audio?.output?.speed);

  await call.join('t', 'c');
  channel.onopen();
  expect([call.state.phase, speeds()]).toEqual(['live', [undefined]]); // its tools
  hear({ type: 'response.done' });
  hear({ type: 'session.updated', session: { audio: { output: { speed: 1.25 } } } });
  expect(speeds()).toEqual([]);
  hear({ type: 'response.done' });
  hear({ type: 'response.done' });
  expect(speeds()).toEqual([1]);
  call.hangup();

  // What is chosen before the call has said its speed is sent when it has.
  await call.join('t', 'c');
  channel.onopen();
  settings.set({ speed: 1.5 });
  call.applySettings();
  expect(speeds()).toEqual([undefined]);
  hear({ type: 'session.updated', session: { audio: { output: { speed: 1 } } } });
  hear({ type: 'session.updated', session: { audio: { output: { speed: 1.5 } } } });
  expect(speeds()).toEqual([1.5]);
  call.hangup();
});

it('a model is offered to look as long as it can be shown images, and there is something to see', async () => {
  type Event = { type: string; session?: { tools?: { name: string }[] } };
  const sent: Event[] = [];
  const channel = { readyState: 'open', send: (event: string) => sent.push(JSON.parse(event) as Event), close: () => undefined, onopen: () => undefined, onmessage: (_: { data: string }) => undefined };
  const { stream, call } = start(channel);
  const devices = [{ kind: 'audioinput' }];
  const enumerateDevices = vi.fn(async () => [...devices]);
  vi.stubGlobal('navigator', { mediaDevices: { getUserMedia: async () => stream, enumerateDevices } });
  const hear = (event: object) => channel.onmessage({ data: JSON.stringify(event) });
  const tools = () => sent.splice(0).map(({ session }) => session?.tools?.map(({ name }) => name).join());
  const offered = async (event: object, want: (string | undefined)[]) => {
    hear(event);
    await vi.waitFor(() => expect(sent).toHaveLength(want.length), { timeout: 30_000 });
    expect([event, tools(), call.sight !== null]).toEqual([event, want, want.at(-1)?.includes('look') ?? false]);
  };

  await call.start('t');
  channel.onopen();
  expect(tools()).toEqual(['changeBrowserTheme']);
  hear({ type: 'bridge.ready', call_id: 'c', thread_id: 't', images: true });
  await vi.waitFor(() => expect(enumerateDevices).toHaveBeenCalled(), { timeout: 30_000 });
  for (let i = 0; i < 20; i++) await Promise.resolve();
  expect([sent, call.sight]).toEqual([[], null]); // there is no camera
  devices.push({ kind: 'videoinput' });
  hear({ type: 'bridge.upstream.renewed' });
  await offered({ type: 'bridge.upstream.renewed', images: true }, ['changeBrowserTheme,look']);
  await offered({ type: 'bridge.upstream.renewed' }, ['changeBrowserTheme']);
  await offered({ type: 'bridge.upstream.renewed', images: true }, ['changeBrowserTheme,look']);
  call.hangup();
  expect(call.sight).toBeNull();
  await call.start('t');
  channel.onopen();
  expect(tools()).toEqual(['changeBrowserTheme']);
  hear({ type: 'bridge.ready', call_id: 'c', thread_id: 't' });
  for (let i = 0; i < 20; i++) await Promise.resolve();
  expect([sent, call.sight, enumerateDevices.mock.calls.length]).toEqual([[], null, 3]);
  call.hangup();
});

it('joins again when its channel closes without a word of the server, and ends when the server says so', async () => {
  const sent: string[] = [];
  const channels: Channel[] = [];
  class Channel {
    readyState = 'open';
    onopen = () => undefined;
    onclose = () => undefined;
    onmessage = (_: { data: string }) => undefined;
    send = (event: string) => sent.push(event);
    close = () => undefined;
  }
  const { call } = start(() => channels[channels.push(new Channel()) - 1]);
  const asked: string[] = [];
  let answer = () => new Response('v=0', { headers: { Location: '/v1/realtime/calls/c' } });
  vi.stubGlobal('fetch', async (url: URL | string) => (asked.push(new URL(url, 'http://x').pathname), answer()));

  await call.start('t');
  channels[0]?.onopen();
  channels[0]?.onmessage({ data: JSON.stringify({ type: 'bridge.ready', call_id: 'c', thread_id: 't' }) });
  expect([call.state.phase, sent.length]).toEqual(['live', 1]);
  channels[0]?.onclose();
  await vi.waitFor(() => expect(channels).toHaveLength(2));
  expect([call.active, call.step]).toEqual([true, 'weak']);
  channels[1]?.onopen();
  await vi.waitFor(() => expect(asked).toEqual(['/v1/realtime/calls', '/v1/realtime/calls/c/reconnect']));
  expect([call.state.phase, sent.length]).toEqual(['live', 1]); // the call knows what was said before
  channels[0]?.onclose(); // the old one
  await Promise.resolve();
  expect(channels).toHaveLength(2);

  answer = () => Response.json({ error: { code: 'no_call' } }, { status: 404 });
  channels[1]?.onclose();
  await vi.waitFor(() => expect([call.active, call.state.endReason]).toEqual([false, 'connection_lost']));
  expect(tones).toEqual([660, 330]); // it began, and it is over
});

/** The tones that were heard. */
let tones: number[] = [];

/** A call on a channel of the test's, with a microphone that says nothing. */
function start(channel: object | (() => object | undefined)) {
  tones = [];
  const stream = { getAudioTracks: () => [], getTracks: () => [], clone: () => stream };
  const quiet = { connect: () => undefined, disconnect: () => undefined };
  vi.stubGlobal('isSecureContext', true);
  vi.stubGlobal('navigator', { mediaDevices: { getUserMedia: async () => stream } });
  vi.stubGlobal('AudioContext', class {
    resume = async () => undefined;
    close = async () => undefined;
    createMediaStreamSource = () => quiet;
    createAnalyser = () => quiet;
    currentTime = 0;
    destination = quiet;
    createGain = () => ({ ...quiet, gain: { setValueAtTime: () => undefined, exponentialRampToValueAtTime: () => undefined } });
    createOscillator = () => {
      const frequency = { value: 0 };
      return { connect: (next: object) => next, frequency, start: () => void tones.push(frequency.value), stop: () => undefined };
    };
  });
  vi.stubGlobal('RTCPeerConnection', class {
    iceGatheringState = 'complete';
    localDescription = { sdp: 'v=0' };
    connectionState = 'new';
    setConfiguration = () => undefined;
    getConfiguration = () => ({});
    createDataChannel = () => (typeof channel === 'function' ? channel() : channel);
    createOffer = setLocal;
    setLocalDescription = setLocal;
    setRemoteDescription = setLocal;
    close = () => undefined;
  });
  vi.stubGlobal('fetch', async () => new Response('v=0', { headers: { Location: '/v1/realtime/calls/c' } }));
  const settings = new Settings();
  settings.set({ awake: false });
  const nothing = () => undefined;
  const call = new Call(settings, { setTheme: nothing }, {
    iceServers: async () => [], turns: () => null, mayRecord: () => false, titleOf: () => '', onPlaced: nothing, onMessage: nothing, onStep: nothing, onStart: nothing, onEnded: nothing, onReleased: nothing, onHeard: nothing, onRefused: () => undefined,
    onInfo: nothing, onProblem: nothing, onFailure: (thrown) => { throw thrown; },
  });
  return { stream, settings, call };
}

async function setLocal(): Promise<void> {}
