// An agent written with LiveKit Agents, which takes its voice from the server instead of from OpenAI. Nobody is in its
// room: this program is its microphone and its loudspeaker.
// node agent.mjs BASE TOKEN WAV prints one JSON object: what the agent has seen. BASE is the address of the API, TOKEN an
// API token, WAV what to say (48 kHz, 16 bits, mono).
import { readFileSync } from 'node:fs';
import { initializeLogger, llm, voice } from '@livekit/agents';
import * as openai from '@livekit/agents-plugin-openai';
import { AudioFrame } from '@livekit/rtc-node';
import { z } from 'zod';

const [base, token, wav] = process.argv.slice(2);
const seen = { errors: [], ran: [], heardMS: 0, sessions: [] };

/** What the framework logs as an error is one. */
const print = process.stdout.write.bind(process.stdout);
process.stdout.write = (lines, ...rest) => {
  seen.errors.push(...String(lines).split('\n').filter(Boolean));
  rest.findLast((f) => typeof f === 'function')?.();
  return true;
};
initializeLogger({ pretty: false, level: 'error' });

/** A microphone: frames of 20 ms in real time, silence when nobody speaks. */
class Microphone extends voice.AudioInput {
  #speech = [];
  constructor() {
    super();
    const stream = new ReadableStream({
      start: (controller) => {
        let sent = 0;
        const start = Date.now();
        this.timer = setInterval(() => {
          for (; sent < (Date.now() - start) / 20; sent++) {
            const samples = this.#speech.shift() ?? new Int16Array(480);
            controller.enqueue(new AudioFrame(samples, 24000, 1, 480));
          }
        }, 20);
      },
    });
    this.multiStream.addInputStream(stream);
  }
  /** Says the recording. */
  speak() {
    const file = readFileSync(wav).subarray(44);
    const samples = new Int16Array(file.buffer.slice(file.byteOffset, file.byteOffset + file.length)).filter((_, i) => i % 2 === 0);
    for (let i = 0; i + 480 <= samples.length; i += 480) this.#speech.push(samples.slice(i, i + 480));
  }
  async close() {
    clearInterval(this.timer);
    await super.close();
  }
}

/** A loudspeaker: what it is given takes as long as it is. */
class Loudspeaker extends voice.AudioOutput {
  #pushed = 0;
  #start = 0;
  #end;
  constructor() { super(24000); }
  async captureFrame(frame) {
    await super.captureFrame(frame);
    if (this.#pushed === 0) {
      this.#start = Date.now();
      this.onPlaybackStarted(this.#start);
    }
    const ms = frame.samplesPerChannel / 24;
    this.#pushed += ms;
    seen.heardMS += ms;
  }
  flush() {
    super.flush();
    if (this.#pushed > 0) this.#end = setTimeout(() => this.#finish(false), Math.max(0, this.#start + this.#pushed - Date.now()));
  }
  clearBuffer() {
    clearTimeout(this.#end);
    if (this.#pushed > 0) this.#finish(true);
  }
  #finish(interrupted) {
    const played = Math.min(this.#pushed, interrupted ? Date.now() - this.#start : Infinity);
    this.#pushed = 0;
    this.onPlaybackFinished({ playbackPosition: played / 1000, interrupted });
  }
}

/** Waits until something is so; the test that runs this has the clock, and shows what was waited for. */
async function until(words, what) {
  console.error(`waiting for ${words}`);
  while (!what()) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Has a conversation with a new agent; maxSessionDuration is after how many ms it renews its session by itself. */
async function converse(maxSessionDuration, walk) {
  let created = 0, done = 0, reconnected = 0;
  const model = new openai.realtime.RealtimeModel({ baseURL: base, apiKey: token, ...(maxSessionDuration && { maxSessionDuration }) });
  const session = new voice.AgentSession({ llm: model, vad: null, aecWarmupDuration: null });
  const agent = new voice.Agent({
    instructions: 'Answer in short sentences.',
    tools: [llm.tool({
      name: 'ask_me', description: 'Asks.', parameters: z.object({ a: z.number() }),
      execute: async ({ a }) => { seen.ran.push(a); return 'Yes.'; },
    })],
  });
  session.on('error', ({ error }) => { if (!error.recoverable) seen.errors.push(String(error.error)); }); // its renewal is one that is
  const microphone = new Microphone();
  session.input.audio = microphone;
  session.output.audio = new Loudspeaker();
  await session.start({ agent, record: false });
  const realtime = session._activity.realtimeLLMSession;
  realtime.on('session_reconnected', () => reconnected++);
  realtime.on('openai_server_event_received', (event) => {
    if (event.type === 'response.created') created++;
    if (event.type === 'response.done') done++;
    if (event.type === 'error') seen.errors.push(JSON.stringify(event.error));
  });
  const read = (context) => context.items.filter(({ type }) => !type.startsWith('agent_')).map((item) => item.type === 'message'
    ? `${item.role}${item.interrupted ? ' (interrupted)' : ''}: ${item.textContent}` : `${item.type}: ${item.output ?? item.args}`);
  const lines = () => read(session.history);
  await walk({
    session, microphone, lines,
    reconnected: () => reconnected,
    /** Types words and waits for the answer that begins so. */
    ask: async (words, answer) => {
      const before = lines().length;
      session.generateReply({ userInput: words });
      await until(answer, () => lines().slice(before).some((line) => line.startsWith(`assistant: ${answer}`)));
    },
  });
  await new Promise((resolve) => setTimeout(resolve, 500)); // for a second answer, or an error
  seen.sessions.push({ lines: lines(), context: read(realtime.chatCtx), created, done, reconnected });
  await session.close();
  await microphone.close();
}

await converse(0, async ({ session, microphone, lines, ask }) => {
  session.generateReply({ instructions: 'Greet the user.' });
  await until('greeting', () => lines().includes('assistant: Well.'));
  microphone.speak();
  await until('noon', () => lines().includes('assistant: It is noon.'));
  await ask('Ask my tool.', 'It said so.');
  await ask('Say that you draw a chart, and do.', 'There it is.');
  // The user interrupts what is being said, then the app does.
  let before = seen.heardMS;
  session.generateReply({ userInput: 'Count.' });
  await until('count', () => seen.heardMS > before + 1000);
  microphone.speak();
  await until('here', () => lines().includes('assistant: Here.'));
  before = seen.heardMS;
  session.generateReply({ userInput: 'Count.' });
  await until('count again', () => seen.heardMS > before + 1000);
  await session.interrupt().await;
  const stopped = seen.heardMS;
  await ask('Echo: after that', 'Yes.');
  seen.afterStop = seen.heardMS - stopped;
});
await converse(6000, async ({ ask, reconnected }) => {
  await ask('Echo: before', 'Yes.');
  await until('renewal', () => reconnected() === 1);
  await ask('Ask my tool.', 'It said so.');
});
print(`${JSON.stringify(seen)}\n`);
process.exit(0);
