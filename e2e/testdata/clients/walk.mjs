// The call that every client of the Realtime API makes here, in Node.js and in a browser: the user speaks, asks for a tool
// of the client and for one of the server, which speak before they run, interrupts an answer, has the app interrupt
// another, and calls again on the same thread.

/** What a client has seen; errors are those that the server tells and those that the client reports. */
export const seen = { said: [], errors: [], ran: [], heardMS: 0, afterDone: 0 };
/** How much of the client's sound is a millisecond: linear at 24 kHz, unless it asks for another format. */
export const sound = { bytes: 48 };
const types = [], answers = new Set(), done = new Set();
let thread = '';

/** Notes an event as the server has sent it. */
export function note(event) {
  types.push(event.type);
  switch (event.type) {
    case 'bridge.ready': thread = event.thread_id; break;
    case 'error': seen.errors.push(event.error.code ?? event.error.message); break;
    case 'response.created': seen.format = event.response.audio?.output?.format?.type; break;
    case 'response.done': done.add(event.response.id); break;
    case 'conversation.item.added': if (event.item.role === 'assistant') answers.add(event.item.id); break;
    case 'response.output_audio.delta':
      seen.heardMS += event.delta.length * 3 / 4 / sound.bytes;
      if (done.has(event.response_id)) seen.afterDone++;
  }
}

/** Every second sample of a WAV file of 48 kHz: a speech of 24 kHz, in pieces of 100 ms. */
export function speech(wav) {
  const samples = new Int16Array(wav.buffer.slice(wav.byteOffset + 44, wav.byteOffset + wav.length)).filter((_, i) => i % 2 === 0);
  return Array.from({ length: Math.ceil(samples.length / 2400) }, (_, i) => new Uint8Array(samples.slice(i * 2400, (i + 1) * 2400).buffer));
}

export const base64 = (bytes) => btoa(String.fromCharCode(...bytes));

/** Waits until something is so; the test that runs this has the clock, and shows what was waited for. */
export async function until(words, what) {
  console.error(`waiting for ${words}`);
  while (!what()) await new Promise((resolve) => setTimeout(resolve, 20));
}

/**
 * Has a client make the call. It can open one, on a thread or on a new one, speak, say a text, interrupt and close, and
 * knows what was said. With only "answers" it ends before the first interruption: of GPT-Live.
 */
export async function walk(client, only) {
  // An upstream with a time of its own may say two answers in one breath.
  const is = (line, words) => only ? line.includes(words.replace('assistant: ', '')) : line.startsWith(words);
  const said = (words) => until(words, () => client.said().some((line) => is(line, words)));
  const heard = (ms) => {
    const before = seen.heardMS;
    return until(`${ms} ms`, () => seen.heardMS > before + ms);
  };
  await client.open();
  client.speak();
  await said('assistant: It is noon.');
  await until('its sound', () => seen.heardMS > 500);
  if (only === 'answers') {
    client.say('Call ask_me {"a":1}');
    await said('The tool has answered.');
    client.say('Show me a chart.');
    await said('Here is');
    seen.said = client.said();
    await client.close();
    return seen;
  }
  client.say('Ask my tool.');
  await said('assistant: It said so.');
  client.say('Say that you draw a chart, and do.');
  await said('assistant: There it is.');
  client.say('Count.');
  await heard(1000);
  client.speak();
  await said('assistant: Here.');
  client.say('Count.'); // which the upstream has long made when it is interrupted
  await heard(1000);
  client.interrupt();
  const stopped = seen.heardMS;
  client.say('Echo: after that');
  await said('assistant: Yes.');
  seen.afterStop = seen.heardMS - stopped;
  await new Promise((resolve) => setTimeout(resolve, 500)); // for a second answer, or an error
  seen.answers = answers.size;
  seen.said = client.said();
  await client.close();
  await client.open(thread);
  client.say('What did I say?');
  await said('assistant: You said: Echo: after that');
  await client.close();
  seen.first = types[0];
  return seen;
}
