// The setup route of an app that uses useRealtime, as the AI SDK's pages show it.
// node realtime-setup.mjs BASE TOKEN prints what the route answers with; BASE is that of the API, standard input what the page posted.
import { readFileSync } from 'node:fs';
import { createOpenAI } from '@ai-sdk/openai';

const [baseURL, apiKey] = process.argv.slice(2);
const { sessionConfig } = JSON.parse(readFileSync(0, 'utf8'));
const model = createOpenAI({ baseURL, apiKey }).experimental_realtime('gpt-realtime-2.1');
console.log(JSON.stringify(await model.doCreateClientSecret({ sessionConfig })));
