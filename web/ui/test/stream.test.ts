import * as ai from 'ai';
import * as aiV5 from 'ai-v5';
import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

// The files are what the server said in its own tests, which hold them up to date.
const folder = new URL('../../testdata/uistream/', import.meta.url);

interface Transcript {
  stream: string;
  messages: ai.UIMessage[];
}

const transcripts = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name): [string, Transcript] => [name.replace('.json', ''), JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Transcript]);

function response(stream: string): Response {
  return new Response(stream, { headers: { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' } });
}

// A chat as useChat has it, without React: state that can be looked at.
class State<M extends { id: string }> {
  status: 'submitted' | 'streaming' | 'ready' | 'error' = 'ready';
  error: Error | undefined = undefined;
  messages: M[] = [];
  pushMessage = (message: M): void => void this.messages.push(structuredClone(message));
  popMessage = (): void => void this.messages.pop();
  replaceMessage = (index: number, message: M): void => void (this.messages[index] = structuredClone(message));
  snapshot = <T>(thing: T): T => structuredClone(thing);
}

class Chat extends ai.AbstractChat<ai.UIMessage> {
  constructor(readonly view: State<ai.UIMessage>, stream: string, requests: [string, RequestInit | undefined][], onData: (part: unknown) => void) {
    super({
      id: 'thread-1',
      state: view,
      onData,
      transport: new ai.DefaultChatTransport({
        api: '/api/threads',
        prepareSendMessagesRequest: ({ id, messages }) => ({
          api: `/api/threads/${id}/messages`,
          body: { content: messages.at(-1)?.parts.map((part) => (part.type === 'text' ? part.text : '')).join('\n') },
        }),
        fetch: async (input, init) => {
          requests.push([String(input), init]);
          return Promise.resolve(response(stream));
        },
      }),
    });
  }
}

// What a reader makes of a tool call carries keys without values.
function plain(message: unknown): Record<string, unknown> {
  return JSON.parse(JSON.stringify(message)) as Record<string, unknown>;
}

describe.each(transcripts)('the stream of a turn: %s', (name, { stream, messages }) => {
  const saved = messages.at(-1) as ai.UIMessage;

  it('is read by useChat', async () => {
    const view = new State<ai.UIMessage>();
    const requests: [string, RequestInit | undefined][] = [];
    const data: unknown[] = [];
    const chat = new Chat(view, stream, requests, (part) => data.push(part));
    await chat.sendMessage({ text: 'hello' });
    expect(requests).toHaveLength(1);
    expect(requests[0]?.[0]).toBe('/api/threads/thread-1/messages');
    expect(JSON.parse(String(requests[0]?.[1]?.body))).toEqual({ content: 'hello' });
    const failed = name === 'failed' || name === 'silent';
    expect(view.status).toBe(failed ? 'error' : 'ready');
    if (failed) expect(view.error?.message).toBe('No money is left.');
    else expect(view.error).toBeUndefined();
    expect(data).toHaveLength({ tools: 3, approval: 5 }[name] ?? 0);
    expect(view.messages).toHaveLength(2);
    sameMessage(view.messages[1], saved, failed);
  });

  it('is taken up again by useChat', async () => {
    const view = new State<ai.UIMessage>();
    const requests: [string, RequestInit | undefined][] = [];
    await new Chat(view, stream, requests, () => undefined).resumeStream();
    expect(requests.map(([url]) => url)).toEqual(['/api/threads/thread-1/stream']);
    expect(view.messages).toHaveLength(1);
    expect(view.messages[0]?.id).toBe(saved.id);
  });

  it('is read by version 5, which refuses unknown keys', async () => {
    const view = new State<aiV5.UIMessage>();
    class Old extends aiV5.AbstractChat<aiV5.UIMessage> {}
    const chat = new Old({
      id: 'thread-1',
      state: view,
      transport: new aiV5.DefaultChatTransport({ api: '/api/threads', fetch: async () => Promise.resolve(response(stream)) }),
    });
    await chat.sendMessage({ text: 'hello' });
    const failed = name === 'failed' || name === 'silent';
    expect(view.error?.message).toBe(failed ? 'No money is left.' : undefined);
    sameMessage(view.messages[1], saved, failed);
  });

  it('leaves a thread that the SDK takes', async () => {
    await expect(ai.validateUIMessages({ messages })).resolves.toHaveLength(messages.length);
    await expect(aiV5.validateUIMessages({ messages })).resolves.toHaveLength(messages.length);
    expect((await ai.convertToModelMessages(messages)).length).toBeGreaterThan(0);
  });
});

// What was streamed is what is read later. An error ends the reading before the
// metadata come.
function sameMessage(streamed: unknown, saved: unknown, failed: boolean): void {
  const got = plain(streamed);
  const want = plain(saved);
  expect(got['id']).toBe(want['id']);
  expect(got['role']).toBe('assistant');
  if (!failed) expect(got['metadata']).toEqual(want['metadata']);
  const parts = (got['parts'] as Record<string, unknown>[]).map((part) => {
    const { state, ...rest } = part;
    return part['type'] === 'text' ? rest : { state, ...rest };
  });
  // What came of a question to the user stands in the saved call only.
  const savedParts = (want['parts'] as Record<string, unknown>[]).map(({ approval: _approval, callProviderMetadata: _metadata, ...part }) => part);
  expect(parts).toEqual(savedParts);
}

it('there are transcripts', () => {
  expect(transcripts.map(([name]) => name)).toEqual(['approval', 'failed', 'interrupted', 'silent', 'text', 'tools']);
});
