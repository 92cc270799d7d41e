// A page written with the AI SDK's useRealtime. /api/setup is the app's own server, which knows the address of the API; with
// ?socket=ADDRESS the page calls there by itself.
import { createOpenAI } from '@ai-sdk/openai';
import { experimental_useRealtime as useRealtime } from '@ai-sdk/react-v7';
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { base64, note, seen, speech, until, walk } from './walk.mjs';

const tool = (name, description, parameters) => ({ type: 'function', name, description, parameters: { type: 'object', properties: parameters } });
const options = {
  model: createOpenAI({ apiKey: 'none' }).experimental_realtime('gpt-realtime-2.1'),
  sessionConfig: {
    instructions: 'Answer in short sentences.',
    outputModalities: ['audio'],
    inputAudioFormat: { type: 'audio/pcm', rate: 24000 },
    outputAudioFormat: { type: 'audio/pcm', rate: 24000 },
    inputAudioTranscription: {},
    turnDetection: { type: 'server-vad' },
    tools: [tool('changeBrowserTheme', 'Change the colours of the page.', { theme: { type: 'string' } }), tool('ask_me', 'Asks.', { a: { type: 'number' } })],
  },
  onEvent: ({ raw }) => note(raw),
  onError: (error) => seen.errors.push(error.message),
  onToolCall: ({ toolCall }) => {
    const name = toolCall.name ?? toolCall.toolName, args = toolCall.args ?? toolCall.input;
    seen.ran.push(name === 'ask_me' ? args.a : `${name} ${JSON.stringify(args)}`);
    return name === 'ask_me' ? 'Yes.' : 'The page is dark now.';
  },
};

/** The client of walk.mjs. */
const client = (wav) => ({
  async open(thread) {
    window.client.callOn(thread ?? '');
    await until('another session', () => window.client.thread === (thread ?? ''));
    await window.client.connect();
    await until('a connection', () => window.client.status === 'connected');
  },
  speak: () => speech(wav).forEach((piece) => window.client.sendAudio(base64(piece))),
  say: (text) => window.client.sendTextMessage(text),
  interrupt() {
    window.client.stopPlayback();
    window.client.cancelResponse();
  },
  said: () => window.client.said,
  close: () => window.client.disconnect(),
});

const socket = new URLSearchParams(location.search).get('socket');

function Page() {
  const [thread, callOn] = useState();
  const realtime = useRealtime({ ...options, api: socket ? { websocket: `${socket}&thread_id=${thread}`, protocols: ['realtime'] } : { token: '/api/setup' } });
  useEffect(() => {
    window.client = {
      ...realtime,
      seen, thread, callOn,
      async call() {
        const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
        await realtime.connect({ stream });
      },
      listen: async () => realtime.startAudioCapture(await navigator.mediaDevices.getUserMedia({ audio: true })),
      walk: async (wav) => walk(client(new Uint8Array(await (await fetch(wav)).arrayBuffer()))),
      said: realtime.messages.map(({ role, parts }) => `${role}: ${parts.map((part) => part.text ?? '').join('')}`),
      types: [...new Set(realtime.events.map(({ type }) => type))],
      parts: realtime.messages.flatMap(({ parts }) => parts.map(({ type, state }) => `${type} ${state}`)),
    };
  });
  return <pre>{JSON.stringify(realtime.messages, null, 1)}</pre>;
}

createRoot(document.body.appendChild(document.createElement('main'))).render(<Page />);
