// Drives a thread with the AI SDK as its users have it: useChat's own Chat and DefaultChatTransport.
// node aisdk.mjs GENERATION BASE THREAD prints one JSON object: what the client has seen.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [generation, base, thread] = process.argv.slice(2);
const package_ = `@ai-sdk/react-v${generation}`;
const { Chat } = await import(package_);
// The core is that which this generation of the hooks brings along.
const core = createRequire(createRequire(import.meta.url).resolve(package_)).resolve('ai');
const ai = await import(pathToFileURL(core).href);

const states = parseInt(generation) >= 6;
const url = `${base}/api/threads/${thread}`;
const api = `${url}/messages${states ? `?sdk=${generation}` : ''}`;
const seen = { finishes: [], errors: [], bodies: [], data: [] };

const chat = new Chat({
  id: thread,
  transport: new ai.DefaultChatTransport({
    api,
    fetch: (input, init) => {
      seen.bodies.push(Object.keys(JSON.parse(init.body)).sort().join(' '));
      return fetch(input, init);
    },
  }),
  sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
  onData: (part) => seen.data.push(part.type),
  onFinish: ({ isAbort, isError, finishReason }) => seen.finishes.push(isAbort ? 'abort' : isError ? 'error' : (finishReason ?? '-')),
  onError: (error) => seen.errors.push(error.message),
});

const texts = (message) => message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('');
const last = () => chat.messages[chat.messages.length - 1];
const toolOf = (message) => message.parts.findLast((part) => part.type.startsWith('tool-') || part.type === 'dynamic-tool');
const saved = async () => (await (await fetch(`${url}/messages?limit=200`)).json()).messages;

/** Waits until something is so; the test that runs this has the clock. */
async function until(what) {
  for (;;) {
    const value = await what();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// A turn of words, and its other answer.
await chat.sendMessage({ text: 'Hello' });
seen.greeting = texts(last());
const first = last().id;
await chat.regenerate();
seen.regenerated = { text: texts(last()), another: last().id !== first, messages: chat.messages.length };

// The user goes back: the server's thread is what the client shows, as the next turns prove, too.
await chat.sendMessage({ text: 'How are you?' });
await chat.sendMessage({ text: 'Hello again', messageId: chat.messages[0].id });
const shownBy = (messages) => messages.map((message) => `${message.role} ${texts(message)}`).join('|');
const current = async () => (await (await fetch(`${url}/messages?current=true`)).json()).messages;
seen.edited = { messages: chat.messages.length, same: shownBy(await current()) === shownBy(chat.messages) };

// Tools of the server: its own, and one of an MCP server.
await chat.sendMessage({ text: 'Draw me a chart, please.' });
const chart = toolOf(last());
seen.chart = [chart.type, chart.state, chart.output?.chartType].join(' ');
await chat.sendMessage({ text: 'call everything__echo {"message":"from the client"}' });
const echo = toolOf(last());
seen.echo = [echo.type, echo.toolName, echo.state, echo.output?.content?.[0]?.text].join(' ');

// A picture from the user's disk.
const dot = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
await chat.sendMessage({ text: 'What is this?', files: [{ type: 'file', mediaType: 'image/png', url: dot }] });
const shown = (await saved()).findLast((message) => message.role === 'user').parts.find((part) => part.type === 'file');
// Another model is given it: the SDK fetches it by its address.
const [asked] = await ai.convertToModelMessages([{ role: 'user', parts: [shown] }]);
const { data } = asked.content[0]; // v7 wraps it: { type: 'url', url }
const picture = await fetch(new URL(data.url ?? data));
seen.picture = [shown.mediaType, shown.url.startsWith(`${url}/images/`), picture.headers.get('content-type')].join(' ');

// A failure of the model is one of the chat.
await chat.sendMessage({ text: 'fail with quota' }).catch(() => {});
seen.failed = chat.status;

// Tools that ask: yes and no.
const pie = 'call create_pie_chart {"title":"Parts","data":[{"label":"a","value":1},{"label":"b","value":2}]}';
seen.approvals = [];
for (const approved of states ? [true, false] : []) {
  await chat.sendMessage({ text: pie });
  const asked = toolOf(last());
  seen.approvals.push(asked.state);
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved });
  await until(() => chat.status === 'ready' && texts(last()) !== '');
  seen.approvals.push(toolOf(last()).state);
}

/** Begins a long turn, and cuts its stream, as stop and a reload of the page do. */
async function cut() {
  const before = last().id;
  const story = chat.sendMessage({ text: 'Tell me a long story.' });
  await until(() => last().role === 'assistant' && last().id !== before && texts(last()) !== '');
  await chat.stop();
  await story.catch(() => {});
}

// The turn goes on, and the page that is loaded again resumes it. A request ends it.
await cut();
const loaded = new Chat({ id: thread, transport: new ai.DefaultChatTransport({ api }) });
const resumed = loaded.resumeStream();
await until(() => loaded.messages.length > 0 && texts(loaded.messages[0]) !== '');
seen.cut = (await saved()).at(-1).metadata.status;
await fetch(`${url}/interrupt`, { method: 'POST' });
await resumed;
seen.resumed = [loaded.messages[0].role, loaded.status, loaded.messages[0].metadata.status].join(' ');

// Where nobody resumes it, it gives way to the next message.
await cut();
await chat.sendMessage({ text: 'Hello' });
seen.gaveWay = [texts(last()), (await saved()).at(-3).metadata.status].join(' ');

// What is saved is what the SDK takes back, and the next turn goes on from it.
const all = await saved();
const checked = await ai.safeValidateUIMessages?.({ messages: all });
seen.valid = checked === undefined ? 'not checked' : checked.success || checked.error.message;
chat.messages = all;
await chat.sendMessage({ text: 'What did I say before?' });
seen.after = texts(last());

seen.bodies = [...new Set(seen.bodies)];
seen.data = [...new Set(seen.data)].sort();
console.log(JSON.stringify(seen, null, 1));
