// Calls over WebSocket with OpenAI's packages for servers.
// node socket.mjs CLIENT BASE WAV CA [answers] prints one JSON object: what the client has seen. BASE is that of the API, WAV what
// to say (48 kHz, 16 bits, mono), CA the certificate of the server.
import { readFileSync } from 'node:fs';
import { base64, note, seen, sound, speech, walk } from './walk.mjs';
import { Phone, ulaw } from './phone.mjs';

const [client, base, wav, ca, only] = process.argv.slice(2);
const pieces = speech(readFileSync(wav));

/** The tool of each client. */
const parameters = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'], additionalProperties: false };
function ask({ a }) {
  seen.ran.push(a);
  return 'Yes.';
}

async function withOpenAI() {
  const { OpenAI } = await import('openai');
  const { OpenAIRealtimeWS } = await import('openai/realtime/ws');
  const said = [];
  let rt, speaking;
  const create = (item) => {
    rt.send({ type: 'conversation.item.create', item });
    rt.send({ type: 'response.create' });
  };
  return {
    async open(thread) {
      const baseURL = thread ? `${base}?thread_id=${thread}` : base;
      rt = new OpenAIRealtimeWS({ model: 'gpt-realtime', options: { ca: readFileSync(ca) } }, new OpenAI({ apiKey: 'none', baseURL }));
      rt.on('event', note);
      rt.on('error', (error) => { if (!error.error) seen.errors.push(error.message); });
      rt.on('response.output_audio.delta', ({ item_id }) => { speaking = item_id; });
      rt.on('response.output_audio_transcript.done', ({ transcript }) => said.push(`assistant: ${transcript}`));
      rt.on('conversation.item.input_audio_transcription.completed', ({ transcript }) => said.push(`user: ${transcript}`));
      rt.on('response.function_call_arguments.done', ({ name, call_id, arguments: args }) => {
        if (name === 'ask_me') create({ type: 'function_call_output', call_id, output: ask(JSON.parse(args)) });
      });
      await new Promise((resolve) => rt.socket.on('open', resolve));
      rt.send({
        type: 'session.update', session: {
          type: 'realtime', output_modalities: ['audio'], audio: { input: { format: { type: 'audio/pcm', rate: 24000 } } },
          tools: [{ type: 'function', name: 'ask_me', description: 'Asks.', parameters }],
        },
      });
    },
    speak: () => pieces.forEach((piece) => rt.send({ type: 'input_audio_buffer.append', audio: base64(piece) })),
    say: (text) => create({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }),
    interrupt() {
      rt.send({ type: 'response.cancel' });
      rt.send({ type: 'conversation.item.truncate', item_id: speaking, content_index: 0, audio_end_ms: 900 });
    },
    said: () => said,
    close: () => rt.close(),
  };
}

async function withAgents(generation) {
  const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } = await import(`@openai/agents-realtime-${generation}`);
  const agent = new RealtimeAgent({
    name: 'Tester', instructions: 'Answer in short sentences.',
    tools: [tool({ name: 'ask_me', description: 'Asks.', parameters, execute: ask })],
  });
  const url = `${base.replace('http', 'ws')}/realtime?model=gpt-realtime`;
  let session;
  return {
    async open(thread) {
      const transport = new OpenAIRealtimeWebSocket({ url: thread ? `${url}&thread_id=${thread}` : url });
      transport.on('*', note);
      session = new RealtimeSession(agent, { transport });
      session.on('error', ({ error }) => { if (!error?.error) seen.errors.push(error?.message ?? String(error)); });
      session.on('audio_interrupted', () => { seen.interrupted = true; });
      await session.connect({ apiKey: 'none' });
    },
    speak: () => pieces.forEach(({ buffer }) => session.sendAudio(buffer)),
    say: (text) => session.sendMessage(text),
    interrupt: () => session.interrupt(),
    said: () => session.history.filter(({ type }) => type === 'message').map(({ role, content }) => `${role}: ${content.map((c) => c.transcript ?? c.text ?? '').join(' ')}`),
    close: () => session.close(),
  };
}

/** An app that Twilio has connected to a caller. */
async function withTwilio() {
  const { RealtimeAgent, RealtimeSession, tool } = await import('@openai/agents/realtime');
  const { TwilioRealtimeTransportLayer } = await import('@openai/agents-extensions');
  const agent = new RealtimeAgent({
    name: 'Tester', instructions: 'Answer in short sentences.',
    tools: [tool({ name: 'ask_me', description: 'Asks.', parameters, execute: ask })],
  });
  const url = `${base.replace('http', 'ws')}/realtime?model=gpt-realtime`;
  let session, phone;
  sound.bytes = 8;
  return {
    async open(thread) {
      phone = new Phone();
      const transport = new TwilioRealtimeTransportLayer({ url: thread ? `${url}&thread_id=${thread}` : url, twilioWebSocket: phone });
      transport.on('*', (event) => { if (event.type !== 'twilio_message') note(event); });
      session = new RealtimeSession(agent, { transport, config: { audio: { input: { format: 'g711_ulaw' }, output: { format: 'g711_ulaw' } } } });
      session.on('error', ({ error }) => { if (!error?.error) seen.errors.push(error?.message ?? String(error)); });
      session.on('audio_interrupted', () => { seen.interrupted = true; });
      await session.connect({ apiKey: 'none' });
      phone.start();
    },
    speak: () => pieces.forEach((piece) => phone.speak(ulaw(piece))),
    say: (text) => session.sendMessage(text),
    interrupt: () => session.interrupt(),
    said: () => session.history.filter(({ type }) => type === 'message').map(({ role, content }) => `${role}: ${content.map((c) => c.transcript ?? c.text ?? '').join(' ')}`),
    close: () => session.close(),
  };
}

const clients = { openai: withOpenAI, twilio: withTwilio };
console.log(JSON.stringify(await walk(await (clients[client]?.() ?? withAgents(client)), only)));
process.exit(0);
