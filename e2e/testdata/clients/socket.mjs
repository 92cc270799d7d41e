// Calls over WebSocket with OpenAI's packages for servers.
// node socket.mjs CLIENT BASE WAV CA prints one JSON object: what the client has seen. BASE is that of the API, WAV what
// to say (48 kHz, 16 bits, mono), CA the certificate of the server.
import { readFileSync } from 'node:fs';

const [client, base, wav, ca, only] = process.argv.slice(2);
const seen = { client, said: [], errors: [], heardMS: 0, ran: [] };

/** Every second sample: a speech of 24 kHz. */
function speech() {
  const file = readFileSync(wav).subarray(44);
  const samples = new Int16Array(file.buffer.slice(file.byteOffset, file.byteOffset + file.length)).filter((_, i) => i % 2 === 0);
  const whole = Buffer.from(samples.buffer);
  return Array.from({ length: Math.ceil(whole.length / 4800) }, (_, i) => whole.subarray(i * 4800, (i + 1) * 4800));
}

/** Waits until something is so; the test that runs this has the clock. */
async function until(what) {
  while (!what()) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function withOpenAI() {
  const { OpenAI } = await import('openai');
  const { OpenAIRealtimeWS } = await import('openai/realtime/ws');
  const rt = new OpenAIRealtimeWS({ model: 'gpt-realtime', options: { ca: readFileSync(ca) } }, new OpenAI({ apiKey: 'none', baseURL: base }));
  const types = [];
  rt.on('event', (event) => types.push(event.type));
  rt.on('error', (error) => seen.errors.push(error.error?.code ?? error.message));
  rt.on('response.output_audio.delta', ({ delta }) => { seen.heardMS += Buffer.from(delta, 'base64').length / 48; });
  rt.on('response.output_audio_transcript.done', ({ transcript }) => seen.said.push(transcript));
  rt.on('conversation.item.input_audio_transcription.completed', ({ transcript }) => seen.said.push(`> ${transcript}`));
  rt.socket.on('open', () => {
    rt.send({ type: 'session.update', session: { type: 'realtime', output_modalities: ['audio'], audio: { input: { format: { type: 'audio/pcm', rate: 24000 } } } } });
    for (const part of speech()) rt.send({ type: 'input_audio_buffer.append', audio: part.toString('base64') });
  });
  await until(() => types.includes('response.done'));
  seen.first = types[0];
  seen.afterDone = types.slice(types.indexOf('response.done')).filter((type) => type === 'response.output_audio.delta').length;
  rt.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Draw a chart.' }] } });
  rt.send({ type: 'response.create' });
  await until(() => seen.said.includes('There it is.'));
  rt.close();
}

async function withAgents(generation) {
  const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } = await import(`@openai/agents-realtime-${generation}`);
  const agent = new RealtimeAgent({
    name: 'Tester', instructions: 'Answer in short sentences.',
    tools: [tool({
      name: 'ask_me', description: 'Asks.',
      parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'], additionalProperties: false },
      execute: ({ a }) => { seen.ran.push(a); return 'Yes.'; },
    })],
  });
  const session = new RealtimeSession(agent, { transport: new OpenAIRealtimeWebSocket({ url: `${base.replace('http', 'ws')}/realtime?model=gpt-realtime` }) });
  session.on('error', ({ error }) => seen.errors.push(error?.error?.code ?? error?.message ?? String(error)));
  session.on('audio', ({ data }) => { seen.heardMS += data.byteLength / 48; });
  session.on('audio_interrupted', () => { seen.interrupted = true; });
  await session.connect({ apiKey: 'none' });
  const has = (words) => session.history.some((item) => item.type === 'message' && item.content.some((c) => (c.transcript ?? c.text ?? '')[only ? 'includes' : 'startsWith'](words)));
  for (const part of speech()) session.sendAudio(part.buffer.slice(part.byteOffset, part.byteOffset + part.length));
  await until(() => has('It is noon.') && seen.heardMS > 500);
  session.sendMessage('Ask my tool.');
  await until(() => has('It said so.'));
  session.sendMessage('Say that you draw a chart, and do.');
  await until(() => has('There it is.'));
  const history = () => session.history.filter((item) => item.type === 'message').map((item) => `${item.role}: ${item.content.map((c) => c.transcript ?? c.text ?? '').join(' ')}`);
  seen.said = history();
  if (only === 'answers') return session.close(); // of an upstream with a time of its own
  // The next question interrupts what is being said.
  session.sendMessage('Count.');
  const before = seen.heardMS;
  await until(() => seen.heardMS > before + 1000);
  for (const part of speech()) session.sendAudio(part.buffer.slice(part.byteOffset, part.byteOffset + part.length));
  await until(() => has('Here.'));
  // So does the app, while the upstream has long made what is being said.
  session.sendMessage('Count.');
  const then = seen.heardMS;
  await until(() => seen.heardMS > then + 1000);
  session.interrupt();
  const stopped = seen.heardMS;
  session.sendMessage('Echo: after that');
  await until(() => has('Yes.'));
  seen.afterStop = seen.heardMS - stopped;
  await new Promise((resolve) => setTimeout(resolve, 500)); // for a second answer, or an error
  seen.answers = session.history.filter((item) => item.role === 'assistant').length;
  session.close();
}

await (client === 'openai' ? withOpenAI() : withAgents(client));
console.log(JSON.stringify(seen));
process.exit(0);
