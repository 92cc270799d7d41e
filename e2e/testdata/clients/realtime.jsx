// A page written with the AI SDK's useRealtime. /api/setup is the app's own server, which knows the address of the API.
import { createOpenAI } from '@ai-sdk/openai';
import { experimental_useRealtime as useRealtime } from '@ai-sdk/react-v7';
import { useEffect } from 'react';
import { createRoot } from 'react-dom/client';

const seen = { errors: [], ran: [] };
const options = {
  model: createOpenAI({ apiKey: 'none' }).experimental_realtime('gpt-realtime-2.1'),
  api: { token: '/api/setup' },
  sessionConfig: {
    instructions: 'Answer in short sentences.',
    outputModalities: ['audio'],
    inputAudioFormat: { type: 'audio/pcm', rate: 24000 },
    outputAudioFormat: { type: 'audio/pcm', rate: 24000 },
    inputAudioTranscription: {},
    turnDetection: { type: 'server-vad' },
    tools: [{ type: 'function', name: 'changeBrowserTheme', description: 'Change the colours of the page.', parameters: { type: 'object', properties: { theme: { type: 'string' } } } }],
  },
  onError: (error) => seen.errors.push(error.message),
  onToolCall: ({ toolCall }) => {
    seen.ran.push(`${toolCall.name ?? toolCall.toolName} ${JSON.stringify(toolCall.args ?? toolCall.input)}`);
    return 'The page is dark now.';
  },
};

function Page() {
  const realtime = useRealtime(options);
  useEffect(() => {
    window.client = {
      ...realtime,
      seen,
      async call() {
        const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
        await realtime.connect({ stream });
      },
      listen: async () => realtime.startAudioCapture(await navigator.mediaDevices.getUserMedia({ audio: true })),
      said: realtime.messages.map(({ role, parts }) => `${role}: ${parts.map((part) => part.text ?? '').join('')}`),
      types: [...new Set(realtime.events.map(({ type }) => type))],
      parts: realtime.messages.flatMap(({ parts }) => parts.map(({ type, state }) => `${type} ${state}`)),
    };
  });
  return <pre>{JSON.stringify(realtime.messages, null, 1)}</pre>;
}

createRoot(document.body.appendChild(document.createElement('main'))).render(<Page />);
